/* A parser by recursive descent, its depth bounded; then anchors are resolved. */
#include "grammar/regex.h"

#include <string.h>

#include "base/error.h"
#include "grammar/regex_class.h"
#include "text/utf8.h"

/* Repetitions of repetitions without a group, as in a{2}{3}. */
enum { MAX_STACKED = 4 };

struct parser {
  struct ommai_regex_text text;
  int depth;
};

static enum omma_status parse_choice(struct parser *parser, struct ommai_regex **out, struct omma_error *error);

static struct ommai_regex *new_node(struct ommai_scratch *scratch, enum ommai_regex_kind kind) {
  struct ommai_regex *node = ommai_scratch_take(scratch, 1, sizeof *node);
  if (node) node->kind = kind;
  return node;
}

static void append(struct ommai_regex *parent, struct ommai_regex *child) {
  if (parent->last) {
    parent->last->next = child;
  } else {
    parent->first = child;
  }
  parent->last = child;
}

static enum omma_status fail_at(const struct parser *parser, enum omma_status status, const char *what,
                                struct omma_error *error) {
  return ommai_fail(error, status, "the pattern's byte %zu: %s", parser->text.at, what);
}

static bool is_next(const struct parser *parser, const char *text) {
  size_t size = strlen(text);
  return parser->text.size - parser->text.at >= size && !memcmp(parser->text.bytes + parser->text.at, text, size);
}

static bool take(struct parser *parser, const char *text) {
  if (!is_next(parser, text)) return false;
  parser->text.at += strlen(text);
  return true;
}

/* (?:, (?<name>, (?P<name>; the parser stands after "(". */
static enum omma_status skip_group_head(struct parser *parser, struct omma_error *error) {
  if (!take(parser, "?")) return OMMA_OK;
  if (take(parser, ":")) return OMMA_OK;
  if (is_next(parser, "=") || is_next(parser, "!") || is_next(parser, "<=") || is_next(parser, "<!")) {
    return fail_at(parser, OMMA_ERROR_UNSUPPORTED, "lookahead and lookbehind are not supported", error);
  }
  if (!take(parser, "P<") && !take(parser, "<")) {
    return fail_at(parser, OMMA_ERROR_UNSUPPORTED, "this kind of group is not supported", error);
  }
  const char *end = memchr(parser->text.bytes + parser->text.at, '>', parser->text.size - parser->text.at);
  if (!end) return fail_at(parser, OMMA_ERROR_FORMAT, "a group's name without an end", error);
  parser->text.at = (size_t)(end - parser->text.bytes) + 1;
  return OMMA_OK;
}

static enum omma_status parse_group(struct parser *parser, struct ommai_regex **out, struct omma_error *error) {
  OMMAI_TRY(skip_group_head(parser, error));
  if (parser->depth == OMMAI_REGEX_MAX_DEPTH) return fail_at(parser, OMMA_ERROR_LIMIT, "groups are nested too deep", error);
  parser->depth++;
  OMMAI_TRY(parse_choice(parser, out, error));
  parser->depth--;
  return take(parser, ")") ? OMMA_OK : fail_at(parser, OMMA_ERROR_FORMAT, "a group without its end", error);
}

static enum omma_status parse_chars(struct parser *parser, struct ommai_regex *node, struct omma_error *error) {
  return ommai_regex_class_read(&parser->text, &node->chars, error);
}

static enum omma_status parse_atom(struct parser *parser, struct ommai_regex **out, struct omma_error *error) {
  enum ommai_regex_kind kind = OMMAI_REGEX_CHARS;
  if (take(parser, "(")) return parse_group(parser, out, error);
  if (is_next(parser, "*") || is_next(parser, "+") || is_next(parser, "?")) {
    return fail_at(parser, OMMA_ERROR_FORMAT, "nothing to repeat", error);
  }
  if (take(parser, "^") || take(parser, "\\A")) kind = OMMAI_REGEX_BEGIN;
  if (kind == OMMAI_REGEX_CHARS && (take(parser, "$") || take(parser, "\\Z") || take(parser, "\\z"))) kind = OMMAI_REGEX_END;
  *out = new_node(parser->text.scratch, kind);
  if (!*out) return ommai_scratch_fail(parser->text.scratch, error);
  return kind == OMMAI_REGEX_CHARS ? parse_chars(parser, *out, error) : OMMA_OK;
}

