#include "language/grouped_attention.h"

#include "base/checked.h"
#include "base/error.h"
#include "kernels/dtype.h"
#include "language/decode_attention.h"
#include "language/prefill_attention.h"

static struct ommai_mixer_shape shape(const struct ommai_decoder_config *config) {
  return (struct ommai_mixer_shape){.projected = ommai_decoder_q_width(config) + 2 * ommai_decoder_kv_width(config),
                                    .q_width = ommai_decoder_q_width(config),
                                    .mixed = ommai_decoder_attended_width(config),
                                    .kept_heads = config->n_kv_heads,
                                    .kept_width = config->head_dim,
                                    .values_apart = true,
                                    .value_width = config->v_head_dim,
                                    .rope_dim = config->head_dim,
                                    .seen_elements = config->n_heads * (config->head_dim + config->v_head_dim)};
}

/* ---- one row ---- */

static void norm_heads(const struct ommai_decoder *decoder, const float *weight, float *heads, int64_t n_heads) {
  int64_t d = decoder->config.head_dim;
  if (!weight) return;
  for (int64_t h = 0; h < n_heads; h++) {
    decoder->ops->rms_norm(heads + h * d, weight, decoder->config.norm_eps, d, heads + h * d, OMMA_F32);
  }
}

static void finish_row(const struct ommai_decoder *decoder, const struct ommai_kv_cache *cache, int64_t layer, float *qkv,
                       const float *cosine, const float *sine, void *q_out, int64_t place) {
  const struct ommai_decoder_config *config = &decoder->config;
  const struct ommai_decoder_layer *weights = &decoder->layers[layer];
  enum omma_dtype kept = cache->dtype;
  int64_t d = config->head_dim, head_stride = ommai_kv_head_stride(cache, layer);
  float *k = qkv + ommai_decoder_q_width(config);
  const float *v = k + ommai_decoder_kv_width(config);
  norm_heads(decoder, weights->q_norm, qkv, config->n_heads);
  norm_heads(decoder, weights->k_norm, k, config->n_kv_heads);
  decoder->ops->rope_half(qkv, cosine, sine, config->n_heads, d, q_out, d, decoder->dtype);
  if (kept == OMMA_INT8) {
    float *rotated = qkv; /* the place of q, which is no smaller and written out */
    decoder->ops->rope_half(k, cosine, sine, config->n_kv_heads, d, rotated, d, OMMA_F32);
    ommai_kv_write_int8(cache, decoder->ops, layer, place, rotated, v);
    return;
  }
  void *k_out = ommai_element(ommai_kv_layer_keys(cache, layer), place, kept);
  void *v_out = ommai_element(ommai_kv_layer_values(cache, layer), place, kept);
  decoder->ops->rope_half(k, cosine, sine, config->n_kv_heads, d, k_out, head_stride, kept);
  for (int64_t h = 0; h < config->n_kv_heads; h++) {
    decoder->ops->convert(v + h * d, d, ommai_element(v_out, h * head_stride, kept), kept);
  }
}

/* ---- decode ---- */

static size_t decode_size(const struct ommai_decoder *decoder, const struct ommai_layer_group *group, int64_t max_rows,
                          int64_t max_context, int n_workers) {
  struct ommai_arena arena;
  ommai_arena_measure(&arena);
  ommai_decode_attention_measure(decoder, group, max_rows, max_context, n_workers, &arena);
  return arena.failed ? 0 : arena.used;
}

static enum omma_status decode(const struct ommai_decode_mixing *mixing, int64_t layer, const struct omma_team *team,
                               struct omma_error *error) {
  const struct omma_attention_tensors tensors = ommai_decode_attention_tensors(mixing, layer);
  return ommai_decode_attention_run(mixing, &tensors, team, error);
}

/* ---- prefill ---- */

static struct omma_attention_spec prefill_spec(const struct ommai_decoder *decoder, const struct ommai_layer_group *group,
                                               int64_t n_rows, const int64_t *offset) {
  struct omma_attention_spec spec = ommai_prefill_attention_spec(decoder, decoder->config.n_heads, n_rows, offset);
  spec.n_kv_heads = (int32_t)decoder->config.n_kv_heads;
  spec.window = group->state.window;
  spec.paged = true;
  ommai_kv_set_types(decoder->kv_type, &spec);
  return spec;
}

static size_t prefill_size(const struct ommai_decoder *decoder, const struct ommai_layer_group *group, int64_t max_rows,
                           int64_t max_context, int n_workers) {
  int64_t offset = max_context - max_rows;
  const struct omma_attention_spec spec = prefill_spec(decoder, group, max_rows, &offset);
  struct ommai_prefill_bound bound = {0};
  struct ommai_arena arena;
  ommai_prefill_bound_add(&bound, decoder, &spec, n_workers);
  ommai_arena_measure(&arena);
  ommai_arena_take(&arena, bound.plan, 1);
  ommai_arena_take(&arena, bound.workspace, 1);
  return arena.failed ? 0 : arena.used;
}

static enum omma_status place_prefill(struct ommai_prefill_mixing *mixing, int n_workers, struct ommai_arena *arena,
                                      struct omma_error *error) {
  const struct ommai_layer_group *group = &mixing->cache->layout.groups[mixing->group];
  const struct omma_attention_spec spec = prefill_spec(mixing->decoder, group, mixing->n_rows, &mixing->first);
  OMMAI_TRY(ommai_prefill_attention_plan(mixing, &spec, n_workers, arena, error));
  mixing->n_steps = mixing->n_plan_steps;
  return OMMA_OK;
}

static enum omma_status prefill(const struct ommai_prefill_mixing *mixing, int64_t layer, int64_t first, int64_t *count,
                                const struct omma_team *team, struct omma_error *error) {
  struct omma_attention_tensors tensors = {.q = mixing->q, .out = mixing->out, .page_table = mixing->pages};
  ommai_kv_set_tensors(mixing->cache, layer, &tensors);
  *count = ommai_min_i64(*count, mixing->n_steps - first);
  return ommai_prefill_attention_run(mixing, &tensors, first, *count, team, error);
}

const struct ommai_mixer ommai_grouped_attention = {.shape = shape,
                                                    .int8_cache = true,
                                                    .finish_row = finish_row,
                                                    .decode_size = decode_size,
                                                    .place_decode = ommai_decode_attention_plan,
                                                    .decode = decode,
                                                    .prefill_size = prefill_size,
                                                    .place_prefill = place_prefill,
                                                    .prefill = prefill};
