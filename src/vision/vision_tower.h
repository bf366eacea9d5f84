/* A vision tower: what it is made of. Filled by the code of a model family, read-only afterwards,
 * shared by all runs.
 *
 *   patches [n, patch_dim] -> patch embedding -> (+ positions) -> (norm) -> blocks -> (norm)
 *           -> merger -> tokens
 *   the rows after some blocks -> deepstack mergers -> deepstack outputs
 *
 * A block is pre-norm: x += proj(attention(norm1 x)); x += feed_forward(norm2 x). Attention is
 * bidirectional inside an image, or inside a window of it. What towers differ in is a property of
 * the config, never a family's name. Source: the vision models of Hugging Face transformers and
 * vLLM named in docs/models/. */
#pragma once

#include <omma/attention.h>

#include "kernels/row_ops.h"
#include "linear/linear.h"
#include "vision/patch_positions.h"

#define OMMAI_VISION_MAX_DEPTH 1024
#define OMMAI_VISION_MAX_DEEPSTACK 16

enum ommai_vision_norm_kind { OMMAI_VISION_LAYER_NORM, OMMAI_VISION_RMS_NORM };

/* How the patches of a block become a token, by steps of which all but fc1 and fc2 are optional:
 *   norm of each patch, or of all of a block -> joined [merge^2 * h]
 *   reduce: a matrix [reduced_size, h * merge^2] that takes the joined values channel by channel
 *   a square matrix, LayerNorm, gelu (erf)
 *   fc1 to inner_size, gelu (erf), or gated: silu(gate x) * up x;  fc2 to out_hidden_size */
struct ommai_vision_merger_config {
  bool no_norm;
  int64_t reduced_size; /* 0: no such matrix */
  bool layer_norm;      /* the norm is a LayerNorm, whatever those of the blocks are */
  bool projected;       /* the square matrix and what follows it */
  int64_t inner_size;   /* 0: as many as fc1 takes */
  bool gated;
};

struct ommai_vision_config {
  int64_t depth, hidden_size, n_heads, head_dim, intermediate_size;
  int64_t patch_size, temporal_patch_size, merge_size, in_channels;
  int64_t out_hidden_size;
  enum ommai_vision_norm_kind norm;
  float norm_eps, merger_norm_eps;
  bool entry_norm; /* of the embedded patches, before the first block */
  bool final_norm; /* after the last block, before the merger */
  bool qk_norm;    /* RMSNorm of each head of q and k, before they are turned; norm_eps */
  /* feed-forward fc2(silu(gate x) * up x), fc1 being gate and up stacked; else fc2(activation(fc1
   * x)) */
  bool gated;
  enum ommai_activation activation;
  enum ommai_position_kind positions;
  int64_t position_rows, position_columns; /* of the table of learned positions */
  enum ommai_rope_kind rope;
  double rope_theta;
  int64_t window_size;                      /* side of a window in merged tokens; 0: none */
  bool windowed[OMMAI_VISION_MAX_DEPTH];    /* blocks whose attention stays inside windows */
  struct ommai_vision_merger_config merger; /* all zero where the tower has deepstack */
  int64_t n_deepstack;
  int64_t deepstack_layers[OMMAI_VISION_MAX_DEEPSTACK]; /* ascending block numbers */
  /* each one's merger, by its number in the checkpoint */
  int64_t deepstack_mergers[OMMAI_VISION_MAX_DEEPSTACK];
};

/* Values of one patch: in_channels * temporal_patch_size * patch_size^2. */
static inline int64_t ommai_vision_patch_dim(const struct ommai_vision_config *config) {
  return config->in_channels * config->temporal_patch_size * config->patch_size * config->patch_size;
}

/* Elements of an image's output: [1 + n_deepstack, n_tokens, out_hidden_size]. */
static inline int64_t ommai_vision_output_size(const struct ommai_vision_config *config, int64_t n_tokens) {
  return (1 + config->n_deepstack) * n_tokens * config->out_hidden_size;
}

/* Patches that the merger joins to one token. */
static inline int64_t ommai_vision_joined_patches(const struct ommai_vision_config *config) {
  return config->merge_size * config->merge_size;
}

