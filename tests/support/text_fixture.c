#include "support/text_fixture.h"

#include <stdlib.h>

#include "base/allocator.h"

const char *const text_fixture_names[OMMA_N_TEXT_FIXTURES] = {"digits", "capitals", "plain", "ranks", "marked"};

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

void text_fixture_fail_allocations(const char *root, const char *name) {
  struct test_allocator allocator;
  struct omma_error error;
  struct ommai_tokenizer *tokenizer = NULL;
  char path[TEST_PATH_SIZE];
  snprintf(path, sizeof path, "%s/data/text/%s", root, name);
  for (int64_t fail_at = 0;; fail_at++) {
    test_allocator_init(&allocator);
    allocator.fail_at = fail_at;
    enum omma_status status = ommai_tokenizer_load(path, &allocator.interface, &tokenizer, &error);
    if (status == OMMA_OK) {
      assert_true(fail_at > 8);
      break;
    }
    assert_int_equal(status, OMMA_ERROR_MEMORY);
    assert_int_equal(allocator.n_live, 0);
  }
  ommai_tokenizer_destroy(tokenizer);
  assert_int_equal(allocator.n_live, 0);
}

int text_folder_make(void **state) {
  struct text_folder *folder = calloc(1, sizeof *folder);
  test_folder_create(folder->path);
  test_path(folder->tokenizer, folder->path, "tokenizer.json");
  test_path(folder->ranks, folder->path, "tiktoken.model");
  test_path(folder->config, folder->path, "tokenizer_config.json");
  *state = folder;
  return 0;
}

int text_folder_remove(void **state) {
  struct text_folder *folder = *state;
  test_folder_remove(folder->path);
  free(folder);
  return 0;
}

void text_folder_write(const char *path, const char *text) { test_write_file(path, text, strlen(text)); }
