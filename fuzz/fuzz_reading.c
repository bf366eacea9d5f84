/* What a model answers about a document: the layout of a page, tables, formulas, and a page made of
 * them in every form of text. The first byte says which; in the last kind a line that begins with a
 * byte of 1 is the next block's answer, the others are the layout's. */
#include <string.h>

#include "families/reading_recipe.h"
#include "fuzz_input.h"
#include "reading/document_page.h"
#include "reading/document_writer.h"
#include "reading/formula.h"
#include "reading/otsl.h"

enum { MAX_BLOCKS = 2000, ANSWER = 1 };

static void check_block(const json_t *block) {
  FUZZ_CHECK(ommai_block_kind_find(json_string_value(json_object_get(block, "type"))));
  for (size_t side = 0; side < 4; side++) {
    FUZZ_CHECK(ommai_block_side(block, side) >= 0 && ommai_block_side(block, side) <= 1);
  }
  FUZZ_CHECK(ommai_block_side(block, 0) < ommai_block_side(block, 2) && ommai_block_side(block, 1) < ommai_block_side(block, 3));
}

static json_t *read_layout(const char *answer) {
  json_t *blocks = ommai_layout_read(answer), *block;
  size_t i;
  FUZZ_CHECK(blocks && json_array_size(blocks) <= MAX_BLOCKS);
  json_array_foreach(blocks, i, block) check_block(block);
  size_t before = json_array_size(blocks);
  ommai_layout_drop_inner_captions(blocks);
  FUZZ_CHECK(json_array_size(blocks) <= before);
  return blocks;
}

static size_t count(const char *text, const char *word) {
  size_t n = 0;
  while ((text = strstr(text, word)) != NULL) {
    text += strlen(word);
    n++;
  }
  return n;
}

/* The text of cells has no marks of its own. */
static void try_table(const char *text) {
  char *html = ommai_otsl_to_html(text);
  if (html && strncmp(text, "<table", 6) != 0) {
    FUZZ_CHECK(!*html || (strncmp(html, "<table>", 7) == 0 && strcmp(html + strlen(html) - 8, "</table>") == 0));
    FUZZ_CHECK(count(html, "<td") == count(html, "</td>") && count(html, "<tr>") == count(html, "</tr>"));
    FUZZ_CHECK(count(html, "<") == 2 * (count(html, "<table>") + count(html, "<tr>") + count(html, "<td")));
  }
  free(html);
}

static void try_formula(char *(*repair)(const char *), const char *text) {
  char *once = repair(text);
  FUZZ_CHECK(once);
  free(once);
}

/* Every form of the page is text that JSON can hold, if its answers were. */
static void write_page(const json_t *page) {
  for (enum ommai_document_form form = OMMAI_FORM_MARKDOWN; form <= OMMAI_FORM_DOCTAGS; form++) {
    char *text = NULL;
    size_t size;
    struct ommai_document_writer writer = {.out = open_memstream(&text, &size), .form = form};
    FUZZ_CHECK(writer.out);
    ommai_document_begin(&writer, "a title");
    ommai_document_page(&writer, page);
    ommai_document_end(&writer);
    FUZZ_CHECK(fclose(writer.out) == 0);
    json_t *held = json_stringn(text, size);
    FUZZ_CHECK(held);
    json_decref(held);
    free(text);
  }
}

/* Takes the lines that are answers out of the text. */
static json_t *take_answers(char *text) {
  json_t *answers = json_array();
  char *kept = text;
  for (char *line = text, *next; *line; line = next) {
    next = line + strcspn(line, "\n");
    next += *next == '\n';
    if (*line == ANSWER) {
      json_t *answer = json_stringn(line + 1, (size_t)(next - line - 1));
      if (answer) json_array_append_new(answers, answer);
    } else {
      memmove(kept, line, (size_t)(next - line));
      kept += next - line;
    }
  }
  *kept = '\0';
  return answers;
}

static void try_page(char *text) {
  json_t *answers = take_answers(text), *blocks = read_layout(text), *block;
  size_t i;
  json_array_foreach(blocks, i, block) {
    json_t *answer = json_array_get(answers, i);
    if (answer) json_object_set(block, "content", answer);
  }
  FUZZ_CHECK(ommai_page_finish(blocks, false));
  json_array_foreach(blocks, i, block) check_block(block);
  json_t *page = json_pack("{s:i, s:i, s:i, s:o}", "page", 1, "width", 612, "height", 792, "blocks", blocks);
  FUZZ_CHECK(page);
  write_page(page);
  json_decref(page);
  json_decref(answers);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  if (size < 1) return 0;
  char *text = malloc(size);
  FUZZ_CHECK(text);
  memcpy(text, bytes + 1, size - 1);
  text[size - 1] = '\0';
  switch (bytes[0] % 5) {
    case 0: json_decref(read_layout(text)); break;
    case 1: try_table(text); break;
    case 2: try_formula(ommai_formula_repair, text); break;
    case 3: try_formula(ommai_formula_repair_text, text); break;
    default: try_page(text);
  }
  free(text);
  return 0;
}
