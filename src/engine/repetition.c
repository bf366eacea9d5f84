#include "engine/repetition.h"

#include <string.h>

#include "base/allocator.h"
#include "base/checked.h"
#include "base/error.h"

#define HASH_FACTOR UINT64_C(0x9e3779b97f4a7c15)

/* Lists have one entry on average when the answer is as long as it can be. */
static size_t count_heads(int64_t capacity) {
  size_t n = 1;
  while ((int64_t)n < capacity) n *= 2;
  return n;
}

/* A pattern comes twice at least. */
static int64_t max_runs(int64_t capacity) { return capacity / 2 + 1; }

size_t ommai_repetition_bytes(int64_t capacity) {
  return (count_heads(capacity) + (size_t)capacity + (size_t)max_runs(capacity)) * sizeof(int32_t);
}

enum omma_status ommai_repetition_init(struct ommai_repetition *repetition, int64_t ngram_size,
                                       const struct omma_repetition_detection *detection, int64_t capacity,
                                       const struct omma_allocator *allocator, struct omma_error *error) {
  *repetition = (struct ommai_repetition){.capacity = capacity, .oldest = 1};
  if (ngram_size > 0 && ngram_size < capacity) {
    repetition->ngram_size = ngram_size;
    for (int64_t i = 2; i < ngram_size; i++) repetition->oldest *= HASH_FACTOR;
    repetition->n_heads = count_heads(capacity);
    repetition->heads = ommai_allocate(allocator, repetition->n_heads, sizeof *repetition->heads);
    repetition->next = ommai_allocate(allocator, (size_t)capacity, sizeof *repetition->next);
    if (!repetition->heads || !repetition->next) {
      return ommai_fail_memory(error, "no_repeat_ngram_size", ommai_repetition_bytes(capacity));
    }
  }
  if (detection->max_pattern_size > 0) {
    repetition->min_pattern = ommai_max_i64(detection->min_pattern_size, 1);
    repetition->max_pattern = ommai_min_i64(detection->max_pattern_size, capacity / detection->min_count);
    repetition->min_count = detection->min_count;
    repetition->runs = ommai_allocate(allocator, (size_t)repetition->max_pattern + 1, sizeof *repetition->runs);
    if (!repetition->runs) return ommai_fail_memory(error, "repetition_detection", ommai_repetition_bytes(capacity));
  }
  return OMMA_OK;
}

void ommai_repetition_free(struct ommai_repetition *repetition, const struct omma_allocator *allocator) {
  ommai_release(allocator, repetition->heads, repetition->n_heads, sizeof *repetition->heads);
  ommai_release(allocator, repetition->next, (size_t)repetition->capacity, sizeof *repetition->next);
  ommai_release(allocator, repetition->runs, (size_t)repetition->max_pattern + 1, sizeof *repetition->runs);
  *repetition = (struct ommai_repetition){0};
}

/* ---- sequences ---- */

/* The list of what followed the last tokens. */
static int32_t *list_of(const struct ommai_repetition *repetition) {
  return &repetition->heads[(repetition->hash * HASH_FACTOR >> 32) & (repetition->n_heads - 1)];
}

/* From an entry on, the first one whose tokens before it are the last of answer[n]. */
static int64_t find(const struct ommai_repetition *repetition, const int32_t *answer, int64_t n, int64_t place) {
  int64_t n_before = repetition->ngram_size - 1;
  while (place >= 0 && memcmp(answer + place - n_before, answer + n - n_before, (size_t)n_before * sizeof *answer) != 0) {
    place = repetition->next[place] - 1;
  }
  return place;
}

int64_t ommai_repetition_first(const struct ommai_repetition *repetition, const int32_t *answer, int64_t n) {
  if (!repetition->ngram_size || n < repetition->ngram_size) return -1;
  return find(repetition, answer, n, *list_of(repetition) - 1);
}

int64_t ommai_repetition_next(const struct ommai_repetition *repetition, const int32_t *answer, int64_t n, int64_t place) {
  return find(repetition, answer, n, repetition->next[place] - 1);
}

/* Puts the answer's last token into the list of the tokens before it, unless an equal one is
 * there. */
static void keep_last(struct ommai_repetition *repetition, const int32_t *answer, int64_t n) {
  int64_t last = n - 1, place = ommai_repetition_first(repetition, answer, last);
  while (place >= 0 && answer[place] != answer[last]) place = ommai_repetition_next(repetition, answer, last, place);
  if (place >= 0) return;
  int32_t *list = list_of(repetition);
  repetition->next[last] = *list;
  *list = (int32_t)n;
}

static void take_sequence(struct ommai_repetition *repetition, const int32_t *answer, int64_t n) {
  int64_t n_before = repetition->ngram_size - 1, last = n - 1;
  if (n > n_before) keep_last(repetition, answer, n);
  if (n_before == 0) return;
  if (last >= n_before) repetition->hash -= repetition->oldest * ((uint64_t)answer[last - n_before] + 1);
  repetition->hash = repetition->hash * HASH_FACTOR + (uint64_t)answer[last] + 1;
}

/* ---- patterns ---- */

static void take_runs(struct ommai_repetition *repetition, const int32_t *answer, int64_t n) {
  int64_t last = n - 1, end = ommai_min_i64(repetition->max_pattern, last);
  for (int64_t size = repetition->min_pattern; size <= end; size++) {
    repetition->runs[size] = answer[last] == answer[last - size] ? repetition->runs[size] + 1 : 0;
  }
}

bool ommai_repetition_found(const struct ommai_repetition *repetition, int64_t n) {
  if (!repetition->runs) return false;
  int64_t end = ommai_min_i64(repetition->max_pattern, n / repetition->min_count);
  for (int64_t size = repetition->min_pattern; size <= end; size++) {
    if (repetition->runs[size] >= size * (repetition->min_count - 1)) return true;
  }
  return false;
}

/* ---- both ---- */

void ommai_repetition_take(struct ommai_repetition *repetition, const int32_t *answer, int64_t n) {
  if (repetition->ngram_size) take_sequence(repetition, answer, n);
  if (repetition->runs) take_runs(repetition, answer, n);
}
