/* The keys that clients may send. Only hashes are kept. */
#pragma once

#include <omma/host.h>
#include <omma/status.h>
#include <stdbool.h>
#include <stddef.h>

#define OMMAI_KEY_HASH_SIZE 32

/* Zero-initialised: no keys. Read-only once filled: any thread may match. */
struct ommai_api_keys {
  unsigned char (*hashes)[OMMAI_KEY_HASH_SIZE];
  size_t count;
};

/* A key is one that a header can carry: not empty, without control characters, no blank at either
 * end. Errors: ARGUMENT (field "api_key"; the message states which key by its place, never the
 * key). */
enum omma_status ommai_api_keys_check(const char *const *keys, size_t n_keys, struct omma_error *error);

/* Stores the keys' hashes. Errors: as above, and MEMORY. */
enum omma_status ommai_api_keys_take(const char *const *keys, size_t n_keys, const struct omma_allocator *allocator,
                                     struct ommai_api_keys *taken, struct omma_error *error);
void ommai_api_keys_free(struct ommai_api_keys *keys, const struct omma_allocator *allocator);

/* Whether the value of an Authorization header (may be NULL) is "Bearer KEY" with one of the keys.
 * The time it takes depends neither on which key matches nor on how much of one does. */
bool ommai_api_keys_match(const struct ommai_api_keys *keys, const char *authorization);
/* The same for the key itself, as an x-api-key header has it (may be NULL). */
bool ommai_api_keys_have(const struct ommai_api_keys *keys, const char *key);
