#include "language/decoder_work.h"

#include "language/attention_kind.h"
#include "language/feed_forward.h"

/* Elements of matrices that one token goes through. */
struct elements {
  int64_t layers, routers, lm_head;
};

/* One layer without its router. */
static int64_t layer_elements(const struct ommai_decoder_config *config, int64_t layer) {
  int64_t hidden = config->hidden_size, intermediate = ommai_decoder_dense_size(config, layer);
  int64_t attention = hidden * (ommai_decoder_qkv_width(config) + ommai_decoder_attended_width(config));
  attention += config->attention->shape(config).head_elements;
  if (config->routed[layer]) intermediate += config->experts.router.n_chosen * config->experts.intermediate_size;
  return attention + ommai_feed_forward_elements(config, intermediate);
}

static struct elements count_elements(const struct ommai_decoder_config *config) {
  struct elements elements = {.lm_head = config->hidden_size * config->vocab_size};
  for (int64_t layer = 0; layer < config->n_layers; layer++) {
    elements.layers += layer_elements(config, layer);
    if (config->routed[layer]) elements.routers += config->hidden_size * config->experts.router.n_experts;
  }
  return elements;
}

double ommai_decoder_prompt_flops(const struct ommai_decoder_config *config, int64_t n_tokens) {
  struct elements elements = count_elements(config);
  double n = (double)n_tokens, seen = n * (n + 1) / 2;
  double pair = 2 * (double)(config->n_heads * (config->head_dim + config->v_head_dim));
  return 2 * n * (double)(elements.layers + elements.routers) + seen * pair * (double)config->n_layers +
         2 * (double)elements.lm_head;
}
