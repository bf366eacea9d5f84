#include "language/feed_forward.h"

#include "kernels/dtype.h"

struct ommai_linear_call ommai_feed_forward_call_gate_up(const struct ommai_decoder_config *config, int64_t intermediate_size) {
  return (struct ommai_linear_call){.x_stride = config->hidden_size, .y_stride = 2 * intermediate_size, .y_type = OMMA_F32};
}

struct ommai_linear_call ommai_feed_forward_call_down(const struct ommai_decoder_config *config, int64_t intermediate_size,
                                                      bool accumulate) {
  return (struct ommai_linear_call){
      .x_stride = intermediate_size, .y_stride = config->hidden_size, .y_type = OMMA_F32, .accumulate = accumulate};
}

void ommai_feed_forward_gate_columns(const struct ommai_decoder *decoder, float *projected, int64_t n_rows,
                                     int64_t intermediate_size, const float *scales, void *gated, int64_t first,
                                     int64_t count) {
  for (int64_t row = 0; row < n_rows; row++) {
    float *gate = projected + row * 2 * intermediate_size + first, *up = gate + intermediate_size;
    for (int64_t i = 0; scales && i < count; i++) up[i] *= scales[row];
    decoder->ops->silu_mul(gate, up, count, ommai_element(gated, row * intermediate_size + first, decoder->dtype),
                           decoder->dtype);
  }
}

void ommai_feed_forward_gate(const struct ommai_decoder *decoder, float *projected, int64_t n_rows, int64_t intermediate_size,
                             const float *scales, void *gated) {
  ommai_feed_forward_gate_columns(decoder, projected, n_rows, intermediate_size, scales, gated, 0, intermediate_size);
}

int64_t ommai_feed_forward_elements(const struct ommai_decoder_config *config, int64_t intermediate_size) {
  return 3 * config->hidden_size * intermediate_size;
}

static int64_t dense_size(const struct ommai_decoder_config *config) { return config->intermediate_size; }

static int64_t no_experts(const struct ommai_decoder_config *config) {
  (void)config;
  return 0;
}

const struct ommai_ffn ommai_ffn_dense = {.dense_size = dense_size, .chosen_size = no_experts};
