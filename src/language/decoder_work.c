#include "language/decoder_work.h"

#include "language/feed_forward.h"
#include "language/mixer.h"

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
    if (config->layers[layer].ffn->routed) elements.routers += config->hidden_size * config->experts.router.n_experts;
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
