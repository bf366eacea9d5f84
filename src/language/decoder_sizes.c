#include "language/decoder_sizes.h"

#include "base/checked.h"
#include "language/feed_forward.h"
#include "language/mixer.h"

static struct ommai_mixer_shape mixer_shape(const struct ommai_decoder_config *config, int64_t layer) {
  return config->layers[layer].mixer->shape(config);
}

struct ommai_decoder_widths ommai_decoder_max_widths(const struct ommai_decoder_config *config) {
  struct ommai_decoder_widths widths = {0};
  for (int64_t i = 0; i < ommai_decoder_all_layers(config); i++) {
    const struct ommai_mixer_shape shape = mixer_shape(config, i);
    widths.projected = ommai_max_i64(widths.projected, shape.projected);
    widths.q = ommai_max_i64(widths.q, shape.q_width);
    widths.mixed = ommai_max_i64(widths.mixed, shape.mixed);
    widths.scratch = ommai_max_i64(widths.scratch, shape.decode_scratch);
  }
  if (config->branch_norms || config->n_draft_layers) widths.projected = ommai_max_i64(widths.projected, config->hidden_size);
  return widths;
}

int64_t ommai_decoder_rope_dim(const struct ommai_decoder_config *config) {
  int64_t rope_dim = 0;
  for (int64_t i = 0; i < ommai_decoder_all_layers(config); i++)
    rope_dim = ommai_max_i64(rope_dim, mixer_shape(config, i).rope_dim);
  return rope_dim;
}

int64_t ommai_decoder_dense_size(const struct ommai_decoder_config *config, int64_t layer) {
  return config->layers[layer].ffn->dense_size(config);
}

int64_t ommai_decoder_max_dense_size(const struct ommai_decoder_config *config) {
  int64_t max_size = 0;
  for (int64_t i = 0; i < ommai_decoder_all_layers(config); i++)
    max_size = ommai_max_i64(max_size, ommai_decoder_dense_size(config, i));
  return max_size;
}

/* ---- calls ---- */

struct ommai_linear_call ommai_decoder_call_qkv(const struct ommai_decoder_config *config, int64_t layer) {
  return (struct ommai_linear_call){
      .x_stride = config->hidden_size, .y_stride = mixer_shape(config, layer).projected, .y_type = OMMA_F32};
}

struct ommai_linear_call ommai_decoder_call_o(const struct ommai_decoder_config *config, int64_t layer) {
  return (struct ommai_linear_call){.x_stride = mixer_shape(config, layer).mixed,
                                    .y_stride = config->hidden_size,
                                    .y_type = OMMA_F32,
                                    .accumulate = !config->branch_norms};
}

struct ommai_linear_call ommai_decoder_call_draft(const struct ommai_decoder_config *config) {
  return (struct ommai_linear_call){.x_stride = 2 * config->hidden_size, .y_stride = config->hidden_size, .y_type = OMMA_F32};
}

struct ommai_linear_call ommai_decoder_call_router(const struct ommai_decoder_config *config) {
  return (struct ommai_linear_call){
      .x_stride = config->hidden_size, .y_stride = ommai_router_outputs(&config->experts.router), .y_type = OMMA_F32};
}

/* ---- work ---- */

/* Elements of matrices that one token goes through. */
struct elements {
  int64_t layers, routers, lm_head;
};

/* One layer without its router. */
static int64_t layer_elements(const struct ommai_decoder_config *config, int64_t layer) {
  const struct ommai_layer_config *parts = &config->layers[layer];
  const struct ommai_mixer_shape shape = parts->mixer->shape(config);
  int64_t intermediate = parts->ffn->dense_size(config) + parts->ffn->chosen_size(config);
  return config->hidden_size * (shape.projected + shape.mixed) + shape.head_elements +
         ommai_feed_forward_elements(config, intermediate);
}

static struct elements count_elements(const struct ommai_decoder_config *config) {
  struct elements elements = {.lm_head = config->hidden_size * config->vocab_size};
  for (int64_t layer = 0; layer < config->n_layers; layer++) {
    elements.layers += layer_elements(config, layer);
    if (config->layers[layer].ffn->routed)
      elements.routers += config->hidden_size * ommai_router_outputs(&config->experts.router);
  }
  return elements;
}

/* Pairs of n tokens and those that each sees, times the products of a pair, over all layers. */
static double mixing_elements(const struct ommai_decoder_config *config, double n) {
  double sum = 0;
  for (int64_t layer = 0; layer < config->n_layers; layer++) {
    double window = (double)config->layers[layer].window, far = window && n > window ? n - window : 0;
    sum += (n * (n + 1) - far * (far + 1)) / 2 * (double)config->layers[layer].mixer->shape(config).seen_elements;
  }
  return sum;
}

double ommai_decoder_prompt_flops(const struct ommai_decoder_config *config, int64_t n_tokens) {
  struct elements elements = count_elements(config);
  double n = (double)n_tokens;
  return 2 * (n * (double)(elements.layers + elements.routers) + mixing_elements(config, n) + (double)elements.lm_head);
}
