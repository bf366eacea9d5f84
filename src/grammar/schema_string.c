/* Strings: lengths, patterns, formats. One pattern alone, or lengths alone, go into the grammar as
 * they are; what must hold together is worked out as an automaton first. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/plural.h"
#include "grammar/counted_dfa.h"
#include "grammar/schema_parts.h"

/* Of a pattern that is looked for anywhere. */
enum { MAX_SEARCH_STATES = 300 };

struct strings {
  int64_t min, max;
  int64_t max_format; /* of the formats; counted only, as it would make an automaton too large */
  struct ommai_regex *patterns[2 * OMMAI_SCHEMA_MAX_PARTS];
  size_t n_patterns;
  struct ommai_literal *excluded; /* [n_excluded] by `not` */
  size_t n_excluded, excluded_capacity;
};

/* Strings among the values that a part's `not` forbids. */
static bool exclude_texts(struct ommai_scratch *scratch, const struct schema_part *part, struct strings *strings) {
  const json_t *negated;
  if (ommai_schema_negation(part, &negated) != SCHEMA_NOT_VALUES) return true;
  const json_t *constant = json_object_get(negated, "const"), *list = json_object_get(negated, "enum");
  for (size_t i = 0; i < (constant ? 1 : json_array_size(list)); i++) {
    const json_t *value = constant ? constant : json_array_get(list, i);
    if (!json_is_string(value)) continue;
    if (!ommai_scratch_grow(scratch, (void **)&strings->excluded, &strings->excluded_capacity, strings->n_excluded,
                            sizeof *strings->excluded)) {
      return false;
    }
    strings->excluded[strings->n_excluded++] = (struct ommai_literal){json_string_value(value), json_string_length(value)};
  }
  return true;
}

static enum omma_status add_pattern(struct schema_context *context, const struct schema_part *part, const char *key,
                                    const char *pattern, size_t size, bool search, struct strings *strings) {
  enum omma_status status =
      ommai_regex_parse(context->scratch, pattern, size, search, &strings->patterns[strings->n_patterns], context->error);
  strings->n_patterns++;
  return ommai_schema_prefix(context, status, part->path, key);
}

static enum omma_status gather(struct schema_context *context, const struct schema_set *set, struct strings *strings) {
  *strings = (struct strings){.max = OMMAI_GRAMMAR_NO_MAX, .max_format = OMMAI_GRAMMAR_NO_MAX};
  for (size_t i = 0; i < set->n; i++) {
    const struct schema_part *part = &set->parts[i];
    const json_t *pattern = json_object_get(part->schema, "pattern"), *format = json_object_get(part->schema, "format");
    int64_t min = ommai_schema_count(part, "minLength", 0), max = ommai_schema_count(part, "maxLength", OMMAI_GRAMMAR_NO_MAX);
    strings->min = min > strings->min ? min : strings->min;
    strings->max = max < strings->max ? max : strings->max;
    if (!exclude_texts(context->scratch, part, strings)) return ommai_schema_fail_scratch(context);
    if (pattern) {
      OMMAI_TRY(add_pattern(context, part, "pattern", json_string_value(pattern), json_string_length(pattern), true, strings));
    }
    if (!format) continue;
    const struct schema_format *known;
    OMMAI_TRY(ommai_schema_format(context, part, json_string_value(format), &known));
    if (!known) continue;
    OMMAI_TRY(add_pattern(context, part, "format", known->pattern, strlen(known->pattern), false, strings));
    if (known->max && known->max < strings->max_format) strings->max_format = known->max;
  }
  return OMMA_OK;
}

static bool has_lengths(const struct strings *strings) { return strings->min > 0 || strings->max != OMMAI_GRAMMAR_NO_MAX; }

static bool add_dfa(struct ommai_scratch *scratch, struct ommai_char_dfa *dfa, bool *any, struct ommai_char_dfa next) {
  struct ommai_char_dfa both;
  if (*any) return *dfa = next, *any = false, true;
  if (!ommai_dfa_intersect(scratch, dfa, &next, &both)) return false;
  *dfa = both;
  return true;
}

/* All but the lengths. */
static bool intersect_patterns(struct ommai_scratch *scratch, const struct strings *strings, bool *any,
                               struct ommai_char_dfa *dfa) {
  struct ommai_char_dfa next, texts;
  *any = true;
  for (size_t i = 0; i < strings->n_patterns; i++) {
    if (!ommai_dfa_from_regex(scratch, strings->patterns[i], &next) || !add_dfa(scratch, dfa, any, next)) return false;
  }
  if (strings->n_excluded && (!ommai_dfa_from_texts(scratch, strings->excluded, strings->n_excluded, &texts) ||
                              !ommai_dfa_complement(scratch, &texts, &next) || !add_dfa(scratch, dfa, any, next))) {
    return false;
  }
  return true;
}

static bool intersect_all(struct ommai_scratch *scratch, const struct strings *strings, bool *any, struct ommai_char_dfa *dfa) {
  struct ommai_char_dfa next;
  if (!intersect_patterns(scratch, strings, any, dfa)) return false;
  if (!has_lengths(strings) || (!*any && ommai_dfa_is_within(dfa, strings->min, strings->max))) return true;
  return ommai_dfa_from_length(scratch, strings->min, strings->max, &next) && add_dfa(scratch, dfa, any, next);
}

