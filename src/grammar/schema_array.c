/* Arrays: items of their own for the first places, one schema for the rest, and how many there may
 * be. */
#include "base/error.h"
#include "grammar/schema_parts.h"

struct array {
  int64_t min, max;
  size_t n_prefix; /* places that some part has a schema of its own for */
  bool has_rest;   /* more may follow than these */
};

/* Drafts up to 2019-09 have an array of items, and additionalItems for the rest. */
static const json_t *prefix_of(const struct schema_part *part, const char **key) {
  const json_t *items = json_object_get(part->schema, "items");
  *key = json_is_array(items) ? "items" : "prefixItems";
  return json_is_array(items) ? items : json_object_get(part->schema, "prefixItems");
}

static const json_t *rest_of(const struct schema_part *part, const char **key) {
  const json_t *items = json_object_get(part->schema, "items");
  *key = json_is_array(items) ? "additionalItems" : "items";
  return json_is_array(items) ? json_object_get(part->schema, "additionalItems") : items;
}

/* Without a schema for the rest there is none after places with schemas of their own. */
static void gather(const struct schema_set *set, struct array *array) {
  bool has_rest = false;
  *array = (struct array){.max = OMMAI_GRAMMAR_NO_MAX};
  for (size_t i = 0; i < set->n; i++) {
    const char *key;
    size_t n_prefix = json_array_size(prefix_of(&set->parts[i], &key));
    int64_t min = ommai_schema_count(&set->parts[i], "minItems", 0);
    int64_t max = ommai_schema_count(&set->parts[i], "maxItems", OMMAI_GRAMMAR_NO_MAX);
    array->min = min > array->min ? min : array->min;
    array->max = max < array->max ? max : array->max;
    array->n_prefix = n_prefix > array->n_prefix ? n_prefix : array->n_prefix;
    has_rest = has_rest || rest_of(&set->parts[i], &key);
  }
  array->has_rest = has_rest || array->n_prefix == 0 || array->min > (int64_t)array->n_prefix;
}

/* The rule of the item at `index`, or of those after all prefixes. */
static enum omma_status item_rule(struct schema_context *context, const struct schema_set *set, size_t index, int32_t *rule) {
  struct schema_set item = {.n = 0};
  for (size_t i = 0; i < set->n; i++) {
    const struct schema_part *part = &set->parts[i];
    const char *prefix_key, *rest_key;
    const json_t *own = json_array_get(prefix_of(part, &prefix_key), index), *rest = rest_of(part, &rest_key);
    if (!own && !rest) continue;
    const struct schema_path *path = ommai_schema_path(context, part->path, own ? prefix_key : rest_key, 0);
    if (!path) return ommai_schema_fail_scratch(context);
    if (own) path = ommai_schema_path(context, path, NULL, index);
    OMMAI_TRY(ommai_schema_add(context, &item, own ? own : rest, path));
  }
  return ommai_schema_rule(context, &item, rule);
}

/* A comma and an item, min to max times. */
static void add_rest(struct schema_context *context, int32_t from, int32_t item, int64_t min, int64_t max, int32_t to) {
  struct ommai_grammar_builder *builder = context->builder;
  int32_t rule = ommai_builder_rule(builder);
  struct ommai_grammar_rule ends = ommai_builder_ends(builder, rule);
  ommai_builder_call(builder, ommai_json_spaced(&context->json, ends.start, true, ",", true), item, ends.end);
  ommai_builder_repeat(builder, from, rule, (int32_t)min, (int32_t)max, to);
}

/* After n items: the array may be closed. */
static void add_close(struct schema_context *context, const struct array *array, int64_t n, int32_t from, int32_t to) {
  if (n < array->min) return;
  if (n) from = ommai_json_add(&context->json, from, OMMAI_JSON_SPACE);
  ommai_builder_range(context->builder, from, ']', ']', to);
}

enum omma_status ommai_schema_array(struct schema_context *context, const struct schema_set *set, int32_t from, int32_t to) {
  struct ommai_grammar_builder *builder = context->builder;
  struct array array;
  int32_t item, at = ommai_json_spaced(&context->json, from, false, "[", true);
  int64_t n = 0;
  gather(set, &array);
  add_close(context, &array, 0, at, to);
  for (; n < (int64_t)array.n_prefix + (array.n_prefix == 0 && array.has_rest) && n < array.max; n++) {
    OMMAI_TRY(item_rule(context, set, (size_t)n, &item));
    if (n) at = ommai_json_spaced(&context->json, at, true, ",", true);
    int32_t after = ommai_builder_node(builder);
    ommai_builder_call(builder, at, item, after);
    at = after;
    add_close(context, &array, n + 1, at, to);
  }
  if (n == 0 || n >= array.max || !array.has_rest || array.min > array.max) return OMMA_OK;
  int64_t min = array.min > n ? array.min - n : 0, max = array.max == OMMAI_GRAMMAR_NO_MAX ? array.max : array.max - n;
  OMMAI_TRY(item_rule(context, set, (size_t)n, &item));
  int32_t last = ommai_builder_node(builder);
  add_rest(context, at, item, min, max, last);
  ommai_builder_range(builder, ommai_json_add(&context->json, last, OMMAI_JSON_SPACE), ']', ']', to);
  return OMMA_OK;
}
