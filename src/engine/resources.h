/* What the engine's thread computes with: team, KV pages, workspaces. Sized before anything runs; used by one thread. */
#ifndef OMMAI_ENGINE_RESOURCES_H
#define OMMAI_ENGINE_RESOURCES_H

#include "base/team.h"
#include "engine/encoder_cache.h"
#include "engine/model.h"
#include "language/kv_cache.h"
#include "language/sampler.h"

#define OMMAI_DEFAULT_PREFILL_CHUNK 512
#define OMMAI_DEFAULT_QUEUE_LIMIT 256
#define OMMAI_MAX_QUEUE_LIMIT 65536
#define OMMAI_DEFAULT_SLICE_MS 1000
#define OMMAI_MAX_SLICE_MS 60000
#define OMMAI_MAX_PATCH_BUDGET ((int64_t)1 << 22)

/* The options with every default filled in, and what follows from them. */
struct ommai_engine_sizes {
  int64_t n_pages, context; /* context: tokens of one sequence, at most */
  int64_t patch_budget, prefill_chunk, queue_limit, slice_ms, encoder_cache_bytes;
  size_t page_bytes, language_workspace, vision_workspace, tables;
};

/* Works sizes out. Errors: ARGUMENT (an option out of range, with its name), LIMIT (the KV budget holds no page). */
enum omma_status ommai_engine_sizes(const struct omma_model *model, const struct omma_engine_options *options,
                                    struct ommai_engine_sizes *sizes, struct omma_error *error);

struct ommai_resources {
  const struct omma_model *model;
  struct ommai_engine_sizes sizes;
  struct ommai_team *team;
  const struct omma_team *team_interface;
  struct ommai_kv_cache *kv;
  struct ommai_encoder_cache encoder_cache;
  void *language_workspace;
  void *vision_workspace;
  size_t vision_workspace_size;
  float *logits;   /* [vocab] */
  float *last_row; /* [hidden_size], the end of a prompt on its way to the logits */
  void *sampler_memory;
  struct ommai_sampler_scratch sampler_scratch;
  int32_t *answer_counts; /* [vocab], for penalties */
  bool *in_prompt;        /* [vocab] */
};

enum omma_status ommai_resources_create(const struct omma_model *model, const struct ommai_engine_sizes *sizes,
                                        struct ommai_resources *resources, struct omma_error *error);
/* Takes half-made resources. */
void ommai_resources_free(struct ommai_resources *resources);

/* Makes the vision workspace at least `size` bytes: called before a pass whose one picture is over the patch budget. */
enum omma_status ommai_resources_grow_vision(struct ommai_resources *resources, size_t size, struct omma_error *error);

#endif
