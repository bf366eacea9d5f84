#include "vision/vision_rows.h"

#include <string.h>

#include "base/checked.h"
#include "kernels/dtype.h"

static void place_scratch(struct ommai_vision_scratch *scratch, const struct ommai_vision_config *config, enum omma_dtype dtype,
                          struct ommai_arena *arena) {
  int64_t h = config->hidden_size, joined = h * ommai_vision_joined_patches(config);
  int64_t projected = ommai_max_i64(3 * h, config->out_hidden_size);
  int64_t hidden = ommai_max_i64(ommai_max_i64(ommai_vision_patch_dim(config), config->intermediate_size), joined);
  if (config->gated) projected = ommai_max_i64(projected, ommai_vision_fc1_width(config));
  struct ommai_vision_scratch placed = {
      .normed = ommai_arena_take(arena, (size_t)(OMMAI_MAX_TILE_ROWS * joined), ommai_dtype_size(dtype)),
      .projected = ommai_arena_take(arena, (size_t)(OMMAI_MAX_TILE_ROWS * projected), sizeof(float)),
      .hidden = ommai_arena_take(arena, (size_t)(OMMAI_MAX_TILE_ROWS * hidden), ommai_dtype_size(dtype)),
      .cosine = ommai_arena_take(arena, (size_t)config->head_dim / 2, sizeof(float)),
      .sine = ommai_arena_take(arena, (size_t)config->head_dim / 2, sizeof(float)),
  };
  if (scratch) *scratch = placed;
}

void ommai_vision_rows_place(struct ommai_vision_rows *rows, const struct ommai_vision_tower *tower,
                             const struct ommai_vision_sizes *sizes, int n_workers, struct ommai_arena *arena) {
  const struct ommai_vision_config *config = &tower->config;
  size_t h = (size_t)config->hidden_size, quarter = (size_t)config->head_dim / 4;
  size_t n = (size_t)ommai_round_up(sizes->n_patches, OMMAI_MAX_TILE_ROWS), side = (size_t)sizes->max_side;
  *rows = (struct ommai_vision_rows){
      .tower = tower,
      .residual = ommai_arena_take(arena, n * h, sizeof(float)),
      .qkv = ommai_arena_take(arena, n * 3 * h, ommai_dtype_size(tower->dtype)),
      .attended = ommai_arena_take(arena, n * h, ommai_dtype_size(tower->dtype)),
      .rope_cosine = ommai_arena_take(arena, side * quarter, sizeof(float)),
      .rope_sine = ommai_arena_take(arena, side * quarter, sizeof(float)),
      .scratch = ommai_arena_take(arena, (size_t)n_workers, sizeof(struct ommai_vision_scratch)),
  };
  ommai_vision_layout_place(&rows->layout, config, sizes, arena);
  for (int worker = 0; worker < n_workers; worker++) {
    place_scratch(rows->scratch ? &rows->scratch[worker] : NULL, config, tower->dtype, arena);
  }
}

void ommai_vision_rows_start(struct ommai_vision_rows *rows, const struct ommai_vision_input *inputs, int64_t n_inputs,
                             const struct ommai_vision_sizes *sizes, const struct ommai_patch_spec *patches) {
  const struct ommai_vision_tower *tower = rows->tower;
  rows->patches = patches;
  ommai_vision_layout_fill(&rows->layout, inputs, n_inputs);
  ommai_row_tiles_init(&rows->tiles, tower->linear_engine, tower->dtype, sizes->n_patches);
  ommai_vision_rope_table(sizes->max_side, tower->config.head_dim / 4, tower->config.rope_theta, rows->rope_cosine,
                          rows->rope_sine);
}

/* A walk over the spans of a tile: begins with the tile's first row and an empty span. */
struct walk {
  struct ommai_vision_span span;
  int64_t row; /* the span's first packed patch */
};

static bool walk_next(const struct ommai_vision_rows *rows, struct ommai_row_tile tile, struct walk *walk) {
  int64_t left = tile.first + tile.n_rows - (walk->row + walk->span.n_patches);
  if (left <= 0) return false;
  walk->row += walk->span.n_patches;
  walk->span = ommai_vision_span_at(&rows->layout, walk->row, left);
  return true;
}

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
  for (struct walk walk = {.row = tile.first}; walk_next(rows, tile, &walk);) {
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
                                    walk.span.first_token % temporal_patch_tokens * joined, walk.span.n_patches, out,
                                    patch_dim, rows->tower->dtype, NULL);
  }
}

