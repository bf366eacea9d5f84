/* Where in a schema something stands, and what a reference names. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text_buffer.h"
#include "grammar/schema_parts.h"

enum { PATH_TEXT = 200, MAX_STEPS = 64, MAX_REFERENCE = 1024 };

const struct schema_path *ommai_schema_path(struct schema_context *context, const struct schema_path *above, const char *key,
                                            size_t index) {
  struct schema_path *path = ommai_scratch_take(context->scratch, 1, sizeof *path);
  if (path) *path = (struct schema_path){above, key, index};
  return path;
}

/* "#/properties/name", of a long path its end. */
static void write_path(const struct schema_path *path, const char *key, char text[PATH_TEXT]) {
  const struct schema_path *steps[MAX_STEPS];
  int n = 0;
  size_t used = 1;
  for (; path && path->above && n < MAX_STEPS; path = path->above) steps[n++] = path;
  memcpy(text, "#", 2);
  while (n-- > 0 && used < PATH_TEXT) {
    int added = steps[n]->key ? snprintf(text + used, PATH_TEXT - used, "/%s", steps[n]->key)
                              : snprintf(text + used, PATH_TEXT - used, "/%zu", steps[n]->index);
    used += added > 0 ? (size_t)added : 0;
  }
  if (key && used < PATH_TEXT) snprintf(text + used, PATH_TEXT - used, "/%s", key);
}

enum omma_status ommai_schema_prefix(struct schema_context *context, enum omma_status status, const struct schema_path *path,
                                     const char *key) {
  char where[PATH_TEXT];
  if (status == OMMA_OK || status == OMMA_ERROR_MEMORY) return status;
  write_path(path, key, where);
  ommai_error_prefix(context->error, "%s", where);
  return status;
}

enum omma_status ommai_schema_fail(struct schema_context *context, enum omma_status status, const struct schema_path *path,
                                   const char *key, const char *format, ...) {
  char message[256];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  ommai_fail(context->error, status, "%s", message);
  return ommai_schema_prefix(context, status, path, key);
}

enum omma_status ommai_schema_fail_scratch(struct schema_context *context) {
  return ommai_schema_prefix(context, ommai_scratch_fail(context->scratch, context->error), context->at, NULL);
}

/* ---- references ---- */

/* One step of a JSON pointer in a URI fragment, with %XX, ~0 and ~1 resolved; *at moves to the next
 * "/" or the end. */
static bool take_step(const char **at, char *step) {
  for ((*at)++; **at && **at != '/'; (*at)++) {
    char c = **at;
    if (c == '%') {
      uint32_t byte;
      if (!ommai_hex_read(*at + 1, 2, &byte) || byte == 0) return false;
      c = (char)byte;
      *at += 2;
    }
    if (c == '~') {
      if ((*at)[1] != '0' && (*at)[1] != '1') return false;
      c = (*at)[1] == '0' ? '~' : '/';
      (*at)++;
    }
    *step++ = c;
  }
  *step = '\0';
  return true;
}

static const json_t *go_to(const json_t *value, const char *step, size_t *index) {
  char *end;
  if (json_is_object(value)) return json_object_get(value, step);
  if (!json_is_array(value) || step[0] < '0' || step[0] > '9') return NULL;
  *index = strtoul(step, &end, 10);
  return *end ? NULL : json_array_get(value, *index);
}

/* The reference without the document's own identifier before its fragment. */
static const char *without_base(const json_t *document, const char *reference) {
  static const char *const keys[] = {"$id", "id"};
  for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
    const char *id = json_string_value(json_object_get(document, keys[i]));
    size_t size = id ? strcspn(id, "#") : 0;
    if (size && !strncmp(id, reference, size) && reference[size] == '#') return reference + size;
  }
  return reference;
}

enum omma_status ommai_schema_resolve(struct schema_context *context, const struct schema_part *part, const char *reference,
                                      const json_t **schema, const struct schema_path **path) {
  const json_t *value = context->document;
  reference = without_base(context->document, reference);
  size_t size = strlen(reference);
  const char *at = reference + 1;
  *path = ommai_schema_path(context, NULL, NULL, 0);
  if (!*path) return ommai_schema_fail_scratch(context);
  if (reference[0] != '#' || (*at && *at != '/') || size > MAX_REFERENCE) {
    return ommai_schema_fail(context, OMMA_ERROR_UNSUPPORTED, part->path, "$ref",
                             "only references into the schema itself (#/...) are supported, found \"%.80s\"", reference);
  }
  while (value && *at) {
    size_t index = 0;
    char *step = ommai_scratch_take(context->scratch, size + 1, 1);
    if (!step) return ommai_schema_fail_scratch(context);
    value = take_step(&at, step) ? go_to(value, step, &index) : NULL;
    *path = ommai_schema_path(context, *path, step, index);
    if (!*path) return ommai_schema_fail_scratch(context);
  }
  *schema = value;
  if (json_is_object(value) || json_is_boolean(value)) return OMMA_OK;
  return ommai_schema_fail(context, OMMA_ERROR_FORMAT, part->path, "$ref", "there is no schema \"%.80s\"", reference);
}