/* Digits, at most MAX_REPEAT. */
static bool take_number(struct parser *parser, int32_t *number) {
  size_t begin = parser->text.at;
  int64_t value = 0;
  while (parser->text.at < parser->text.size && parser->text.bytes[parser->text.at] >= '0' &&
         parser->text.bytes[parser->text.at] <= '9') {
    value = value > OMMAI_REGEX_MAX_REPEAT ? value : value * 10 + parser->text.bytes[parser->text.at] - '0';
    parser->text.at++;
  }
  *number = (int32_t)value;
  return parser->text.at > begin;
}

/* {m}, {m,}, {m,n}, and {,n} and {,} as in Python; anything else after a brace is the brace
 * itself. */
static bool take_bounds(struct parser *parser, int32_t *min, int32_t *max) {
  size_t begin = parser->text.at;
  bool braced = take(parser, "{"), has_min = braced && take_number(parser, min), has_comma = braced && take(parser, ",");
  *max = *min;
  if (has_comma && !take_number(parser, max)) *max = OMMAI_GRAMMAR_NO_MAX;
  if ((has_min || has_comma) && take(parser, "}")) return true;
  parser->text.at = begin;
  return false;
}

static bool take_repeat(struct parser *parser, int32_t *min, int32_t *max) {
  *min = 0;
  *max = OMMAI_GRAMMAR_NO_MAX;
  if (take(parser, "*")) return true;
  if (take(parser, "+")) return (*min = 1, true);
  if (take(parser, "?")) return (*max = 1, true);
  return take_bounds(parser, min, max);
}

static enum omma_status parse_repeated(struct parser *parser, struct ommai_regex **out, struct omma_error *error) {
  int32_t min, max;
  OMMAI_TRY(parse_atom(parser, out, error));
  for (int n = 0; take_repeat(parser, &min, &max); n++) {
    if (n == MAX_STACKED) return fail_at(parser, OMMA_ERROR_LIMIT, "too many repetitions of one thing", error);
    (void)take(parser, "?");
    if (is_next(parser, "+")) return fail_at(parser, OMMA_ERROR_UNSUPPORTED, "possessive repetition is not supported", error);
    if (min > max) return fail_at(parser, OMMA_ERROR_FORMAT, "a repetition whose bounds are the wrong way round", error);
    if (min > OMMAI_REGEX_MAX_REPEAT || (max > OMMAI_REGEX_MAX_REPEAT && max != OMMAI_GRAMMAR_NO_MAX)) {
      return fail_at(parser, OMMA_ERROR_LIMIT, "a repetition of more than 100000 times", error);
    }
    struct ommai_regex *repeat = new_node(parser->text.scratch, OMMAI_REGEX_REPEAT);
    if (!repeat) return ommai_scratch_fail(parser->text.scratch, error);
    repeat->min = min;
    repeat->max = max;
    append(repeat, *out);
    *out = repeat;
  }
  return OMMA_OK;
}

static enum omma_status parse_sequence(struct parser *parser, struct ommai_regex **out, struct omma_error *error) {
  *out = new_node(parser->text.scratch, OMMAI_REGEX_SEQUENCE);
  if (!*out) return ommai_scratch_fail(parser->text.scratch, error);
  while (parser->text.at < parser->text.size && !is_next(parser, "|") && !is_next(parser, ")")) {
    struct ommai_regex *child;
    OMMAI_TRY(parse_repeated(parser, &child, error));
    append(*out, child);
  }
  return OMMA_OK;
}

