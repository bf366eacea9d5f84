/* Recursive descent with a bounded depth, straight into the builder's graph. */
#include "grammar/gbnf.h"

#include <string.h>

#include "base/error.h"
#include "grammar/name_set.h"
#include "grammar/regex.h"
#include "grammar/regex_class.h"
#include "text/utf8.h"

struct name {
  const char *text;
  size_t size;
  int32_t rule;
  bool defined;
};

struct parser {
  struct ommai_regex_text text;
  struct ommai_grammar_builder *builder;
  struct name *names;
  size_t n_names, names_capacity;
  struct ommai_name_set known; /* they, by their place + 1 */
  int depth;                   /* of groups */
};

static enum omma_status parse_alternatives(struct parser *parser, struct ommai_grammar_rule ends, struct omma_error *error);

static size_t line_of(const struct parser *parser) {
  size_t line = 1;
  for (size_t i = 0; i < parser->text.at && i < parser->text.size; i++) line += parser->text.bytes[i] == '\n';
  return line;
}

static enum omma_status fail_here(const struct parser *parser, const char *what, struct omma_error *error) {
  return ommai_fail(error, OMMA_ERROR_FORMAT, "the grammar's line %zu: %s", line_of(parser), what);
}

/* The character at `at`, 0 at the end. */
static char peek(const struct parser *parser) {
  return parser->text.at < parser->text.size ? parser->text.bytes[parser->text.at] : '\0';
}

static bool at_end(const struct parser *parser) { return parser->text.at == parser->text.size; }

static bool take(struct parser *parser, const char *what) {
  size_t size = strlen(what);
  if (parser->text.size - parser->text.at < size || memcmp(parser->text.bytes + parser->text.at, what, size)) return false;
  parser->text.at += size;
  return true;
}

/* Blanks and comments, and line breaks where they mean nothing. */
static void skip_space(struct parser *parser, bool lines) {
  for (; !at_end(parser); parser->text.at++) {
    char c = peek(parser);
    if (c == '#') {
      while (!at_end(parser) && peek(parser) != '\n') parser->text.at++;
      c = peek(parser);
    }
    if (at_end(parser) || (c != ' ' && c != '\t' && c != '\r' && !(c == '\n' && lines))) return;
  }
}

/* The same, and line breaks before an alternative. */
static void skip_before_bar(struct parser *parser) {
  size_t at;
  skip_space(parser, parser->depth > 0);
  at = parser->text.at;
  skip_space(parser, true);
  if (peek(parser) != '|') parser->text.at = at;
}

static bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

/* The name's entry, made when it is met first; NULL: the scratch has failed. */
static struct name *find_name(struct parser *parser, const char *text, size_t size) {
  struct ommai_named *known = ommai_name_set_add(&parser->known, parser->text.scratch, parser, text, size);
  if (known && known->value) return &parser->names[known->value - 1];
  if (known) known->value = parser->n_names + 1;
  if (!known || !ommai_scratch_grow(parser->text.scratch, (void **)&parser->names, &parser->names_capacity, parser->n_names,
                                    sizeof *parser->names)) {
    return NULL;
  }
  parser->names[parser->n_names] = (struct name){text, size, ommai_builder_rule(parser->builder), false};
  return &parser->names[parser->n_names++];
}

static enum omma_status take_name(struct parser *parser, struct name **name, struct omma_error *error) {
  size_t begin = parser->text.at;
  while (is_name_char(peek(parser))) parser->text.at++;
  if (parser->text.at == begin) return fail_here(parser, "expected a rule's name", error);
  *name = find_name(parser, parser->text.bytes + begin, parser->text.at - begin);
  return *name ? OMMA_OK : ommai_scratch_fail(parser->text.scratch, error);
}

static void add_chars(struct parser *parser, int32_t from, const struct ommai_chars *chars, int32_t to) {
  for (size_t i = 0; i < chars->n; i++) {
    ommai_builder_chars(parser->builder, from, chars->ranges[i].low, chars->ranges[i].high, OMMAI_CHARS_RAW, to);
  }
}

