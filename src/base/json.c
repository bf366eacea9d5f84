#include "base/json.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/allocator.h"
#include "base/error.h"
#include "base/file.h"

const char *ommai_json_kind(const json_t *value) {
  switch (json_typeof(value)) {
    case JSON_OBJECT: return "an object";
    case JSON_ARRAY: return "an array";
    case JSON_STRING: return ommai_json_large(value) ? "a number of more than 64 bits" : "a string";
    case JSON_INTEGER: return "an integer";
    case JSON_REAL: return "a number";
    case JSON_TRUE:
    case JSON_FALSE: return "a boolean";
    case JSON_NULL: return "null";
  }
  return "something else";
}

enum omma_status ommai_json_load(const char *name, const char *data, size_t size, json_t **root, struct omma_error *error) {
  json_error_t reason;
  bool no_memory;
  json_t *document = ommai_json_parse(data, size, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &reason, &no_memory);
  if (no_memory) return ommai_fail(error, OMMA_ERROR_MEMORY, "%s: out of memory: %zu bytes of JSON", name, size);
  if (!document) {
    return ommai_fail(error, OMMA_ERROR_FORMAT, "%s: invalid JSON at line %d, column %d: %s", name, reason.line, reason.column,
                      reason.text);
  }
  if (!json_is_object(document)) {
    const char *found = ommai_json_kind(document);
    json_decref(document);
    return ommai_fail(error, OMMA_ERROR_FORMAT, "%s: expected a JSON object, found %s", name, found);
  }
  *root = document;
  return OMMA_OK;
}

enum omma_status ommai_json_load_file(const char *path, size_t limit, const struct omma_allocator *allocator, json_t **root,
                                      struct omma_error *error) {
  char *data;
  size_t size;
  OMMAI_TRY(ommai_file_read(path, limit, allocator, &data, &size, error));
  enum omma_status status = ommai_json_load(path, data, size, root, error);
  ommai_release(allocator, data, size + 1, 1);
  return status;
}

/* object[key] in *value, or NULL where it is missing or null and that is allowed. */
static enum omma_status find(const json_t *object, const char *where, const char *key, bool required, json_t **value,
                             struct omma_error *error) {
  json_t *found = json_object_get(object, key);
  if (found && json_is_null(found)) found = NULL;
  *value = found;
  if (!found && required) {
    return ommai_fail_field(error, OMMA_ERROR_FORMAT, key, "%s: key \"%s\" is missing", where, key);
  }
  return OMMA_OK;
}

static enum omma_status wrong_type(const char *where, const char *key, const char *expected, const json_t *value,
                                   struct omma_error *error) {
  return ommai_fail_field(error, OMMA_ERROR_FORMAT, key, "%s: key \"%s\": expected %s, found %s", where, key, expected,
                          ommai_json_kind(value));
}

bool ommai_word_is_among(const char *word, const char *const *list) {
  while (*list && strcmp(*list, word) != 0) list++;
  return *list != NULL;
}

const char *ommai_json_other_key(const json_t *object, const char *const *known) {
  const char *key;
  json_t *value;
  json_object_foreach((json_t *)object, key, value) {
    if (!ommai_word_is_among(key, known)) return key;
  }
  return NULL;
}

bool ommai_json_whole(const json_t *value, int64_t *out) {
  if (json_is_integer(value)) {
    *out = json_integer_value(value);
    return true;
  }
  if (!json_is_real(value)) return false;
  double number = json_real_value(value);
  if (!(fabs(number) < 0x1p53) || number != floor(number)) return false;
  *out = (int64_t)number;
  return true;
}

enum omma_status ommai_json_integer(const json_t *object, const char *where, const char *key, bool required, int64_t low,
                                    int64_t high, int64_t *out, struct omma_error *error) {
  json_t *value;
  OMMAI_TRY(find(object, where, key, required, &value, error));
  if (!value) return OMMA_OK;
  int64_t number;
  if (!ommai_json_whole(value, &number)) return wrong_type(where, key, "an integer", value, error);
  if (number < low || number > high) {
    return ommai_fail_field(error, OMMA_ERROR_FORMAT, key,
                            "%s: key \"%s\": expected %" PRId64 " to %" PRId64 ", found %" PRId64, where, key, low, high,
                            number);
  }
  *out = number;
  return OMMA_OK;
}

enum omma_status ommai_json_number(const json_t *object, const char *where, const char *key, bool required, double *out,
                                   struct omma_error *error) {
  json_t *value;
  OMMAI_TRY(find(object, where, key, required, &value, error));
  if (!value) return OMMA_OK;
  if (!json_is_number(value)) return wrong_type(where, key, "a number", value, error);
  *out = json_number_value(value);
  return OMMA_OK;
}

enum omma_status ommai_json_boolean(const json_t *object, const char *where, const char *key, bool required, bool *out,
                                    struct omma_error *error) {
  json_t *value;
  OMMAI_TRY(find(object, where, key, required, &value, error));
  if (!value) return OMMA_OK;
  if (!json_is_boolean(value)) return wrong_type(where, key, "true or false", value, error);
  *out = json_is_true(value);
  return OMMA_OK;
}

enum omma_status ommai_json_string(const json_t *object, const char *where, const char *key, bool required, const char **out,
                                   struct omma_error *error) {
  json_t *value;
  OMMAI_TRY(find(object, where, key, required, &value, error));
  if (!value) return OMMA_OK;
  if (!json_is_string(value)) return wrong_type(where, key, "a string", value, error);
  *out = json_string_value(value);
  return OMMA_OK;
}

enum omma_status ommai_json_object(const json_t *object, const char *where, const char *key, bool required, json_t **out,
                                   struct omma_error *error) {
  OMMAI_TRY(find(object, where, key, required, out, error));
  if (*out && !json_is_object(*out)) return wrong_type(where, key, "an object", *out, error);
  return OMMA_OK;
}

enum omma_status ommai_json_array(const json_t *object, const char *where, const char *key, bool required, json_t **out,
                                  struct omma_error *error) {
  OMMAI_TRY(find(object, where, key, required, out, error));
  if (*out && !json_is_array(*out)) return wrong_type(where, key, "an array", *out, error);
  return OMMA_OK;
}

enum omma_status ommai_json_integers(const json_t *object, const char *where, const char *key, bool required, int64_t low,
                                     int64_t high, int64_t *out, size_t capacity, size_t *count, struct omma_error *error) {
  json_t *array;
  OMMAI_TRY(ommai_json_array(object, where, key, required, &array, error));
  if (!array) return OMMA_OK;
  size_t n = json_array_size(array);
  if (n > capacity) {
    return ommai_fail_field(error, OMMA_ERROR_FORMAT, key, "%s: key \"%s\": expected at most %zu entries, found %zu", where,
                            key, capacity, n);
  }
  for (size_t i = 0; i < n; i++) {
    if (!ommai_json_whole(json_array_get(array, i), &out[i]))
      return wrong_type(where, key, "integers", json_array_get(array, i), error);
    if (out[i] < low || out[i] > high) {
      return ommai_fail_field(error, OMMA_ERROR_FORMAT, key,
                              "%s: key \"%s\": entry %zu: expected %" PRId64 " to %" PRId64 ", found %" PRId64, where, key, i,
                              low, high, out[i]);
    }
  }
  *count = n;
  return OMMA_OK;
}
