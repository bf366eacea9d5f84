/* What must not hold, and what holds only under a condition: `not`, `dependencies` (and what
 * 2019-09 made of it), `if`. Each becomes equivalent schemas with anyOf, allOf, required and the
 * simple forms of `not` that the other files know:
 *
 *   not {required: [name]}    the member is not made         not {enum}, {const}   these values are
 *                  not made
 *   not {type}                nor these types
 *
 * These schemas live as long as the compilation. */
#include <string.h>

#include "base/error.h"
#include "grammar/schema_parts.h"

/* Entries of one `dependencies`: each doubles the ways. */
enum { MAX_DEPENDENCIES = 6 };

/* Keeps a schema made here, of which it takes over the reference; NULL: no memory. */
static const json_t *keep(struct schema_context *context, json_t *schema) {
  if (!context->made) context->made = json_array();
  return schema && json_array_append_new(context->made, schema) == 0 ? schema : NULL;
}

static enum omma_status fail_memory(struct schema_context *context) {
  return ommai_fail_memory(context->error, "schema", sizeof(json_t));
}

/* The one key of a schema besides annotations, or NULL; "" where it has none. */
static const char *only_key(const json_t *schema) {
  const char *name, *found = "";
  json_t *value;
  json_object_foreach((json_t *)schema, name, value) {
    if (!ommai_schema_is_constraint(name)) continue;
    if (found[0]) return NULL;
    found = name;
  }
  return found;
}

/* Whether all of its keys but annotations are in the list. */
static bool has_only(const json_t *schema, const char *const *keys) {
  const char *name;
  json_t *value;
  json_object_foreach((json_t *)schema, name, value) {
    const char *const *key = keys;
    while (*key && strcmp(*key, name)) key++;
    if (!*key && ommai_schema_is_constraint(name)) return false;
  }
  return true;
}

enum ommai_schema_negation ommai_schema_negation(const struct schema_part *part, const json_t **negated) {
  static const char *const member[] = {"type", "required", NULL}, *const listed[] = {"type", "const", "enum", NULL};
  *negated = json_object_get(part->schema, "not");
  if (!json_is_object(*negated)) return SCHEMA_NOT_OTHER;
  size_t n_required = json_array_size(json_object_get(*negated, "required"));
  if (n_required == 1 && has_only(*negated, member)) return SCHEMA_NOT_MEMBER;
  if ((json_object_get(*negated, "const") || json_object_get(*negated, "enum")) && has_only(*negated, listed)) {
    return SCHEMA_NOT_VALUES;
  }
  const char *key = only_key(*negated);
  return key && !strcmp(key, "type") ? SCHEMA_NOT_TYPES : SCHEMA_NOT_OTHER;
}

bool ommai_schema_forbids(const struct schema_part *part, const char *name) {
  const json_t *negated;
  if (ommai_schema_negation(part, &negated) != SCHEMA_NOT_MEMBER) return false;
  return !strcmp(json_string_value(json_array_get(json_object_get(negated, "required"), 0)), name);
}

unsigned ommai_schema_types_left(const struct schema_part *part) {
  const json_t *negated;
  enum ommai_schema_negation negation = ommai_schema_negation(part, &negated);
  const struct schema_part inner = {.schema = negated};
  if (negation == SCHEMA_NOT_MEMBER) {
    return SCHEMA_OBJECT | (json_object_get(negated, "type") ? SCHEMA_ALL_TYPES & ~ommai_schema_types(&inner) : 0);
  }
  if (negation != SCHEMA_NOT_TYPES) return SCHEMA_ALL_TYPES;
  unsigned types = ommai_schema_types(&inner);
  /* fractions may be whole */
  return SCHEMA_ALL_TYPES & ~(types & SCHEMA_INTEGER ? types | SCHEMA_FRACTION : types);
}

/* ---- what a part becomes ---- */

static enum omma_status add_made(struct schema_context *context, struct schema_set *set, json_t *schema,
                                 const struct schema_path *path) {
  const json_t *kept = keep(context, schema);
  return kept ? ommai_schema_add_plain(context, set, kept, path) : fail_memory(context);
}

/* Not all of a list of schemas: for each of them, that it does not hold. */
static json_t *any_not(const json_t *list) {
  json_t *any = json_array(), *schema;
  size_t index;
  json_array_foreach(list, index, schema) json_array_append_new(any, json_pack("{s:O}", "not", schema));
  return json_pack("{s:o}", "anyOf", any);
}

/* Not all of several names required. */
static json_t *any_absent(const json_t *names) {
  json_t *any = json_array(), *name;
  size_t index;
  json_array_foreach(names, index, name) json_array_append_new(any, json_pack("{s:{s:[O]}}", "not", "required", name));
  return json_pack("{s:o}", "anyOf", any);
}

/* Not {properties, required}: one of the members is there and not as it should be, or one that is
 * required is not there. */
static json_t *any_other_member(const json_t *negated) {
  const char *name;
  json_t *value, *any = json_array();
  size_t index;
  json_object_foreach(json_object_get(negated, "properties"), name, value) {
    json_array_append_new(any, json_pack("{s:[s], s:{s:{s:O}}}", "required", name, "properties", name, "not", value));
  }
  json_array_foreach(json_object_get(negated, "required"), index, value) {
    json_array_append_new(any, json_pack("{s:{s:[O]}}", "not", "required", value));
  }
  return json_pack("{s:o}", "anyOf", any);
}

static enum omma_status refuse_not(struct schema_context *context, const struct schema_part *part) {
  return ommai_schema_fail(context, OMMA_ERROR_UNSUPPORTED, part->path, "not",
                           "only what is not required, of a type, const, enum, or any or all of such schemas is supported");
}

