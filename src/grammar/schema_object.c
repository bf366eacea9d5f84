/* Objects: the members that are named, in the order of the schema, each of which may be left out
 * where it is not required; then others.
 *
 *   { -> c0,  c_i -> member i -> b_i+1,  c_i -> c_i+1 where member i is optional,  b_i -> , -> c_i,
 *   b_i -> } where all further ones are
 */
#include <string.h>

#include "base/error.h"
#include "grammar/schema_parts.h"

struct pattern {
  size_t part; /* of the set */
  const char *text;
  const json_t *schema;
  struct ommai_char_dfa matches, rest; /* keys with it, and without */
};

struct object {
  const struct schema_set *set;
  struct ommai_literal *names; /* [n_names], in order */
  struct ommai_name_set known; /* they */
  size_t n_names, names_capacity;
  struct pattern patterns[OMMAI_SCHEMA_MAX_PATTERNS];
  size_t n_patterns;
  int64_t min, max; /* members */
  bool any_key;     /* of the others: every string is one */
  struct ommai_char_dfa keys;
  int32_t other; /* rule of one other member; -1: there are none */
};

/* ---- what the set requires ---- */

/* Longer lists are looked up in the context's set of names. */
enum { SHORT_LIST = 8 };

static enum omma_status is_required(struct schema_context *context, const struct schema_part *part, const char *name,
                                    bool *required) {
  const json_t *list = json_object_get(part->schema, "required");
  const size_t n = json_array_size(list);
  struct ommai_name_set *names = &context->required;
  for (size_t i = 0; i < n && n <= SHORT_LIST && !*required; i++) {
    *required = !strcmp(json_string_value(json_array_get(list, i)), name);
  }
  if (n <= SHORT_LIST || *required) return OMMA_OK;
  const char *first = json_string_value(json_array_get(list, 0));
  if (!ommai_name_set_find(names, list, first, strlen(first))) {
    for (size_t i = 0; i < n; i++) {
      const json_t *text = json_array_get(list, i);
      if (!ommai_name_set_add(names, context->scratch, list, json_string_value(text), json_string_length(text)))
        return ommai_schema_fail_scratch(context);
    }
  }
  *required = ommai_name_set_find(names, list, name, strlen(name)) != NULL;
  return OMMA_OK;
}

/* Whether members may be made that no part names. Where additionalProperties is not given, those of
 * a schema with properties are all. */
static bool is_open(const struct schema_set *set) {
  bool named = false;
  for (size_t i = 0; i < set->n; i++) {
    const json_t *schema = set->parts[i].schema;
    if (json_object_get(schema, "additionalProperties")) return true;
    named = named || json_object_get(schema, "properties") || json_object_get(schema, "patternProperties");
  }
  return !named;
}

static enum omma_status parse_pattern(struct schema_context *context, const struct schema_part *part, const char *text,
                                      struct ommai_char_dfa *dfa) {
  struct ommai_regex *regex;
  enum omma_status status = ommai_regex_parse(context->scratch, text, strlen(text), true, &regex, context->error);
  if (status != OMMA_OK) return ommai_schema_prefix(context, status, part->path, "patternProperties");
  return ommai_dfa_from_regex(context->scratch, regex, dfa) ? OMMA_OK : ommai_schema_fail_scratch(context);
}

static enum omma_status add_value(struct schema_context *context, struct schema_set *value, const struct schema_part *part,
                                  const char *key, const char *name, const json_t *schema) {
  const struct schema_path *path = ommai_schema_path(context, part->path, key, 0);
  if (path && name) path = ommai_schema_path(context, path, name, 0);
  return path ? ommai_schema_add(context, value, schema, path) : ommai_schema_fail_scratch(context);
}

/* What one part requires of member `name`. */
static enum omma_status add_member(struct schema_context *context, const struct schema_part *part, const char *name,
                                   struct schema_set *value, bool *named) {
  const json_t *own = json_object_get(json_object_get(part->schema, "properties"), name), *schema;
  const json_t *others = json_object_get(part->schema, "additionalProperties");
  const char *pattern;
  bool found = own;
  if (own) OMMAI_TRY(add_value(context, value, part, "properties", name, own));
  json_object_foreach(json_object_get(part->schema, "patternProperties"), pattern, schema) {
    struct ommai_char_dfa dfa;
    OMMAI_TRY(parse_pattern(context, part, pattern, &dfa));
    if (!ommai_dfa_accepts(&dfa, name, strlen(name))) continue;
    OMMAI_TRY(add_value(context, value, part, "patternProperties", pattern, schema));
    found = true;
  }
  *named = *named || found;
  return found || !others ? OMMA_OK : add_value(context, value, part, "additionalProperties", NULL, others);
}

