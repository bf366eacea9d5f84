#include "language/decoder.h"

#include <math.h>
#include <string.h>

#include "base/allocator.h"
#include "base/error.h"
#include "base/half.h"
#include "kernels/dtype.h"
#include "language/mixer.h"

void ommai_decoder_set_layers(struct ommai_decoder_config *config, const struct ommai_mixer *mixer,
                              const struct ommai_ffn *ffn) {
  for (int64_t i = 0; i < config->n_layers; i++) {
    config->layers[i].mixer = mixer;
    config->layers[i].ffn = ffn;
  }
}

float ommai_decoder_attention_scale(const struct ommai_decoder_config *config) {
  double scale = 1.0 / sqrt((double)config->head_dim);
  return (float)(config->attention_factor != 0 ? scale * config->attention_factor : scale);
}

static enum omma_status allocate_layer(struct ommai_decoder *decoder, int64_t index, const struct omma_allocator *allocator,
                                       struct omma_error *error) {
  const struct ommai_decoder_config *config = &decoder->config;
  struct ommai_decoder_layer *layer = &decoder->layers[index];
  if (config->layers[index].mixer->head_weights) {
    layer->mla_heads = ommai_allocate(allocator, (size_t)config->n_heads, sizeof *layer->mla_heads);
    if (!layer->mla_heads) return ommai_fail_memory(error, "heads", (size_t)config->n_heads * sizeof *layer->mla_heads);
  }
  if (config->layers[index].ffn->routed) {
    size_t n_experts = (size_t)config->experts.router.n_experts;
    layer->experts = ommai_allocate(allocator, n_experts, sizeof *layer->experts);
    if (!layer->experts) return ommai_fail_memory(error, "experts", n_experts * sizeof *layer->experts);
  }
  return OMMA_OK;
}

enum omma_status ommai_decoder_allocate(struct ommai_decoder *decoder, const struct omma_allocator *allocator,
                                        struct omma_error *error) {
  size_t n_layers = (size_t)ommai_decoder_all_layers(&decoder->config);
  decoder->layers = ommai_allocate(allocator, n_layers, sizeof *decoder->layers);
  if (!decoder->layers) return ommai_fail_memory(error, "layers", n_layers * sizeof *decoder->layers);
  for (size_t i = 0; i < n_layers; i++) OMMAI_TRY(allocate_layer(decoder, (int64_t)i, allocator, error));
  return OMMA_OK;
}

static void free_vector(const struct omma_allocator *allocator, float *vector, int64_t n) {
  ommai_release(allocator, vector, (size_t)n, sizeof *vector);
}

static void free_linear(struct ommai_decoder_linear *layer) {
  ommai_linear_parts_destroy(layer->parts);
  ommai_linear_destroy(layer->linear);
}

static void free_tile_linear(struct ommai_decoder_tile_linear *layer) {
  ommai_linear_op_destroy(layer->op);
  ommai_linear_destroy(layer->linear);
}

static void free_experts(const struct ommai_decoder_config *config, struct ommai_decoder_layer *layer,
                         const struct omma_allocator *allocator) {
  int64_t n_experts = config->experts.router.n_experts;
  free_tile_linear(&layer->router);
  free_vector(allocator, layer->router_bias, n_experts);
  for (int64_t i = 0; layer->experts && i < n_experts; i++) {
    free_tile_linear(&layer->experts[i].gate_up);
    free_tile_linear(&layer->experts[i].down);
  }
  ommai_release(allocator, layer->experts, (size_t)n_experts, sizeof *layer->experts);
}

static void free_heads(const struct ommai_decoder_config *config, struct ommai_decoder_layer *layer,
                       const struct omma_allocator *allocator) {
  for (int64_t h = 0; layer->mla_heads && h < config->n_heads; h++) {
    free_tile_linear(&layer->mla_heads[h].expand);
    ommai_linear_destroy(layer->mla_heads[h].absorb);
    ommai_linear_destroy(layer->mla_heads[h].value);
  }
  ommai_release(allocator, layer->mla_heads, (size_t)config->n_heads, sizeof *layer->mla_heads);
}

static void free_delta(const struct ommai_delta_config *config, struct ommai_delta_weights *weights,
                       const struct omma_allocator *allocator) {
  free_vector(allocator, weights->conv, config->kernel * ommai_delta_channels(config));
  free_vector(allocator, weights->decay_rates, config->n_value_heads);
  free_vector(allocator, weights->decay_bias, config->n_value_heads);
  free_vector(allocator, weights->norm, config->value_dim);
}

static void free_layer(const struct ommai_decoder_config *config, struct ommai_decoder_layer *layer,
                       const struct omma_allocator *allocator) {
  free_vector(allocator, layer->input_norm, config->hidden_size);
  free_vector(allocator, layer->post_norm, config->hidden_size);
  free_vector(allocator, layer->mixed_norm, config->hidden_size);
  free_vector(allocator, layer->ffn_norm, config->hidden_size);
  free_vector(allocator, layer->q_norm, config->head_dim);
  free_vector(allocator, layer->k_norm, config->head_dim);
  free_vector(allocator, layer->mla_norm, config->mla.kv_rank);
  free_linear(&layer->qkv);
  free_linear(&layer->o);
  free_linear(&layer->dense.gate_up);
  free_linear(&layer->dense.down);
  free_delta(&config->delta, &layer->delta, allocator);
  free_heads(config, layer, allocator);
  free_experts(config, layer, allocator);
}

void ommai_decoder_free(struct ommai_decoder *decoder, const struct omma_allocator *allocator) {
  const struct ommai_decoder_config *config = &decoder->config;
  int64_t n_layers = ommai_decoder_all_layers(config);
  for (int64_t i = 0; decoder->layers && i < n_layers; i++) free_layer(config, &decoder->layers[i], allocator);
  ommai_release(allocator, decoder->layers, (size_t)n_layers, sizeof *decoder->layers);
  free_vector(allocator, decoder->draft.embedding_norm, config->hidden_size);
  free_vector(allocator, decoder->draft.state_norm, config->hidden_size);
  free_vector(allocator, decoder->draft.norm, config->hidden_size);
  free_linear(&decoder->draft.fc);
  free_vector(allocator, decoder->final_norm, config->hidden_size);
  ommai_linear_destroy(decoder->lm_head);
  ommai_linear_destroy(decoder->state_projection);
}

void ommai_decoder_embed(const struct ommai_decoder *decoder, int32_t token, float *out) {
  int64_t d = decoder->config.hidden_size;
  if (decoder->embedding_stored) {
    decoder->embedding_stored->values(decoder->embedding_stored->context, token, 0, d, out);
    return;
  }
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

void ommai_decoder_add_normed(const struct ommai_decoder *decoder, const float *weight, float *branch, float *residual) {
  int64_t hidden = decoder->config.hidden_size;
  decoder->ops->rms_norm(branch, weight, decoder->config.norm_eps, hidden, branch, OMMA_F32);
  decoder->ops->add(residual, branch, hidden);
}
