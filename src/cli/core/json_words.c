#include "cli/core/json_words.h"

#include <string.h>

#include "base/allocator.h"
#include "base/error.h"
#include "base/json.h"
#include "cli/core/diagnostics.h"

int ommai_json_words_read(const char *command, const char *flag, const char *text, struct ommai_json_words *list) {
  list->document = json_loads(text, JSON_DECODE_ANY, NULL);
  size_t n_words = json_array_size(list->document);
  bool valid = json_is_array(list->document);
  for (size_t i = 0; i < n_words && valid; i++) valid = json_is_string(json_array_get(list->document, i));
  if (!valid) {
    return ommai_usage_error("%s: %s '%s': must be a JSON list of strings, such as '[\"one\", \"two\"]'", command, flag, text);
  }
  list->words.items = n_words ? ommai_allocate(&ommai_default_allocator, n_words, sizeof *list->words.items) : NULL;
  if (n_words && !list->words.items) return ommai_failed("%s: out of memory for the values of %s", command, flag);
  list->words.capacity = n_words;
  for (size_t i = 0; i < n_words; i++) {
    list->words.items[list->words.count++] = json_string_value(json_array_get(list->document, i));
  }
  return OMMAI_EXIT_DONE;
}

void ommai_json_words_release(struct ommai_json_words *list) {
  ommai_release(&ommai_default_allocator, list->words.items, list->words.capacity, sizeof *list->words.items);
  json_decref(list->document);
  *list = (struct ommai_json_words){0};
}

enum omma_status ommai_json_check_keys(const json_t *object, const char *flag, const char *const *known,
                                       struct omma_error *error) {
  const char *other = ommai_json_other_key(object, known);
  return other ? ommai_fail(error, OMMA_ERROR_ARGUMENT, "%s: unknown key \"%s\"", flag, other) : OMMA_OK;
}

enum omma_status ommai_json_option_read(const char *flag, const char *text, const char *const *known, json_t **object,
                                        struct omma_error *error) {
  *object = NULL;
  OMMAI_TRY(ommai_json_load(flag, text, strlen(text), object, error));
  return known ? ommai_json_check_keys(*object, flag, known, error) : OMMA_OK;
}
