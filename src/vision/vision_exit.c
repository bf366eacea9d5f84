#include "vision/vision_exit.h"

#include <string.h>

#include "kernels/dtype.h"

/* A token's patches x [merge^2, h] channel by channel: out f32 [h, merge^2]. */
static void turn_patches(const struct ommai_vision_config *config, const float *x, float *out) {
  int64_t joined = ommai_vision_joined_patches(config), h = config->hidden_size;
  for (int64_t patch = 0; patch < joined; patch++) {
    for (int64_t channel = 0; channel < h; channel++) out[channel * joined + patch] = x[patch * h + channel];
  }
}

/* The joined rows of n tokens, as the first matrix takes them, into scratch->normed. */
static void join(const struct ommai_vision_tower *tower, const struct ommai_vision_merger *merger, const float *x, int64_t n,
                 const struct ommai_vision_scratch *scratch) {
  const struct ommai_vision_config *config = &tower->config;
  int64_t h = config->hidden_size, width = h * ommai_vision_joined_patches(config);
  int64_t norm_width = merger->norm_after_join ? width : h;
  if (!merger->reduce.op) {
    ommai_vision_norm_rows(tower, &merger->norm, config->merger_norm_eps, x, n * width / norm_width, norm_width,
                           scratch->normed, tower->dtype);
    return;
  }
  if (!config->merger.no_norm) {
    ommai_vision_norm_rows(tower, &merger->norm, config->merger_norm_eps, x, n * width / norm_width, norm_width,
                           scratch->projected, OMMA_F32);
    x = scratch->projected;
  }
  for (int64_t token = 0; token < n; token++) {
    float *turned = scratch->hidden; /* free, and wide enough for a row in f32 */
    turn_patches(config, x + token * width, turned);
    tower->ops->convert(turned, width, ommai_element(scratch->normed, token * width, tower->dtype), tower->dtype);
  }
}

/* gelu(layer_norm) of n rows of scratch->projected, rounded into out. */
static void finish_projected(const struct ommai_vision_tower *tower, const struct ommai_vision_merger *merger, int64_t n,
                             const struct ommai_vision_scratch *scratch, void *out) {
  int64_t width = ommai_vision_merger_width(&tower->config);
  float *rows = scratch->projected;
  ommai_vision_norm_rows(tower, &merger->projected_norm, tower->config.merger_norm_eps, rows, n, width, rows, OMMA_F32);
  for (int64_t row = 0; row < n; row++) {
    tower->ops->gelu_erf(rows + row * width, width);
    tower->ops->convert(rows + row * width, width, ommai_element(out, row * width, tower->dtype), tower->dtype);
  }
}

/* Joined rows of n tokens in scratch->normed -> [n, out_hidden_size] in scratch->projected. */
static void run_matrices(struct ommai_vision_rows *rows, const struct ommai_vision_merger *merger, int64_t n, int worker) {
  const struct ommai_vision_tower *tower = rows->tower;
  const struct ommai_vision_config *config = &tower->config;
  struct ommai_vision_scratch *scratch = &rows->scratch[worker];
  void *x = scratch->normed, *other = scratch->hidden;
  if (merger->reduce.op) {
    ommai_vision_apply(rows, &merger->reduce, x, other, n, worker);
    x = scratch->hidden;
    other = scratch->normed;
  }
  if (merger->project.op) {
    void *projected = other;
    ommai_vision_apply(rows, &merger->project, x, scratch->projected, n, worker);
    finish_projected(tower, merger, n, scratch, projected);
    other = x;
    x = projected;
  }
  if (config->merger.gated) {
    ommai_vision_apply(rows, &merger->fc1, x, scratch->projected, n, worker);
    ommai_vision_gate_rows(tower, scratch->projected, n, ommai_vision_merger_inner(config), other);
  } else {
    ommai_vision_apply(rows, &merger->fc1, x, other, n, worker);
  }
  ommai_vision_apply(rows, &merger->fc2, other, scratch->projected, n, worker);
}

void ommai_vision_merge(struct ommai_vision_rows *rows, struct ommai_row_tile tile, const float *x,
                        const struct ommai_vision_merger *merger, int64_t slot, int worker) {
  const struct ommai_vision_tower *tower = rows->tower;
  const struct ommai_vision_config *config = &tower->config;
  const struct ommai_vision_scratch *scratch = &rows->scratch[worker];
  int64_t joined = ommai_vision_joined_patches(config), out = config->out_hidden_size;
  join(tower, merger, x, tile.n_rows / joined, scratch);
  run_matrices(rows, merger, tile.n_rows / joined, worker);
  for (struct ommai_vision_walk walk = {.row = tile.first}; ommai_vision_walk_next(rows, tile, &walk);) {
    const struct ommai_vision_input *input = walk.span.input;
    int64_t input_tokens = ommai_vision_input_grid_t(config, input) * input->grid_rows * input->grid_columns / joined;
    memcpy(input->output + (slot * input_tokens + walk.span.first_token) * out,
           scratch->projected + (walk.row - tile.first) / joined * out,
           (size_t)(walk.span.n_patches / joined * out) * sizeof(float));
  }
}

void ommai_vision_exit(struct ommai_vision_rows *rows, struct ommai_row_tile tile, const float *residual, int worker) {
  const struct ommai_vision_tower *tower = rows->tower;
  const struct ommai_vision_config *config = &tower->config;
  if (config->final_norm) {
    float *normed = rows->scratch[worker].projected;
    ommai_vision_norm_rows(tower, &tower->final_norm, config->norm_eps, residual, tile.n_rows, config->hidden_size, normed,
                           OMMA_F32);
    residual = normed;
  }
  ommai_vision_merge(rows, tile, residual, &tower->merger, 0, worker);
}
