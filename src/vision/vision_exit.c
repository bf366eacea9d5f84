#include "vision/vision_exit.h"

#include <string.h>

void ommai_vision_merge(struct ommai_vision_rows *rows, struct ommai_row_tile tile, const float *x,
                        const struct ommai_vision_merger *merger, int64_t slot, int worker) {
  const struct ommai_vision_tower *tower = rows->tower;
  const struct ommai_vision_config *config = &tower->config;
  struct ommai_vision_scratch *scratch = &rows->scratch[worker];
  int64_t joined = ommai_vision_joined_patches(config), h = config->hidden_size, out = config->out_hidden_size;
  int64_t n_tokens = tile.n_rows / joined, norm_width = merger->norm_after_join ? h * joined : h;
  ommai_vision_norm_rows(tower, &merger->norm, config->merger_norm_eps, x, tile.n_rows * h / norm_width, norm_width,
                         scratch->normed, tower->dtype);
  ommai_vision_apply(rows, &merger->fc1, scratch->normed, scratch->hidden, n_tokens, worker);
  ommai_vision_apply(rows, &merger->fc2, scratch->hidden, scratch->projected, n_tokens, worker);
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