static enum omma_status parse_choice(struct parser *parser, struct ommai_regex **out, struct omma_error *error) {
  struct ommai_regex *child;
  *out = new_node(parser->text.scratch, OMMAI_REGEX_CHOICE);
  if (!*out) return ommai_scratch_fail(parser->text.scratch, error);
  do {
    OMMAI_TRY(parse_sequence(parser, &child, error));
    append(*out, child);
  } while (take(parser, "|"));
  return OMMA_OK;
}

/* ---- anchors ---- */

/* What stands around a node: whether it is at the beginning or end of the pattern, and whether any
 * text may be there. */
struct place {
  bool begins, ends, search;
};

static bool any_text(struct ommai_scratch *scratch, struct ommai_regex **out) {
  struct ommai_regex *any = new_node(scratch, OMMAI_REGEX_CHARS), *repeat = new_node(scratch, OMMAI_REGEX_REPEAT);
  if (!any || !repeat) return false;
  ommai_chars_add(scratch, &any->chars, 0, OMMAI_MAX_CODE_POINT);
  ommai_chars_normalise(scratch, &any->chars);
  repeat->max = OMMAI_GRAMMAR_NO_MAX;
  append(repeat, any);
  *out = repeat;
  return true;
}

static bool has_anchor(const struct ommai_regex *node) {
  if (node->kind == OMMAI_REGEX_BEGIN || node->kind == OMMAI_REGEX_END) return true;
  for (const struct ommai_regex *child = node->first; child; child = child->next) {
    if (has_anchor(child)) return true;
  }
  return false;
}

/* The node with any text before and after it, where it may have that. */
static enum omma_status surround(struct ommai_scratch *scratch, struct ommai_regex *node, struct place place,
                                 struct ommai_regex **out, struct omma_error *error) {
  struct ommai_regex *sequence = new_node(scratch, OMMAI_REGEX_SEQUENCE), *any;
  if (!sequence) return ommai_scratch_fail(scratch, error);
  if (place.begins && place.search) {
    if (!any_text(scratch, &any)) return ommai_scratch_fail(scratch, error);
    append(sequence, any);
  }
  append(sequence, node);
  if (place.ends && place.search) {
    if (!any_text(scratch, &any)) return ommai_scratch_fail(scratch, error);
    append(sequence, any);
  }
  *out = sequence;
  return OMMA_OK;
}

static enum omma_status fail_anchor(struct omma_error *error) {
  return ommai_fail(error, OMMA_ERROR_UNSUPPORTED, "the pattern has an anchor (^ or $) that is not at its beginning or end");
}

static enum omma_status resolve(struct ommai_scratch *scratch, struct ommai_regex *node, struct place place,
                                struct ommai_regex **out, struct omma_error *error);

static enum omma_status resolve_children(struct ommai_scratch *scratch, struct ommai_regex *node, struct place place,
                                         struct ommai_regex **out, struct omma_error *error) {
  struct ommai_regex *resolved = new_node(scratch, node->kind), *child, *next;
  if (!resolved) return ommai_scratch_fail(scratch, error);
  for (child = node->first; child; child = next) {
    struct place inner = place;
    next = child->next;
    child->next = NULL;
    if (node->kind == OMMAI_REGEX_SEQUENCE) {
      inner.begins = place.begins && child == node->first;
      inner.ends = place.ends && child == node->last;
    }
    OMMAI_TRY(resolve(scratch, child, inner, &child, error));
    append(resolved, child);
  }
  *out = resolved;
  return OMMA_OK;
}

