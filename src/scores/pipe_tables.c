#include "scores/pipe_tables.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scores/page_text.h"

static const char row_pattern[] = "\\|\\s*.*?\\s*\\|\\n";

/* The text between the pipes of a line as cells, a line each. */
static void write_cells(FILE *file, const char *line, size_t size, const char *tag) {
  const char *end = line + size, *at = memchr(line, '|', size);
  for (const char *next; at && (next = memchr(at + 1, '|', (size_t)(end - at - 1))); at = next) {
    char *cell = ommai_page_text_strip(strndup(at + 1, (size_t)(next - at - 1)));
    fprintf(file, "      <%s>%s</%s>\n", tag, cell ? cell : "", tag);
    free(cell);
  }
}

/* A match of the pattern as a table: its first line as the head, the second left out. */
static void write_table(FILE *file, const char *text, size_t size) {
  fputs("<table>\n  <thead>\n    <tr>\n", file);
  for (size_t at = 0, line = 0, length; at < size; at += length + 1, line++) {
    const char *end = memchr(text + at, '\n', size - at);
    length = end ? (size_t)(end - text) - at : size - at;
    if (line == 1) fputs("    </tr>\n  </thead>\n  <tbody>\n", file);
    if (line > 1 && length) fputs("    <tr>\n", file);
    if (line != 1 && length) write_cells(file, text + at, length, line ? "td" : "th");
    if (line > 1 && length) fputs("    </tr>\n", file);
    if (line == 0 && at + length + 1 >= size) fputs("    </tr>\n  </thead>\n  <tbody>\n", file);
  }
  fputs("  </tbody>\n</table>\n", file);
}

static char *tables_of_rows(const char *text) {
  struct ommai_pattern_match match;
  char *out = NULL;
  size_t size, at = 0;
  FILE *file = open_memstream(&out, &size);
  if (!file) return NULL;
  while (ommai_page_text_find(text, at, row_pattern, OMMAI_PATTERN_DOT_ALL, &match)) {
    fwrite(text + at, 1, match.begin[0] - at, file);
    write_table(file, text + match.begin[0], match.end[0] - match.begin[0]);
    at = match.end[0];
  }
  fputs(text + at, file);
  if (fclose(file) == 0) return out;
  free(out);
  return NULL;
}

/* The lines of a table that are not its frame; counted alone where there is no file. */
static size_t write_rows(FILE *file, const char *at, const char *end, bool *first) {
  size_t n = 0;
  for (size_t size; at < end; at += size + (at[size] == '\n')) {
    size = strcspn(at, "\n");
    char *line = strndup(at, size);
    bool frame = !line || strstr(line, "table>") || strstr(line, "thead>") || strstr(line, "tbody>");
    n += !frame;
    if (!frame && file) {
      const char *tag = strstr(line, "<th>") ? "<t[hd]>" : "<td>";
      line = ommai_page_text_replace(line, tag, OMMAI_PATTERN_PLAIN, "<td colspan=\"1\" rowspan=\"1\">");
      line = ommai_page_text_replace(line, "</th>", OMMAI_PATTERN_PLAIN, "</td>");
      fprintf(file, "%s%s", *first ? "" : "\n", line ? line : "");
      *first = false;
    }
    free(line);
  }
  return n;
}

/* The rows of all tables of a block as one. A table with one row and no cells has none. */
static void write_joined(FILE *file, const char *block) {
  bool first = true;
  fputs("\n\n<table border=\"1\" >\n", file);
  for (const char *begin = block, *end; (begin = strstr(begin, "<table>")) && (end = strstr(begin, "</table>")); begin = end) {
    if (write_rows(NULL, begin, end, NULL) > 2) write_rows(file, begin, end, &first);
  }
  fputs("\n</table>\n\n", file);
}

struct joiner {
  FILE *out, *block_file;
  char *block;
  size_t block_size;
  bool inside, begun;
};

static void end_block(struct joiner *joiner) {
  fclose(joiner->block_file);
  if (joiner->begun) fputc('\n', joiner->out);
  joiner->begun = true;
  write_joined(joiner->out, joiner->block);
  free(joiner->block);
  joiner->block = NULL;
  joiner->block_file = NULL;
}

/* Takes the line before another. */
static void take_line(struct joiner *joiner, const char *line, const char *next) {
  bool begins = next && strstr(next, "<table>");
  if (begins) {
    if (!joiner->block_file) joiner->block_file = open_memstream(&joiner->block, &joiner->block_size);
    if (joiner->block_file) fputs(line, joiner->block_file);
    joiner->inside = true;
  } else if (joiner->inside && joiner->block_file) {
    if (!next || (!strchr(line, ':') && !strstr(line, "---") && !strstr(line, "</thead>")))
      fprintf(joiner->block_file, "\n%s", line);
    if (!next || strstr(line, "</table>")) {
      end_block(joiner);
      joiner->inside = false;
    }
  } else {
    if (joiner->begun) fputc('\n', joiner->out);
    joiner->begun = true;
    fputs(line, joiner->out);
  }
}

static char *joined_tables(char *text) {
  char *out = NULL, *line = strdup("");
  size_t size;
  struct joiner joiner = {.out = open_memstream(&out, &size)};
  for (char *at = text; joiner.out && line && at;) {
    size_t length = strcspn(at, "\n");
    char *next = strndup(at, length);
    if (next) take_line(&joiner, line, next);
    free(line);
    line = next;
    at = at[length] ? at + length + 1 : NULL;
  }
  if (joiner.out && line && *line) take_line(&joiner, line, NULL);
  if (joiner.block_file) fclose(joiner.block_file);
  free(joiner.block);
  free(text);
  bool good = line != NULL;
  free(line);
  if (joiner.out && fclose(joiner.out) == 0 && good) return out;
  free(out);
  return NULL;
}

char *ommai_pipe_tables(char *text) {
  struct ommai_pattern_match match;
  if (!text) return NULL;
  size_t size = strlen(text), n = 0;
  char *ended = realloc(text, size + 2);
  if (!ended) {
    free(text);
    return NULL;
  }
  memcpy(ended + size, "\n", 2);
  for (size_t at = 0; n < 2 && ommai_page_text_find(ended, at, row_pattern, OMMAI_PATTERN_DOT_ALL, &match); at = match.end[0])
    n++;
  if (n < 2) {
    ended[size] = '\0';
    return ended;
  }
  ended = ommai_page_text_without(ended, "\r");
  char *rows = tables_of_rows(ended);
  free(ended);
  return rows ? joined_tables(rows) : NULL;
}
