#include "vision/vision_tile.h"

#include "kernels/dtype.h"
#include "vision/vision_entry.h"
#include "vision/vision_exit.h"

/* The heads of q and k of one row, in their place. */
static void norm_heads(const struct ommai_vision_tower *tower, const struct ommai_vision_block *weights, float *qk) {
  const struct ommai_vision_config *config = &tower->config;
  int64_t d = config->head_dim;
  for (int64_t h = 0; config->qk_norm && h < 2 * config->n_heads; h++) {
    const float *weight = h < config->n_heads ? weights->q_norm : weights->k_norm;
    tower->ops->rms_norm(qk + h * d, weight, config->norm_eps, d, qk + h * d, OMMA_F32);
  }
}

/* q and k of one row turned, v as it is, everything rounded once; from and to [3h]. */
static void rotate_row(const struct ommai_vision_rows *rows, struct ommai_patch_position position, const float *from, void *to,
                       const struct ommai_vision_scratch *scratch) {
  const struct ommai_vision_tower *tower = rows->tower;
  const struct ommai_vision_config *config = &tower->config;
  int64_t h = config->hidden_size, head_dim = config->head_dim, quarter = head_dim / 4;
  ommai_vision_rope_row(config->rope, position, quarter, rows->rope_cosine, scratch->cosine);
  ommai_vision_rope_row(config->rope, position, quarter, rows->rope_sine, scratch->sine);
  if (config->rope != OMMAI_ROPE_PAIRS) {
    tower->ops->rope_half(from, scratch->cosine, scratch->sine, 2 * config->n_heads, head_dim, to, head_dim, tower->dtype);
  } else {
    tower->ops->rope_pairs(from, scratch->cosine, scratch->sine, 2 * config->n_heads, head_dim, to, head_dim, tower->dtype);
  }
  tower->ops->convert(from + 2 * h, h, ommai_element(to, 2 * h, tower->dtype), tower->dtype);
}

/* norm1 and qkv of `block` for a tile, into the packed qkv. */
static void project_qkv(struct ommai_vision_rows *rows, struct ommai_row_tile tile, int64_t block, int worker) {
  const struct ommai_vision_tower *tower = rows->tower;
  const struct ommai_vision_config *config = &tower->config;
  const struct ommai_vision_block *weights = &tower->blocks[block];
  struct ommai_vision_scratch *scratch = &rows->scratch[worker];
  int64_t h = config->hidden_size;
  ommai_vision_norm_rows(tower, &weights->norm1, config->norm_eps, rows->residual + tile.first * h, tile.n_rows, h,
                         scratch->normed, tower->dtype);
  ommai_vision_apply(rows, &weights->qkv, scratch->normed, scratch->projected, tile.n_rows, worker);
  for (struct ommai_vision_walk walk = {.row = tile.first}; ommai_vision_walk_next(rows, tile, &walk);) {
    for (int64_t i = 0; i < walk.span.n_patches; i++) {
      int64_t row = walk.row + i;
      float *projected = scratch->projected + (row - tile.first) * 3 * h;
      norm_heads(tower, weights, projected);
      rotate_row(rows, ommai_vision_span_position(&walk.span, config->merge_size, i), projected,
                 ommai_element(rows->qkv, row * 3 * h, tower->dtype), scratch);
    }
  }
}

void ommai_vision_enter_tile(struct ommai_vision_rows *rows, int64_t index, int worker) {
  struct ommai_row_tile tile = ommai_row_tile_at(&rows->tiles, index);
  ommai_vision_entry(rows, tile, worker);
  project_qkv(rows, tile, 0, worker);
}

/* x += fc2(..fc1(norm2 x)) for a tile's rows of the residual. */
static void feed_forward(struct ommai_vision_rows *rows, const struct ommai_vision_block *weights, float *residual,
                         int64_t n_rows, int worker) {
  const struct ommai_vision_tower *tower = rows->tower;
  const struct ommai_vision_config *config = &tower->config;
  struct ommai_vision_scratch *scratch = &rows->scratch[worker];
  ommai_vision_norm_rows(tower, &weights->norm2, config->norm_eps, residual, n_rows, config->hidden_size, scratch->normed,
                         tower->dtype);
  if (config->gated) {
    ommai_vision_apply(rows, &weights->fc1, scratch->normed, scratch->projected, n_rows, worker);
    ommai_vision_gate_rows(tower, scratch->projected, n_rows, config->intermediate_size, scratch->hidden);
  } else {
    ommai_vision_apply(rows, &weights->fc1, scratch->normed, scratch->hidden, n_rows, worker);
  }
  ommai_vision_apply(rows, &weights->fc2, scratch->hidden, residual, n_rows, worker);
}

void ommai_vision_leave_tile(struct ommai_vision_rows *rows, int64_t block, int64_t index, int worker) {
  const struct ommai_vision_tower *tower = rows->tower;
  const struct ommai_vision_config *config = &tower->config;
  const struct ommai_vision_block *weights = &tower->blocks[block];
  struct ommai_row_tile tile = ommai_row_tile_at(&rows->tiles, index);
  float *residual = rows->residual + tile.first * config->hidden_size;
  const void *attended = ommai_element(rows->attended, tile.first * config->hidden_size, tower->dtype);
  ommai_vision_apply(rows, &weights->proj, attended, residual, tile.n_rows, worker);
  feed_forward(rows, weights, residual, tile.n_rows, worker);
  for (int64_t j = 0; j < config->n_deepstack; j++) {
    if (config->deepstack_layers[j] == block) ommai_vision_merge(rows, tile, residual, &tower->deepstack[j], 1 + j, worker);
  }
  if (block + 1 < config->depth) {
    project_qkv(rows, tile, block + 1, worker);
  } else {
    ommai_vision_exit(rows, tile, residual, worker);
  }
}