/* What propertyNames of all parts require of keys, as an automaton; *any: nothing. */
static enum omma_status key_dfa(struct schema_context *context, const struct schema_set *set, bool *any,
                                struct ommai_char_dfa *dfa) {
  struct schema_set names = {.n = 0};
  const json_t **values;
  size_t n;
  bool found;
  for (size_t i = 0; i < set->n; i++) {
    const json_t *schema = json_object_get(set->parts[i].schema, "propertyNames");
    if (schema) OMMAI_TRY(add_value(context, &names, &set->parts[i], "propertyNames", NULL, schema));
  }
  for (size_t i = 0; i < names.n; i++) {
    const json_t *schema = names.parts[i].schema;
    if (!json_object_get(schema, "anyOf") && !json_object_get(schema, "oneOf")) continue;
    return ommai_schema_fail(context, OMMA_ERROR_UNSUPPORTED, names.parts[i].path, NULL, "alternatives in propertyNames");
  }
  *any = false;
  if (names.impossible || !(ommai_schema_set_types(&names) & SCHEMA_STRING)) {
    return ommai_dfa_from_texts(context->scratch, NULL, 0, dfa) ? OMMA_OK : ommai_schema_fail_scratch(context);
  }
  OMMAI_TRY(ommai_schema_values(context, &names, &found, &values, &n));
  if (!found) return ommai_schema_string_dfa(context, &names, any, dfa);
  struct ommai_literal *texts = ommai_scratch_take(context->scratch, n, sizeof *texts);
  size_t n_texts = 0;
  for (size_t i = 0; texts && i < n; i++) {
    if (!json_is_string(values[i])) continue;
    texts[n_texts++] = (struct ommai_literal){json_string_value(values[i]), json_string_length(values[i])};
  }
  return texts && ommai_dfa_from_texts(context->scratch, texts, n_texts, dfa) ? OMMA_OK : ommai_schema_fail_scratch(context);
}

enum omma_status ommai_schema_member(struct schema_context *context, const struct schema_set *set, const char *name,
                                     struct schema_set *value, bool *required, bool *allowed) {
  struct ommai_char_dfa keys;
  bool any, named = false;
  *required = false;
  if (!ommai_scratch_work(context->scratch, OMMAI_SCHEMA_SET_WORK * (int64_t)(1 + set->n))) {
    return ommai_schema_fail_scratch(context);
  }
  for (size_t i = 0; i < set->n; i++) {
    OMMAI_TRY(add_member(context, &set->parts[i], name, value, &named));
    value->impossible = value->impossible || ommai_schema_forbids(&set->parts[i], name);
    OMMAI_TRY(is_required(context, &set->parts[i], name, required));
  }
  OMMAI_TRY(key_dfa(context, set, &any, &keys));
  if (!any && !ommai_dfa_accepts(&keys, name, strlen(name))) value->impossible = true;
  *allowed = named || *required || is_open(set);
  return OMMA_OK;
}

/* ---- names, patterns, numbers of members ---- */

static enum omma_status add_name(struct schema_context *context, struct object *object, const char *name) {
  size_t size = strlen(name);
  struct ommai_named *known = ommai_name_set_add(&object->known, context->scratch, object, name, size);
  if (known && known->value) return OMMA_OK;
  if (known) known->value = object->n_names + 1;
  if (!known || !ommai_scratch_grow(context->scratch, (void **)&object->names, &object->names_capacity, object->n_names,
                                    sizeof *object->names)) {
    return ommai_schema_fail_scratch(context);
  }
  object->names[object->n_names++] = (struct ommai_literal){name, size};
  return OMMA_OK;
}

