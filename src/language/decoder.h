/* A decoder-only language model: what it is made of. Filled by the code of a model family, read-only afterwards.
 *
 *   residual [n, hidden] = embedding rows, or the tower's tokens at picture positions
 *   per layer: residual += o(attention(rope(norm_qk(qkv(norm residual))))); residual += down(silu(gate) * up)(norm residual)
 *   the tower's deepstack output j is added to picture rows after layer j
 *   logits = lm_head(norm residual)
 *
 * RMSNorm, SwiGLU, grouped-query attention, three-axis rotary positions. Source: the text models of Hugging Face
 * transformers named in docs/models/. */
#ifndef OMMAI_LANGUAGE_DECODER_H
#define OMMAI_LANGUAGE_DECODER_H

#include <omma/attention.h>

#include "kernels/row_ops.h"
#include "language/mrope.h"
#include "linear/linear.h"

struct ommai_decoder_config {
  int64_t n_layers, hidden_size, n_heads, n_kv_heads, head_dim, intermediate_size, vocab_size, max_positions;
  float norm_eps;
  double rope_theta;
  int64_t mrope_section[3];
  bool mrope_interleaved;
  bool tied_embeddings;
  int64_t n_deepstack; /* layers 0 .. n_deepstack - 1 take one output of the tower each */
};

/* Widths of the fused projections. */
static inline int64_t ommai_decoder_q_width(const struct ommai_decoder_config *config) {
  return config->n_heads * config->head_dim;
}
static inline int64_t ommai_decoder_kv_width(const struct ommai_decoder_config *config) {
  return config->n_kv_heads * config->head_dim;
}
static inline int64_t ommai_decoder_qkv_width(const struct ommai_decoder_config *config) {
  return ommai_decoder_q_width(config) + 2 * ommai_decoder_kv_width(config);
}

/* A linear layer: `op` for tiles of prompt rows, `linear` itself for the few rows of a decode step. */
struct ommai_decoder_linear {
  struct ommai_linear *linear;
  struct ommai_linear_op *op;
};

struct ommai_decoder_layer {
  float *input_norm, *post_norm;                     /* [hidden] */
  float *q_norm, *k_norm;                            /* [head_dim] */
  struct ommai_decoder_linear qkv, o, gate_up, down; /* q, k, v and gate, up stacked */
};

struct ommai_decoder {
  struct ommai_decoder_config config;
  enum omma_dtype dtype; /* of linear layers, q and the KV cache: f32 or bf16 */
  const struct ommai_row_ops *ops;
  const struct omma_attention_context *attention;
  struct ommai_linear_engine *linear_engine;
  struct ommai_mrope mrope;
  /* Embedding rows, read straight from the mapped file: [vocab, hidden]. */
  const void *embedding;
  enum omma_dtype embedding_type;
  struct ommai_decoder_layer *layers; /* [n_layers] */
  float *final_norm;                  /* [hidden] */
  struct ommai_linear *lm_head;
};

struct ommai_linear_form ommai_decoder_form_qkv(const struct ommai_decoder_config *config);
struct ommai_linear_form ommai_decoder_form_o(const struct ommai_decoder_config *config);
struct ommai_linear_form ommai_decoder_form_gate_up(const struct ommai_decoder_config *config);
struct ommai_linear_form ommai_decoder_form_down(const struct ommai_decoder_config *config);

/* One row of the embedding table as f32 [hidden]. token in [0, vocab_size). */
void ommai_decoder_embed(const struct ommai_decoder *decoder, int32_t token, float *out);

/* From one row of fused projections (f32 [qkv_width]) to the q, k and v that attention reads: per-head norms of q and k, rotation
 * by the row's angles (cosine, sine [head_dim / 2]), one rounding. q_out [n_heads * head_dim]; k_out and v_out are the row's places
 * in the KV page, heads kv_head_stride elements apart. q and k in `qkv` are overwritten. */
void ommai_decoder_finish_qkv(const struct ommai_decoder *decoder, const struct ommai_decoder_layer *layer, float *qkv,
                              const float *cosine, const float *sine, void *q_out, void *k_out, void *v_out,
                              int64_t kv_head_stride);

/* Useful floating-point operations of a prompt of n_tokens (logits of the last row included). */
double ommai_decoder_prefill_flops(const struct ommai_decoder_config *config, int64_t n_tokens);

#endif
