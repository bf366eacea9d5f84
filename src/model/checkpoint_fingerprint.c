#include "model/checkpoint_fingerprint.h"

#include <sodium.h>
#include <string.h>

enum { HASH_BYTES = 32, SAMPLE_BYTES = 1024 };

static void add_size(crypto_generichash_state *state, int64_t size) {
  uint8_t bytes[8];
  for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)((uint64_t)size >> (8 * i));
  crypto_generichash_update(state, bytes, sizeof bytes);
}

static void hash_tensor(const struct ommai_tensor *tensor, uint8_t hash[HASH_BYTES]) {
  crypto_generichash_state state;
  const char *type = ommai_tensor_type_name(tensor->type);
  crypto_generichash_init(&state, NULL, 0, HASH_BYTES);
  crypto_generichash_update(&state, (const uint8_t *)tensor->name, strlen(tensor->name) + 1);
  crypto_generichash_update(&state, (const uint8_t *)type, strlen(type) + 1);
  for (int i = 0; i < tensor->n_dims; i++) add_size(&state, tensor->shape[i]);
  if (tensor->type != OMMAI_TENSOR_QUANTISED) {
    size_t size = tensor->size_bytes < SAMPLE_BYTES ? (size_t)tensor->size_bytes : SAMPLE_BYTES;
    crypto_generichash_update(&state, tensor->data, size);
  }
  crypto_generichash_final(&state, hash, HASH_BYTES);
}

void ommai_checkpoint_fingerprint(const struct ommai_checkpoint *checkpoint, char out[OMMAI_FINGERPRINT_SIZE]) {
  uint8_t sum[HASH_BYTES] = {0}, hash[HASH_BYTES];
  for (int64_t i = 0; i < ommai_checkpoint_count(checkpoint); i++) {
    hash_tensor(ommai_checkpoint_at(checkpoint, i), hash);
    for (size_t j = 0; j < HASH_BYTES; j++) sum[j] ^= hash[j];
  }
  sodium_bin2hex(out, OMMAI_FINGERPRINT_SIZE, sum, sizeof sum);
}
