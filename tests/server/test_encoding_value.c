#include "server/publish/encoding_value.h"

#include <stdlib.h>

#include "support/test.h"

#define N 37

static void what_is_sealed_is_read_bit_for_bit(void **state) {
  (void)state;
  float values[N], found[N];
  uint32_t bits = 1;
  for (int i = 0; i < N; i++, bits = bits * 1664525u + 1013904223u)
    memcpy(&values[i], &bits, sizeof bits); /* NaNs among them */
  size_t size = ommai_encoding_value_size(N);
  char *bytes = malloc(size);
  memcpy(ommai_encoding_value_data(bytes), values, sizeof values);
  ommai_encoding_value_seal(bytes, N);
  assert_true(ommai_encoding_value_read(bytes, size, found, N));
  assert_memory_equal(found, values, sizeof values);
  free(bytes);
}

static void nothing_else_is_read(void **state) {
  (void)state;
  float values[N] = {1, 2, 3}, found[N];
  size_t size = ommai_encoding_value_size(N);
  char *bytes = malloc(size);
  memcpy(ommai_encoding_value_data(bytes), values, sizeof values);
  ommai_encoding_value_seal(bytes, N);
  for (size_t i = 0; i < size; i++) {
    bytes[i] ^= 1;
    assert_false(ommai_encoding_value_read(bytes, size, found, N));
    bytes[i] ^= 1;
  }
  assert_false(ommai_encoding_value_read(bytes, size - 1, found, N));
  assert_false(ommai_encoding_value_read(bytes, size, found, N - 1));
  assert_true(ommai_encoding_value_read(bytes, size, found, N));
  free(bytes);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_is_sealed_is_read_bit_for_bit),
      cmocka_unit_test(nothing_else_is_read),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
