#include "grammar/schema.h"

#include <string.h>

#include "base/error.h"
#include "grammar/schema_parts.h"

enum { N_BUCKETS = 1024 };

struct schema_rule {
  struct schema_part *parts; /* [n] */
  size_t n;
  bool impossible;
  int32_t rule;
  int32_t next; /* of the same bucket, or -1 */
};

/* ---- sets ---- */

static enum omma_status add_part(struct schema_context *context, struct schema_set *set, struct schema_part part) {
  for (size_t i = 0; i < set->n; i++) {
    if (set->parts[i].schema != part.schema) continue;
    if (!(set->parts[i].done & (SCHEMA_DONE_ANY_OF | SCHEMA_DONE_ONE_OF))) return OMMA_OK;
    return ommai_schema_fail(context, OMMA_ERROR_UNSUPPORTED, part.path, NULL,
                             "an alternative of this schema is the schema itself");
  }
  if (set->n == OMMAI_SCHEMA_MAX_PARTS) {
    return ommai_schema_fail(context, OMMA_ERROR_LIMIT, part.path, NULL, "more than %d schemas hold of one value",
                             OMMAI_SCHEMA_MAX_PARTS);
  }
  set->parts[set->n++] = part;
  return OMMA_OK;
}

enum omma_status ommai_schema_add_plain(struct schema_context *context, struct schema_set *set, const json_t *schema,
                                        const struct schema_path *path) {
  if (!path) return ommai_schema_fail_scratch(context);
  if (json_is_boolean(schema)) {
    set->impossible = set->impossible || json_is_false(schema);
    return OMMA_OK;
  }
  struct schema_part part = {schema, path, 0};
  OMMAI_TRY(ommai_schema_check_keys(context, &part));
  return add_part(context, set, part);
}

static enum omma_status add_all_of(struct schema_context *context, struct schema_set *set, const struct schema_part *part) {
  const json_t *list = json_object_get(part->schema, "allOf");
  const struct schema_path *above = list ? ommai_schema_path(context, part->path, "allOf", 0) : NULL;
  for (size_t i = 0; i < json_array_size(list); i++) {
    if (!above) return ommai_schema_fail_scratch(context);
    OMMAI_TRY(ommai_schema_add_plain(context, set, json_array_get(list, i), ommai_schema_path(context, above, NULL, i)));
  }
  return OMMA_OK;
}

static enum omma_status add_reference(struct schema_context *context, struct schema_set *set, const struct schema_part *part) {
  const char *reference = json_string_value(json_object_get(part->schema, "$ref"));
  const json_t *schema;
  const struct schema_path *path;
  if (!reference) return OMMA_OK;
  OMMAI_TRY(ommai_schema_resolve(context, part, reference, &schema, &path));
  return ommai_schema_add_plain(context, set, schema, path);
}

enum omma_status ommai_schema_add(struct schema_context *context, struct schema_set *set, const json_t *schema,
                                  const struct schema_path *path) {
  if (!ommai_scratch_work(context->scratch, OMMAI_SCHEMA_SET_WORK)) return ommai_schema_fail_scratch(context);
  OMMAI_TRY(ommai_schema_add_plain(context, set, schema, path));
  for (size_t i = 0; i < set->n; i++) {
    if (set->parts[i].done & SCHEMA_DONE_ALL_OF) continue;
    set->parts[i].done |= SCHEMA_DONE_ALL_OF;
    const struct schema_part part = set->parts[i];
    OMMAI_TRY(add_reference(context, set, &part));
    OMMAI_TRY(add_all_of(context, set, &part));
    OMMAI_TRY(ommai_schema_add_conditions(context, set, &part));
  }
  return OMMA_OK;
}

unsigned ommai_schema_set_types(const struct schema_set *set) {
  unsigned types = SCHEMA_ALL_TYPES, implied = 0;
  bool named = false;
  for (size_t i = 0; i < set->n; i++) {
    named = named || json_object_get(set->parts[i].schema, "type");
    types &= ommai_schema_types(&set->parts[i]) & ommai_schema_types_left(&set->parts[i]);
    implied |= ommai_schema_implied_types(&set->parts[i]);
  }
  return named || !implied ? types : types & implied;
}

/* ---- rules ---- */

