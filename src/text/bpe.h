/* Byte pair encoding of one piece of text: the adjacent pair of lowest merge rank is joined, the
 * leftmost first, until no pair has a merge. n log n in the bytes of the piece. Source: Sennrich
 * et al. 2016; GPT-2's byte-level form, and SentencePiece's of characters with bytes for those that
 * have no token. */
#pragma once

#include <omma/host.h>
#include <omma/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OMMAI_BPE_MAX_MERGES ((size_t)1 << 20)

struct ommai_merge {
  int32_t left, right; /* left -1: a free slot */
  int32_t rank, result;
};

struct ommai_vocabulary;

/* The merges of a vocabulary. Immutable once filled; any number of threads may use it. */
struct ommai_bpe {
  struct ommai_merge *slots; /* [n_slots], open addressing by the pair */
  size_t n_slots;
  int32_t byte_ids[256]; /* the token of each single byte */
  /* joining begins with characters that are tokens of it, and the bytes of others; NULL: with
   * bytes */
  const struct ommai_vocabulary *characters;
};

/* Makes room for n_merges merges. Errors: MEMORY. */
enum omma_status ommai_bpe_init(struct ommai_bpe *bpe, size_t n_merges, const struct omma_allocator *allocator,
                                struct omma_error *error);
void ommai_bpe_clear(struct ommai_bpe *bpe, const struct omma_allocator *allocator);

/* Adds one merge; a pair that is there already gets the new rank, as in the official code. False
 * when the pair collides with too many others. */
bool ommai_bpe_add(struct ommai_bpe *bpe, struct ommai_merge merge);

/* Where token ids go: the first `capacity` are stored, all are counted. ids may be NULL. */
struct ommai_id_sink {
  int32_t *ids;
  size_t capacity;
  size_t count;
};
static inline void ommai_id_sink_put(struct ommai_id_sink *sink, int32_t id) {
  if (sink->count < sink->capacity) sink->ids[sink->count] = id;
  sink->count++;
}

/* Encodes one piece. Pieces beyond some hundred bytes take 32 bytes of memory per byte from the
 * allocator for the time of the call. Errors: MEMORY. */
enum omma_status ommai_bpe_encode(const struct ommai_bpe *bpe, const char *piece, size_t size,
                                  const struct omma_allocator *allocator, struct ommai_id_sink *sink, struct omma_error *error);
