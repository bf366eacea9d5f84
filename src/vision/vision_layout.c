#include "vision/vision_layout.h"

#include "base/checked.h"
#include "base/error.h"

int64_t ommai_vision_input_grid_t(const struct ommai_vision_config *config, const struct ommai_vision_input *input) {
  return ommai_div_up(input->n_frames, config->temporal_patch_size);
}

enum omma_status ommai_vision_sizes_add(const struct ommai_vision_config *config, const struct ommai_vision_input *input,
                                        struct ommai_vision_sizes *sizes, struct omma_error *error) {
  int64_t rows = input->grid_rows, columns = input->grid_columns, count;
  if (input->n_frames < 1) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "image", "expected at least 1 frame, found %lld",
                            (long long)input->n_frames);
  }
  int64_t temporal_patches = ommai_vision_input_grid_t(config, input);
  if (rows < 1 || columns < 1 || rows % config->merge_size || columns % config->merge_size ||
      !ommai_mul_i64(rows, columns, &count) || !ommai_mul_i64(count, temporal_patches, &count) ||
      !ommai_add_i64(sizes->n_patches, count, &sizes->n_patches)) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "image",
                            "grid of %lld x %lld patches: expected positive multiples of %lld", (long long)rows,
                            (long long)columns, (long long)config->merge_size);
  }
  sizes->n_temporal_patches += temporal_patches;
  sizes->max_side = ommai_max_i64(sizes->max_side, ommai_max_i64(rows, columns));
  return OMMA_OK;
}

int64_t ommai_vision_max_windows(const struct ommai_vision_config *config, const struct ommai_vision_sizes *sizes) {
  int64_t blocks = sizes->n_patches / ommai_vision_joined_patches(config), window = config->window_size;
  return window ? ommai_min_i64(blocks, (blocks + sizes->n_temporal_patches * (window - 1)) / window) : 0;
}

void ommai_vision_layout_place(struct ommai_vision_layout *layout, const struct ommai_vision_config *config,
                               const struct ommai_vision_sizes *sizes, struct ommai_arena *arena) {
  *layout = (struct ommai_vision_layout){
      .config = config,
      .input_starts = ommai_arena_take(arena, (size_t)sizes->n_temporal_patches + 1, sizeof(int64_t)),
      .temporal_patch_starts = ommai_arena_take(arena, (size_t)sizes->n_temporal_patches + 1, sizeof(int64_t)),
      .window_starts = ommai_arena_take(arena, (size_t)ommai_vision_max_windows(config, sizes) + 1, sizeof(int64_t)),
  };
}

int64_t ommai_vision_grid_windows(const struct ommai_vision_config *config, int64_t rows, int64_t columns) {
  int64_t side = config->window_size * config->merge_size;
  return side ? ommai_div_up(rows, side) * ommai_div_up(columns, side) : 0;
}

/* Adds the borders of a temporal patch's windows: window rows, and in them windows from the
 * left. */
static void add_windows(struct ommai_vision_layout *layout, int64_t block_rows, int64_t block_columns) {
  int64_t side = layout->config->window_size, joined = ommai_vision_joined_patches(layout->config);
  for (int64_t top = 0; top < block_rows; top += side) {
    int64_t height = ommai_min_i64(side, block_rows - top);
    for (int64_t left = 0; left < block_columns; left += side) {
      int64_t *border = &layout->window_starts[layout->n_windows++];
      border[1] = border[0] + height * ommai_min_i64(side, block_columns - left) * joined;
    }
  }
}

void ommai_vision_layout_fill(struct ommai_vision_layout *layout, const struct ommai_vision_input *inputs, int64_t n_inputs) {
  const struct ommai_vision_config *config = layout->config;
  layout->inputs = inputs;
  layout->n_inputs = n_inputs;
  layout->n_temporal_patches = layout->n_windows = 0;
  layout->input_starts[0] = layout->temporal_patch_starts[0] = layout->window_starts[0] = 0;
  for (int64_t i = 0; i < n_inputs; i++) {
    int64_t rows = inputs[i].grid_rows, columns = inputs[i].grid_columns;
    for (int64_t temporal_patch = ommai_vision_input_grid_t(config, &inputs[i]); temporal_patch > 0; temporal_patch--) {
      int64_t *border = &layout->temporal_patch_starts[layout->n_temporal_patches++];
      border[1] = border[0] + rows * columns;
      if (config->window_size) add_windows(layout, rows / config->merge_size, columns / config->merge_size);
    }
    layout->input_starts[i + 1] = layout->temporal_patch_starts[layout->n_temporal_patches];
  }
}

/* The input that packed patch `row` belongs to. */
static int64_t input_of(const struct ommai_vision_layout *layout, int64_t row) {
  int64_t low = 0, high = layout->n_inputs - 1;
  while (low < high) {
    int64_t middle = (low + high + 1) / 2;
    if (layout->input_starts[middle] <= row) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

struct ommai_vision_span ommai_vision_span_at(const struct ommai_vision_layout *layout, int64_t row, int64_t max_patches) {
  const struct ommai_vision_config *config = layout->config;
  int64_t index = input_of(layout, row), joined = ommai_vision_joined_patches(config);
  const struct ommai_vision_input *input = &layout->inputs[index];
  int64_t rows = input->grid_rows / config->merge_size, columns = input->grid_columns / config->merge_size;
  int64_t token = (row - layout->input_starts[index]) / joined, temporal_patch = token / (rows * columns);
  struct ommai_block block = ommai_block_at(token - temporal_patch * rows * columns, rows, columns, config->window_size);
  return (struct ommai_vision_span){.input = input,
                                    .temporal_patch = temporal_patch,
                                    .block_row = block.row,
                                    .block_column = block.column,
                                    .first_token = (temporal_patch * rows + block.row) * columns + block.column,
                                    .n_patches = ommai_min_i64(max_patches, block.run * joined)};
}
