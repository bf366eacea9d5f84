/* The engine's memory, computed before anything runs. */
#include "base/checked.h"
#include "base/error.h"
#include "base/sized.h"
#include "engine/engine_measure.h"
#include "model/model_open.h"
#include "runner/cpu_runner.h"

/* Makes the figures of one engine those of n. */
static void multiply(struct omma_memory_estimate *estimate, int64_t n) {
  int64_t *const of_each[] = {&estimate->kv_cache_bytes,
                              &estimate->kv_cache_tokens,
                              &estimate->vision_workspace_bytes,
                              &estimate->language_workspace_bytes,
                              &estimate->table_bytes,
                              &estimate->encoder_cache_bytes,
                              &estimate->max_sequences,
                              &estimate->max_image_sequences};
  for (size_t i = 0; i < sizeof of_each / sizeof *of_each; i++) *of_each[i] *= n;
}

enum omma_status omma_estimate_memory(const struct omma_model *model, const struct omma_engine_options *options,
                                      int64_t n_patches, struct omma_memory_estimate *estimate, struct omma_error *error) {
  const struct ommai_runner_source source = ommai_cpu_runner_source(model);
  struct ommai_engine_sizes sizes;
  OMMAI_TAKE_OPTIONS(omma_engine_options, options, error);
  OMMAI_TRY(ommai_engine_sizes(model, &source, options, &sizes, error));
  if (n_patches < 0 || n_patches > OMMAI_MAX_PATCH_BUDGET) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "n_patches", "n_patches: expected 0 to %lld, found %lld",
                            (long long)OMMAI_MAX_PATCH_BUDGET, (long long)n_patches);
  }
  size_t vision;
  int64_t image_bytes, n_pages = sizes.limits.n_pages[0];
  source.measure_image(source.network, n_patches ? n_patches : sizes.limits.patch_budget, &vision, &image_bytes);
  if (n_patches == 0) vision = sizes.bytes.encode;
  int64_t n_images = sizes.image_patches / (n_patches ? n_patches : sizes.limits.patch_budget);
  *estimate = (struct omma_memory_estimate){
      .weight_bytes = ommai_model_weight_bytes(model),
      .kv_cache_bytes = sizes.kv_bytes,
      .kv_cache_tokens = n_pages * OMMA_ATTENTION_PAGE_TOKENS,
      .max_model_len = sizes.limits.context,
      .vision_workspace_bytes = (int64_t)vision,
      .language_workspace_bytes = (int64_t)(sizes.bytes.prefill + sizes.bytes.decode),
      .linear_scratch_bytes = ommai_model_linear_scratch_bytes(model),
      .table_bytes = (int64_t)sizes.tables,
      .encoder_cache_bytes = sizes.encoder_cache_bytes,
      .known_image_bytes = ommai_image_store_budget(model->image_store),
      .request_bytes = image_bytes + (int64_t)sizes.request_bytes,
      .text_request_bytes = (int64_t)sizes.request_bytes,
      .max_sequences = sizes.limits.max_sequences,
      .max_image_sequences = ommai_max_i64(1, ommai_min_i64(n_images, sizes.limits.max_sequences)),
      .sequence_bound = sizes.sequence_bound};
  multiply(estimate, ommai_max_i64(model->n_engines, 1));
  for (int g = 0; g < sizes.facts.n_groups; g++) estimate->kv_page_bytes += (int64_t)sizes.facts.groups[g].page_bytes;
  estimate->total_bytes = estimate->weight_bytes + estimate->kv_cache_bytes + estimate->vision_workspace_bytes +
                          estimate->language_workspace_bytes + estimate->linear_scratch_bytes + estimate->table_bytes +
                          estimate->max_image_sequences * image_bytes + estimate->max_sequences * estimate->text_request_bytes;
  return OMMA_OK;
}