static enum omma_status add_patterns(struct schema_context *context, struct object *object, size_t index) {
  const struct schema_part *part = &object->set->parts[index];
  const char *text;
  const json_t *schema;
  json_object_foreach(json_object_get(part->schema, "patternProperties"), text, schema) {
    if (object->n_patterns == OMMAI_SCHEMA_MAX_PATTERNS) {
      return ommai_schema_fail(context, OMMA_ERROR_UNSUPPORTED, part->path, "patternProperties",
                               "at most %d patterns are supported", OMMAI_SCHEMA_MAX_PATTERNS);
    }
    struct pattern *pattern = &object->patterns[object->n_patterns++];
    *pattern = (struct pattern){.part = index, .text = text, .schema = schema};
    OMMAI_TRY(parse_pattern(context, part, text, &pattern->matches));
    if (!ommai_dfa_complement(context->scratch, &pattern->matches, &pattern->rest)) return ommai_schema_fail_scratch(context);
  }
  return OMMA_OK;
}

static enum omma_status gather(struct schema_context *context, struct object *object) {
  const struct schema_set *set = object->set;
  const char *name;
  const json_t *schema;
  for (size_t i = 0; i < set->n; i++) {
    int64_t min = ommai_schema_count(&set->parts[i], "minProperties", 0);
    int64_t max = ommai_schema_count(&set->parts[i], "maxProperties", OMMAI_GRAMMAR_NO_MAX);
    object->min = min > object->min ? min : object->min;
    object->max = max < object->max ? max : object->max;
    json_object_foreach(json_object_get(set->parts[i].schema, "properties"), name, schema) {
      OMMAI_TRY(add_name(context, object, name));
    }
    OMMAI_TRY(add_patterns(context, object, i));
  }
  for (size_t i = 0; i < set->n; i++) {
    const json_t *required = json_object_get(set->parts[i].schema, "required");
    for (size_t j = 0; j < json_array_size(required); j++) {
      OMMAI_TRY(add_name(context, object, json_string_value(json_array_get(required, j))));
    }
    const json_t *negated;
    if (ommai_schema_negation(&set->parts[i], &negated) != SCHEMA_NOT_MEMBER) continue;
    OMMAI_TRY(add_name(context, object, json_string_value(json_array_get(json_object_get(negated, "required"), 0))));
  }
  return OMMA_OK;
}

/* ---- other members ---- */

/* Keys that propertyNames allows and no name is. */
static enum omma_status find_keys(struct schema_context *context, struct object *object) {
  struct ommai_scratch *scratch = context->scratch;
  struct ommai_char_dfa names, others, both;
  bool any;
  OMMAI_TRY(key_dfa(context, object->set, &any, &object->keys));
  object->any_key = any && object->n_names == 0;
  if (object->any_key && object->n_patterns == 0) return OMMA_OK;
  struct ommai_literal *copy = ommai_scratch_take(scratch, object->n_names, sizeof *copy);
  if (!copy) return ommai_schema_fail_scratch(context);
  if (object->n_names) memcpy(copy, object->names, object->n_names * sizeof *copy);
  if (!ommai_dfa_from_texts(scratch, copy, object->n_names, &names) || !ommai_dfa_complement(scratch, &names, &others) ||
      (!any && !ommai_dfa_intersect(scratch, &others, &object->keys, &both))) {
    return ommai_schema_fail_scratch(context);
  }
  object->keys = any ? others : both;
  return OMMA_OK;
}

/* The value's set of a key that has the patterns of `chosen`, a bit each. */
static enum omma_status other_value(struct schema_context *context, const struct object *object, unsigned chosen,
                                    struct schema_set *value) {
  for (size_t i = 0; i < object->set->n; i++) {
    const struct schema_part *part = &object->set->parts[i];
    const json_t *others = json_object_get(part->schema, "additionalProperties");
    bool found = false;
    for (size_t j = 0; j < object->n_patterns; j++) {
      const struct pattern *pattern = &object->patterns[j];
      if (pattern->part != i || !(chosen >> j & 1)) continue;
      OMMAI_TRY(add_value(context, value, part, "patternProperties", pattern->text, pattern->schema));
      found = true;
    }
    if (!found && others) OMMAI_TRY(add_value(context, value, part, "additionalProperties", NULL, others));
  }
  return OMMA_OK;
}