/* "text", the parser after the opening quotation mark. */
static enum omma_status parse_text(struct parser *parser, struct ommai_grammar_rule ends, struct omma_error *error) {
  int32_t at = ends.start;
  while (!at_end(parser) && peek(parser) != '"' && peek(parser) != '\n') {
    struct ommai_chars chars = {0};
    int32_t next = ommai_builder_node(parser->builder);
    if (strchr("[.", peek(parser))) {
      uint32_t code = (uint32_t)parser->text.bytes[parser->text.at++];
      ommai_chars_add(parser->text.scratch, &chars, code, code);
      OMMAI_TRY(ommai_scratch_check(parser->text.scratch, error));
    } else {
      enum omma_status status = ommai_regex_class_read(&parser->text, &chars, error);
      if (status != OMMA_OK) ommai_error_prefix(error, "the grammar's line %zu", line_of(parser));
      OMMAI_TRY(status);
    }
    add_chars(parser, at, &chars, next);
    at = next;
  }
  if (!take(parser, "\"")) return fail_here(parser, "a text without its closing quotation mark", error);
  ommai_builder_empty(parser->builder, at, ends.end);
  return OMMA_OK;
}

static enum omma_status parse_group(struct parser *parser, struct ommai_grammar_rule ends, struct omma_error *error) {
  if (parser->depth == OMMAI_GBNF_MAX_DEPTH) return fail_here(parser, "groups are nested too deep", error);
  parser->depth++;
  OMMAI_TRY(parse_alternatives(parser, ends, error));
  parser->depth--;
  return take(parser, ")") ? OMMA_OK : fail_here(parser, "a group without its closing parenthesis", error);
}

/* One element, between the nodes of `ends`. */
static enum omma_status parse_element(struct parser *parser, struct ommai_grammar_rule ends, struct omma_error *error) {
  struct ommai_chars chars = {0};
  struct name *name;
  if (take(parser, "\"")) return parse_text(parser, ends, error);
  if (take(parser, "(")) return parse_group(parser, ends, error);
  if (take(parser, ".")) {
    ommai_builder_chars(parser->builder, ends.start, 0, OMMAI_MAX_CODE_POINT, OMMAI_CHARS_RAW, ends.end);
    return OMMA_OK;
  }
  if (peek(parser) == '[') {
    enum omma_status status = ommai_regex_class_read(&parser->text, &chars, error);
    if (status != OMMA_OK) ommai_error_prefix(error, "the grammar's line %zu", line_of(parser));
    add_chars(parser, ends.start, &chars, ends.end);
    return status;
  }
  OMMAI_TRY(take_name(parser, &name, error));
  ommai_builder_call(parser->builder, ends.start, name->rule, ends.end);
  return OMMA_OK;
}

static enum omma_status parse_bounds(struct parser *parser, int32_t *min, int32_t *max, struct omma_error *error) {
  int64_t numbers[2] = {0, 0};
  bool two = false, open = false;
  for (int i = 0; i < 2; i++) {
    size_t begin;
    skip_space(parser, false);
    begin = parser->text.at;
    for (; peek(parser) >= '0' && peek(parser) <= '9'; parser->text.at++) {
      numbers[i] = numbers[i] > OMMAI_REGEX_MAX_REPEAT ? numbers[i] : numbers[i] * 10 + (peek(parser) - '0');
    }
    if (i == 0 && parser->text.at == begin) return fail_here(parser, "expected a number after {", error);
    if (i == 1) open = parser->text.at == begin;
    skip_space(parser, false);
    if (i == 1 || !(two = take(parser, ","))) break;
  }
  if (!take(parser, "}")) return fail_here(parser, "expected } after the bounds of a repetition", error);
  *min = (int32_t)numbers[0];
  *max = !two ? *min : open ? OMMAI_GRAMMAR_NO_MAX : (int32_t)numbers[1];
  if (*min > OMMAI_REGEX_MAX_REPEAT || (!open && *max > OMMAI_REGEX_MAX_REPEAT) || *min > *max) {
    return fail_here(parser, "the bounds of a repetition are at most 100000, the smaller one first", error);
  }
  return OMMA_OK;
}