static enum omma_status add_not_reference(struct schema_context *context, struct schema_set *set,
                                          const struct schema_part *part, const json_t *negated) {
  const struct schema_path *path;
  const json_t *schema;
  OMMAI_TRY(ommai_schema_resolve(context, part, json_string_value(json_object_get(negated, "$ref")), &schema, &path));
  return add_made(context, set, json_pack("{s:O}", "not", schema), part->path);
}

static enum omma_status add_not_object(struct schema_context *context, struct schema_set *set, const struct schema_part *part,
                                       const json_t *negated) {
  static const char *const members[] = {"type", "properties", "required", NULL};
  const char *key = only_key(negated);
  const json_t *inner = key ? json_object_get(negated, key) : NULL;
  json_t *schema;
  size_t index;
  if (key && !key[0]) return set->impossible = true, OMMA_OK;
  if (key && !strcmp(key, "not")) return ommai_schema_add_plain(context, set, inner, part->path);
  if (key && !strcmp(key, "$ref") && json_is_string(inner)) return add_not_reference(context, set, part, negated);
  if (key && !strcmp(key, "allOf") && json_array_size(inner)) return add_made(context, set, any_not(inner), part->path);
  if (key && !strcmp(key, "required") && json_array_size(inner)) return add_made(context, set, any_absent(inner), part->path);
  if (json_object_size(json_object_get(negated, "properties")) && has_only(negated, members)) {
    return add_made(context, set, any_other_member(negated), part->path);
  }
  if (!key || strcmp(key, "anyOf") != 0 || !json_array_size(inner)) return refuse_not(context, part);
  json_array_foreach(inner, index, schema) { OMMAI_TRY(add_made(context, set, json_pack("{s:O}", "not", schema), part->path)); }
  return OMMA_OK;
}

static enum omma_status add_not(struct schema_context *context, struct schema_set *set, const struct schema_part *part) {
  const json_t *negated;
  enum ommai_schema_negation negation = ommai_schema_negation(part, &negated);
  if (!negated || json_is_false(negated)) return OMMA_OK;
  if (json_is_true(negated)) return set->impossible = true, OMMA_OK;
  const struct schema_part inner = {negated, ommai_schema_path(context, part->path, "not", 0), 0};
  if (!inner.path) return ommai_schema_fail_scratch(context);
  OMMAI_TRY(ommai_schema_check_keys(context, &inner));
  return negation == SCHEMA_NOT_OTHER ? add_not_object(context, set, part, negated) : OMMA_OK;
}

/* The member is not there, or what depends on it holds. */
static json_t *dependency(const char *name, const json_t *value) {
  json_t *with = json_array(), *other;
  size_t index;
  json_array_append_new(with, json_string(name));
  json_array_foreach(value, index, other) json_array_append(with, other);
  json_t *holds = json_is_array(value) ? json_pack("{s:o}", "required", with)
                                       : json_pack("{s:[{s:o}, O]}", "allOf", "required", with, value);
  return json_pack("{s:[{s:{s:[s]}}, o]}", "anyOf", "not", "required", name, holds);
}

static enum omma_status add_dependencies(struct schema_context *context, struct schema_set *set, const struct schema_part *part,
                                         const char *key) {
  const json_t *entries = json_object_get(part->schema, key);
  const char *name;
  json_t *value;
  if (json_object_size(entries) > MAX_DEPENDENCIES) {
    return ommai_schema_fail(context, OMMA_ERROR_UNSUPPORTED, part->path, key, "at most %d members are supported",
                             MAX_DEPENDENCIES);
  }
  json_object_foreach((json_t *)entries, name, value) {
    const struct schema_path *path = ommai_schema_path(context, part->path, key, 0);
    if (!path) return ommai_schema_fail_scratch(context);
    OMMAI_TRY(add_made(context, set, dependency(name, value), path));
  }
  return OMMA_OK;
}

/* The condition and `then`, or not the condition and `else`. */
static enum omma_status add_condition(struct schema_context *context, struct schema_set *set, const struct schema_part *part) {
  json_t *condition = json_object_get(part->schema, "if"), *always = json_true();
  json_t *then = json_object_get(part->schema, "then"), *otherwise = json_object_get(part->schema, "else");
  if (!condition || (!then && !otherwise)) return OMMA_OK;
  const struct schema_path *path = ommai_schema_path(context, part->path, "if", 0);
  if (!path) return ommai_schema_fail_scratch(context);
  return add_made(context, set,
                  json_pack("{s:[{s:[O, O]}, {s:[{s:O}, O]}]}", "anyOf", "allOf", condition, then ? then : always, "allOf",
                            "not", condition, otherwise ? otherwise : always),
                  path);
}

enum omma_status ommai_schema_add_conditions(struct schema_context *context, struct schema_set *set,
                                             const struct schema_part *part) {
  static const char *const dependencies[] = {"dependencies", "dependentRequired", "dependentSchemas"};
  OMMAI_TRY(add_not(context, set, part));
  for (size_t i = 0; i < sizeof dependencies / sizeof dependencies[0]; i++) {
    OMMAI_TRY(add_dependencies(context, set, part, dependencies[i]));
  }
  return add_condition(context, set, part);
}

enum omma_status ommai_schema_demand(struct schema_context *context, struct schema_set *set, const char *name, bool there,
                                     const struct schema_path *path) {
  json_t *required = json_pack("{s:[s]}", "required", name);
  return add_made(context, set, there ? required : json_pack("{s:o}", "not", required), path);
}
