/* Answers to content. The rules are those of mineru-vl-utils 2.0.7. */
#include <stdlib.h>
#include <string.h>

#include "reading/document_page.h"
#include "reading/formula.h"
#include "reading/otsl.h"
#include "reading/plain.h"

#define PLACEHOLDER "[Non-Text]"
#define COVERED 0.9

static const char *content_of(const json_t *block) { return json_string_value(json_object_get(block, "content")); }

/* Takes the text; false where there is none, for want of memory. */
static bool set_content(json_t *block, char *text) {
  bool set = text && json_object_set_new(block, "content", json_string(text)) == 0;
  free(text);
  return set;
}

/* A table that is none stays as it was answered. */
static bool make_table(json_t *block, const char *content) {
  json_object_set_new(block, "otsl", json_string(content));
  char *html = ommai_otsl_to_html(content);
  return !html || set_content(block, html);
}

static bool repair(json_t *block) {
  const char *content = content_of(block);
  if (ommai_block_is(block, "list_item")) {
    json_object_set_new(block, "type", json_string("text"));
    json_object_set_new(block, "merge_prev", json_false());
  }
  if (!content || !*content) return true;
  if (ommai_block_is(block, "table")) return make_table(block, content);
  if (ommai_block_is(block, "equation")) return set_content(block, ommai_formula_repair(content));
  return !ommai_block_is(block, "text") || set_content(block, ommai_formula_repair_text(content));
}

/* Whether the model found no text in it. The frames of headers and footers stay, without
 * content. */
static bool is_placeholder(json_t *block) {
  static const char *const protected[] = {"image", "chart", "table", "equation", "list", "image_block", "equation_block"};
  const char *content = content_of(block);
  struct ommai_plain plain = ommai_plain_strip(content ? content : "", content ? strlen(content) : 0);
  if (plain.size != strlen(PLACEHOLDER) || memcmp(plain.data, PLACEHOLDER, plain.size) != 0) return false;
  for (size_t i = 0; i < sizeof protected / sizeof *protected; i++) {
    if (ommai_block_is(block, protected[i])) return false;
  }
  if (!ommai_block_is(block, "header") && !ommai_block_is(block, "footer")) return true;
  json_object_set_new(block, "content", json_string(""));
  return false;
}

/* Writes a formula of several; tags become plain text where there is more than one. */
static void write_line(FILE *out, const char *formula, bool tags) {
  for (const char *at = formula, *tag, *end; *at; at = end) {
    tag = strstr(at, "\\tag");
    const char *open = tag ? tag + 4 : NULL;
    while (open && strchr(" \t\r\n\v\f", *open) && *open) open++;
    end = open && *open == '{' ? strchr(open, '}') : NULL;
    if (!end) {
      end = tag ? tag + 4 : at + strlen(at);
      fprintf(out, "%.*s", (int)(end - at), at);
    } else if (tags) {
      fprintf(out, "%.*s", (int)(++end - at), at);
    } else {
      fprintf(out, "%.*s(%.*s)", (int)(tag - at), at, (int)(end - open - 1), open + 1);
      end++;
    }
  }
  fputs(" \\\\ ", out);
}

static size_t count_tags(const char *formula) {
  size_t n = 0;
  for (const char *at = formula; (at = strstr(at, "\\tag")) != NULL;) {
    at += 4;
    const char *open = at + strspn(at, " \t\r\n\v\f");
    n += *open == '{' && strchr(open, '}');
  }
  return n;
}

/* The formulas of a group in one array; NULL where it has less than two. */
static char *join_formulas(const json_t *blocks, const json_t *group, json_t *used) {
  char *text = NULL;
  size_t size, i, n = 0, n_tags = 0;
  json_t *block;
  json_array_foreach(blocks, i, block) {
    if (!ommai_block_is(block, "equation") || ommai_layout_cover(block, group) <= COVERED) continue;
    n++;
    n_tags += count_tags(content_of(block) ? content_of(block) : "");
  }
  FILE *out = n > 1 ? open_memstream(&text, &size) : NULL;
  if (!out) return NULL;
  fputs("\\begin{array}{l} ", out);
  json_array_foreach(blocks, i, block) {
    if (!ommai_block_is(block, "equation") || ommai_layout_cover(block, group) <= COVERED) continue;
    write_line(out, content_of(block) ? content_of(block) : "", n_tags <= 1);
    json_array_set_new(used, i, json_true());
  }
  fputs("\\end{array}", out);
  return fclose(out) == 0 ? text : NULL;
}

static bool add_delimiters(json_t *block) {
  const char *content = content_of(block);
  if (!ommai_block_is(block, "equation") || !content || !*content) return true;
  struct ommai_plain plain = ommai_plain_strip(content, strlen(content));
  bool begun = plain.size >= 2 && memcmp(plain.data, "\\[", 2) == 0;
  bool ended = plain.size >= 2 && memcmp(plain.data + plain.size - 2, "\\]", 2) == 0;
  char *text = NULL;
  if (asprintf(&text, "%s%.*s%s", begun ? "" : "\\[\n", (int)plain.size, plain.data, ended ? "" : "\n\\]") < 0) return false;
  return set_content(block, text);
}

/* Groups of formulas take the place of these. */
static json_t *join_groups(json_t *blocks) {
  json_t *kept = json_array(), *used = json_array(), *groups = json_array(), *block;
  size_t i;
  json_array_foreach(blocks, i, block) json_array_append_new(used, json_false());
  json_array_foreach(blocks, i, block) {
    char *joined = ommai_block_is(block, "equation_block") ? join_formulas(blocks, block, used) : NULL;
    json_t *formula = joined ? json_copy(block) : json_null();
    json_object_set_new(formula, "type", json_string("equation"));
    if (joined) set_content(formula, joined);
    json_array_append_new(groups, formula);
  }
  json_array_foreach(blocks, i, block) {
    json_t *group = json_array_get(groups, i);
    if (json_is_true(json_array_get(used, i))) continue;
    if (json_is_object(group) || !ommai_block_is(block, "equation_block")) {
      json_array_append(kept, json_is_object(group) ? group : block);
    }
  }
  json_decref(used);
  json_decref(groups);
  return kept;
}

bool ommai_page_finish(json_t *blocks, bool whole) {
  if (whole) return true;
  json_t *kept = json_array(), *block;
  size_t i;
  bool good = true;
  json_array_foreach(blocks, i, block) good &= repair(block);
  json_array_foreach(blocks, i, block) {
    if (!is_placeholder(block)) json_array_append(kept, block);
  }
  json_t *joined = join_groups(kept);
  json_array_foreach(joined, i, block) good &= add_delimiters(block);
  json_array_clear(blocks);
  json_array_extend(blocks, joined);
  json_decref(kept);
  json_decref(joined);
  return good;
}
