#include "engine/resources.h"

#include "base/error.h"

enum omma_status ommai_resources_create(const struct omma_model *model, const struct ommai_runner_source *source,
                                        const struct ommai_engine_sizes *sizes, struct ommai_resources *resources,
                                        struct omma_error *error) {
  *resources = (struct ommai_resources){.model = model, .sizes = *sizes};
  resources->stats.kv_pages = sizes->limits.n_pages[0];
  for (int g = 0; g < sizes->facts.n_groups; g++) {
    if (sizes->facts.groups[g].kind != OMMAI_STATE_SNAPSHOT) continue;
    resources->stats.snapshots = sizes->limits.n_pages[g];
    resources->stats.snapshot_bytes = (int64_t)sizes->facts.groups[g].page_bytes;
  }
  resources->stats.prefix_cache = sizes->prefix_cache;
  resources->stats.max_sequences = sizes->limits.max_sequences;
  ommai_encoder_cache_init(&resources->encoder_cache, &sizes->facts.image, sizes->encoder_cache_bytes, &model->allocator);
  enum omma_status status = source->create(source->network, &sizes->limits, &resources->runner, error);
  if (status == OMMA_OK) {
    status = ommai_state_pool_create(sizes->facts.groups, sizes->facts.n_groups, sizes->limits.n_pages,
                                     sizes->limits.prefill_chunk, &model->allocator, &resources->pool, error);
  }
  if (status != OMMA_OK) ommai_resources_free(resources);
  return status;
}

void ommai_resources_give_back(struct ommai_resources *resources) {
  ommai_state_pool_clear(resources->pool);
  ommai_encoder_cache_clear(&resources->encoder_cache);
  resources->beginnings = (struct ommai_beginnings){0};
  resources->runner->functions->give_back(resources->runner);
}

void ommai_resources_free(struct ommai_resources *resources) {
  if (!resources->model) return;
  ommai_encoder_cache_free(&resources->encoder_cache);
  ommai_state_pool_destroy(resources->pool);
  if (resources->runner) resources->runner->functions->destroy(resources->runner);
  *resources = (struct ommai_resources){0};
}

void ommai_resources_count_step(struct ommai_resources *resources, int64_t n_tokens) {
  struct omma_engine_stats *stats = &resources->stats;
  int size = 0;
  while (size < OMMA_N_STEP_SIZES - 1 && n_tokens > (size ? INT64_C(4) << size : 1)) size++;
  stats->steps_by_tokens[size]++;
  stats->step_tokens += n_tokens;
}
