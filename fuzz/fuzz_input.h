/* Reading numbers from a fuzzer's bytes, and failing. Past the end every byte is 0. */
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* The entry point of every target, that of libFuzzer; 0 always. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* What must hold; ends the program with the place where it does not. */
#define FUZZ_CHECK(condition)                                                        \
  do {                                                                               \
    if (!(condition)) {                                                              \
      fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition); \
      abort();                                                                       \
    }                                                                                \
  } while (0)

struct fuzz_input {
  const uint8_t *at;
  size_t left;
};

static inline uint64_t fuzz_number(struct fuzz_input *input, int n_bytes) {
  uint64_t value = 0;
  for (int i = 0; i < n_bytes && input->left > 0; i++, input->left--) value |= (uint64_t)*input->at++ << (8 * i);
  return value;
}

/* One byte onto [low, high], high - low at most 255. */
static inline int64_t fuzz_pick(struct fuzz_input *input, int64_t low, int64_t high) {
  return low + (int64_t)(fuzz_number(input, 1) % (uint64_t)(high - low + 1));
}
