/* What the engine's thread computes with: team, KV pages, workspaces, tables. Sized before anything
 * runs; used by one thread. */
#ifndef OMMAI_ENGINE_RESOURCES_H
#define OMMAI_ENGINE_RESOURCES_H

#include "base/team.h"
#include "engine/encoder_cache.h"
#include "engine/encoding_share.h"
#include "engine/engine_sizes.h"
#include "engine/page_pool.h"
#include "language/kv_cache.h"
#include "language/sampler.h"
#include "model/model.h"

struct ommai_resources {
  const struct omma_model *model;
  struct ommai_engine_sizes sizes;
  struct ommai_team *team;
  const struct omma_team *team_interface;
  struct ommai_kv_cache *kv;
  struct ommai_page_pool *pool;
  struct omma_kv_events kv_events; /* without functions: none */
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
