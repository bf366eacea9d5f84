/* Reading a request's JSON: documents with limits, and fields whose errors name the field and the
 * value found. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/json.h"
#include "server/core/api_error.h"

#define OMMAI_MAX_JSON_DEPTH 64
#define OMMAI_MAX_JSON_VALUES (INT64_C(1) << 20)

/* Parses a body whose top level must be an object; the caller decrefs. NULL with *error filled:
 * empty, not JSON, too deep, too many values. Depth and number are checked before anything is
 * allocated. */
json_t *ommai_request_parse(const char *body, size_t size, struct ommai_api_error *error);

/* What a reader asks a document for: a member of an object, by the name of its JSON type (NULL:
 * several, or unknown) and its range, where it is a number. */
struct ommai_field_note {
  const json_t *object;
  const char *key, *type;
  double low, high;
  bool open; /* low itself is out */
};

/* Until NULL is given, `note` is called for whatever this thread reads by the functions below: that
 * is how the description of the interface (openapi.h) learns the fields. */
void ommai_fields_observe(void (*note)(void *context, const struct ommai_field_note *note), void *context);

/* Typed reads of object[key]: false with *error filled for a wrong type or value; a missing key or
 * null leaves *out as it is. */
bool ommai_field_boolean(const json_t *object, const char *key, bool *out, struct ommai_api_error *error);
bool ommai_field_integer(const json_t *object, const char *key, int64_t low, int64_t high, int64_t *out,
                         struct ommai_api_error *error);
/* Within [low, high], or with `open` (low, high]. */
bool ommai_field_number(const json_t *object, const char *key, double low, double high, bool open, double *out,
                        struct ommai_api_error *error);
/* Strings live as long as the document and hold no NUL. */
bool ommai_field_string(const json_t *object, const char *key, const char **out, struct ommai_api_error *error);

/* The same of one that must not be empty. */
bool ommai_field_name(const json_t *object, const char *key, const char **out, struct ommai_api_error *error);
/* One of a list of words that ends in NULL, by its place. */
bool ommai_field_word(const json_t *object, const char *key, const char *const *words, int *place,
                      struct ommai_api_error *error);

/* NULL where it is missing or null; lives as long as the document. */
bool ommai_field_array(const json_t *object, const char *key, const json_t **out, struct ommai_api_error *error);
/* The same of an object, as ommai_field_members. */
bool ommai_field_object(const json_t *object, const char *key, const char *const *known, const json_t **out,
                        struct ommai_api_error *error);

/* An object whose members are among `known` (ends in NULL; NULL: any): settings that are put in a
 * wrong place or misspelt must not be ignored silently. `field` is the request's, `where` names the
 * object. */
bool ommai_field_members(const json_t *object, const char *field, const char *where, const char *const *known,
                         struct ommai_api_error *error);

/* Whether a value asks for nothing. An empty object may be a wish, such as the schema that any JSON
 * meets. */
bool ommai_field_is_neutral(const json_t *value);

/* The member, or NULL where it is missing or null. */
json_t *ommai_field_get(const json_t *object, const char *key);
