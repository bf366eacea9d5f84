/* How large the engine's parts are: its options with every default filled in, and what follows from
 * them. ommai_engine_sizes (memory_estimate.h) works them out. */
#ifndef OMMAI_ENGINE_ENGINE_SIZES_H
#define OMMAI_ENGINE_ENGINE_SIZES_H

#include <omma/omma.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OMMAI_DEFAULT_PREFILL_CHUNK 512
#define OMMAI_DEFAULT_QUEUE_LIMIT 256
#define OMMAI_MAX_QUEUE_LIMIT 65536
#define OMMAI_DEFAULT_SLICE_MS 1000
#define OMMAI_MAX_SLICE_MS 60000
#define OMMAI_DEFAULT_WAIT_MS 30000
#define OMMAI_MAX_WAIT_MS 86400000
#define OMMAI_MAX_SEQUENCES 1024
/* Rows of a decode step that there are at least, for guesses of structured answers. */
#define OMMAI_MIN_LOGITS_ROWS 8
#define OMMAI_DEFAULT_RESERVE_TOKENS 512
#define OMMAI_MAX_PATCH_BUDGET ((int64_t)1 << 22)

/* The options with every default filled in, and what follows from them. */
struct ommai_engine_sizes {
  int64_t n_pages, context; /* context: tokens of one sequence, at most */
  int64_t patch_budget, prefill_chunk, queue_limit, slice_ms, slice_percent, encoder_cache_bytes;
  int64_t max_sequences;
  int64_t logits_rows; /* of a decode step that gives tokens */
  int64_t max_rows;    /* of any decode step */
  int64_t mask_words;  /* of 32 tokens, of a mask of the vocabulary */
  /* guesses for each sequence and step, 0: none; what they are looked up by */
  int64_t draft_tokens, lookup_min, lookup_max;
  int64_t reserve_tokens; /* of an answer, that admission finds room for */
  bool prefix_cache, by_priority;
  enum omma_scheduling scheduling;
  int64_t max_wait_ms;
  size_t page_bytes, prefill_workspace, decode_workspace, vision_workspace, tables;
};

#endif
