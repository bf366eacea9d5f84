/* The keys of JSON Schema: which are known, which kinds of values they have, and of which types
 * they speak. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "grammar/schema_parts.h"

enum kind {
  ANNOTATION,
  COUNT,
  NUMBER,
  TEXT,
  PATTERN,
  SCHEMA,
  SCHEMAS,
  LIST,
  NAMES,
  OBJECT,
  ANY,
  TYPE,
  BOUND,
  ITEMS,
  DEPENDENCIES,
  FALSE_ONLY
};

static const struct known_key {
  const char *name;
  enum kind kind;
  unsigned types; /* that it speaks of; 0: all */
} KEYS[] = {
    {"title", ANNOTATION, 0},
    {"description", ANNOTATION, 0},
    {"default", ANNOTATION, 0},
    {"examples", ANNOTATION, 0},
    {"example", ANNOTATION, 0},
    {"deprecated", ANNOTATION, 0},
    {"readOnly", ANNOTATION, 0},
    {"writeOnly", ANNOTATION, 0},
    {"$schema", ANNOTATION, 0},
    {"$comment", ANNOTATION, 0},
    {"$id", ANNOTATION, 0},
    {"id", ANNOTATION, 0},
    {"$defs", ANNOTATION, 0},
    {"definitions", ANNOTATION, 0},
    {"discriminator", ANNOTATION, 0},
    {"contentEncoding", ANNOTATION, 0},
    {"contentMediaType", ANNOTATION, 0},
    {"$ref", TEXT, 0},
    {"type", TYPE, 0},
    {"nullable", ANNOTATION, 0},
    {"const", ANY, 0},
    {"enum", LIST, 0},
    {"anyOf", SCHEMAS, 0},
    {"oneOf", SCHEMAS, 0},
    {"allOf", SCHEMAS, 0},
    {"not", SCHEMA, 0},
    {"if", SCHEMA, 0},
    {"then", SCHEMA, 0},
    {"else", SCHEMA, 0},
    {"properties", OBJECT, SCHEMA_OBJECT},
    {"patternProperties", OBJECT, SCHEMA_OBJECT},
    {"additionalProperties", SCHEMA, SCHEMA_OBJECT},
    {"propertyNames", SCHEMA, SCHEMA_OBJECT},
    {"required", NAMES, SCHEMA_OBJECT},
    {"dependencies", DEPENDENCIES, SCHEMA_OBJECT},
    {"dependentRequired", DEPENDENCIES, SCHEMA_OBJECT},
    {"dependentSchemas", DEPENDENCIES, SCHEMA_OBJECT},
    {"minProperties", COUNT, SCHEMA_OBJECT},
    {"maxProperties", COUNT, SCHEMA_OBJECT},
    {"items", ITEMS, SCHEMA_ARRAY},
    {"prefixItems", SCHEMAS, SCHEMA_ARRAY},
    {"additionalItems", SCHEMA, SCHEMA_ARRAY},
    {"minItems", COUNT, SCHEMA_ARRAY},
    {"maxItems", COUNT, SCHEMA_ARRAY},
    {"uniqueItems", FALSE_ONLY, SCHEMA_ARRAY},
    {"minLength", COUNT, SCHEMA_STRING},
    {"maxLength", COUNT, SCHEMA_STRING},
    {"pattern", PATTERN, SCHEMA_STRING},
    {"format", TEXT, SCHEMA_STRING},
    {"minimum", NUMBER, SCHEMA_NUMBER},
    {"maximum", NUMBER, SCHEMA_NUMBER},
    {"exclusiveMinimum", BOUND, SCHEMA_NUMBER},
    {"exclusiveMaximum", BOUND, SCHEMA_NUMBER},
    {"multipleOf", NUMBER, SCHEMA_NUMBER},
};

/* Keys of some version of JSON Schema whose meaning no grammar here can express. Others are
 * annotations, as JSON Schema has it. */
static const char *const UNSUPPORTED[] = {"contains",         "minContains", "maxContains",   "unevaluatedProperties",
                                          "unevaluatedItems", "$dynamicRef", "$recursiveRef", "extends",
                                          "disallow",         "divisibleBy"};

static const struct {
  const char *name;
  unsigned types;
} TYPES[] = {{"null", SCHEMA_NULL},     {"boolean", SCHEMA_BOOLEAN}, {"string", SCHEMA_STRING}, {"integer", SCHEMA_INTEGER},
             {"number", SCHEMA_NUMBER}, {"array", SCHEMA_ARRAY},     {"object", SCHEMA_OBJECT}};

static const struct known_key *find_key(const char *name) {
  for (size_t i = 0; i < sizeof KEYS / sizeof KEYS[0]; i++) {
    if (!strcmp(KEYS[i].name, name)) return &KEYS[i];
  }
  return NULL;
}

static bool has_nul(const json_t *text) { return strlen(json_string_value(text)) != json_string_length(text); }

