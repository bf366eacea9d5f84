#include "language/grouped_attention.h"

#include "kernels/dtype.h"

static void norm_heads(const struct ommai_decoder *decoder, const float *weight, float *heads, int64_t n_heads) {
  int64_t d = decoder->config.head_dim;
  if (!weight) return;
  for (int64_t h = 0; h < n_heads; h++) {
    decoder->ops->rms_norm(heads + h * d, weight, decoder->config.norm_eps, d, heads + h * d, OMMA_F32);
  }
}

void ommai_grouped_finish_row(const struct ommai_decoder *decoder, const struct ommai_kv_cache *cache, int64_t layer,
                              float *qkv, const float *cosine, const float *sine, void *q_out, int64_t place) {
  const struct ommai_decoder_config *config = &decoder->config;
  const struct ommai_decoder_layer *weights = &decoder->layers[layer];
  enum omma_dtype kept = cache->dtype;
  int64_t d = config->head_dim, head_stride = ommai_kv_head_stride(cache);
  float *k = qkv + ommai_decoder_q_width(config);
  const float *v = k + ommai_decoder_kv_width(config);
  void *k_out = ommai_element(ommai_kv_layer_keys(cache, layer), place, kept);
  void *v_out = ommai_element(ommai_kv_layer_values(cache, layer), place, kept);
  norm_heads(decoder, weights->q_norm, qkv, config->n_heads);
  norm_heads(decoder, weights->k_norm, k, config->n_kv_heads);
  decoder->ops->rope_half(qkv, cosine, sine, config->n_heads, d, q_out, d, decoder->dtype);
  decoder->ops->rope_half(k, cosine, sine, config->n_kv_heads, d, k_out, head_stride, kept);
  for (int64_t h = 0; h < config->n_kv_heads; h++) {
    decoder->ops->convert(v + h * d, d, ommai_element(v_out, h * head_stride, kept), kept);
  }
}
