/* Data sets with every allocation failing in turn: no leak, the right status, and the same requests
 * when all goes well. */
#include <stdlib.h>
#include <unistd.h>

#include "bench_client/data_set.h"
#include "support/test.h"

#define TOKENIZER OMMA_TEST_DATA "/golden/qwen3_vl_tied"

static const struct ommai_body_fields fields = {.chat = true, .model = "m", .logprobs = -1};

/* Makes the data set with the n-th allocation failing for every n; all of them give MEMORY and
 * leave nothing. */
static void fail_every_allocation(struct ommai_data_settings *data, size_t n_expected) {
  for (int64_t n = 0;; n++) {
    struct test_allocator allocator;
    struct ommai_data_set set;
    struct omma_error error;
    test_allocator_init(&allocator);
    allocator.fail_at = n;
    enum omma_status status = ommai_data_set_make(data, &fields, &allocator.interface, &set, &error);
    size_t n_picks = set.n_picks;
    ommai_data_set_release(&set);
    assert_int_equal(allocator.n_live, 0);
    if (status == OMMA_OK) {
      assert_int_equal(n_picks, n_expected);
      break;
    }
    if (status != OMMA_ERROR_MEMORY) fail_msg("allocation %lld: %s", (long long)n, error.message);
    assert_true(n < 10000);
  }
}

static void random_data(void **state) {
  (void)state;
  struct test_allocator allocator;
  struct omma_error error;
  struct ommai_tokenizer *tokenizer;
  test_allocator_init(&allocator);
  assert_ok(ommai_tokenizer_load(TOKENIZER, &allocator.interface, &tokenizer, &error), &error);
  struct ommai_data_settings data = {.kind = OMMAI_DATA_RANDOM_MM,
                                     .n_requests = 3,
                                     .input = {20, 0.5},
                                     .output = {4, 0},
                                     .prefix_len = 5,
                                     .buckets = {{8, 16, 1}},
                                     .n_buckets = 1,
                                     .images = 2,
                                     .image_limit = 255,
                                     .tokenizer = tokenizer};
  fail_every_allocation(&data, 3);
  data.images = 3;
  data.image_limit = 2;
  struct ommai_data_set set;
  assert_fails(ommai_data_set_make(&data, &fields, &allocator.interface, &set, &error), OMMA_ERROR_ARGUMENT,
               "3 images per request at least", &error);
  ommai_data_set_release(&set);
  ommai_tokenizer_destroy(tokenizer);
  assert_int_equal(allocator.n_live, 0);
}

/* A file of its own with `text`; the caller unlinks it. */
static void write_file(char *path, const char *text) {
  int file = mkstemps(path, 6);
  assert_true(file >= 0);
  assert_int_equal(write(file, text, strlen(text)), (ssize_t)strlen(text));
  close(file);
}

static void custom_images(void **state) {
  (void)state;
  char path[] = "/tmp/omma_data_XXXXXX.jsonl";
  write_file(path,
             "{\"prompt\": \"a\", \"image_files\": [\"x.png\"], \"answers\": [\"y\"]}\n"
             "{\"content\": [{\"type\": \"text\", \"text\": \"b\"}, {\"type\": \"image\", \"image\": \"" OMMA_TEST_DATA
             "/golden/images/rgb.png\"}]}\n");
  struct ommai_data_settings data = {.kind = OMMAI_DATA_CUSTOM_IMAGE, .path = path, .n_requests = 5, .output_len = 3};
  fail_every_allocation(&data, 5);
  unlink(path);
}

/* Nothing is copied from nowhere: an empty file, and a text of no characters. */
static void empty_files_and_texts(void **state) {
  (void)state;
  char empty[] = "/tmp/omma_data_XXXXXX.jsonl", blank[] = "/tmp/omma_data_XXXXXX.jsonl";
  write_file(empty, "");
  write_file(blank, "{\"content\": [{\"type\": \"text\", \"text\": \"\"}]}\n");
  struct ommai_data_settings data = {.kind = OMMAI_DATA_CUSTOM_IMAGE, .path = empty, .n_requests = 1, .output_len = 3};
  struct test_allocator allocator;
  struct ommai_data_set set;
  struct omma_error error;
  test_allocator_init(&allocator);
  assert_fails(ommai_data_set_make(&data, &fields, &allocator.interface, &set, &error), OMMA_ERROR_ARGUMENT, "no usable entry",
               &error);
  ommai_data_set_release(&set);
  data.path = blank;
  fail_every_allocation(&data, 1);
  unlink(empty);
  unlink(blank);
}

static void hub_rows(void **state) {
  (void)state;
  char path[] = "/tmp/omma_data_XXXXXX.jsonl";
  write_file(path,
             "{\"question\": \"a\", \"image\": {\"bytes\": "
             "\"Qk06AAAAAAAAADYAAAAoAAAAAQAAAAEAAAABABgAAAAAAAQAAAATCwAAEwsAAAAAAAAAAAAAAAD/AA==\"}}\n");
  struct ommai_data_settings data = {.kind = OMMAI_DATA_HF, .path = path, .n_requests = 2, .output_len = -1};
  fail_every_allocation(&data, 2);
  unlink(path);
}

static void conversations(void **state) {
  (void)state;
  char path[] = "/tmp/omma_data_XXXXXX.jsonl";
  write_file(path, "[{\"conversations\": [{\"value\": \"a\"}, {\"value\": \"b\"}]}]");
  struct ommai_data_settings data = {.kind = OMMAI_DATA_SHAREGPT, .path = path, .n_requests = 2, .output_len = 7};
  struct test_allocator allocator;
  struct ommai_data_set set;
  struct omma_error error;
  test_allocator_init(&allocator);
  assert_fails(ommai_data_set_make(&data, &fields, &allocator.interface, &set, &error), OMMA_ERROR_ARGUMENT, "no usable entry",
               &error);
  ommai_data_set_release(&set);
  unlink(path);
}

static void completions_take_no_images(void **state) {
  (void)state;
  char *body;
  size_t size;
  struct omma_error error;
  struct ommai_body_fields completion = {.model = "m", .logprobs = -1};
  json_t *parts = json_loads("[{\"type\": \"text\", \"text\": \"x\"}]", 0, NULL);
  assert_fails(ommai_body_make(&completion, parts, NULL, 3, &body, &size, &error), OMMA_ERROR_ARGUMENT, "openai-chat", &error);
  json_decref(parts);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_data), cmocka_unit_test(custom_images), cmocka_unit_test(empty_files_and_texts),
      cmocka_unit_test(hub_rows),    cmocka_unit_test(conversations), cmocka_unit_test(completions_take_no_images),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