/* Outputs of fc1: intermediate_size, twice where gate and up are stacked. */
static inline int64_t ommai_vision_fc1_width(const struct ommai_vision_config *config) {
  return config->intermediate_size * (config->gated ? 2 : 1);
}

/* Inputs of the merger's fc1; and its inner width, twice as many outputs where it is gated. */
static inline int64_t ommai_vision_merger_width(const struct ommai_vision_config *config) {
  return config->merger.reduced_size ? config->merger.reduced_size : config->hidden_size * ommai_vision_joined_patches(config);
}
static inline int64_t ommai_vision_merger_inner(const struct ommai_vision_config *config) {
  return config->merger.inner_size ? config->merger.inner_size : ommai_vision_merger_width(config);
}

/* A linear layer and the one call it is used in. */
struct ommai_vision_linear {
  struct ommai_linear *linear;
  struct ommai_linear_op *op;
};

struct ommai_vision_norm {
  float *weight, *bias; /* [d]; without a bias it is an RMSNorm */
};

struct ommai_vision_block {
  struct ommai_vision_norm norm1, norm2;
  float *q_norm, *k_norm; /* [head_dim]; NULL: none */
  struct ommai_vision_linear qkv, proj, fc1, fc2;
};

/* Joins merge^2 patches to one token: struct ommai_vision_merger_config. The norm runs over each
 * patch [hidden_size], or over the joined row. */
struct ommai_vision_merger {
  bool norm_after_join;
  struct ommai_vision_norm norm, projected_norm;
  struct ommai_vision_linear reduce, project, fc1, fc2;
};

struct ommai_vision_tower {
  struct ommai_vision_config config;
  enum omma_dtype dtype; /* of linear layers, q, k and v: f32 or bf16 */
  bool int8_scores;      /* attention may multiply in 8 bits */
  int64_t tile_rows;     /* that each of its layers takes in a run (ommai_linear_max_rows) */
  const struct ommai_row_ops *ops;
  const struct omma_attention_context *attention;
  struct ommai_linear_context *linear_context;
  struct ommai_vision_linear patch_embed;
  /* [position_rows * position_columns, hidden_size]; NULL where there is none */
  float *position_table;
  struct ommai_vision_norm entry_norm;
  struct ommai_vision_block *blocks; /* [depth] */
  struct ommai_vision_norm final_norm;
  struct ommai_vision_merger merger;
  struct ommai_vision_merger deepstack[OMMAI_VISION_MAX_DEEPSTACK];
};

/* Frees the weights, also of a half-loaded tower; `allocator` is the one that they came from. */
void ommai_vision_tower_free(struct ommai_vision_tower *tower, const struct omma_allocator *allocator);

/* The calls of the tower's layers; scratch rows are as wide as the layer's own vectors. */
struct ommai_linear_call ommai_vision_call_patch_embed(const struct ommai_vision_config *config);
struct ommai_linear_call ommai_vision_call_qkv(const struct ommai_vision_config *config);
struct ommai_linear_call ommai_vision_call_proj(const struct ommai_vision_config *config);
struct ommai_linear_call ommai_vision_call_fc1(const struct ommai_vision_config *config, enum omma_dtype dtype);
struct ommai_linear_call ommai_vision_call_fc2(const struct ommai_vision_config *config);
struct ommai_linear_call ommai_vision_call_merger_reduce(const struct ommai_vision_config *config, enum omma_dtype dtype);
struct ommai_linear_call ommai_vision_call_merger_project(const struct ommai_vision_config *config);
struct ommai_linear_call ommai_vision_call_merger_fc1(const struct ommai_vision_config *config, enum omma_dtype dtype);
struct ommai_linear_call ommai_vision_call_merger_fc2(const struct ommai_vision_config *config);

/* Useful floating-point operations for one image of grid_rows x grid_columns patches: 2 per
 * multiply-add of linear layers and attention, in windows where it is. A video is as many images
 * as it has temporal patches. */
double ommai_vision_flops(const struct ommai_vision_config *config, int64_t grid_rows, int64_t grid_columns);
