#include "support/text_fixture.h"

#include <stdlib.h>

#include "base/allocator.h"

const char *const text_fixture_names[OMMA_N_TEXT_FIXTURES] = {"digits", "capitals", "plain", "ranks"};

char *text_fixture_bytes(const json_t *digits, size_t *size) {
  const char *text = json_string_value(digits);
  *size = json_string_length(digits) / 2;
  char *bytes = malloc(*size + 1);
  for (size_t i = 0; i < *size; i++) {
    char pair[3] = {text[2 * i], text[2 * i + 1], '\0'};
    bytes[i] = (char)strtol(pair, NULL, 16);
  }
  bytes[*size] = '\0';
  return bytes;
}

int32_t *text_fixture_ids(const json_t *array, size_t *count) {
  *count = json_array_size(array);
  int32_t *ids = malloc((*count + 1) * sizeof *ids);
  for (size_t i = 0; i < *count; i++) ids[i] = (int32_t)json_integer_value(json_array_get(array, i));
  return ids;
}

json_t *text_fixture_json(const char *root, const char *name) {
  char path[512];
  snprintf(path, sizeof path, "%s/data/text/%s", root, name);
  json_error_t reason;
  json_t *document = json_load_file(path, 0, &reason);
  if (!document) fail_msg("%s: %s", path, reason.text);
  return document;
}

struct ommai_tokenizer *text_fixture_tokenizer(const char *root, const char *name) {
  char path[512];
  snprintf(path, sizeof path, "%s/data/text/%s", root, name);
  struct ommai_tokenizer *tokenizer = NULL;
  struct omma_error error;
  assert_ok(ommai_tokenizer_load(path, &ommai_default_allocator, &tokenizer, &error), &error);
  return tokenizer;
}
