#include "server/access/api_keys.h"

#include <sodium.h>
#include <string.h>
#include <strings.h>

#include "base/allocator.h"
#include "base/error.h"

static void hash_key(const char *key, unsigned char hash[OMMAI_KEY_HASH_SIZE]) {
  crypto_generichash(hash, OMMAI_KEY_HASH_SIZE, (const unsigned char *)key, strlen(key), NULL, 0);
}

/* What is wrong with a key, or NULL. */
static const char *fault_of(const char *key) {
  size_t length = strlen(key);
  if (length == 0) return "is empty";
  if (key[0] == ' ' || key[length - 1] == ' ') return "begins or ends with a blank";
  for (size_t i = 0; i < length; i++) {
    unsigned char c = (unsigned char)key[i];
    if (c < 0x20 || c == 0x7f) return "holds a control character";
  }
  return NULL;
}

enum omma_status ommai_api_keys_check(const char *const *keys, size_t n_keys, struct omma_error *error) {
  for (size_t i = 0; i < n_keys; i++) {
    const char *fault = fault_of(keys[i]);
    if (fault) return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "api_key", "API key %zu of %zu %s", i + 1, n_keys, fault);
  }
  return OMMA_OK;
}

enum omma_status ommai_api_keys_take(const char *const *keys, size_t n_keys, const struct omma_allocator *allocator,
                                     struct ommai_api_keys *taken, struct omma_error *error) {
  *taken = (struct ommai_api_keys){0};
  OMMAI_TRY(ommai_api_keys_check(keys, n_keys, error));
  if (n_keys == 0) return OMMA_OK;
  taken->hashes = ommai_allocate(allocator, n_keys, sizeof *taken->hashes);
  if (!taken->hashes) return ommai_fail_memory(error, "API keys", n_keys * sizeof *taken->hashes);
  taken->count = n_keys;
  for (size_t i = 0; i < n_keys; i++) hash_key(keys[i], taken->hashes[i]);
  return OMMA_OK;
}

void ommai_api_keys_free(struct ommai_api_keys *keys, const struct omma_allocator *allocator) {
  ommai_release(allocator, keys->hashes, keys->count, sizeof *keys->hashes);
  *keys = (struct ommai_api_keys){0};
}

bool ommai_api_keys_match(const struct ommai_api_keys *keys, const char *authorization) {
  static const char SCHEME[] = "Bearer ";
  if (!authorization || strncasecmp(authorization, SCHEME, sizeof SCHEME - 1)) return false;
  return ommai_api_keys_have(keys, authorization + sizeof SCHEME - 1);
}

bool ommai_api_keys_have(const struct ommai_api_keys *keys, const char *key) {
  /* hashes, so that the comparison's time does not even reveal the length */
  unsigned char given[OMMAI_KEY_HASH_SIZE];
  bool found = false;
  if (!key) return false;
  hash_key(key, given);
  for (size_t i = 0; i < keys->count; i++) found |= sodium_memcmp(given, keys->hashes[i], sizeof given) == 0;
  return found;
}