/* A key that has these patterns and not the others, to the node after its closing quotation
 * mark. */
static enum omma_status add_key(struct schema_context *context, const struct object *object, unsigned chosen, int32_t from,
                                int32_t to) {
  struct ommai_char_dfa keys = object->keys, both;
  if (object->any_key && object->n_patterns == 0) {
    ommai_builder_call(context->builder, from, ommai_json_rule(&context->json, OMMAI_JSON_STRING), to);
    return OMMA_OK;
  }
  for (size_t i = 0; i < object->n_patterns; i++) {
    const struct pattern *pattern = &object->patterns[i];
    const struct ommai_char_dfa *wanted = chosen >> i & 1 ? &pattern->matches : &pattern->rest;
    if (!ommai_dfa_intersect(context->scratch, &keys, wanted, &both)) return ommai_schema_fail_scratch(context);
    keys = both;
  }
  int32_t open = ommai_builder_text(context->builder, from, "\""), close = ommai_builder_node(context->builder);
  ommai_builder_dfa(context->builder, open, &keys, OMMAI_CHARS_JSON, close);
  ommai_builder_range(context->builder, close, '"', '"', to);
  return OMMA_OK;
}

static enum omma_status add_other_members(struct schema_context *context, struct object *object) {
  struct ommai_grammar_builder *builder = context->builder;
  object->other = -1;
  for (unsigned chosen = 0; chosen < 1u << object->n_patterns; chosen++) {
    struct schema_set value = {.n = 0};
    int32_t rule;
    if (chosen == 0 && !is_open(object->set)) continue;
    OMMAI_TRY(other_value(context, object, chosen, &value));
    if (value.impossible) continue;
    if (object->other < 0) {
      OMMAI_TRY(find_keys(context, object));
      object->other = ommai_builder_rule(builder);
    }
    struct ommai_grammar_rule ends = ommai_builder_ends(builder, object->other);
    int32_t key = ommai_builder_node(builder);
    OMMAI_TRY(add_key(context, object, chosen, ends.start, key));
    OMMAI_TRY(ommai_schema_rule(context, &value, &rule));
    ommai_builder_call(builder, ommai_json_spaced(&context->json, key, false, ":", true), rule, ends.end);
  }
  return OMMA_OK;
}

/* ---- the graph ---- */

static void add_close(struct schema_context *context, bool space, int32_t from, int32_t to) {
  if (space) from = ommai_json_add(&context->json, from, OMMAI_JSON_SPACE);
  ommai_builder_range(context->builder, from, '}', '}', to);
}

/* No member is named: any number of others, from min to max. */
static enum omma_status build_map(struct schema_context *context, const struct object *object, int32_t from, int32_t to) {
  struct ommai_grammar_builder *builder = context->builder;
  if (object->min > 1) {
    return ommai_schema_fail(context, OMMA_ERROR_UNSUPPORTED, object->set->parts[0].path, "minProperties",
                             "more than 1 is not supported for members that are not named");
  }
  if (object->min == 0) add_close(context, false, from, to);
  if (object->other < 0 || object->max == 0) return OMMA_OK;
  int32_t after = ommai_builder_node(builder), last = ommai_builder_node(builder), more = ommai_builder_rule(builder);
  struct ommai_grammar_rule ends = ommai_builder_ends(builder, more);
  ommai_builder_call(builder, from, object->other, after);
  ommai_builder_call(builder, ommai_json_spaced(&context->json, ends.start, true, ",", true), object->other, ends.end);
  int64_t max = object->max == OMMAI_GRAMMAR_NO_MAX ? object->max : object->max - 1;
  ommai_builder_repeat(builder, after, more, 0, (int32_t)max, last);
  add_close(context, true, last, to);
  return OMMA_OK;
}

static enum omma_status check_numbers(struct schema_context *context, const struct object *object, const bool *optional) {
  int64_t n_required = 0;
  for (size_t i = 0; i < object->n_names; i++) n_required += !optional[i];
  const struct schema_path *path = object->set->parts[0].path;
  if (object->min > 1 && object->min > n_required) {
    return ommai_schema_fail(context, OMMA_ERROR_UNSUPPORTED, path, "minProperties",
                             "more than 1 and more than the required properties is not supported where properties are named");
  }
  if (object->max >= (int64_t)object->n_names && (object->other < 0 || object->max == OMMAI_GRAMMAR_NO_MAX)) return OMMA_OK;
  return ommai_schema_fail(context, OMMA_ERROR_UNSUPPORTED, path, "maxProperties",
                           "fewer than there may be is not supported where properties are named");
}

