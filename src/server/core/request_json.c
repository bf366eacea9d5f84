#include "server/core/request_json.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/json.h"
#include "base/plural.h"
#include "server/core/field_value.h"

/* The index after the string that begins at body[start], or `size` when it does not end. */
static size_t skip_string(const char *body, size_t size, size_t start) {
  size_t i = start + 1;
  while (i < size) {
    const char *quote = memchr(body + i, '"', size - i);
    if (!quote) return size;
    i = (size_t)(quote - body);
    size_t backslashes = 0;
    while (backslashes < i - start - 1 && body[i - 1 - backslashes] == '\\') backslashes++;
    i++;
    if (backslashes % 2 == 0) return i;
  }
  return size;
}

/* The parser's memory grows with the number of values, its stack with their depth: both are counted
 * first. */
static bool within_limits(const char *body, size_t size, struct ommai_api_error *error) {
  int64_t depth = 0, n_values = 0;
  for (size_t i = 0; i < size; i++) {
    switch (body[i]) {
      case '"': i = skip_string(body, size, i) - 1; break;
      case '[':
      case '{':
        depth++;
        n_values++;
        break;
      case ']':
      case '}': depth--; break;
      case ',': n_values++; break;
      default: break;
    }
    if (depth > OMMAI_MAX_JSON_DEPTH) {
      return ommai_api_fail_body(error, "body", "JSON is nested more than %d levels deep.", OMMAI_MAX_JSON_DEPTH);
    }
    if (n_values > OMMAI_MAX_JSON_VALUES) {
      return ommai_api_fail_body(error, "body", "JSON holds more than %" PRId64 " values.", OMMAI_MAX_JSON_VALUES);
    }
  }
  return true;
}

json_t *ommai_request_parse(const char *body, size_t size, struct ommai_api_error *error) {
  json_error_t reason;
  if (size == 0) {
    ommai_api_fail_body(error, "body", "The request body is empty; a JSON object is needed.");
    return NULL;
  }
  if (!within_limits(body, size, error)) return NULL;
  bool no_memory;
  json_t *root = ommai_json_parse_large(body, size, JSON_ALLOW_NUL | JSON_DECODE_ANY, false, &reason, &no_memory);
  if (no_memory) {
    ommai_api_fail_memory(error);
    return NULL;
  }
  if (!root) {
    ommai_api_fail_body(error, "body", "Invalid JSON at line %d, column %d: %s.", reason.line, reason.column, reason.text);
    return NULL;
  }
  if (json_is_object(root)) return root;
  ommai_api_fail_body(error, "body", "The request body must be a JSON object, found %s.", ommai_json_kind(root));
  json_decref(root);
  return NULL;
}

/* Readers have no argument for it, as it has nothing to do with requests. */
static _Thread_local struct {
  void (*note)(void *context, const struct ommai_field_note *note);
  void *context;
} observer;

void ommai_fields_observe(void (*note)(void *context, const struct ommai_field_note *note), void *context) {
  observer.note = note;
  observer.context = context;
}

static json_t *get(struct ommai_field_note note) {
  if (observer.note) observer.note(observer.context, &note);
  json_t *value = json_object_get(note.object, note.key);
  return value && !json_is_null(value) ? value : NULL;
}

json_t *ommai_field_get(const json_t *object, const char *key) {
  return get((struct ommai_field_note){.object = object, .key = key});
}

static bool wrong_type(const char *key, const char *expected, const json_t *value, struct ommai_api_error *error) {
  if (json_is_real(value)) {
    return ommai_api_fail(error, 400, key, "%s must be %s, got %g.", key, expected, json_real_value(value));
  }
  if (ommai_json_is_text(value)) {
    return ommai_api_fail(error, 400, key, "%s must be %s, got the string \"%.80s\".", key, expected, json_string_value(value));
  }
  return ommai_api_fail(error, 400, key, "%s must be %s, got %s.", key, expected, ommai_json_kind(value));
}

bool ommai_field_boolean(const json_t *object, const char *key, bool *out, struct ommai_api_error *error) {
  const json_t *value = get((struct ommai_field_note){object, key, "boolean", 0, 0, false});
  if (!value) return true;
  return ommai_value_boolean(value, out) || wrong_type(key, "true or false", value, error);
}

