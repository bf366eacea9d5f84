#include "language/decoder.h"

#include <string.h>

#include "base/half.h"
#include "kernels/dtype.h"

struct ommai_linear_form ommai_decoder_form_qkv(const struct ommai_decoder_config *config) {
  return (struct ommai_linear_form){
      .x_stride = config->hidden_size, .y_stride = ommai_decoder_qkv_width(config), .y_type = OMMA_F32};
}

struct ommai_linear_form ommai_decoder_form_o(const struct ommai_decoder_config *config) {
  return (struct ommai_linear_form){
      .x_stride = ommai_decoder_q_width(config), .y_stride = config->hidden_size, .y_type = OMMA_F32, .accumulate = true};
}

struct ommai_linear_form ommai_decoder_form_gate_up(const struct ommai_decoder_config *config) {
  return (struct ommai_linear_form){
      .x_stride = config->hidden_size, .y_stride = 2 * config->intermediate_size, .y_type = OMMA_F32};
}

struct ommai_linear_form ommai_decoder_form_down(const struct ommai_decoder_config *config) {
  return (struct ommai_linear_form){
      .x_stride = config->intermediate_size, .y_stride = config->hidden_size, .y_type = OMMA_F32, .accumulate = true};
}

void ommai_decoder_embed(const struct ommai_decoder *decoder, int32_t token, float *out) {
  int64_t d = decoder->config.hidden_size;
  size_t row_bytes = (size_t)d * ommai_dtype_size(decoder->embedding_type);
  const unsigned char *row = (const unsigned char *)decoder->embedding + (size_t)token * row_bytes;
  if (decoder->embedding_type == OMMA_F32) {
    memcpy(out, row, row_bytes);
    return;
  }
  for (int64_t i = 0; i < d; i++) { /* the mapped file may put elements at odd addresses */
    uint16_t bits;
    memcpy(&bits, row + 2 * i, 2);
    out[i] = decoder->embedding_type == OMMA_BF16 ? ommai_bf16_to_f32(bits) : ommai_f16_to_f32(bits);
  }
}

static void norm_heads(const struct ommai_decoder *decoder, const float *weight, float *heads, int64_t n_heads) {
  int64_t d = decoder->config.head_dim;
  for (int64_t h = 0; h < n_heads; h++) {
    decoder->ops->rms_norm(heads + h * d, weight, decoder->config.norm_eps, d, heads + h * d, OMMA_F32);
  }
}

void ommai_decoder_finish_qkv(const struct ommai_decoder *decoder, const struct ommai_decoder_layer *layer, float *qkv,
                              const float *cosine, const float *sine, void *q_out, void *k_out, void *v_out,
                              int64_t kv_head_stride) {
  const struct ommai_decoder_config *config = &decoder->config;
  int64_t d = config->head_dim;
  float *k = qkv + ommai_decoder_q_width(config);
  const float *v = k + ommai_decoder_kv_width(config);
  norm_heads(decoder, layer->q_norm, qkv, config->n_heads);
  norm_heads(decoder, layer->k_norm, k, config->n_kv_heads);
  decoder->ops->rope_half(qkv, cosine, sine, config->n_heads, d, q_out, d, decoder->dtype);
  decoder->ops->rope_half(k, cosine, sine, config->n_kv_heads, d, k_out, kv_head_stride, decoder->dtype);
  for (int64_t h = 0; h < config->n_kv_heads; h++) {
    decoder->ops->convert(v + h * d, d, ommai_element(v_out, h * kv_head_stride, decoder->dtype), decoder->dtype);
  }
}

double ommai_decoder_prefill_flops(const struct ommai_decoder_config *config, int64_t n_tokens) {
  double n = (double)n_tokens, hidden = (double)config->hidden_size, q = (double)ommai_decoder_q_width(config);
  double layer = 2 * hidden * ((double)ommai_decoder_qkv_width(config) + q + 3 * (double)config->intermediate_size);
  double attention = 4 * q * n * (n + 1) / 2;
  return (double)config->n_layers * (n * layer + attention) + 2 * hidden * (double)config->vocab_size;
}
