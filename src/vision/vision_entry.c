#include "vision/vision_entry.h"

#include <string.h>

#include "base/checked.h"
#include "kernels/dtype.h"

/* n patches of the input from `first` on. */
static void copy_patches(const struct ommai_vision_rows *rows, const struct ommai_vision_input *input, int64_t first, int64_t n,
                         void *out) {
  const struct ommai_vision_tower *tower = rows->tower;
  int64_t patch_dim = ommai_vision_patch_dim(&tower->config);
  const unsigned char *from = input->patches;
  from += (size_t)(first * patch_dim) * ommai_dtype_size(input->patch_type);
  if (input->patch_type == tower->dtype) {
    memcpy(out, from, (size_t)(n * patch_dim) * ommai_dtype_size(tower->dtype));
  } else {
    tower->ops->convert((const float *)(const void *)from, n * patch_dim, out, tower->dtype);
  }
}

/* The patches of a span whose input brings them. */
static void take_patches(const struct ommai_vision_rows *rows, const struct ommai_vision_span *span, void *out) {
  const struct ommai_vision_tower *tower = rows->tower;
  const struct ommai_vision_config *config = &tower->config;
  const struct ommai_vision_input *input = span->input;
  if (!input->raster_patches) {
    copy_patches(rows, input, span->first_token * ommai_vision_joined_patches(config), span->n_patches, out);
    return;
  }
  for (int64_t i = 0; i < span->n_patches; i++) {
    struct ommai_patch_position position = ommai_vision_span_position(span, config->merge_size, i);
    int64_t row = span->temporal_patch * input->grid_rows + position.row;
    copy_patches(rows, input, row * input->grid_columns + position.column, 1,
                 ommai_element(out, i * ommai_vision_patch_dim(config), tower->dtype));
  }
}

/* A tile's patches, cut from pixels or taken. */
static void cut_patches(const struct ommai_vision_rows *rows, struct ommai_row_tile tile, void *patches) {
  const struct ommai_vision_config *config = &rows->tower->config;
  int64_t patch_dim = ommai_vision_patch_dim(config), joined = ommai_vision_joined_patches(config);
  for (struct ommai_vision_walk walk = {.row = tile.first}; ommai_vision_walk_next(rows, tile, &walk);) {
    const struct ommai_vision_input *input = walk.span.input;
    void *out = ommai_element(patches, (walk.row - tile.first) * patch_dim, rows->tower->dtype);
    if (!input->pixels) {
      take_patches(rows, &walk.span, out);
      continue;
    }
    int64_t height = input->grid_rows * config->patch_size, width = input->grid_columns * config->patch_size;
    int64_t temporal_patch_tokens = input->grid_rows * input->grid_columns / joined;
    const uint8_t *frames[OMMAI_PATCH_MAX_TEMPORAL];
    for (int64_t t = 0; t < config->temporal_patch_size; t++) {
      int64_t frame = ommai_min_i64(walk.span.temporal_patch * config->temporal_patch_size + t, input->n_frames - 1);
      frames[t] = input->pixels + frame * height * width * 3;
    }
    /* Cannot fail: grids are whole blocks and the range lies inside the image. */
    (void)ommai_patches_from_frames(rows->patches, frames, (int32_t)width, (int32_t)height,
                                    walk.span.first_token % temporal_patch_tokens * joined, walk.span.n_patches, out, patch_dim,
                                    rows->tower->dtype, NULL);
  }
}

static void add_positions(const struct ommai_vision_rows *rows, struct ommai_row_tile tile) {
  const struct ommai_vision_tower *tower = rows->tower;
  const struct ommai_vision_config *config = &tower->config;
  int64_t h = config->hidden_size;
  for (struct ommai_vision_walk walk = {.row = tile.first}; ommai_vision_walk_next(rows, tile, &walk);) {
    for (int64_t i = 0; i < walk.span.n_patches; i++) {
      struct ommai_position_taps taps;
      const float *table[OMMAI_POSITION_MAX_TAPS];
      ommai_position_taps(config->positions, ommai_vision_span_position(&walk.span, config->merge_size, i),
                          walk.span.input->grid_rows, walk.span.input->grid_columns, config->position_rows,
                          config->position_columns, &taps);
      for (int t = 0; t < taps.n; t++) table[t] = tower->position_table + taps.rows[t] * h;
      tower->ops->add_weighted(rows->residual + (walk.row + i) * h, table, taps.weights, taps.n, h);
    }
  }
}

void ommai_vision_entry(struct ommai_vision_rows *rows, struct ommai_row_tile tile, int worker) {
  const struct ommai_vision_tower *tower = rows->tower;
  struct ommai_vision_scratch *scratch = &rows->scratch[worker];
  float *residual = rows->residual + tile.first * tower->config.hidden_size;
  int64_t start = ommai_vision_profile_start(rows->profiles);
  cut_patches(rows, tile, scratch->hidden);
  ommai_vision_profile_stop(rows->profiles, worker, OMMAI_VISION_CUT, start);
  start = ommai_vision_profile_start(rows->profiles);
  ommai_row_tiles_apply(&rows->tiles, tower->patch_embed.op, scratch->hidden, residual, tile.n_rows, worker);
  if (tower->config.positions != OMMAI_POSITIONS_NONE) add_positions(rows, tile);
  if (tower->config.entry_norm) {
    ommai_vision_norm_rows(tower, &tower->entry_norm, tower->config.norm_eps, residual, tile.n_rows, tower->config.hidden_size,
                           residual, OMMA_F32);
  }
  ommai_vision_profile_stop(rows->profiles, worker, OMMAI_VISION_EMBED, start);
}