static size_t bucket_of(const struct schema_set *set) {
  uint64_t hash = set->impossible;
  for (size_t i = 0; i < set->n; i++)
    hash = (hash ^ (uintptr_t)set->parts[i].schema ^ set->parts[i].done) * 0x9E3779B97F4A7C15u;
  return hash >> 32 & (N_BUCKETS - 1);
}

static bool same_set(const struct schema_rule *rule, const struct schema_set *set) {
  if (rule->n != set->n || rule->impossible != set->impossible) return false;
  for (size_t i = 0; i < set->n; i++) {
    if (rule->parts[i].schema != set->parts[i].schema || rule->parts[i].done != set->parts[i].done) return false;
  }
  return true;
}

enum omma_status ommai_schema_rule(struct schema_context *context, const struct schema_set *set, int32_t *rule) {
  int32_t *bucket = &context->buckets[bucket_of(set)];
  for (int32_t i = *bucket - 1; i >= 0; i = context->rules[i].next) {
    if (same_set(&context->rules[i], set)) return *rule = context->rules[i].rule, OMMA_OK;
  }
  if (context->n_rules == OMMAI_SCHEMA_MAX_RULES) {
    return ommai_schema_fail(context, OMMA_ERROR_LIMIT, context->at, NULL,
                             "the schema is too large: more than %d different values", OMMAI_SCHEMA_MAX_RULES);
  }
  struct schema_part *parts = ommai_scratch_take(context->scratch, set->n, sizeof *parts);
  if (!parts || !ommai_scratch_grow(context->scratch, (void **)&context->rules, &context->rules_capacity, context->n_rules,
                                    sizeof *context->rules)) {
    return ommai_schema_fail_scratch(context);
  }
  memcpy(parts, set->parts, set->n * sizeof *parts);
  *rule = ommai_builder_rule(context->builder);
  context->rules[context->n_rules++] = (struct schema_rule){parts, set->n, set->impossible, *rule, *bucket - 1};
  *bucket = (int32_t)context->n_rules;
  return OMMA_OK;
}

/* ---- alternatives ---- */

/* The set with alternative `index` of part `at` instead of all of them. */
static enum omma_status choose(struct schema_context *context, const struct schema_set *set, size_t at, const char *key,
                               size_t index, struct schema_set *chosen) {
  const struct schema_part *part = &set->parts[at];
  const struct schema_path *above = ommai_schema_path(context, part->path, key, 0);
  *chosen = *set;
  chosen->parts[at].done |= !strcmp(key, "anyOf") ? SCHEMA_DONE_ANY_OF : SCHEMA_DONE_ONE_OF;
  if (!above) return ommai_schema_fail_scratch(context);
  return ommai_schema_add(context, chosen, json_array_get(json_object_get(part->schema, key), index),
                          ommai_schema_path(context, above, NULL, index));
}

/* Demands that member `name` of `made` is there, or not, where that leaves something and excludes
 * `valid`. */
static enum omma_status try_demand(struct schema_context *context, struct schema_set *made, const struct schema_set *valid,
                                   const char *name, bool there, const struct schema_path *path, bool *exclude) {
  struct schema_set value = {.n = 0}, tried = *made;
  bool required, allowed;
  OMMAI_TRY(ommai_schema_member(context, made, name, &value, &required, &allowed));
  if (there ? value.impossible || !allowed : required) return OMMA_OK;
  OMMAI_TRY(ommai_schema_demand(context, &tried, name, there, path));
  OMMAI_TRY(ommai_schema_exclude(context, &tried, valid, 0, exclude));
  if (*exclude) *made = tried;
  return OMMA_OK;
}

/* Demands something so that `made` excludes `valid`: a member that only the latter requires is left
 * out, or one that both describe differently must be there. */
static enum omma_status force_apart(struct schema_context *context, struct schema_set *made, const struct schema_set *valid,
                                    const struct schema_path *path, bool *exclude) {
  for (size_t i = 0; i < valid->n && !*exclude; i++) {
    const json_t *required = json_object_get(valid->parts[i].schema, "required");
    for (size_t j = 0; j < json_array_size(required) && !*exclude; j++) {
      const char *name = json_string_value(json_array_get(required, j));
      OMMAI_TRY(try_demand(context, made, valid, name, false, path, exclude));
    }
  }
  const struct schema_set described = *made;
  for (size_t i = 0; i < described.n; i++) {
    const char *name;
    json_t *schema;
    json_object_foreach(json_object_get(described.parts[i].schema, "properties"), name, schema) {
      if (*exclude) return OMMA_OK;
      OMMAI_TRY(try_demand(context, made, valid, name, true, path, exclude));
    }
  }
  return OMMA_OK;
}

