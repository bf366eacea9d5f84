#include "language/mla.h"

#include <string.h>

#include "base/half.h"
#include "base/team.h"
#include "kernels/dtype.h"

void ommai_mla_finish_row(const struct ommai_decoder *decoder, const struct ommai_kv_cache *cache, int64_t layer,
                          const float *projected, const float *cosine, const float *sine, void *q_out, int64_t place) {
  const struct ommai_decoder_config *config = &decoder->config;
  const struct ommai_mla_config *latent = &config->latent;
  const struct ommai_row_ops *ops = decoder->ops;
  enum omma_dtype dtype = decoder->dtype;
  for (int64_t h = 0; h < config->n_heads; h++) {
    const float *q = projected + h * config->head_dim;
    void *out = ommai_element(q_out, h * config->head_dim, dtype);
    ops->convert(q, latent->nope_dim, out, dtype);
    ops->rope_pairs(q + latent->nope_dim, cosine, sine, 1, latent->rope_dim, ommai_element(out, latent->nope_dim, dtype), 0,
                    dtype);
  }
  const float *row = projected + ommai_decoder_q_width(config);
  enum omma_dtype type = cache->dtype;
  void *kept = ommai_element(ommai_kv_layer_keys(cache, layer), place, type);
  ops->rms_norm(row, decoder->layers[layer].latent_norm, latent->norm_eps, latent->kv_rank, kept, type);
  ops->rope_pairs(row + latent->kv_rank, cosine, sine, 1, latent->rope_dim, ommai_element(kept, latent->kv_rank, type), 0,
                  type);
}

struct ommai_linear_call ommai_mla_call_expand(const struct ommai_decoder_config *config, enum omma_dtype dtype) {
  return (struct ommai_linear_call){
      .x_stride = ommai_mla_width(config), .y_stride = ommai_mla_expanded_width(config), .y_type = dtype};
}

size_t ommai_mla_widened_size(const struct ommai_decoder *decoder) {
  if (decoder->kv_type == decoder->dtype) return 0;
  return OMMA_ATTENTION_PAGE_TOKENS * (size_t)ommai_mla_width(&decoder->config) * sizeof(float);
}

/* The first n_rows kept rows of a page in the type that linear layers take: in place, or
 * widened. */
static const void *kept_rows(const struct ommai_decoder *decoder, const struct ommai_kv_cache *cache, int64_t layer,
                             int32_t page, int64_t n_rows, float *widened) {
  const void *rows = ommai_element(ommai_kv_layer_keys(cache, layer), page * ommai_kv_page_stride(cache), cache->dtype);
  if (cache->dtype == decoder->dtype) return rows;
  const ommai_bf16 *halves = rows;
  int64_t n = n_rows * ommai_mla_width(&decoder->config);
  for (int64_t i = 0; i < n; i++) widened[i] = ommai_bf16_to_f32(halves[i]);
  return widened;
}

bool ommai_mla_expand(const struct ommai_decoder *decoder, const struct ommai_kv_cache *cache, int64_t layer, int64_t head,
                      int32_t page, int64_t n_rows, float *widened, void *out, int worker) {
  const struct ommai_decoder_config *config = &decoder->config;
  enum omma_dtype dtype = decoder->dtype;
  int64_t width = ommai_mla_width(config), expanded = ommai_mla_expanded_width(config);
  int64_t rotated_at = config->v_head_dim + config->latent.nope_dim;
  size_t rotated_bytes = (size_t)config->latent.rope_dim * ommai_dtype_size(dtype);
  const unsigned char *rows = kept_rows(decoder, cache, layer, page, n_rows, widened);
  if (ommai_linear_run(decoder->layers[layer].mla_heads[head].expand.op, rows, out, n_rows, worker) != OMMA_OK) return false;
  for (int64_t row = 0; row < n_rows; row++) {
    memcpy(ommai_element(out, row * expanded + rotated_at, dtype),
           rows + (size_t)(row * width + config->latent.kv_rank) * ommai_dtype_size(dtype), rotated_bytes);
  }
  return true;
}

/* One of the two products of decoding, a head per task. */
struct head_products {
  const struct ommai_decoder *decoder;
  const struct ommai_mla_head *heads;
  const void *x;
  float *scratch;
  void *out;
  int64_t n_rows;
};

static void run_head(const struct head_products *call, const struct ommai_linear *linear, int64_t head, int64_t x_head_stride) {
  const struct ommai_decoder_config *config = &call->decoder->config;
  int64_t n_out = ommai_linear_n_out(linear);
  const unsigned char *x =
      (const unsigned char *)call->x + (size_t)(head * x_head_stride) * ommai_dtype_size(call->decoder->dtype);
  ommai_linear_gemv(linear, x, config->n_heads * x_head_stride, call->n_rows, call->scratch + head * n_out,
                    config->n_heads * n_out, false, 0, ommai_linear_n_panels(linear));
}

static void absorb_head(void *context, int64_t head, int worker) {
  (void)worker;
  const struct head_products *call = context;
  const struct ommai_decoder_config *config = &call->decoder->config;
  const struct ommai_mla_config *latent = &config->latent;
  enum omma_dtype dtype = call->decoder->dtype;
  size_t element = ommai_dtype_size(dtype);
  int64_t width = ommai_mla_width(config);
  run_head(call, call->heads[head].absorb, head, config->head_dim);
  for (int64_t row = 0; row < call->n_rows; row++) {
    int64_t at = row * config->n_heads + head;
    const unsigned char *rotated =
        (const unsigned char *)call->x + (size_t)(at * config->head_dim + latent->nope_dim) * element;
    call->decoder->ops->convert(call->scratch + at * latent->kv_rank, latent->kv_rank,
                                ommai_element(call->out, at * width, dtype), dtype);
    memcpy(ommai_element(call->out, at * width + latent->kv_rank, dtype), rotated, (size_t)latent->rope_dim * element);
  }
}

static void value_head(void *context, int64_t head, int worker) {
  (void)worker;
  const struct head_products *call = context;
  const struct ommai_decoder_config *config = &call->decoder->config;
  enum omma_dtype dtype = call->decoder->dtype;
  run_head(call, call->heads[head].value, head, config->latent.kv_rank);
  for (int64_t row = 0; row < call->n_rows; row++) {
    int64_t at = (row * config->n_heads + head) * config->v_head_dim;
    call->decoder->ops->convert(call->scratch + at, config->v_head_dim, ommai_element(call->out, at, dtype), dtype);
  }
}

void ommai_mla_absorb(const struct ommai_decoder *decoder, int64_t layer, const void *q, int64_t n_rows, float *scratch,
                      void *absorbed, const struct omma_team *team) {
  struct head_products call = {decoder, decoder->layers[layer].mla_heads, q, scratch, absorbed, n_rows};
  ommai_team_run(team, decoder->config.n_heads, absorb_head, &call);
}

void ommai_mla_values(const struct ommai_decoder *decoder, int64_t layer, const void *sums, int64_t n_rows, float *scratch,
                      void *values, const struct omma_team *team) {
  struct head_products call = {decoder, decoder->layers[layer].mla_heads, sums, scratch, values, n_rows};
  ommai_team_run(team, decoder->config.n_heads, value_head, &call);
}
