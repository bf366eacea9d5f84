#include "engine/resources.h"

#include "base/allocator.h"
#include "base/error.h"

/* Tokens that tables have a place for. */
static size_t vocabulary(const struct omma_model *model) {
  return model->network.has_decoder ? (size_t)model->config.text.vocab_size : 0;
}

static size_t sampler_size(const struct ommai_resources *resources) {
  if (!resources->model->network.has_decoder) return 0;
  return ommai_sampler_size(resources->model->config.text.vocab_size, resources->sizes.max_sequences);
}

static enum omma_status allocate(struct ommai_resources *resources, struct omma_error *error) {
  const struct omma_model *model = resources->model;
  const struct omma_allocator *allocator = &model->allocator;
  const struct ommai_engine_sizes *sizes = &resources->sizes;
  size_t vocab = vocabulary(model), cells = vocab * (size_t)sizes->max_sequences;
  size_t logits = vocab * (size_t)sizes->logits_rows;
  resources->prefill_workspace = ommai_allocate_uninitialised(allocator, sizes->prefill_workspace, 1);
  resources->decode_workspace = ommai_allocate_uninitialised(allocator, sizes->decode_workspace, 1);
  resources->vision_workspace = ommai_allocate_uninitialised(allocator, sizes->vision_workspace, 1);
  resources->logits = ommai_allocate_uninitialised(allocator, logits, sizeof(float));
  resources->sampler_memory = ommai_allocate_uninitialised(allocator, sampler_size(resources), 1);
  resources->answer_counts = ommai_allocate_uninitialised(allocator, cells, sizeof(int32_t));
  resources->in_prompt = ommai_allocate_uninitialised(allocator, cells, sizeof(bool));
  resources->vision_workspace_size = sizes->vision_workspace;
  if (!resources->prefill_workspace || !resources->decode_workspace || !resources->vision_workspace || !resources->logits ||
      !resources->sampler_memory || !resources->answer_counts || !resources->in_prompt) {
    return ommai_fail_memory(error, "engine",
                             sizes->prefill_workspace + sizes->decode_workspace + sizes->vision_workspace + sizes->tables);
  }
  if (!model->network.has_decoder) return OMMA_OK;
  resources->sampler = ommai_sampler_place(resources->sampler_memory, model->config.text.vocab_size, sizes->max_sequences,
                                           model->network.decoder.ops);
  return OMMA_OK;
}

enum omma_status ommai_resources_create(const struct omma_model *model, const struct ommai_engine_sizes *sizes,
                                        struct ommai_resources *resources, struct omma_error *error) {
  *resources = (struct ommai_resources){.model = model, .sizes = *sizes};
  enum omma_status status;
  ommai_encoder_cache_init(&resources->encoder_cache, sizes->encoder_cache_bytes, &model->allocator);
  OMMAI_TRY_GOTO(ommai_team_create(model->network.n_threads, model->pin_threads, &model->allocator, &resources->team, error),
                 failed);
  resources->team_interface = ommai_team_interface(resources->team);
  if (model->network.has_decoder) {
    OMMAI_TRY_GOTO(ommai_kv_cache_create(&model->config.text, model->network.decoder.kv_type, sizes->n_pages,
                                         &model->network.large_allocator, &resources->kv, error),
                   failed);
  }
  OMMAI_TRY_GOTO(ommai_page_pool_create(sizes->n_pages, &model->allocator, &resources->pool, error), failed);
  OMMAI_TRY_GOTO(allocate(resources, error), failed);
  return OMMA_OK;
failed:
  ommai_resources_free(resources);
  return status;
}

void ommai_resources_free(struct ommai_resources *resources) {
  if (!resources->model) return;
  const struct omma_allocator *allocator = &resources->model->allocator;
  const struct ommai_engine_sizes *sizes = &resources->sizes;
  size_t vocab = vocabulary(resources->model), cells = vocab * (size_t)sizes->max_sequences;
  size_t logits = vocab * (size_t)sizes->logits_rows;
  ommai_release(allocator, resources->prefill_workspace, sizes->prefill_workspace, 1);
  ommai_release(allocator, resources->decode_workspace, sizes->decode_workspace, 1);
  ommai_release(allocator, resources->vision_workspace,
                resources->vision_workspace_size ? resources->vision_workspace_size : sizes->vision_workspace, 1);
  ommai_release(allocator, resources->logits, logits, sizeof(float));
  ommai_release(allocator, resources->sampler_memory, sampler_size(resources), 1);
  ommai_release(allocator, resources->answer_counts, cells, sizeof(int32_t));
  ommai_release(allocator, resources->in_prompt, cells, sizeof(bool));
  ommai_encoder_cache_free(&resources->encoder_cache);
  ommai_page_pool_destroy(resources->pool);
  ommai_kv_cache_destroy(resources->kv);
  ommai_team_destroy(resources->team);
  *resources = (struct ommai_resources){0};
}

enum omma_status ommai_resources_grow_vision(struct ommai_resources *resources, size_t size, struct omma_error *error) {
  if (size <= resources->vision_workspace_size) return OMMA_OK;
  const struct omma_allocator *allocator = &resources->model->allocator;
  void *larger = ommai_allocate_uninitialised(allocator, size, 1);
  if (!larger) return ommai_fail_memory(error, "vision workspace", size);
  ommai_release(allocator, resources->vision_workspace, resources->vision_workspace_size, 1);
  resources->vision_workspace = larger;
  resources->vision_workspace_size = size;
  return OMMA_OK;
}
