/* What an answer repeats of itself: sequences of tokens that it has already, and patterns that it
 * ends with several times in a row. Works on generated tokens alone; no task of the runner's. */
#pragma once

#include <omma/omma.h>

/* Zero-initialised: nothing is looked for. */
struct ommai_repetition {
  int64_t capacity; /* tokens that the answer can have */
  /* Sequences of ngram_size tokens, found by a hash of all but the last: lists of the places of
   * their last tokens, no two of which are equal after the same tokens; a place is stored plus
   * 1. */
  int64_t ngram_size; /* 0: not wanted */
  int32_t *heads;     /* [n_heads], a power of two */
  int32_t *next;      /* [capacity] */
  size_t n_heads;
  uint64_t hash;   /* of the last ngram_size - 1 tokens */
  uint64_t oldest; /* the factor of the first of these in the hash */
  /* Patterns: how many of the last tokens equal the one that many places before them. */
  int64_t min_pattern, max_pattern, min_count; /* max_pattern 0: not wanted */
  int32_t *runs;                               /* [max_pattern + 1] */
};

/* Bytes for an answer of that many tokens, at most. */
size_t ommai_repetition_bytes(int64_t capacity);

/* Takes the memory that the two settings need; free it in any case. Errors: MEMORY. */
enum omma_status ommai_repetition_init(struct ommai_repetition *repetition, int64_t ngram_size,
                                       const struct omma_repetition_detection *detection, int64_t capacity,
                                       const struct omma_allocator *allocator, struct omma_error *error);
void ommai_repetition_free(struct ommai_repetition *repetition, const struct omma_allocator *allocator);

/* Takes the answer's last token; `answer` [n] has it. Each token of an answer is taken once. */
void ommai_repetition_take(struct ommai_repetition *repetition, const int32_t *answer, int64_t n);

/* The tokens that would repeat a sequence after answer[n]: token `answer[place]` for each place
 * from ommai_repetition_first on, until ommai_repetition_next gives -1. No token comes twice. */
int64_t ommai_repetition_first(const struct ommai_repetition *repetition, const int32_t *answer, int64_t n);
int64_t ommai_repetition_next(const struct ommai_repetition *repetition, const int32_t *answer, int64_t n, int64_t place);

/* Whether the answer, of n taken tokens, ends with a pattern min_count times in a row. */
bool ommai_repetition_found(const struct ommai_repetition *repetition, int64_t n);
