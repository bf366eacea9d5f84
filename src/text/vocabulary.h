/* The tokens of a tokenizer: id -> bytes and flags, and bytes -> id. */
#pragma once

#include <omma/host.h>
#include <omma/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Ids are 0 .. MAX_IDS - 1; a token has 1 to MAX_TOKEN_BYTES bytes. */
#define OMMAI_VOCABULARY_MAX_IDS ((int64_t)1 << 20)
#define OMMAI_VOCABULARY_MAX_TOKEN_BYTES 1024

#define OMMAI_TOKEN_KNOWN 1u   /* the id has a token */
#define OMMAI_TOKEN_ADDED 2u   /* cut out of the text before everything else */
#define OMMAI_TOKEN_SPECIAL 4u /* a marker and not text */

struct ommai_token {
  uint32_t offset; /* into bytes */
  uint16_t size;
  uint16_t flags; /* OMMAI_TOKEN_... */
};

struct ommai_vocabulary {
  struct ommai_token *tokens; /* [n_ids] */
  int32_t n_ids;
  char *bytes; /* [bytes_capacity] */
  size_t bytes_used, bytes_capacity;
  int32_t *slots; /* [n_slots], open addressing by the hash of the bytes; -1: free */
  size_t n_slots;
};

/* Makes room for ids 0 .. n_ids - 1 and for tokens of `bytes` bytes in all, of which n_indexed can
 * be found by their bytes. Errors: MEMORY. */
enum omma_status ommai_vocabulary_init(struct ommai_vocabulary *vocabulary, int32_t n_ids, size_t bytes, size_t n_indexed,
                                       const struct omma_allocator *allocator, struct omma_error *error);
void ommai_vocabulary_clear(struct ommai_vocabulary *vocabulary, const struct omma_allocator *allocator);

/* Sets the token of an id that has none. `indexed`: ommai_vocabulary_find finds it. Must stay
 * within the room announced. Errors: FORMAT (the id has a token already, or the bytes collide). */
enum omma_status ommai_vocabulary_add(struct ommai_vocabulary *vocabulary, int32_t id, const char *bytes, size_t size,
                                      unsigned flags, bool indexed, struct omma_error *error);

/* The id of an indexed token, or -1. */
int32_t ommai_vocabulary_find(const struct ommai_vocabulary *vocabulary, const char *bytes, size_t size);

/* The token, or NULL where the id has none: a padding id, or not an id. */
const struct ommai_token *ommai_vocabulary_get(const struct ommai_vocabulary *vocabulary, int32_t id);

/* Open addressing, shared by the tables of this folder: a power of two above 4/3 of the entries,
 * linear steps, and at most that many of them, so that a file made to collide is refused and not
 * slow. */
#define OMMAI_HASH_MAX_STEPS 1024
size_t ommai_hash_slots(size_t n_entries);

static inline uint64_t ommai_hash_mix(uint64_t value) {
  value *= 0x9E3779B97F4A7C15u;
  value ^= value >> 32;
  value *= 0xD6E8FEB86659FD93u;
  return value ^ value >> 29;
}
