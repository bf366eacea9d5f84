/* Loading a tiktoken.model: refusals by line, reserved names, faults. Its ids are compared in test_tokenizer.c. */
#include <stdlib.h>
#include <unistd.h>

#include "base/allocator.h"
#include "support/text_fixture.h"
#include "text/tokenizer.h"

struct folder {
  char path[64], ranks[96], config[96];
};

static int make_folder(void **state) {
  struct folder *folder = calloc(1, sizeof *folder);
  strcpy(folder->path, "/tmp/omma-test-XXXXXX");
  if (!mkdtemp(folder->path)) return -1;
  snprintf(folder->ranks, sizeof folder->ranks, "%s/tiktoken.model", folder->path);
  snprintf(folder->config, sizeof folder->config, "%s/tokenizer_config.json", folder->path);
  *state = folder;
  return 0;
}

static int remove_folder(void **state) {
  struct folder *folder = *state;
  unlink(folder->ranks);
  unlink(folder->config);
  rmdir(folder->path);
  free(folder);
  return 0;
}

/* Writes the 256 single bytes as ranks 0 to 255, then `more`. */
static void write_ranks(const struct folder *folder, const char *more) {
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  FILE *file = fopen(folder->ranks, "w");
  assert_non_null(file);
  for (int byte = 0; byte < 256; byte++) fprintf(file, "%c%c== %d\n", digits[byte >> 2], digits[(byte & 3) << 4], byte);
  fputs(more, file);
  assert_int_equal(fclose(file), 0);
}

static void write_text(const char *path, const char *text) {
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fputs(text, file);
  assert_int_equal(fclose(file), 0);
}

static enum omma_status load(const struct folder *folder, struct ommai_tokenizer **tokenizer, struct omma_error *error) {
  *tokenizer = NULL;
  return ommai_tokenizer_load(folder->path, &ommai_default_allocator, tokenizer, error);
}

static void bad_lines_are_named(void **state) {
  static const struct {
    const char *more, *message;
  } cases[] = {
      {"YWI= \n", "tiktoken.model: line 257: expected"},
      {"YWI=256\n", "line 257: expected"},
      {"YWI= -1\n", "line 257: expected"},
      {"YWI= 256x\n", "line 257: expected"},
      {"YWI= 9999999\n", "line 257: expected"},
      {"Y*I= 256\n", "line 257: expected"},
      {" 256\n", "line 257: expected"},
      {"YWI= 256\nYmI= 256\n", "expected every rank once"},
      {"YWI= 257\n", "expected every rank once"},
      {"YWI= 256\nYWI= 257\n", "line 258: id 257: the token's bytes collide"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct omma_error error = {0};
    struct ommai_tokenizer *tokenizer;
    write_ranks(*state, cases[i].more);
    assert_int_equal(load(*state, &tokenizer, &error), OMMA_ERROR_FORMAT);
    if (!strstr(error.message, cases[i].message)) fail_msg("\"%s\" lacks \"%s\"", error.message, cases[i].message);
  }
  struct omma_error error = {0};
  struct ommai_tokenizer *tokenizer;
  write_text(((struct folder *)*state)->ranks, "YWI= 0\n");
  assert_int_equal(load(*state, &tokenizer, &error), OMMA_ERROR_FORMAT);
  assert_non_null(strstr(error.message, "the ranks: byte 0x00 has no token"));
  write_text(((struct folder *)*state)->ranks, "");
  assert_int_equal(load(*state, &tokenizer, &error), OMMA_ERROR_FORMAT);
}

static void line_ends_and_order_do_not_matter(void **state) {
  struct omma_error error;
  struct ommai_tokenizer *tokenizer;
  int32_t ids[8];
  size_t count;
  write_ranks(*state, "\nYWJj 257\r\n\r\nYWI= 256");
  assert_ok(load(*state, &tokenizer, &error), &error);
  assert_ok(ommai_tokenizer_encode(tokenizer, "abcab", 5, true, ids, 8, &count, &error), &error);
  assert_int_equal(count, 2); /* "ab" joins twice, then "abc" */
  assert_int_equal(ids[0], 257);
  assert_int_equal(ids[1], 256);
  ommai_tokenizer_destroy(tokenizer);
}

static void special_tokens_follow_the_ranks(void **state) {
  const struct folder *folder = *state;
  struct omma_error error;
  struct ommai_tokenizer *tokenizer;
  int32_t id;
  write_ranks(folder, "");
  write_text(folder->config, "{\"added_tokens_decoder\": {\"258\": {\"content\": \"<|im_end|>\", \"special\": true}}}");
  assert_ok(load(folder, &tokenizer, &error), &error);
  assert_int_equal(ommai_tokenizer_vocab_size(tokenizer), 256 + 256);
  assert_true(ommai_tokenizer_find(tokenizer, "<|im_end|>", &id));
  assert_int_equal(id, 258);
  assert_false(ommai_tokenizer_find(tokenizer, "<|reserved_token_258|>", &id));
  assert_true(ommai_tokenizer_find(tokenizer, "<|reserved_token_511|>", &id));
  assert_int_equal(id, 511);
  ommai_tokenizer_destroy(tokenizer);
  write_text(folder->config, "{\"added_tokens_decoder\": {\"65\": {\"content\": \"<|im_end|>\", \"special\": true}}}");
  assert_int_equal(load(folder, &tokenizer, &error), OMMA_ERROR_FORMAT);
  assert_non_null(strstr(error.message, "with id 65 contradicts the ranks"));
}

static void failing_allocations_are_reported(void **state) {
  (void)state;
  struct test_allocator allocator;
  struct omma_error error;
  struct ommai_tokenizer *tokenizer = NULL;
  for (int64_t fail_at = 0;; fail_at++) {
    test_allocator_init(&allocator);
    allocator.fail_at = fail_at;
    enum omma_status status = ommai_tokenizer_load(OMMA_TEST_DATA "/data/text/ranks", &allocator.interface, &tokenizer, &error);
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

#define WITH_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(void) {
  const struct CMUnitTest tests[] = {
      WITH_FOLDER(bad_lines_are_named),
      WITH_FOLDER(line_ends_and_order_do_not_matter),
      WITH_FOLDER(special_tokens_follow_the_ranks),
      cmocka_unit_test(failing_allocations_are_reported),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
