/* A vision tower: what it is made of. Filled by the code of a model family, read-only afterwards, shared by all runs.
 *
 *   patches [n, patch_dim] -> patch embedding -> + positions -> blocks -> merger -> tokens [n / merge^2, out_hidden_size]
 *                                                                 \-> deepstack mergers, after some blocks
 *
 * A block is pre-norm: x += proj(attention(norm1 x)); x += fc2(act(fc1(norm2 x))). Attention is bidirectional inside a picture.
 * Source: the vision models of Hugging Face transformers named in docs/models/. */
#ifndef OMMAI_VISION_VISION_TOWER_H
#define OMMAI_VISION_VISION_TOWER_H

#include <omma/attention.h>

#include "kernels/row_ops.h"
#include "linear/linear.h"

#define OMMAI_VISION_MAX_DEEPSTACK 16

struct ommai_vision_config {
  int64_t depth, hidden_size, n_heads, head_dim, intermediate_size;
  int64_t patch_size, temporal_patch_size, merge_size, in_channels;
  int64_t out_hidden_size;
  int64_t position_side; /* the learned positions are a square table of this side */
  int64_t n_deepstack;
  int64_t deepstack_layers[OMMAI_VISION_MAX_DEEPSTACK]; /* ascending block numbers */
  enum ommai_activation activation;                     /* between fc1 and fc2 */
  float norm_eps;
  double rope_theta;
};

/* Values of one patch: in_channels * temporal_patch_size * patch_size^2. */
static inline int64_t ommai_vision_patch_dim(const struct ommai_vision_config *config) {
  return config->in_channels * config->temporal_patch_size * config->patch_size * config->patch_size;
}

/* A linear layer and the one call form it is used in. */
struct ommai_vision_linear {
  struct ommai_linear *linear;
  struct ommai_linear_op *op;
};

struct ommai_vision_norm {
  float *weight, *bias; /* [d] */
};

struct ommai_vision_block {
  struct ommai_vision_norm norm1, norm2;
  struct ommai_vision_linear qkv, proj, fc1, fc2;
};

/* Joins merge^2 patches to one token. The norm runs over each patch [hidden_size], or over the joined row. */
struct ommai_vision_merger {
  bool norm_after_join;
  struct ommai_vision_norm norm;
  struct ommai_vision_linear fc1, fc2; /* gelu (erf) between */
};

struct ommai_vision_tower {
  struct ommai_vision_config config;
  enum omma_dtype dtype; /* of linear layers, q, k and v: f32 or bf16 */
  const struct ommai_row_ops *ops;
  const struct omma_attention_context *attention;
  struct ommai_linear_engine *linear_engine;
  struct ommai_vision_linear patch_embed;
  float *position_table;             /* [position_side^2, hidden_size] */
  struct ommai_vision_block *blocks; /* [depth] */
  struct ommai_vision_merger merger;
  struct ommai_vision_merger deepstack[OMMAI_VISION_MAX_DEEPSTACK];
};

/* The call forms of the tower's layers; scratch rows are as wide as the layer's own vectors. */
struct ommai_linear_form ommai_vision_form_patch_embed(const struct ommai_vision_config *config);
struct ommai_linear_form ommai_vision_form_qkv(const struct ommai_vision_config *config);
struct ommai_linear_form ommai_vision_form_proj(const struct ommai_vision_config *config);
struct ommai_linear_form ommai_vision_form_fc1(const struct ommai_vision_config *config, enum omma_dtype dtype);
struct ommai_linear_form ommai_vision_form_fc2(const struct ommai_vision_config *config);
struct ommai_linear_form ommai_vision_form_merger_fc1(const struct ommai_vision_config *config, enum omma_dtype dtype);
struct ommai_linear_form ommai_vision_form_merger_fc2(const struct ommai_vision_config *config);

/* Useful floating-point operations for one picture of n_patches: 2 per multiply-add of linear layers and attention. */
double ommai_vision_flops(const struct ommai_vision_config *config, int64_t n_patches);

#endif
