#include "engine/memory_estimate.h"

#include "base/checked.h"
#include "base/error.h"
#include "base/memory_room.h"
#include "base/sized.h"
#include "engine/kv_budget.h"
#include "engine/policy.h"
#include "engine/scheduler.h"
#include "language/decode.h"
#include "language/prefill.h"
#include "vision/vision_run.h"

enum { PAGE = OMMA_ATTENTION_PAGE_TOKENS, MAX_PREFILL_CHUNK = 65536, DEFAULT_LOOKUP_TOKENS = 5 };

static enum omma_status pick(const char *field, int64_t value, int64_t fallback, int64_t max, int64_t *out,
                             struct omma_error *error) {
  *out = value ? value : fallback;
  if (*out >= 1 && *out <= max) return OMMA_OK;
  return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, field, "%s: expected 1 to %lld, found %lld", field, (long long)max,
                          (long long)value);
}

/* Resized pixels and the tower's output for one image. */
static int64_t request_bytes(const struct omma_model *model, int64_t n_patches) {
  const struct ommai_vision_config *vision = &model->config.vision;
  int64_t n_tokens = n_patches / (vision->merge_size * vision->merge_size);
  return n_patches * 3 * vision->patch_size * vision->patch_size +
         ommai_vision_output_size(&model->config.vision, n_tokens) * (int64_t)sizeof(float);
}

/* What the KV cache of an engine with these sizes gets by default, at least a page. Weights that
 * are packed already are not in `room`. */
static int64_t default_kv_bytes(const struct omma_model *model, const struct ommai_engine_sizes *sizes, int64_t room) {
  int64_t page_bytes = (int64_t)sizes->page_bytes, needed, n_pages = ommai_div_up(model->max_model_len, PAGE);
  if (!ommai_mul_i64(n_pages, sizes->max_sequences, &n_pages) || !ommai_mul_i64(n_pages, page_bytes, &needed))
    needed = INT64_MAX;
  size_t workspaces = sizes->prefill_workspace + sizes->decode_workspace + sizes->vision_workspace + sizes->tables;
  int64_t taken = (int64_t)workspaces + ommai_min_i64(sizes->encoder_cache_bytes, INT64_MAX / 4) +
                  ommai_min_i64(ommai_image_store_budget(model->image_store), INT64_MAX / 8) +
                  sizes->max_sequences * request_bytes(model, sizes->patch_budget);
  if (!model->weights_packed) taken += model->weight_bytes + model->linear_scratch_bytes;
  return ommai_max_i64(ommai_kv_budget(needed, room, taken), page_bytes);
}

static void set_pages(const struct omma_model *model, int64_t bytes, struct ommai_engine_sizes *sizes) {
  sizes->n_pages = ommai_min_i64(bytes / (int64_t)sizes->page_bytes, INT32_MAX);
  sizes->context = ommai_min_i64(model->max_model_len, sizes->n_pages * PAGE);
}

/* The cache that was asked for, or the default's upper bound: as if the workspaces, which follow
 * from the context, took nothing. */
static enum omma_status size_kv(const struct omma_model *model, int64_t kv_cache_bytes, int64_t room,
                                struct ommai_engine_sizes *sizes, struct omma_error *error) {
  sizes->page_bytes = ommai_kv_page_bytes(&model->config.text, model->decoder.kv_type);
  set_pages(model, kv_cache_bytes ? kv_cache_bytes : default_kv_bytes(model, sizes, room), sizes);
  if (kv_cache_bytes >= 0 && sizes->n_pages >= 1) return OMMA_OK;
  return ommai_fail_field(error, OMMA_ERROR_LIMIT, "kv_cache_bytes",
                          "kv_cache_bytes: one page of %d tokens takes %lld bytes, found %lld", PAGE,
                          (long long)sizes->page_bytes, (long long)kv_cache_bytes);
}

static enum omma_status pick_drafts(const struct omma_engine_options *options, struct ommai_engine_sizes *sizes,
                                    struct omma_error *error) {
  int64_t longest = options->lookup_max ? options->lookup_max : options->lookup_min;
  if (options->draft_tokens == 0) return OMMA_OK;
  OMMAI_TRY(pick("draft_tokens", options->draft_tokens, 1, OMMAI_MAX_DRAFT_TOKENS, &sizes->draft_tokens, error));
  OMMAI_TRY(pick("lookup_max", longest, DEFAULT_LOOKUP_TOKENS, OMMAI_MAX_LOOKUP_TOKENS, &sizes->lookup_max, error));
  return pick("lookup_min", options->lookup_min, sizes->lookup_max, sizes->lookup_max, &sizes->lookup_min, error);
}

