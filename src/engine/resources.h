/* What the engine's thread computes with: team, KV pages, workspaces, tables. Sized before anything
 * runs; used by one thread. */
#ifndef OMMAI_ENGINE_RESOURCES_H
#define OMMAI_ENGINE_RESOURCES_H

#include "base/team.h"
#include "engine/encoder_cache.h"
#include "engine/encoding_share.h"
#include "engine/model.h"
#include "engine/page_pool.h"
#include "language/kv_cache.h"
#include "language/sampler.h"

#define OMMAI_DEFAULT_PREFILL_CHUNK 512
#define OMMAI_DEFAULT_QUEUE_LIMIT 256
#define OMMAI_MAX_QUEUE_LIMIT 65536
#define OMMAI_DEFAULT_SLICE_MS 1000
#define OMMAI_MAX_SLICE_MS 60000
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
  size_t page_bytes, prefill_workspace, decode_workspace, vision_workspace, tables;
};

/* Works sizes out. Errors: ARGUMENT (an option out of range, with its name), LIMIT (the KV budget
 * holds no page). */
enum omma_status ommai_engine_sizes(const struct omma_model *model, const struct omma_engine_options *options,
                                    struct ommai_engine_sizes *sizes, struct omma_error *error);

struct ommai_resources {
  const struct omma_model *model;
  struct ommai_engine_sizes sizes;
  struct ommai_team *team;
  const struct omma_team *team_interface;
  struct ommai_kv_cache *kv;
  struct ommai_page_pool *pool;
  struct omma_kv_events kv_events; /* without functions: nobody is told */
  struct ommai_encoder_cache encoder_cache;
  struct ommai_encoding_share share;
  void *prefill_workspace, *decode_workspace, *vision_workspace;
  size_t vision_workspace_size;
  float *logits; /* [logits_rows, vocab] */
  void *sampler_memory;
  struct ommai_sampler *sampler;
  int32_t *answer_counts; /* [max_sequences, vocab], for penalties */
  bool *in_prompt;        /* [max_sequences, vocab] */
  /* guesses, and those that were right; counters */
  int64_t n_drafts, n_draft_tokens, n_accepted_tokens;
  /* prompt tokens looked up among published pages, and found; counters */
  int64_t prefix_queries, prefix_hits;
};

enum omma_status ommai_resources_create(const struct omma_model *model, const struct ommai_engine_sizes *sizes,
                                        struct ommai_resources *resources, struct omma_error *error);
/* Takes half-made resources. */
void ommai_resources_free(struct ommai_resources *resources);

/* Makes the vision workspace at least `size` bytes: called before a pass whose one image is over
 * the patch budget. */
enum omma_status ommai_resources_grow_vision(struct ommai_resources *resources, size_t size, struct omma_error *error);

#endif
