/* JSON while jansson's allocations fail, one at a time: a request and a file are read whole or
 * refused for lack of memory. */
#include <stdlib.h>

#include "base/json.h"
#include "server/core/request_json.h"
#include "support/test.h"

static int64_t n_allocations, fail_at;

static void *failing_malloc(size_t size) { return n_allocations++ == fail_at ? NULL : malloc(size); }

static const char text[] =
    "{\"a key that is longer than sixteen bytes\":\"a string that makes the buffer grow more than once, and then once more\","
    "\"numbers\":[1234567890123456, 0.12345678901234567890, -1e5], \"nested\":{\"x\":[true,null,\"caf\\u00e9\"]}}";

static json_t *load_file(bool *no_memory) {
  struct omma_error error = {.status = OMMA_OK};
  json_t *root = NULL;
  enum omma_status status = ommai_json_load("file.json", text, sizeof text - 1, &root, &error);
  *no_memory = status == OMMA_ERROR_MEMORY && strstr(error.message, "out of memory") != NULL;
  return status == OMMA_OK ? root : NULL;
}

static json_t *parse_request(bool *no_memory) {
  struct ommai_api_error error = {.status = 0};
  json_t *root = ommai_request_parse(text, sizeof text - 1, &error);
  *no_memory = !root && error.status == 503;
  return root;
}

static void every_lost_allocation_is_noticed(void **state) {
  (void)state;
  json_t *(*const readers[])(bool *) = {load_file, parse_request};
  for (size_t i = 0; i < sizeof readers / sizeof readers[0]; i++) {
    bool no_memory;
    fail_at = -1;
    n_allocations = 0;
    json_t *expected = readers[i](&no_memory);
    assert_non_null(expected);
    int64_t n = n_allocations;
    assert_true(n > 20);
    for (int64_t at = 0; at < n; at++) {
      fail_at = at;
      n_allocations = 0;
      json_t *found = readers[i](&no_memory);
      if (!found && !no_memory) fail_msg("allocation %lld of %lld: taken for wrong JSON", (long long)at, (long long)n);
      fail_at = -1;
      if (found && !json_equal(found, expected))
        fail_msg("allocation %lld of %lld: read otherwise", (long long)at, (long long)n);
      json_decref(found);
    }
    json_decref(expected);
  }
}

static void wrong_json_is_still_that(void **state) {
  (void)state;
  struct ommai_api_error error = {.status = 0};
  assert_null(ommai_request_parse("{\"a\":}", 6, &error));
  assert_int_equal(error.status, 400);
}

int main(void) {
  /* Before anything is read: what is there then is what the library passes allocations on to. */
  json_set_alloc_funcs(failing_malloc, free);
  fail_at = -1;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_lost_allocation_is_noticed),
      cmocka_unit_test(wrong_json_is_still_that),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