/* Whether a repetition follows, and which. */
static enum omma_status parse_repeat(struct parser *parser, bool *found, int32_t *min, int32_t *max, struct omma_error *error) {
  *found = true;
  *min = 0;
  *max = OMMAI_GRAMMAR_NO_MAX;
  if (take(parser, "*")) return OMMA_OK;
  if (take(parser, "+")) return *min = 1, OMMA_OK;
  if (take(parser, "?")) return *max = 1, OMMA_OK;
  if (take(parser, "{")) return parse_bounds(parser, min, max, error);
  *found = false;
  return OMMA_OK;
}

static bool ends_sequence(const struct parser *parser) {
  return at_end(parser) || peek(parser) == '|' || peek(parser) == ')' || peek(parser) == '\n';
}

static enum omma_status parse_sequence(struct parser *parser, struct ommai_grammar_rule ends, struct omma_error *error) {
  struct ommai_grammar_builder *builder = parser->builder;
  int32_t at = ends.start, min, max;
  skip_space(parser, parser->depth > 0);
  while (!ends_sequence(parser) && !ommai_builder_failed(builder)) {
    struct ommai_grammar_rule element = {ommai_builder_node(builder), ommai_builder_node(builder)};
    bool repeated;
    OMMAI_TRY(parse_element(parser, element, error));
    OMMAI_TRY(parse_repeat(parser, &repeated, &min, &max, error));
    if (repeated) {
      int32_t next = ommai_builder_node(builder);
      ommai_builder_repeat(builder, at, ommai_builder_rule_of(builder, element), min, max, next);
      at = next;
    } else {
      ommai_builder_empty(builder, at, element.start);
      at = element.end;
    }
    skip_before_bar(parser);
  }
  ommai_builder_empty(builder, at, ends.end);
  return OMMA_OK;
}

static enum omma_status parse_alternatives(struct parser *parser, struct ommai_grammar_rule ends, struct omma_error *error) {
  do {
    skip_space(parser, true);
    OMMAI_TRY(parse_sequence(parser, ends, error));
  } while (take(parser, "|"));
  return OMMA_OK;
}

static enum omma_status parse_rule(struct parser *parser, struct omma_error *error) {
  struct name *name;
  OMMAI_TRY(take_name(parser, &name, error));
  if (name->defined) return fail_here(parser, "this rule is defined twice", error);
  name->defined = true;
  struct ommai_grammar_rule ends = ommai_builder_ends(parser->builder, name->rule);
  skip_space(parser, true);
  if (!take(parser, "::=")) {
    return fail_here(parser, "expected ::= after a rule's name (GBNF is supported, Lark's notation is not)", error);
  }
  OMMAI_TRY(parse_alternatives(parser, ends, error));
  if (!at_end(parser) && peek(parser) != '\n') return fail_here(parser, "expected the end of the rule", error);
  return OMMA_OK;
}

static enum omma_status check_names(struct parser *parser, int32_t *root, struct omma_error *error) {
  *root = -1;
  for (size_t i = 0; i < parser->n_names; i++) {
    const struct name *name = &parser->names[i];
    if (!name->defined) {
      return ommai_fail(error, OMMA_ERROR_FORMAT, "the grammar has no rule \"%.*s\"", name->size > 80 ? 80 : (int)name->size,
                        name->text);
    }
    if (name->size == 4 && !memcmp(name->text, "root", 4)) *root = name->rule;
  }
  return *root >= 0 ? OMMA_OK : ommai_fail(error, OMMA_ERROR_FORMAT, "the grammar has no rule \"root\"");
}

enum omma_status ommai_gbnf_compile(const char *text, size_t size, struct ommai_grammar_builder *builder,
                                    struct ommai_scratch *scratch, int32_t *root, struct omma_error *error) {
  struct parser parser = {.text = {scratch, text, size, 0}, .builder = builder};
  size_t offset;
  if (!ommai_utf8_valid(text, size, &offset)) {
    return ommai_fail(error, OMMA_ERROR_FORMAT, "the grammar's byte %zu: invalid UTF-8", offset);
  }
  skip_space(&parser, true);
  while (!at_end(&parser) && !ommai_builder_failed(builder)) {
    OMMAI_TRY(parse_rule(&parser, error));
    skip_space(&parser, true);
  }
  return check_names(&parser, root, error);
}
