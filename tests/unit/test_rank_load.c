/* Loading a tiktoken.model: refusals by line, reserved names, faults. Its ids are compared in
 * test_tokenizer.c. */
#include "base/allocator.h"
#include "support/text_fixture.h"
#include "text/tokenizer.h"

/* Writes the 256 single bytes as ranks 0 to 255, then `more`. */
static void write_ranks(const struct text_folder *folder, const char *more) {
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  FILE *file = fopen(folder->ranks, "w");
  assert_non_null(file);
  for (int byte = 0; byte < 256; byte++) fprintf(file, "%c%c== %d\n", digits[byte >> 2], digits[(byte & 3) << 4], byte);
  fputs(more, file);
  assert_int_equal(fclose(file), 0);
}

static enum omma_status load(const struct text_folder *folder, struct ommai_tokenizer **tokenizer, struct omma_error *error) {
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
  text_folder_write(((struct text_folder *)*state)->ranks, "YWI= 0\n");
  assert_int_equal(load(*state, &tokenizer, &error), OMMA_ERROR_FORMAT);
  assert_non_null(strstr(error.message, "the ranks: byte 0x00 has no token"));
  text_folder_write(((struct text_folder *)*state)->ranks, "");
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
  const struct text_folder *folder = *state;
  struct omma_error error;
  struct ommai_tokenizer *tokenizer;
  int32_t id;
  write_ranks(folder, "");
  text_folder_write(folder->config, "{\"added_tokens_decoder\": {\"258\": {\"content\": \"<|im_end|>\", \"special\": true}}}");
  assert_ok(load(folder, &tokenizer, &error), &error);
  assert_int_equal(ommai_tokenizer_vocab_size(tokenizer), 256 + 256);
  assert_true(ommai_tokenizer_find(tokenizer, "<|im_end|>", &id));
  assert_int_equal(id, 258);
  assert_false(ommai_tokenizer_find(tokenizer, "<|reserved_token_258|>", &id));
  assert_true(ommai_tokenizer_find(tokenizer, "<|reserved_token_511|>", &id));
  assert_int_equal(id, 511);
  ommai_tokenizer_destroy(tokenizer);
  text_folder_write(folder->config, "{\"added_tokens_decoder\": {\"65\": {\"content\": \"<|im_end|>\", \"special\": true}}}");
  assert_int_equal(load(folder, &tokenizer, &error), OMMA_ERROR_FORMAT);
  assert_non_null(strstr(error.message, "with id 65 contradicts the ranks"));
}

static void failing_allocations_are_reported(void **state) {
  (void)state;
  text_fixture_fail_allocations(OMMA_TEST_DATA, "ranks");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEXT_FOLDER_TEST(bad_lines_are_named),
      TEXT_FOLDER_TEST(line_ends_and_order_do_not_matter),
      TEXT_FOLDER_TEST(special_tokens_follow_the_ranks),
      cmocka_unit_test(failing_allocations_are_reported),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