static enum omma_status pick_limits(const struct omma_engine_options *options, struct ommai_engine_sizes *sizes,
                                    struct omma_error *error) {
  OMMAI_TRY(pick("patch_budget", options->patch_budget, OMMA_DEFAULT_PATCH_BUDGET, OMMAI_MAX_PATCH_BUDGET, &sizes->patch_budget,
                 error));
  OMMAI_TRY(pick("prefill_chunk", options->prefill_chunk, OMMAI_DEFAULT_PREFILL_CHUNK, MAX_PREFILL_CHUNK, &sizes->prefill_chunk,
                 error));
  OMMAI_TRY(
      pick("queue_limit", options->queue_limit, OMMAI_DEFAULT_QUEUE_LIMIT, OMMAI_MAX_QUEUE_LIMIT, &sizes->queue_limit, error));
  OMMAI_TRY(pick("slice_ms", options->slice_ms, OMMAI_DEFAULT_SLICE_MS, OMMAI_MAX_SLICE_MS, &sizes->slice_ms, error));
  OMMAI_TRY(pick("slice_percent", options->slice_percent, OMMAI_DEFAULT_SLICE_PERCENT, OMMAI_MAX_SLICE_PERCENT,
                 &sizes->slice_percent, error));
  OMMAI_TRY(pick("max_sequences", options->max_sequences, OMMA_DEFAULT_MAX_SEQUENCES, OMMAI_MAX_SEQUENCES,
                 &sizes->max_sequences, error));
  if (options->encoder_cache_bytes >= 0) {
    OMMAI_TRY(pick("encoder_cache_bytes", options->encoder_cache_bytes, OMMAI_DEFAULT_ENCODER_CACHE_BYTES, INT64_MAX,
                   &sizes->encoder_cache_bytes, error));
  }
  if (options->reserve_tokens != -1) {
    OMMAI_TRY(pick("reserve_tokens", options->reserve_tokens, OMMAI_DEFAULT_RESERVE_TOKENS, INT32_MAX, &sizes->reserve_tokens,
                   error));
  }
  sizes->prefill_chunk = ommai_round_up(sizes->prefill_chunk, PAGE);
  OMMAI_TRY(pick_drafts(options, sizes, error));
  sizes->logits_rows = ommai_max_i64(sizes->max_sequences * (1 + sizes->draft_tokens), OMMAI_MIN_LOGITS_ROWS);
  sizes->max_rows = ommai_max_i64(sizes->logits_rows, OMMAI_REPLAY_ROWS);
  sizes->prefix_cache = !options->no_prefix_cache;
  sizes->by_priority = options->by_priority;
  return OMMA_OK;
}

static enum omma_status fail_workspace(struct omma_error *error) {
  return ommai_fail_field(error, OMMA_ERROR_LIMIT, "patch_budget",
                          "engine: the workspace's size does not fit into this machine's addresses");
}

/* Images of one merge block each are the largest number that a pass can have. */
static enum omma_status size_vision(const struct omma_model *model, struct ommai_engine_sizes *sizes,
                                    struct omma_error *error) {
  int64_t block = model->config.vision.merge_size * model->config.vision.merge_size;
  int64_t images = ommai_max_i64(sizes->patch_budget / block, 1);
  const struct ommai_vision_sizes largest = {ommai_max_i64(sizes->patch_budget, block), images,
                                             ommai_max_i64(sizes->patch_budget, block)};
  sizes->vision_workspace = ommai_vision_workspace_size(&model->tower, &largest, model->n_threads);
  return sizes->vision_workspace ? OMMA_OK : fail_workspace(error);
}

/* Everything with a row for each sequence or page. */
static size_t size_tables(const struct omma_model *model, const struct ommai_engine_sizes *sizes, size_t sampler) {
  size_t vocab = (size_t)model->config.text.vocab_size, n = (size_t)sizes->max_sequences;
  return sampler + (size_t)sizes->logits_rows * vocab * sizeof(float) + n * vocab * (sizeof(int32_t) + sizeof(bool)) +
         ommai_page_pool_bytes(sizes->n_pages) + ommai_scheduler_bytes(sizes);
}