static void add_positions(const struct ommai_vision_rows *rows, struct ommai_row_tile tile) {
  const struct ommai_vision_tower *tower = rows->tower;
  const struct ommai_vision_config *config = &tower->config;
  int64_t h = config->hidden_size;
  for (struct walk walk = {.row = tile.first}; walk_next(rows, tile, &walk);) {
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

/* Norms n_rows rows of x [n_rows, width] into out [n_rows, width] of out_type. */
static void norm_rows(const struct ommai_vision_tower *tower, const struct ommai_vision_norm *norm, float eps, const float *x,
                      int64_t n_rows, int64_t width, void *out, enum omma_dtype out_type) {
  bool rms = tower->config.norm == OMMAI_VISION_RMS_NORM;
  for (int64_t row = 0; row < n_rows; row++, x += width) {
    void *to = ommai_element(out, row * width, out_type);
    if (rms) {
      tower->ops->rms_norm(x, norm->weight, eps, width, to, out_type);
    } else {
      tower->ops->layer_norm(x, norm->weight, norm->bias, eps, width, to, out_type);
    }
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
  if (config->rope == OMMAI_ROPE_HALF) {
    tower->ops->rope_half(from, scratch->cosine, scratch->sine, 2 * config->n_heads, head_dim, to, head_dim, tower->dtype);
  } else {
    tower->ops->rope_pairs(from, scratch->cosine, scratch->sine, 2 * config->n_heads, head_dim, to, head_dim, tower->dtype);
  }
  tower->ops->convert(from + 2 * h, h, ommai_element(to, 2 * h, tower->dtype), tower->dtype);
}

/* A linear layer of a block or merger over n_rows rows of a tile. */
static void apply(struct ommai_vision_rows *rows, const struct ommai_vision_linear *linear, const void *x, void *y,
                  int64_t n_rows, int worker) {
  int64_t start = ommai_vision_profile_start(rows->profiles);
  ommai_row_tiles_apply(&rows->tiles, linear->op, x, y, n_rows, worker);
  ommai_vision_profile_stop(rows->profiles, worker, OMMAI_VISION_LINEAR, start);
}

/* norm1 and qkv of `block` for a tile, into the packed qkv. */
static void project_qkv(struct ommai_vision_rows *rows, struct ommai_row_tile tile, int64_t block, int worker) {
  const struct ommai_vision_tower *tower = rows->tower;
  const struct ommai_vision_config *config = &tower->config;
  const struct ommai_vision_block *weights = &tower->blocks[block];
  struct ommai_vision_scratch *scratch = &rows->scratch[worker];
  int64_t h = config->hidden_size;
  norm_rows(tower, &weights->norm1, config->norm_eps, rows->residual + tile.first * h, tile.n_rows, h, scratch->normed,
            tower->dtype);
  apply(rows, &weights->qkv, scratch->normed, scratch->projected, tile.n_rows, worker);
  for (struct walk walk = {.row = tile.first}; walk_next(rows, tile, &walk);) {
    for (int64_t i = 0; i < walk.span.n_patches; i++) {
      int64_t row = walk.row + i;
      rotate_row(rows, ommai_vision_span_position(&walk.span, config->merge_size, i),
                 scratch->projected + (row - tile.first) * 3 * h, ommai_element(rows->qkv, row * 3 * h, tower->dtype), scratch);
    }
  }
}

/* Merges a tile's rows x [n_rows, h] and puts the tokens where their inputs want them; `slot` 0 is the tower's end, then
 * deepstack. x may be scratch->projected. */
static void merge_tile(struct ommai_vision_rows *rows, struct ommai_row_tile tile, const float *x,
                       const struct ommai_vision_merger *merger, int64_t slot, int worker) {
  const struct ommai_vision_tower *tower = rows->tower;
  const struct ommai_vision_config *config = &tower->config;
  struct ommai_vision_scratch *scratch = &rows->scratch[worker];
  int64_t joined = ommai_vision_joined_patches(config), h = config->hidden_size, out = config->out_hidden_size;
  int64_t n_tokens = tile.n_rows / joined, norm_width = merger->norm_after_join ? h * joined : h;
  norm_rows(tower, &merger->norm, config->merger_norm_eps, x, tile.n_rows * h / norm_width, norm_width, scratch->normed,
            tower->dtype);
  apply(rows, &merger->fc1, scratch->normed, scratch->hidden, n_tokens, worker);
  apply(rows, &merger->fc2, scratch->hidden, scratch->projected, n_tokens, worker);
  for (struct walk walk = {.row = tile.first}; walk_next(rows, tile, &walk);) {
    const struct ommai_vision_input *input = walk.span.input;
    int64_t input_tokens = ommai_vision_input_grid_t(config, input) * input->grid_rows * input->grid_columns / joined;
    memcpy(input->output + (slot * input_tokens + walk.span.first_token) * out,
           scratch->projected + (walk.row - tile.first) / joined * out,
           (size_t)(walk.span.n_patches / joined * out) * sizeof(float));
  }
}

void ommai_vision_enter_tile(struct ommai_vision_rows *rows, int64_t index, int worker) {
  const struct ommai_vision_tower *tower = rows->tower;
  struct ommai_row_tile tile = ommai_row_tile_at(&rows->tiles, index);
  struct ommai_vision_scratch *scratch = &rows->scratch[worker];
  int64_t start = ommai_vision_profile_start(rows->profiles);
  cut_patches(rows, tile, scratch->hidden);
  ommai_vision_profile_stop(rows->profiles, worker, OMMAI_VISION_CUT, start);
  start = ommai_vision_profile_start(rows->profiles);
  ommai_row_tiles_apply(&rows->tiles, tower->patch_embed.op, scratch->hidden,
                        rows->residual + tile.first * tower->config.hidden_size, tile.n_rows, worker);
  if (tower->config.positions != OMMAI_POSITIONS_NONE) add_positions(rows, tile);
  ommai_vision_profile_stop(rows->profiles, worker, OMMAI_VISION_EMBED, start);
  project_qkv(rows, tile, 0, worker);
}

/* x += fc2(..fc1(norm2 x)) for a tile's rows of the residual. */
static void feed_forward(struct ommai_vision_rows *rows, const struct ommai_vision_block *weights, float *residual,
                         int64_t n_rows, int worker) {
  const struct ommai_vision_tower *tower = rows->tower;
  const struct ommai_vision_config *config = &tower->config;
  struct ommai_vision_scratch *scratch = &rows->scratch[worker];
  int64_t intermediate = config->intermediate_size;
  norm_rows(tower, &weights->norm2, config->norm_eps, residual, n_rows, config->hidden_size, scratch->normed, tower->dtype);
  if (config->gated) {
    apply(rows, &weights->fc1, scratch->normed, scratch->projected, n_rows, worker);
    for (int64_t row = 0; row < n_rows; row++) {
      const float *gate = scratch->projected + row * 2 * intermediate;
      tower->ops->silu_mul(gate, gate + intermediate, intermediate,
                           ommai_element(scratch->hidden, row * intermediate, tower->dtype), tower->dtype);
    }
  } else {
    apply(rows, &weights->fc1, scratch->normed, scratch->hidden, n_rows, worker);
  }
  apply(rows, &weights->fc2, scratch->hidden, residual, n_rows, worker);
}

/* The end of the tower: final norm and merger. */
static void finish_tile(struct ommai_vision_rows *rows, struct ommai_row_tile tile, const float *residual, int worker) {
  const struct ommai_vision_tower *tower = rows->tower;
  const struct ommai_vision_config *config = &tower->config;
  if (config->final_norm) {
    float *normed = rows->scratch[worker].projected;
    norm_rows(tower, &tower->final_norm, config->norm_eps, residual, tile.n_rows, config->hidden_size, normed, OMMA_F32);
    residual = normed;
  }
  merge_tile(rows, tile, residual, &tower->merger, 0, worker);
}

void ommai_vision_leave_tile(struct ommai_vision_rows *rows, int64_t block, int64_t index, int worker) {
  const struct ommai_vision_tower *tower = rows->tower;
  const struct ommai_vision_config *config = &tower->config;
  const struct ommai_vision_block *weights = &tower->blocks[block];
  struct ommai_row_tile tile = ommai_row_tile_at(&rows->tiles, index);
  float *residual = rows->residual + tile.first * config->hidden_size;
  const void *attended = ommai_element(rows->attended, tile.first * config->hidden_size, tower->dtype);
  apply(rows, &weights->proj, attended, residual, tile.n_rows, worker);
  feed_forward(rows, weights, residual, tile.n_rows, worker);
  for (int64_t j = 0; j < config->n_deepstack; j++) {
    if (config->deepstack_layers[j] == block) merge_tile(rows, tile, residual, &tower->deepstack[j], 1 + j, worker);
  }
  if (block + 1 < config->depth) {
    project_qkv(rows, tile, block + 1, worker);
  } else {
    finish_tile(rows, tile, residual, worker);
  }
}