bool ommai_field_integer(const json_t *object, const char *key, int64_t low, int64_t high, int64_t *out,
                         struct ommai_api_error *error) {
  const json_t *value = get((struct ommai_field_note){object, key, "integer", (double)low, (double)high, false});
  int64_t number;
  if (!value) return true;
  const char *large = ommai_json_large(value);
  if (large && strspn(large, "-0123456789") == strlen(large)) {
    bool below = *large == '-';
    return ommai_api_fail(error, 400, key, "%s must be at %s %" PRId64 ", got %.80s.", key, below ? "least" : "most",
                          below ? low : high, large);
  }
  if (!ommai_value_integer(value, &number)) return wrong_type(key, "an integer", value, error);
  if (number < low)
    return ommai_api_fail(error, 400, key, "%s must be at least %" PRId64 ", got %" PRId64 ".", key, low, number);
  if (number > high)
    return ommai_api_fail(error, 400, key, "%s must be at most %" PRId64 ", got %" PRId64 ".", key, high, number);
  *out = number;
  return true;
}

bool ommai_field_number(const json_t *object, const char *key, double low, double high, bool open, double *out,
                        struct ommai_api_error *error) {
  const json_t *value = get((struct ommai_field_note){object, key, "number", low, high, open});
  if (!value) return true;
  double number;
  if (!ommai_value_number(value, &number)) return wrong_type(key, "a number", value, error);
  if (!(number <= high) || !(open ? number > low : number >= low)) {
    return ommai_api_fail(error, 400, key, "%s must be in %c%g, %g], got %g.", key, open ? '(' : '[', low, high, number);
  }
  *out = number;
  return true;
}

bool ommai_field_string(const json_t *object, const char *key, const char **out, struct ommai_api_error *error) {
  const json_t *value = get((struct ommai_field_note){object, key, "string", 0, 0, false});
  if (!value) return true;
  if (!ommai_json_is_text(value)) return wrong_type(key, "a string", value, error);
  if (strlen(json_string_value(value)) != json_string_length(value)) {
    return ommai_api_fail(error, 400, key, "%s must not hold the character NUL.", key);
  }
  *out = json_string_value(value);
  return true;
}

bool ommai_field_name(const json_t *object, const char *key, const char **out, struct ommai_api_error *error) {
  if (!ommai_field_string(object, key, out, error)) return false;
  return !*out || **out || ommai_api_fail(error, 400, key, "%s must not be empty.", key);
}

bool ommai_field_word(const json_t *object, const char *key, const char *const *words, int *place,
                      struct ommai_api_error *error) {
  const char *word = NULL;
  char list[160] = "";
  if (!ommai_field_string(object, key, &word, error)) return false;
  for (int i = 0; word && words[i]; i++) {
    if (!strcmp(word, words[i])) return *place = i, true;
    ommai_list_entry(list, sizeof list, "\"%s\"", words[i]);
  }
  return !word || ommai_api_fail(error, 400, key, "%s must be one of %s, got \"%.40s\".", key, list, word);
}

bool ommai_field_array(const json_t *object, const char *key, const json_t **out, struct ommai_api_error *error) {
  *out = get((struct ommai_field_note){object, key, "array", 0, 0, false});
  return !*out || json_is_array(*out) ||
         ommai_api_fail(error, 400, key, "%s must be an array, got %s.", key, ommai_json_kind(*out));
}

bool ommai_field_is_neutral(const json_t *value) {
  return !value || json_is_false(value) || (json_is_array(value) && json_array_size(value) == 0);
}

/* "is a", "are a and b", "are a, b and c". */
static void write_list(const char *const *known, char *text, size_t capacity) {
  size_t used = (size_t)snprintf(text, capacity, known[1] ? "are %s" : "is %s", known[0]);
  for (size_t i = 1; known[i] && used < capacity; i++) {
    used += (size_t)snprintf(text + used, capacity - used, known[i + 1] ? ", %s" : " and %s", known[i]);
  }
}

bool ommai_field_members(const json_t *object, const char *field, const char *where, const char *const *known,
                         struct ommai_api_error *error) {
  const char *key;
  json_t *value;
  char list[200];
  if (!json_is_object(object)) {
    return ommai_api_fail(error, 400, field, "%s must be an object, got %s.", where, ommai_json_kind(object));
  }
  if (!known) return true;
  for (const char *const *name = known; observer.note && *name; name++) ommai_field_get(object, *name);
  json_object_foreach((json_t *)object, key, value) {
    if (json_is_null(value) || ommai_word_is_among(key, known)) continue;
    write_list(known, list, sizeof list);
    return ommai_api_fail(error, 400, field, "%s: unknown key \"%.80s\"; known %s.", where, key, list);
  }
  return true;
}

bool ommai_field_object(const json_t *object, const char *key, const char *const *known, const json_t **out,
                        struct ommai_api_error *error) {
  *out = ommai_field_get(object, key);
  return !*out || ommai_field_members(*out, key, key, known, error);
}
