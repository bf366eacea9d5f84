#include "vision/vision_rows.h"

#include "base/checked.h"
#include "kernels/dtype.h"

static void place_scratch(struct ommai_vision_scratch *scratch, const struct ommai_vision_tower *tower,
                          struct ommai_arena *arena) {
  const struct ommai_vision_config *config = &tower->config;
  size_t rows = (size_t)tower->tile_rows, element = ommai_dtype_size(tower->dtype);
  int64_t h = config->hidden_size, joined = h * ommai_vision_joined_patches(config);
  int64_t merged = ommai_max_i64(ommai_vision_merger_width(config), ommai_vision_merger_inner(config));
  int64_t projected = ommai_max_i64(3 * h, config->out_hidden_size);
  int64_t hidden = ommai_max_i64(ommai_max_i64(ommai_vision_patch_dim(config), config->intermediate_size), joined);
  hidden = ommai_max_i64(hidden, merged);
  if (config->merger.projected || config->merger.gated) projected = ommai_max_i64(projected, 2 * merged);
  if (config->gated) projected = ommai_max_i64(projected, ommai_vision_fc1_width(config));
  struct ommai_vision_scratch placed = {
      .normed = ommai_arena_take(arena, rows * (size_t)ommai_max_i64(joined, merged), element),
      .projected = ommai_arena_take(arena, rows * (size_t)projected, sizeof(float)),
      .hidden = ommai_arena_take(arena, rows * (size_t)hidden, element),
      .cosine = ommai_arena_take(arena, (size_t)config->head_dim / 2, sizeof(float)),
      .sine = ommai_arena_take(arena, (size_t)config->head_dim / 2, sizeof(float)),
  };
  if (scratch) *scratch = placed;
}

void ommai_vision_rows_place(struct ommai_vision_rows *rows, const struct ommai_vision_tower *tower,
                             const struct ommai_vision_sizes *sizes, int n_workers, struct ommai_arena *arena) {
  const struct ommai_vision_config *config = &tower->config;
  size_t h = (size_t)config->hidden_size, half = (size_t)config->head_dim / 2;
  size_t n = (size_t)ommai_round_up(sizes->n_patches, tower->tile_rows), side = (size_t)sizes->max_side;
  *rows = (struct ommai_vision_rows){
      .tower = tower,
      .residual = ommai_arena_take(arena, n * h, sizeof(float)),
      .qkv = ommai_arena_take(arena, n * 3 * h, ommai_dtype_size(tower->dtype)),
      .attended = ommai_arena_take(arena, n * h, ommai_dtype_size(tower->dtype)),
      .rope_cosine = ommai_arena_take(arena, side * half, sizeof(float)),
      .rope_sine = ommai_arena_take(arena, side * half, sizeof(float)),
      .scratch = ommai_arena_take(arena, (size_t)n_workers, sizeof(struct ommai_vision_scratch)),
  };
  ommai_vision_layout_place(&rows->layout, config, sizes, arena);
  for (int worker = 0; worker < n_workers; worker++) {
    place_scratch(rows->scratch ? &rows->scratch[worker] : NULL, tower, arena);
  }
}

void ommai_vision_rows_start(struct ommai_vision_rows *rows, const struct ommai_vision_input *inputs, int64_t n_inputs,
                             const struct ommai_vision_sizes *sizes, const struct ommai_patch_spec *patches, int n_workers) {
  const struct ommai_vision_tower *tower = rows->tower;
  rows->patches = patches;
  ommai_vision_layout_fill(&rows->layout, inputs, n_inputs);
  ommai_row_tiles_init(&rows->tiles, sizes->n_patches, n_workers, tower->tile_rows);
  ommai_vision_rope_table(tower->config.rope, sizes->max_side, tower->config.head_dim / 4, tower->config.rope_theta,
                          rows->rope_cosine, rows->rope_sine);
}

bool ommai_vision_walk_next(const struct ommai_vision_rows *rows, struct ommai_row_tile tile, struct ommai_vision_walk *walk) {
  int64_t left = tile.first + tile.n_rows - (walk->row + walk->span.n_patches);
  if (left <= 0) return false;
  walk->row += walk->span.n_patches;
  walk->span = ommai_vision_span_at(&rows->layout, walk->row, left);
  return true;
}

void ommai_vision_norm_rows(const struct ommai_vision_tower *tower, const struct ommai_vision_norm *norm, float eps,
                            const float *x, int64_t n_rows, int64_t width, void *out, enum omma_dtype out_type) {
  for (int64_t row = 0; row < n_rows; row++, x += width) {
    void *to = ommai_element(out, row * width, out_type);
    if (!norm->bias) {
      tower->ops->rms_norm(x, norm->weight, eps, width, to, out_type);
    } else {
      tower->ops->layer_norm(x, norm->weight, norm->bias, eps, width, to, out_type);
    }
  }
}

void ommai_vision_apply(struct ommai_vision_rows *rows, const struct ommai_vision_linear *linear, const void *x, void *y,
                        int64_t n_rows, int worker) {
  int64_t start = ommai_vision_profile_start(rows->profiles);
  ommai_row_tiles_apply(&rows->tiles, linear->op, x, y, n_rows, worker);
  ommai_vision_profile_stop(rows->profiles, worker, OMMAI_VISION_LINEAR, start);
}

void ommai_vision_gate_rows(const struct ommai_vision_tower *tower, const float *projected, int64_t n_rows, int64_t width,
                            void *out) {
  for (int64_t row = 0; row < n_rows; row++) {
    const float *gate = projected + row * 2 * width;
    tower->ops->silu_mul(gate, gate + width, width, ommai_element(out, row * width, tower->dtype), tower->dtype);
  }
}
