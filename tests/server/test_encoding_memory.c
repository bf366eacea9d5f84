#include "server/publish/encoding_memory.h"

#include <time.h>

#include "base/allocator.h"
#include "support/test.h"

static void put(struct ommai_encoding_memory *memory, const char *key, char fill, size_t size) {
  struct ommai_text body = ommai_text_of(&ommai_default_allocator);
  for (size_t i = 0; i < size; i++) ommai_text_append(&body, &fill, 1);
  assert_true(ommai_encoding_memory_put(memory, key, &body));
  assert_int_equal(body.size, 0);
}

/* The first byte of what is kept; -1: nothing is. */
static int look(struct ommai_encoding_memory *memory, const char *key) {
  struct ommai_text out = ommai_text_of(&ommai_default_allocator);
  bool found = ommai_encoding_memory_get(memory, key, &out);
  int first = found && out.size ? out.data[0] : -1;
  ommai_text_free(&out);
  return first;
}

static void the_oldest_gives_way(void **state) {
  (void)state;
  struct ommai_encoding_memory memory;
  ommai_encoding_memory_init(&memory, 100, 0, &ommai_default_allocator);
  put(&memory, "a", 'a', 40);
  put(&memory, "b", 'b', 40);
  put(&memory, "a", 'A', 40); /* in place of the other one, and the newest */
  put(&memory, "c", 'c', 60);
  assert_int_equal(look(&memory, "a"), 'A');
  assert_int_equal(look(&memory, "b"), -1);
  assert_int_equal(look(&memory, "c"), 'c');
  /* more than there is room for: the one before is not what was published last */
  put(&memory, "c", 'C', 101);
  assert_int_equal(look(&memory, "c"), -1);
  assert_int_equal(memory.bytes, 40);
  ommai_encoding_memory_free(&memory);
}

static void nothing_is_kept_for_ever(void **state) {
  (void)state;
  struct ommai_encoding_memory memory;
  const struct timespec moment = {.tv_nsec = 2000000};
  ommai_encoding_memory_init(&memory, 100, 1000000, &ommai_default_allocator);
  put(&memory, "a", 'a', 40);
  nanosleep(&moment, NULL);
  assert_int_equal(look(&memory, "a"), -1);
  assert_int_equal(memory.bytes, 0);
  ommai_encoding_memory_free(&memory);
}

static void keys_lead_nowhere_else(void **state) {
  (void)state;
  static const char *const bad[] = {"", ".", "..", ".hidden", "a/b", "../a", "/a", "a b", "a\n", "\xc3\xa4", "-a", "a%2fb"};
  char long_key[OMMAI_ENCODING_KEY_SIZE + 1];
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) assert_false(ommai_encoding_key_valid(bad[i]));
  assert_true(ommai_encoding_key_valid("1f-A_z.0"));
  memset(long_key, 'a', sizeof long_key);
  long_key[OMMAI_ENCODING_KEY_SIZE] = '\0';
  assert_false(ommai_encoding_key_valid(long_key));
  long_key[OMMAI_ENCODING_KEY_SIZE - 1] = '\0';
  assert_true(ommai_encoding_key_valid(long_key));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_oldest_gives_way),
      cmocka_unit_test(nothing_is_kept_for_ever),
      cmocka_unit_test(keys_lead_nowhere_else),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