/* Names the keys that made it too much. */
static enum omma_status fail_string(struct schema_context *context, const struct schema_set *set) {
  static const char *const keys[] = {"pattern", "format", "maxLength", "minLength", "not"};
  char list[80] = "";
  const struct schema_path *path = NULL;
  if (context->scratch->no_memory) return ommai_schema_fail_scratch(context);
  for (size_t k = 0; k < sizeof keys / sizeof keys[0]; k++) {
    bool found = false;
    for (size_t i = 0; i < set->n; i++) {
      if (!json_object_get(set->parts[i].schema, keys[k])) continue;
      if (!path) path = set->parts[i].path;
      found = true;
    }
    if (found) ommai_list_entry(list, sizeof list, "%s", keys[k]);
  }
  return ommai_schema_fail(context, OMMA_ERROR_LIMIT, path ? path : context->at, NULL,
                           "a string with %s takes too much work to compile: use smaller bounds, a simpler pattern", list);
}

enum omma_status ommai_schema_string_dfa(struct schema_context *context, const struct schema_set *set, bool *any,
                                         struct ommai_char_dfa *dfa) {
  struct strings strings;
  OMMAI_TRY(gather(context, set, &strings));
  return intersect_all(context->scratch, &strings, any, dfa) ? OMMA_OK : fail_string(context, set);
}

/* Whether the pattern begins with any text: as a graph, all places where it may have begun would be
 * walked through at once. */
static bool begins_anywhere(const struct ommai_regex *regex) {
  if (regex->kind == OMMAI_REGEX_SEQUENCE) return regex->first && begins_anywhere(regex->first);
  for (const struct ommai_regex *child = regex->first; child && regex->kind == OMMAI_REGEX_CHOICE; child = child->next) {
    if (begins_anywhere(child)) return true;
  }
  return regex->kind == OMMAI_REGEX_REPEAT && regex->max == OMMAI_GRAMMAR_NO_MAX && regex->first->kind == OMMAI_REGEX_CHARS;
}

/* The one pattern of a string, from after its opening quotation mark to before the closing one. */
static enum omma_status build_pattern(struct schema_context *context, const struct ommai_regex *regex, int32_t from,
                                      int32_t to) {
  struct ommai_char_dfa dfa;
  bool whole = false;
  if (begins_anywhere(regex) && !ommai_dfa_try_regex(context->scratch, regex, MAX_SEARCH_STATES, &dfa, &whole)) {
    return ommai_schema_fail_scratch(context);
  }
  if (whole) {
    ommai_builder_dfa(context->builder, from, &dfa, OMMAI_CHARS_JSON, to);
  } else {
    ommai_builder_regex(context->builder, from, regex, OMMAI_CHARS_JSON, to);
  }
  return OMMA_OK;
}

/* All that must hold together. Where there is a longest length, characters are counted; else
 * lengths become part of the automaton. */
static enum omma_status build_all(struct schema_context *context, const struct schema_set *set, const struct strings *strings,
                                  int32_t from, int32_t to) {
  bool count = strings->max != OMMAI_GRAMMAR_NO_MAX, any, good;
  struct ommai_char_dfa dfa;
  good = (count ? intersect_patterns : intersect_all)(context->scratch, strings, &any, &dfa);
  if (good && (!count || ommai_dfa_is_within(&dfa, strings->min, strings->max))) {
    ommai_builder_dfa(context->builder, from, &dfa, OMMAI_CHARS_JSON, to);
  } else if (good) {
    good = ommai_builder_counted_dfa(context->scratch, context->builder, from, &dfa, strings->min, strings->max,
                                     OMMAI_CHARS_JSON, to);
  }
  return good ? OMMA_OK : fail_string(context, set);
}

enum omma_status ommai_schema_string(struct schema_context *context, const struct schema_set *set, int32_t from, int32_t to) {
  struct ommai_grammar_builder *builder = context->builder;
  struct strings strings;
  OMMAI_TRY(gather(context, set, &strings));
  if (strings.max_format < strings.max) strings.max = strings.max_format;
  if (strings.n_patterns + strings.n_excluded == 0 && !has_lengths(&strings)) {
    ommai_builder_call(builder, from, ommai_json_rule(&context->json, OMMAI_JSON_STRING), to);
    return OMMA_OK;
  }
  if (strings.min > strings.max) return OMMA_OK;
  int32_t open = ommai_builder_text(builder, from, "\""), close = ommai_builder_node(builder);
  ommai_builder_range(builder, close, '"', '"', to);
  if (strings.n_patterns + strings.n_excluded == 0) {
    ommai_builder_repeat(builder, open, ommai_json_rule(&context->json, OMMAI_JSON_CHAR), (int32_t)strings.min,
                         (int32_t)strings.max, close);
  } else if (strings.n_patterns == 1 && strings.n_excluded == 0 && !has_lengths(&strings)) {
    return build_pattern(context, strings.patterns[0], open, close);
  } else {
    return build_all(context, set, &strings, open, close);
  }
  return OMMA_OK;
}
