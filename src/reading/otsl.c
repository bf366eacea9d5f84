#include "reading/otsl.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reading/plain.h"

#define MAX_CELLS 1000000

enum token { FILLED, EMPTY, LEFT, UP, CROSS, ROW_END, N_TOKENS, TEXT = N_TOKENS };

struct item {
  enum token token;
  const char *text; /* of TEXT; of a cell in the grid: its text, NULL: none */
  size_t size;
  /* of a place in the grid: index + 1 of the cell that stands there, 0: none; the cell's places */
  size_t covered_by, down, right;
};

static enum token read_token(const char *at, size_t *size) {
  static const char *const names[N_TOKENS] = {"<fcel>", "<ecel>", "<lcel>", "<ucel>", "<xcel>", "<nl>"};
  for (int i = 0; i < N_TOKENS; i++) {
    *size = strlen(names[i]);
    if (strncmp(at, names[i], *size) == 0) return (enum token)i;
  }
  return TEXT;
}

/* Tokens and the text between them that is not blank; returns their number. */
static size_t split(const char *at, struct item *items) {
  size_t n = 0, size;
  while (*at) {
    const char *start = at;
    enum token token = TEXT;
    while (*at && (token = read_token(at, &size)) == TEXT) at++;
    struct ommai_plain text = ommai_plain_strip(start, (size_t)(at - start));
    if (text.size) items[n++] = (struct item){.token = TEXT, .text = text.data, .size = text.size};
    if (!*at) break;
    items[n++] = (struct item){.token = token};
    at += size;
  }
  return n;
}

struct table {
  struct item *cells; /* [rows][columns] */
  size_t rows, columns;
};

/* The rows' number and the longest one's length; rows without a cell do not count. */
static void measure(const struct item *items, size_t n, struct table *table) {
  size_t length = 0;
  for (size_t i = 0; i <= n; i++) {
    bool end = i == n || items[i].token == ROW_END;
    if (!end) {
      length += items[i].token != TEXT;
    } else if (length) {
      table->rows++;
      if (length > table->columns) table->columns = length;
      length = 0;
    }
  }
}

/* Lays the tokens out. Texts follow their cells as long as everything stands where it is expected:
 * after an empty row, or a text before the first cell of a row, none is taken. */
static void place(const struct item *items, size_t n, struct table *table) {
  size_t row = 0, column = 0, begun = 0;
  bool lost = false;
  for (size_t i = 0; i < table->rows * table->columns; i++) table->cells[i].token = EMPTY;
  for (size_t i = 0; i < n; i++) {
    if (items[i].token == ROW_END) {
      lost |= column == 0;
      row += column > 0;
      column = 0;
      begun = i + 1;
      continue;
    }
    if (items[i].token == TEXT) {
      lost |= i == begun || items[i - 1].token == TEXT;
      continue;
    }
    struct item *cell = &table->cells[row * table->columns + column++];
    cell->token = items[i].token;
    if (!lost && i + 1 < n && items[i + 1].token == TEXT) {
      cell->text = items[i + 1].text;
      cell->size = items[i + 1].size;
    }
  }
}

static enum token at(const struct table *table, size_t row, size_t column) {
  return row < table->rows && column < table->columns ? table->cells[row * table->columns + column].token : TEXT;
}

/* A cell takes the places that belong to it; where it lies over earlier ones, theirs too. */
static void spread(struct table *table, size_t row, size_t column) {
  struct item *cell = &table->cells[row * table->columns + column];
  enum token next;
  cell->down = cell->right = 1;
  if (cell->token != EMPTY || !cell->text) {
    while ((next = at(table, row, column + cell->right)) == LEFT || next == CROSS) cell->right++;
  }
  while ((next = at(table, row + cell->down, column)) == UP || next == CROSS) cell->down++;
  for (size_t i = row; i < row + cell->down; i++) {
    for (size_t j = column; j < column + cell->right; j++) {
      table->cells[i * table->columns + j].covered_by = row * table->columns + column + 1;
    }
  }
}

static void write_cell(FILE *out, const struct table *table, size_t index) {
  const struct item *cell = &table->cells[index];
  if (cell->covered_by && cell->covered_by != index + 1) return;
  fputs("<td", out);
  if (cell->down > 1) fprintf(out, " rowspan=\"%zu\"", cell->down);
  if (cell->right > 1) fprintf(out, " colspan=\"%zu\"", cell->right);
  fputc('>', out);
  if (cell->token == FILLED && cell->text) ommai_plain_write_html(out, cell->text, cell->size);
  fputs("</td>", out);
}

static bool write_table(FILE *out, struct table *table) {
  size_t n_cells = 0;
  for (size_t i = 0; i < table->rows * table->columns; i++) {
    enum token token = table->cells[i].token;
    if (token != FILLED && token != EMPTY) continue;
    spread(table, i / table->columns, i % table->columns);
    n_cells++;
  }
  if (!n_cells) return true;
  fputs("<table>", out);
  for (size_t i = 0; i < table->rows * table->columns; i++) {
    if (i % table->columns == 0) fputs("<tr>", out);
    write_cell(out, table, i);
    if ((i + 1) % table->columns == 0) fputs("</tr>", out);
  }
  return fputs("</table>", out) >= 0;
}

char *ommai_otsl_to_html(const char *text) {
  size_t length = strlen(text), size = 0;
  if (strncmp(text, "<table", 6) == 0 && length >= 8 && strcmp(text + length - 8, "</table>") == 0) return strdup(text);
  char *html = NULL;
  struct table table = {.cells = NULL};
  struct item *items = calloc(length + 1, sizeof *items);
  FILE *out = open_memstream(&html, &size);
  size_t n = items ? split(text, items) : 0;
  measure(items, n, &table);
  bool fits = items && out && (table.rows == 0 || table.columns <= MAX_CELLS / table.rows);
  if (fits) table.cells = calloc(table.rows * table.columns + 1, sizeof *table.cells);
  bool written = fits && table.cells;
  if (written) {
    place(items, n, &table);
    written = write_table(out, &table);
  }
  if (out && fclose(out) != 0) written = false;
  free(table.cells);
  free(items);
  if (written) return html;
  free(html);
  return NULL;
}