/* An anchor is the empty text; on its other side, at the end of the pattern, there may be any. */
static enum omma_status resolve_anchor(struct ommai_scratch *scratch, const struct ommai_regex *node, struct place place,
                                       struct ommai_regex **out, struct omma_error *error) {
  bool begin = node->kind == OMMAI_REGEX_BEGIN;
  if (begin ? !place.begins : !place.ends) return fail_anchor(error);
  struct ommai_regex *empty = new_node(scratch, OMMAI_REGEX_SEQUENCE);
  if (!empty) return ommai_scratch_fail(scratch, error);
  struct place other = {place.begins && !begin, place.ends && begin, place.search};
  return surround(scratch, empty, other, out, error);
}

static enum omma_status resolve(struct ommai_scratch *scratch, struct ommai_regex *node, struct place place,
                                struct ommai_regex **out, struct omma_error *error) {
  switch (node->kind) {
    case OMMAI_REGEX_BEGIN:
    case OMMAI_REGEX_END: return resolve_anchor(scratch, node, place, out, error);
    case OMMAI_REGEX_CHOICE: return resolve_children(scratch, node, place, out, error);
    case OMMAI_REGEX_SEQUENCE:
      if (node->first) return resolve_children(scratch, node, place, out, error);
      return surround(scratch, node, place, out, error);
    case OMMAI_REGEX_REPEAT:
    case OMMAI_REGEX_CHARS: break;
  }
  if (has_anchor(node)) return fail_anchor(error);
  return surround(scratch, node, place, out, error);
}

enum omma_status ommai_regex_parse(struct ommai_scratch *scratch, const char *pattern, size_t size, bool search,
                                   struct ommai_regex **out, struct omma_error *error) {
  struct parser parser = {.text = {scratch, pattern, size, 0}};
  struct ommai_regex *tree;
  size_t offset;
  if (!ommai_utf8_valid(pattern, size, &offset)) {
    return ommai_fail(error, OMMA_ERROR_FORMAT, "the pattern's byte %zu: invalid UTF-8", offset);
  }
  OMMAI_TRY(parse_choice(&parser, &tree, error));
  if (parser.text.at < size) return fail_at(&parser, OMMA_ERROR_FORMAT, "a closing parenthesis without its beginning", error);
  return resolve(scratch, tree, (struct place){true, true, search}, out, error);
}

/* ---- into a grammar ---- */

static void build_repeat(struct ommai_grammar_builder *builder, int32_t from, const struct ommai_regex *regex,
                         enum ommai_char_encoding encoding, int32_t to) {
  int32_t rule = ommai_builder_rule(builder);
  struct ommai_grammar_rule ends = ommai_builder_ends(builder, rule);
  ommai_builder_regex(builder, ends.start, regex->first, encoding, ends.end);
  ommai_builder_repeat(builder, from, rule, regex->min, regex->max, to);
}

void ommai_builder_regex(struct ommai_grammar_builder *builder, int32_t from, const struct ommai_regex *regex,
                         enum ommai_char_encoding encoding, int32_t to) {
  if (ommai_builder_failed(builder)) return;
  switch (regex->kind) {
    case OMMAI_REGEX_CHARS:
      for (size_t i = 0; i < regex->chars.n; i++) {
        ommai_builder_chars(builder, from, regex->chars.ranges[i].low, regex->chars.ranges[i].high, encoding, to);
      }
      break;
    case OMMAI_REGEX_SEQUENCE:
      for (const struct ommai_regex *child = regex->first; child; child = child->next) {
        int32_t next = child->next ? ommai_builder_node(builder) : to;
        ommai_builder_regex(builder, from, child, encoding, next);
        from = next;
      }
      if (!regex->first) ommai_builder_empty(builder, from, to);
      break;
    case OMMAI_REGEX_CHOICE:
      for (const struct ommai_regex *child = regex->first; child; child = child->next) {
        ommai_builder_regex(builder, from, child, encoding, to);
      }
      break;
    case OMMAI_REGEX_REPEAT: build_repeat(builder, from, regex, encoding, to); break;
    case OMMAI_REGEX_BEGIN:
    case OMMAI_REGEX_END: break;
  }
}