static unsigned type_named(const json_t *name) {
  for (size_t i = 0; json_is_string(name) && !has_nul(name) && i < sizeof TYPES / sizeof TYPES[0]; i++) {
    if (!strcmp(TYPES[i].name, json_string_value(name))) return TYPES[i].types;
  }
  return 0;
}

static bool is_schema(const json_t *value) { return json_is_object(value) || json_is_boolean(value); }

/* An array or object whose members all pass, and the array is not empty. */
static bool all_members(const json_t *value, bool (*passes)(const json_t *)) {
  const char *key;
  json_t *member;
  size_t index;
  json_array_foreach(value, index, member) {
    if (!passes(member)) return false;
  }
  json_object_foreach((json_t *)value, key, member) {
    if (!passes(member)) return false;
  }
  return json_is_object(value) || json_array_size(value) > 0;
}

static bool is_type(const json_t *value) { return type_named(value) != 0; }
static bool is_text(const json_t *value) { return json_is_string(value) && !has_nul(value); }

/* An integer from 0; 2.0 counts as one. */
static bool is_count(const json_t *value) {
  double number = json_number_value(value);
  return json_is_number(value) && number >= 0 && number == floor(number);
}

/* Members that are required besides another, or a schema. */
static bool is_dependency(const json_t *value) {
  return is_schema(value) || (json_is_array(value) && (!json_array_size(value) || all_members(value, is_text)));
}

/* Bounds beyond 64 bits are compared as doubles. */
static json_t *settle_large(const json_t *schema, const char *name, json_t *value) {
  const char *text = ommai_json_large(value);
  double number = text ? fmax(-DBL_MAX, fmin(DBL_MAX, strtod(text, NULL))) : 0;
  return text && !json_object_set_new((json_t *)schema, name, json_real(number)) ? json_object_get(schema, name) : value;
}

/* What the value of a key of this kind must be, or NULL when it is. */
static const char *complaint(enum kind kind, const json_t *value) {
  switch (kind) {
    case ANNOTATION:
    case ANY: return NULL;
    case COUNT: return is_count(value) ? NULL : "an integer from 0";
    case NUMBER: return json_is_number(value) ? NULL : "a number";
    case BOUND: return json_is_number(value) || json_is_boolean(value) ? NULL : "a number";
    case TEXT: return is_text(value) ? NULL : "a string without U+0000";
    case PATTERN: return json_is_string(value) ? NULL : "a string";
    case FALSE_ONLY: return json_is_boolean(value) ? NULL : "true or false";
    case SCHEMA: return is_schema(value) ? NULL : "a schema";
    case ITEMS:
      return is_schema(value) || (json_is_array(value) && (all_members(value, is_schema) || !json_array_size(value)))
                 ? NULL
                 : "a schema or an array of schemas";
    case SCHEMAS: return json_is_array(value) && all_members(value, is_schema) ? NULL : "an array of schemas that is not empty";
    case LIST: return json_array_size(value) ? NULL : "an array that is not empty";
    case NAMES:
      return json_is_array(value) && (all_members(value, is_text) || !json_array_size(value))
                 ? NULL
                 : "an array of strings without U+0000";
    case OBJECT: return json_is_object(value) && all_members(value, is_schema) ? NULL : "an object of schemas";
    case DEPENDENCIES:
      return json_is_object(value) && all_members(value, is_dependency) ? NULL : "an object of names or schemas";
    case TYPE:
      return is_type(value) || (json_is_array(value) && all_members(value, is_type))
                 ? NULL
                 : "a type's name (string, number, integer, boolean, object, array, null) or several";
  }
  return NULL;
}

/* Of arrays of one item at most every one has only different items. */
static bool needs_unique(const struct schema_part *part) {
  return json_is_true(json_object_get(part->schema, "uniqueItems")) && ommai_schema_count(part, "maxItems", INT32_MAX) > 1;
}

/* ---- keys that are not known ---- */

