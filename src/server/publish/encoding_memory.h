/* Embeddings that an encoder node keeps for a while, for GET /v1/encodings/KEY: bounded in bytes
 * and in time. Thread-safe. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/text_buffer.h"

#define OMMAI_ENCODING_KEY_SIZE 129 /* with its NUL */

/* True for 1 to 128 ASCII letters, digits, "-", "_" and ".", the first of them a letter or
 * digit. */
bool ommai_encoding_key_valid(const char *key);

struct ommai_kept_encoding;

struct ommai_encoding_memory {
  const struct omma_allocator *allocator;
  size_t budget;  /* bytes of all that are kept */
  int64_t ttl_ns; /* how long one is kept; 0: until its place is needed */
  pthread_mutex_t lock;
  struct ommai_kept_encoding *newest, *oldest;
  size_t bytes;
};

void ommai_encoding_memory_init(struct ommai_encoding_memory *memory, size_t budget, int64_t ttl_ns,
                                const struct omma_allocator *allocator);
void ommai_encoding_memory_free(struct ommai_encoding_memory *memory);

/* Keeps `body`, which is empty afterwards, in place of what had this key; the oldest give way. One
 * that is larger than the budget is not kept. False when memory is out. */
bool ommai_encoding_memory_put(struct ommai_encoding_memory *memory, const char *key, struct ommai_text *body);

/* Appends a copy of what is kept under the key; false where there is nothing. A copy that fails for
 * want of memory sets out->failed. */
bool ommai_encoding_memory_get(struct ommai_encoding_memory *memory, const char *key, struct ommai_text *out);