static enum omma_status size_workspaces(const struct omma_model *model, struct ommai_engine_sizes *sizes,
                                        struct omma_error *error) {
  int64_t chunk = ommai_min_i64(sizes->prefill_chunk, sizes->context);
  sizes->prefill_workspace = ommai_prefill_workspace_size(&model->decoder, chunk, sizes->context, model->n_threads);
  sizes->decode_workspace = ommai_decode_workspace_size(&model->decoder, sizes->max_rows, sizes->context, model->n_threads);
  OMMAI_TRY(size_vision(model, sizes, error));
  size_t sampler = ommai_sampler_size(model->config.text.vocab_size, sizes->max_sequences);
  sizes->mask_words = ommai_mask_words(model->config.text.vocab_size);
  sizes->tables = size_tables(model, sizes, sampler);
  return sizes->prefill_workspace && sizes->decode_workspace && sampler ? OMMA_OK : fail_workspace(error);
}

/* Nothing of a language model: neither pages nor what it computes in. */
static enum omma_status size_encoder(const struct omma_model *model, struct ommai_engine_sizes *sizes,
                                     struct omma_error *error) {
  sizes->context = model->max_model_len;
  sizes->logits_rows = sizes->max_rows = sizes->draft_tokens = 0;
  sizes->prefix_cache = false;
  OMMAI_TRY(size_vision(model, sizes, error));
  sizes->tables = ommai_scheduler_bytes(sizes);
  return OMMA_OK;
}

enum omma_status ommai_engine_sizes(const struct omma_model *model, const struct omma_engine_options *options,
                                    struct ommai_engine_sizes *sizes, struct omma_error *error) {
  static const struct omma_engine_options defaults = {0};
  *sizes = (struct ommai_engine_sizes){0};
  if (!options) options = &defaults;
  OMMAI_TRY(pick_limits(options, sizes, error));
  if (model->encoder_only) return size_encoder(model, sizes, error);
  int64_t room = options->kv_cache_bytes ? -1 : ommai_memory_room("");
  OMMAI_TRY(size_kv(model, options->kv_cache_bytes, room, sizes, error));
  OMMAI_TRY(size_workspaces(model, sizes, error));
  if (options->kv_cache_bytes) return OMMA_OK;
  set_pages(model, default_kv_bytes(model, sizes, room), sizes);
  return size_workspaces(model, sizes, error);
}

enum omma_status omma_estimate_memory(const struct omma_model *model, const struct omma_engine_options *options,
                                      int64_t n_patches, struct omma_memory_estimate *estimate, struct omma_error *error) {
  struct ommai_engine_sizes sizes;
  OMMAI_TAKE_OPTIONS(omma_engine_options, options, error);
  OMMAI_TRY(ommai_engine_sizes(model, options, &sizes, error));
  size_t vision = sizes.vision_workspace;
  if (n_patches < 0 || n_patches > OMMAI_MAX_PATCH_BUDGET) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "n_patches", "n_patches: expected 0 to %lld, found %lld",
                            (long long)OMMAI_MAX_PATCH_BUDGET, (long long)n_patches);
  }
  const struct ommai_vision_sizes one_image = {n_patches, 1, n_patches};
  if (n_patches > 0) vision = ommai_vision_workspace_size(&model->tower, &one_image, model->n_threads);
  *estimate =
      (struct omma_memory_estimate){.weight_bytes = model->weight_bytes,
                                    .kv_cache_bytes = sizes.n_pages * (int64_t)sizes.page_bytes,
                                    .kv_cache_tokens = sizes.n_pages * PAGE,
                                    .max_model_len = sizes.context,
                                    .vision_workspace_bytes = (int64_t)vision,
                                    .language_workspace_bytes = (int64_t)(sizes.prefill_workspace + sizes.decode_workspace),
                                    .linear_scratch_bytes = model->linear_scratch_bytes,
                                    .table_bytes = (int64_t)sizes.tables,
                                    .encoder_cache_bytes = sizes.encoder_cache_bytes,
                                    .known_image_bytes = ommai_image_store_budget(model->image_store),
                                    .request_bytes = request_bytes(model, n_patches ? n_patches : sizes.patch_budget),
                                    .max_sequences = sizes.max_sequences};
  estimate->total_bytes = estimate->weight_bytes + estimate->kv_cache_bytes + estimate->vision_workspace_bytes +
                          estimate->language_workspace_bytes + estimate->linear_scratch_bytes + estimate->table_bytes +
                          estimate->max_sequences * estimate->request_bytes;
  return OMMA_OK;
}