/* The next character of a name, without case, hyphens and underscores. */
static char next_letter(const char **name) {
  while (**name == '-' || **name == '_') (*name)++;
  char c = **name;
  if (c) (*name)++;
  return (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
}

static bool equal_letters(const char *a, const char *b) {
  char left, right;
  do {
    left = next_letter(&a);
    right = next_letter(&b);
  } while (left == right && left);
  return left == right;
}

bool ommai_schema_is_slip(const char *name, const char *known) {
  /* these are set apart on purpose */
  if (strlen(known) < 4 || name[0] == '_' || name[0] == '@') return false;
  const char *a = name, *b = known;
  while (*a && *a == *b) a++, b++;
  if (equal_letters(name, known)) return true;
  if (!*a || !*b) return strlen(a) + strlen(b) == 1;
  bool swapped = a[0] == b[1] && b[0] == a[1] && !strcmp(a + 2, b + 2);
  return swapped || !strcmp(a + 1, b) || !strcmp(a, b + 1) || !strcmp(a + 1, b + 1);
}

/* Whether something in it refers to a schema by what its "$id" would be the base of. */
static bool has_reference(const json_t *value) {
  const char *key;
  json_t *member;
  size_t index;
  if (json_is_string(json_object_get(value, "$ref"))) return true;
  json_array_foreach(value, index, member) {
    if (has_reference(member)) return true;
  }
  json_object_foreach((json_t *)value, key, member) {
    if (has_reference(member)) return true;
  }
  return false;
}

static enum omma_status check_unknown(struct schema_context *context, const struct schema_part *part, const char *name) {
  for (size_t i = 0; i < sizeof UNSUPPORTED / sizeof UNSUPPORTED[0]; i++) {
    if (strcmp(UNSUPPORTED[i], name)) continue;
    return ommai_schema_fail(context, OMMA_ERROR_UNSUPPORTED, part->path, name, "this key is not supported");
  }
  for (size_t i = 0; i < sizeof KEYS / sizeof KEYS[0]; i++) {
    if (KEYS[i].kind == ANNOTATION || !strncmp(name, "x-", 2) || !ommai_schema_is_slip(name, KEYS[i].name)) continue;
    return ommai_schema_fail(context, OMMA_ERROR_UNSUPPORTED, part->path, name, "this key is not known: is \"%s\" meant?",
                             KEYS[i].name);
  }
  return OMMA_OK;
}

/* "$id" (and "id" of draft 4) inside the document makes another one, which references in it would
 * be about. */
static enum omma_status check_id(struct schema_context *context, const struct schema_part *part, const char *name) {
  const json_t *id = json_object_get(part->schema, name);
  if (part->schema == context->document || !json_is_string(id) || json_string_value(id)[0] == '#') return OMMA_OK;
  if (!ommai_scratch_work(context->scratch, 1)) return ommai_schema_fail_scratch(context);
  if (!has_reference(part->schema)) return OMMA_OK;
  return ommai_schema_fail(context, OMMA_ERROR_UNSUPPORTED, part->path, name,
                           "references in a schema with an identifier of its own are not supported");
}

enum omma_status ommai_schema_check_keys(struct schema_context *context, const struct schema_part *part) {
  const char *name;
  json_t *value;
  struct ommai_named *checked = ommai_name_set_add(&context->checked, context->scratch, part->schema, "", 0);
  if (!checked) return ommai_schema_fail_scratch(context);
  if (checked->value++) return OMMA_OK;
  if (!ommai_scratch_work(context->scratch, OMMAI_SCHEMA_KEY_WORK * (int64_t)json_object_size(part->schema)))
    return ommai_schema_fail_scratch(context);
  OMMAI_TRY(check_id(context, part, "$id"));
  OMMAI_TRY(check_id(context, part, "id"));
  json_object_foreach((json_t *)part->schema, name, value) {
    const struct known_key *key = find_key(name);
    if (!key) {
      OMMAI_TRY(check_unknown(context, part, name));
      continue;
    }
    /* of a list, each member is looked at */
    int64_t n_members = (int64_t)(json_array_size(value) + json_object_size(value));
    bool listed = key->kind != ANNOTATION && key->kind != ANY && key->kind != LIST;
    if (listed && !ommai_scratch_work(context->scratch, n_members)) return ommai_schema_fail_scratch(context);
    if (key->kind == NUMBER || key->kind == BOUND || key->kind == COUNT) value = settle_large(part->schema, name, value);
    const char *expected = complaint(key->kind, value);
    if (expected && json_is_string(value)) {
      return ommai_schema_fail(context, OMMA_ERROR_FORMAT, part->path, name, "expected %s, found \"%.40s\"", expected,
                               json_string_value(value));
    }
    if (expected) {
      return ommai_schema_fail(context, OMMA_ERROR_FORMAT, part->path, name, "expected %s, found %s", expected,
                               ommai_json_kind(value));
    }
  }
  if (!needs_unique(part)) return OMMA_OK;
  return ommai_schema_fail(context, OMMA_ERROR_UNSUPPORTED, part->path, "uniqueItems", "true is not supported");
}

unsigned ommai_schema_types(const struct schema_part *part) {
  const json_t *type = json_object_get(part->schema, "type");
  unsigned types = type_named(type);
  if (!type) return SCHEMA_ALL_TYPES;
  for (size_t i = 0; i < json_array_size(type); i++) types |= type_named(json_array_get(type, i));
  return types;
}

bool ommai_schema_is_constraint(const char *key) {
  const struct known_key *known = find_key(key);
  return known && known->kind != ANNOTATION;
}

unsigned ommai_schema_implied_types(const struct schema_part *part) {
  const char *name;
  json_t *value;
  unsigned types = 0;
  json_object_foreach((json_t *)part->schema, name, value) {
    const struct known_key *key = find_key(name);
    if (key) types |= key->types;
  }
  return types;
}

int64_t ommai_schema_count(const struct schema_part *part, const char *key, int64_t otherwise) {
  const json_t *value = json_object_get(part->schema, key);
  if (!value) return otherwise;
  return json_number_value(value) < INT32_MAX ? (int64_t)json_number_value(value) : INT32_MAX;
}