/* Member `index` between the nodes k_i, which its opening quotation mark leads to, and b_i+1. */
static enum omma_status build_member(struct schema_context *context, const struct object *object, size_t index, int32_t from,
                                     int32_t to, bool *optional) {
  struct schema_set value = {.n = 0};
  struct ommai_literal key;
  int32_t rule;
  bool required, allowed;
  OMMAI_TRY(ommai_schema_member(context, object->set, object->names[index].bytes, &value, &required, &allowed));
  OMMAI_TRY(ommai_json_quote(context->scratch, object->names[index].bytes, object->names[index].size, &key, context->error));
  OMMAI_TRY(ommai_schema_rule(context, &value, &rule));
  *optional = !required;
  int32_t after = ommai_builder_bytes(context->builder, from, key.bytes + 1, key.size - 1);
  ommai_builder_call(context->builder, ommai_json_spaced(&context->json, after, false, ":", true), rule, to);
  return OMMA_OK;
}

/* c_i are before the opening quotation mark of any member from i on, k_i after it, b_i after member
 * i - 1. The optional members are passed over from k_i to k_i+1, not before the mark, so that a
 * place before it is one place, whatever the number of members. */
static enum omma_status build_named(struct schema_context *context, const struct object *object, int32_t from, int32_t to) {
  struct ommai_grammar_builder *builder = context->builder;
  size_t n = object->n_names;
  int32_t *before = ommai_scratch_take(context->scratch, n + 1, sizeof *before); /* c_i */
  int32_t *keys = ommai_scratch_take(context->scratch, n + 1, sizeof *keys);     /* k_i */
  int32_t *after = ommai_scratch_take(context->scratch, n + 2, sizeof *after);   /* b_i */
  bool *optional = ommai_scratch_take(context->scratch, n + 1, sizeof *optional), all_optional = true;
  if (!before || !keys || !after || !optional) return ommai_schema_fail_scratch(context);
  for (size_t i = 0; i <= n; i++) {
    before[i] = i ? ommai_builder_node(builder) : from;
    keys[i] = ommai_builder_node(builder);
    after[i + 1] = ommai_builder_node(builder);
  }
  for (size_t i = 0; i < n; i++) {
    OMMAI_TRY(build_member(context, object, i, keys[i], after[i + 1], &optional[i]));
    ommai_builder_range(builder, before[i], '"', '"', keys[i]);
    if (optional[i] && i + 1 < n) ommai_builder_empty(builder, keys[i], keys[i + 1]);
  }
  OMMAI_TRY(check_numbers(context, object, optional));
  if (object->other >= 0) ommai_builder_call(builder, before[n], object->other, after[n + 1]);
  for (size_t i = n + 2; i-- > 1;) {
    ommai_builder_empty(builder, ommai_json_spaced(&context->json, after[i], true, ",", true), before[i < n ? i : n]);
    if (all_optional) add_close(context, true, after[i], to);
    if (i <= n) all_optional = all_optional && optional[i - 1];
    if (i <= n && all_optional) ommai_builder_empty(builder, before[i - 1], before[n]);
  }
  if (all_optional && object->min == 0) add_close(context, false, from, to);
  return OMMA_OK;
}

enum omma_status ommai_schema_object(struct schema_context *context, const struct schema_set *set, int32_t from, int32_t to) {
  struct object *object = ommai_scratch_take(context->scratch, 1, sizeof *object);
  if (!object) return ommai_schema_fail_scratch(context);
  *object = (struct object){.set = set, .max = OMMAI_GRAMMAR_NO_MAX};
  OMMAI_TRY(gather(context, object));
  if (object->min > object->max) return OMMA_OK;
  OMMAI_TRY(add_other_members(context, object));
  int32_t open = ommai_json_spaced(&context->json, from, false, "{", true);
  return object->n_names ? build_named(context, object, open, to) : build_map(context, object, open, to);
}
