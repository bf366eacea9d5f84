#include "text/vocabulary.h"

#include <string.h>

#include "base/allocator.h"
#include "base/error.h"

size_t ommai_hash_slots(size_t n_entries) {
  size_t n = 64;
  while (n < n_entries + n_entries / 3) n *= 2;
  return n;
}

static uint64_t hash_bytes(const char *bytes, size_t size) {
  uint64_t hash = size;
  for (; size >= 8; size -= 8, bytes += 8) {
    uint64_t word;
    memcpy(&word, bytes, sizeof word);
    hash = ommai_hash_mix(hash ^ word);
  }
  uint64_t rest = 0;
  if (size) memcpy(&rest, bytes, size);
  return ommai_hash_mix(hash ^ rest);
}

static bool same_bytes(const struct ommai_vocabulary *vocabulary, int32_t id, const char *bytes, size_t size) {
  const struct ommai_token *token = &vocabulary->tokens[id];
  return token->size == size && memcmp(vocabulary->bytes + token->offset, bytes, size) == 0;
}

/* The slot that holds these bytes, or the free one where they belong; NULL when too many steps lead
 * to neither. */
static int32_t *find_slot(const struct ommai_vocabulary *vocabulary, const char *bytes, size_t size) {
  size_t mask = vocabulary->n_slots - 1, at = hash_bytes(bytes, size);
  for (int step = 0; step < OMMAI_HASH_MAX_STEPS; step++, at++) {
    int32_t *slot = &vocabulary->slots[at & mask];
    if (*slot < 0 || same_bytes(vocabulary, *slot, bytes, size)) return slot;
  }
  return NULL;
}

enum omma_status ommai_vocabulary_init(struct ommai_vocabulary *vocabulary, int32_t n_ids, size_t bytes, size_t n_indexed,
                                       const struct omma_allocator *allocator, struct omma_error *error) {
  vocabulary->n_ids = n_ids;
  vocabulary->bytes_capacity = bytes;
  vocabulary->n_slots = ommai_hash_slots(n_indexed);
  vocabulary->tokens = ommai_allocate(allocator, (size_t)n_ids, sizeof *vocabulary->tokens);
  vocabulary->bytes = ommai_allocate(allocator, bytes, 1);
  vocabulary->slots = ommai_allocate(allocator, vocabulary->n_slots, sizeof *vocabulary->slots);
  if (!vocabulary->tokens || !vocabulary->bytes || !vocabulary->slots) {
    return ommai_fail_memory(
        error, "vocabulary",
        (size_t)n_ids * sizeof *vocabulary->tokens + bytes + vocabulary->n_slots * sizeof *vocabulary->slots);
  }
  memset(vocabulary->slots, 0xFF, vocabulary->n_slots * sizeof *vocabulary->slots);
  return OMMA_OK;
}

void ommai_vocabulary_clear(struct ommai_vocabulary *vocabulary, const struct omma_allocator *allocator) {
  ommai_release(allocator, vocabulary->tokens, (size_t)vocabulary->n_ids, sizeof *vocabulary->tokens);
  ommai_release(allocator, vocabulary->bytes, vocabulary->bytes_capacity, 1);
  ommai_release(allocator, vocabulary->slots, vocabulary->n_slots, sizeof *vocabulary->slots);
  *vocabulary = (struct ommai_vocabulary){0};
}

enum omma_status ommai_vocabulary_add(struct ommai_vocabulary *vocabulary, int32_t id, const char *bytes, size_t size,
                                      unsigned flags, bool indexed, struct omma_error *error) {
  struct ommai_token *token = &vocabulary->tokens[id];
  if (token->flags) {
    return ommai_fail(error, OMMA_ERROR_FORMAT, "id %d names two tokens: \"%.*s\" and \"%.*s\"", (int)id, (int)token->size,
                      vocabulary->bytes + token->offset, (int)size, bytes);
  }
  int32_t *slot = indexed ? find_slot(vocabulary, bytes, size) : NULL;
  if (indexed && (!slot || *slot >= 0)) {
    return ommai_fail(error, OMMA_ERROR_FORMAT, "id %d: the token's bytes collide with other tokens", (int)id);
  }
  memcpy(vocabulary->bytes + vocabulary->bytes_used, bytes, size);
  *token = (struct ommai_token){(uint32_t)vocabulary->bytes_used, (uint16_t)size, (uint16_t)(flags | OMMAI_TOKEN_KNOWN)};
  vocabulary->bytes_used += size;
  if (slot) *slot = id;
  return OMMA_OK;
}

int32_t ommai_vocabulary_find(const struct ommai_vocabulary *vocabulary, const char *bytes, size_t size) {
  const int32_t *slot = find_slot(vocabulary, bytes, size);
  return slot ? *slot : -1;
}

const struct ommai_token *ommai_vocabulary_get(const struct ommai_vocabulary *vocabulary, int32_t id) {
  if (id < 0 || id >= vocabulary->n_ids || !vocabulary->tokens[id].flags) return NULL;
  return &vocabulary->tokens[id];
}
