/* What the engine's thread works with: a runner, pages, images that were encoded, counters. Sized
 * before anything runs; used by one thread. */
#pragma once

#include "engine/beginnings.h"
#include "engine/encoder_cache.h"
#include "engine/encoding_share.h"
#include "engine/engine_sizes.h"
#include "engine/state_pool.h"

struct ommai_resources {
  const struct omma_model *model;
  struct ommai_engine_sizes sizes;
  struct ommai_runner *runner;
  struct ommai_state_pool *pool;
  struct ommai_beginnings beginnings;
  struct ommai_encoder_cache encoder_cache;
  struct ommai_encoding_share share;
  struct omma_engine_stats stats; /* counted by everyone on the engine's thread */
};

enum omma_status ommai_resources_create(const struct omma_model *model, const struct ommai_runner_source *source,
                                        const struct ommai_engine_sizes *sizes, struct ommai_resources *resources,
                                        struct omma_error *error);
/* The runner's time in nanoseconds, by which slices, steps and stages are measured. Any thread. */
static inline int64_t ommai_resources_now(const struct ommai_resources *resources) {
  return resources->runner->functions->now(resources->runner);
}

/* What is kept for requests to come goes, and memory that holds nothing then. Nothing runs. */
void ommai_resources_give_back(struct ommai_resources *resources);

/* Takes half-made resources. */
void ommai_resources_free(struct ommai_resources *resources);

/* Counts a step, or a chunk, of n_tokens. */
void ommai_resources_count_step(struct ommai_resources *resources, int64_t n_tokens);