/* Makes sure that what is made for alternative `index` of a list is not valid for another one. */
static enum omma_status exclude_other(struct schema_context *context, const struct schema_part *part, size_t index,
                                      size_t other, struct schema_set *made) {
  const json_t *list = json_object_get(part->schema, "oneOf");
  struct schema_set valid = {.n = 0};
  bool exclude = false;
  OMMAI_TRY(ommai_schema_add(context, &valid, json_array_get(list, other), part->path));
  OMMAI_TRY(ommai_schema_exclude(context, made, &valid, 0, &exclude));
  if (!exclude) OMMAI_TRY(force_apart(context, made, &valid, part->path, &exclude));
  if (exclude) return OMMA_OK;
  return ommai_schema_fail(
      context, OMMA_ERROR_UNSUPPORTED, part->path, "oneOf",
      "alternatives %zu and %zu may hold of the same value: write anyOf, or distinguish them by a required "
      "property with const, or by type",
      other < index ? other : index, other < index ? index : other);
}

/* Of oneOf only one may hold. */
static enum omma_status choose_one(struct schema_context *context, const struct schema_set *set, size_t at, size_t index,
                                   const struct schema_tags *tags, struct schema_set *made) {
  const struct schema_part *part = &set->parts[at];
  OMMAI_TRY(choose(context, set, at, "oneOf", index, made));
  bool tagged = tags->tagged && tags->tagged[index] && ommai_schema_set_types(made) == SCHEMA_OBJECT;
  const size_t n = json_array_size(json_object_get(part->schema, "oneOf"));
  for (size_t i = 0; i < n; i++) {
    if (i != index && !(tagged && tags->tagged[i])) OMMAI_TRY(exclude_other(context, part, index, i, made));
  }
  return OMMA_OK;
}

static enum omma_status build_alternatives(struct schema_context *context, const struct schema_set *set, size_t at,
                                           const char *key, struct ommai_grammar_rule ends) {
  size_t n = json_array_size(json_object_get(set->parts[at].schema, key));
  bool one = !strcmp(key, "oneOf");
  struct schema_tags tags;
  if (one) OMMAI_TRY(ommai_schema_tag(context, json_object_get(set->parts[at].schema, key), set->parts[at].path, &tags));
  for (size_t i = 0; i < n; i++) {
    struct schema_set chosen;
    int32_t rule;
    OMMAI_TRY(one ? choose_one(context, set, at, i, &tags, &chosen) : choose(context, set, at, key, i, &chosen));
    OMMAI_TRY(ommai_schema_rule(context, &chosen, &rule));
    ommai_builder_call(context->builder, ends.start, rule, ends.end);
  }
  return OMMA_OK;
}

/* The first part with alternatives that are not chosen yet, and their key; NULL: there is none. */
static const char *find_alternatives(const struct schema_set *set, size_t *at) {
  for (size_t i = 0; i < set->n; i++) {
    *at = i;
    if (!(set->parts[i].done & SCHEMA_DONE_ANY_OF) && json_object_get(set->parts[i].schema, "anyOf")) return "anyOf";
    if (!(set->parts[i].done & SCHEMA_DONE_ONE_OF) && json_object_get(set->parts[i].schema, "oneOf")) return "oneOf";
  }
  return NULL;
}

/* ---- the graph of a rule ---- */

static void build_word(struct schema_context *context, struct ommai_grammar_rule ends, const char *word) {
  ommai_builder_empty(context->builder, ommai_builder_text(context->builder, ends.start, word), ends.end);
}

static enum omma_status build_values(struct schema_context *context, const json_t **values, size_t n,
                                     struct ommai_grammar_rule ends) {
  struct ommai_literal *texts = ommai_scratch_take(context->scratch, n, sizeof *texts);
  if (!texts) return ommai_schema_fail_scratch(context);
  for (size_t i = 0; i < n; i++) OMMAI_TRY(ommai_json_write(context->scratch, values[i], &texts[i], context->error));
  ommai_builder_choice(context->builder, ends.start, texts, n, ends.end);
  return OMMA_OK;
}

