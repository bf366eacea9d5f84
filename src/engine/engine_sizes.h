/* How large the engine's parts are: its options with every default filled in, and what follows from
 * them, worked out by engine_measure.h before anything is allocated. */
#pragma once

#include "engine/request_queue.h"
#include "model/model.h"
#include "runner/runner.h"

#define OMMAI_DEFAULT_PREFILL_CHUNK 512
#define OMMAI_DEFAULT_QUEUE_BYTES ((int64_t)1 << 30)
#define OMMAI_MAX_QUEUE_LIMIT ((int64_t)1 << 30)
#define OMMAI_DEFAULT_SLICE_MS 1000
#define OMMAI_MAX_SLICE_MS 60000
#define OMMAI_DEFAULT_WAIT_MS 30000
#define OMMAI_MAX_WAIT_MS 86400000
#define OMMAI_DEFAULT_STUCK_MS 60000
#define OMMAI_MAX_STUCK_MS 86400000
#define OMMAI_MAX_SEQUENCES 1024
/* Requests without a slot whose images are taken in. */
#define OMMAI_SEQUENCES_AHEAD 64
/* Rows of a decode step that there are at least, for drafts of grammars. */
#define OMMAI_MIN_DRAWN_ROWS 8
/* Rows of a step for drafts by prompt lookup, at most: more would make the step dearer than the
 * drafts are worth. */
#define OMMAI_MAX_DRAFT_ROWS (8 * OMMA_MAX_DRAFT_TOKENS)
/* Generated tokens of one sequence that are computed again together. */
#define OMMAI_REPLAY_ROWS 16
#define OMMAI_MAX_LOOKUP_TOKENS 64
#define OMMAI_DEFAULT_RESERVE_TOKENS 512
#define OMMAI_DEFAULT_ENCODER_CACHE_BYTES ((int64_t)512 << 20)
#define OMMAI_MAX_PATCH_BUDGET ((int64_t)1 << 22)

struct ommai_engine_sizes {
  struct ommai_runner_facts facts;
  struct ommai_runner_limits limits;
  struct ommai_runner_bytes bytes;
  struct ommai_queue_limits queue;
  int64_t slice_ms, slice_percent, encoder_cache_bytes;
  int64_t mask_words; /* of 32 tokens, of a mask of the vocabulary */
  /* of each sequence and step, 0: none; how many tokens they are looked up by */
  int64_t draft_tokens, lookup_min, lookup_max;
  bool drafter;           /* the runner's drafts (enum ommai_drafter), not the text so far */
  int64_t reserve_tokens; /* of an answer, that admission finds room for */
  bool prefix_cache, by_priority;
  enum omma_scheduling scheduling;
  int64_t max_wait_ms;
  int64_t kv_bytes;     /* of all groups */
  size_t tables;        /* the runner's, and those of pages and sequences */
  size_t request_bytes; /* at most, of a request besides its images: for penalties, and its mask */
  /* Sequences for which the KV cache has room at full length, unless it was given; and patches of
   * images that are admitted and not in their prompt yet, unless one request has more. */
  int64_t full_sequences, image_patches;
  enum omma_sequence_bound sequence_bound;
};

/* Whether the network has a decoder; else images are encoded and nothing more. */
static inline bool ommai_engine_generates(const struct ommai_engine_sizes *sizes) { return sizes->facts.vocab_size > 0; }

/* Requests that are worked on, with a slot or ahead of one. */
static inline int64_t ommai_engine_max_live(const struct ommai_engine_sizes *sizes) {
  return sizes->limits.max_sequences + OMMAI_SEQUENCES_AHEAD;
}