/* A word's value, unless `not` forbids it. */
static enum omma_status build_value(struct schema_context *context, const struct schema_set *set, json_t *value,
                                    const char *word, struct ommai_grammar_rule ends) {
  bool good;
  OMMAI_TRY(ommai_schema_fits(context, set, value, &good));
  if (good) build_word(context, ends, word);
  return OMMA_OK;
}

static enum omma_status build_types(struct schema_context *context, const struct schema_set *set,
                                    struct ommai_grammar_rule ends) {
  unsigned types = ommai_schema_set_types(set);
  OMMAI_TRY(ommai_schema_check_not_values(context, set, types));
  if (types & SCHEMA_NULL) OMMAI_TRY(build_value(context, set, json_null(), "null", ends));
  if (types & SCHEMA_BOOLEAN) OMMAI_TRY(build_value(context, set, json_true(), "true", ends));
  if (types & SCHEMA_BOOLEAN) OMMAI_TRY(build_value(context, set, json_false(), "false", ends));
  if (types & SCHEMA_STRING) OMMAI_TRY(ommai_schema_string(context, set, ends.start, ends.end));
  if (types & SCHEMA_NUMBER) OMMAI_TRY(ommai_schema_number(context, set, types, ends.start, ends.end));
  if (types & SCHEMA_ARRAY) OMMAI_TRY(ommai_schema_array(context, set, ends.start, ends.end));
  if (types & SCHEMA_OBJECT) OMMAI_TRY(ommai_schema_object(context, set, ends.start, ends.end));
  return OMMA_OK;
}

static enum omma_status build_rule(struct schema_context *context, const struct schema_rule *source) {
  struct schema_set set = {.n = source->n};
  struct ommai_grammar_rule ends = ommai_builder_ends(context->builder, source->rule);
  const json_t **values;
  size_t at = 0, n;
  bool found;
  if (source->impossible) return OMMA_OK;
  memcpy(set.parts, source->parts, source->n * sizeof *set.parts);
  const char *key = find_alternatives(&set, &at);
  if (key) return build_alternatives(context, &set, at, key, ends);
  OMMAI_TRY(ommai_schema_values(context, &set, &found, &values, &n));
  return found ? build_values(context, values, n, ends) : build_types(context, &set, ends);
}

static enum omma_status build_rules(struct schema_context *context, int32_t *root) {
  struct ommai_grammar_builder *builder = context->builder;
  struct schema_set set = {.n = 0};
  OMMAI_TRY(ommai_schema_add(context, &set, context->document, ommai_schema_path(context, NULL, NULL, 0)));
  OMMAI_TRY(ommai_schema_rule(context, &set, root));
  for (size_t i = 0; i < context->n_rules && !ommai_builder_failed(builder); i++) {
    struct schema_rule rule = context->rules[i];
    context->at = rule.n ? rule.parts[0].path : NULL;
    OMMAI_TRY(build_rule(context, &rule));
  }
  if (!builder->too_large) return OMMA_OK;
  return ommai_schema_fail(context, OMMA_ERROR_LIMIT, context->at, NULL,
                           "the grammar is too large: at most %d nodes, %d edges and %d rules are allowed",
                           OMMAI_GRAMMAR_MAX_NODES, OMMAI_GRAMMAR_MAX_EDGES, OMMAI_GRAMMAR_MAX_RULES);
}

enum omma_status ommai_schema_compile(const json_t *schema, const struct ommai_schema_options *options,
                                      struct ommai_grammar_builder *builder, struct ommai_scratch *scratch, int32_t *root,
                                      struct omma_error *error) {
  struct schema_context context = {.document = schema,
                                   .options = *options,
                                   .builder = builder,
                                   .scratch = scratch,
                                   .json = {.builder = builder, .compact = options->compact},
                                   .error = error};
  context.buckets = ommai_scratch_take(scratch, N_BUCKETS, sizeof *context.buckets);
  if (!context.buckets) return ommai_scratch_fail(scratch, error);
  if (!json_is_object(schema) && !json_is_boolean(schema)) {
    return ommai_fail(error, OMMA_ERROR_FORMAT, "#: expected a schema, which is an object or true or false");
  }
  enum omma_status status = build_rules(&context, root);
  json_decref(context.made);
  return status;
}
