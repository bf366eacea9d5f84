/* Where packed patches lie: orders, borders and spans against the official code's construction,
 * over all small grids. */
#include "vision/vision_layout.h"

#include <math.h>
#include <stdlib.h>

#include "support/test.h"

enum { MAX_GRID = 20, MAX_PATCHES = 4 * MAX_GRID * MAX_GRID };

/* The official construction: the grid of blocks is padded to whole windows with holes, cut into
 * windows, and the holes are dropped. A multiple of the window is padded by one more window, whose
 * border falls away as a duplicate. Block numbers in raster order. */
struct naive {
  int64_t blocks[MAX_PATCHES], n_blocks;
  int64_t borders[MAX_PATCHES + 1], n_windows; /* in blocks */
};

static void naive_windows(struct naive *naive, int64_t rows, int64_t columns, int64_t window) {
  int64_t down = (rows + window - rows % window) / window, across = (columns + window - columns % window) / window;
  for (int64_t w = 0; w < down * across; w++) {
    for (int64_t i = 0; i < window * window; i++) {
      int64_t row = w / across * window + i / window, column = w % across * window + i % window;
      if (row < rows && column < columns) naive->blocks[naive->n_blocks++] = row * columns + column;
    }
    if (naive->n_blocks > naive->borders[naive->n_windows]) naive->borders[++naive->n_windows] = naive->n_blocks;
  }
}

static struct ommai_vision_config config_for(int64_t merge, int64_t window) {
  return (struct ommai_vision_config){.depth = 3,
                                      .hidden_size = 8,
                                      .n_heads = 1,
                                      .head_dim = 8,
                                      .intermediate_size = 4,
                                      .patch_size = 2,
                                      .temporal_patch_size = 2,
                                      .merge_size = merge,
                                      .in_channels = 3,
                                      .out_hidden_size = 4,
                                      .window_size = window,
                                      .windowed = {window > 0, false, window > 0}};
}

static struct ommai_vision_layout lay_out(const struct ommai_vision_config *config, const struct ommai_vision_input *inputs,
                                          int64_t n_inputs, void **memory) {
  struct ommai_arena arena;
  struct ommai_vision_layout layout;
  struct ommai_vision_sizes sizes = {0};
  struct omma_error error;
  for (int64_t i = 0; i < n_inputs; i++) assert_ok(ommai_vision_sizes_add(config, &inputs[i], &sizes, &error), &error);
  ommai_arena_measure(&arena);
  ommai_vision_layout_place(&layout, config, &sizes, &arena);
  size_t size = arena.used;
  *memory = aligned_alloc(64, (size + 63) / 64 * 64);
  ommai_arena_init(&arena, *memory, size);
  ommai_vision_layout_place(&layout, config, &sizes, &arena);
  assert_false(arena.failed);
  ommai_vision_layout_fill(&layout, inputs, n_inputs);
  assert_true(layout.n_windows <= ommai_vision_max_windows(config, &sizes));
  return layout;
}

/* Walks every span of a layout of one input and looks at each patch. */
static void expect_spans(const struct ommai_vision_layout *layout, const struct naive *naive, int64_t max_patches) {
  const struct ommai_vision_input *input = layout->inputs;
  int64_t merge = layout->config->merge_size, joined = merge * merge, columns = input->grid_columns / merge;
  int64_t temporal_patch_blocks = naive->n_blocks, n_patches = layout->temporal_patch_starts[layout->n_temporal_patches];
  for (int64_t row = 0; row < n_patches;) {
    int64_t left = n_patches - row < max_patches ? n_patches - row : max_patches;
    struct ommai_vision_span span = ommai_vision_span_at(layout, row, left);
    assert_ptr_equal(span.input, input);
    assert_true(span.n_patches >= joined && span.n_patches <= left && span.n_patches % joined == 0);
    for (int64_t i = 0; i < span.n_patches; i++, row++) {
      int64_t temporal_patch = row / (temporal_patch_blocks * joined), index = row % (temporal_patch_blocks * joined),
              inside = index % joined;
      int64_t block = naive->blocks[index / joined];
      struct ommai_patch_position position = ommai_vision_span_position(&span, merge, i);
      struct ommai_patch_position direct =
          ommai_patch_position(index, input->grid_rows, input->grid_columns, merge, layout->config->window_size);
      assert_int_equal(span.temporal_patch, temporal_patch);
      assert_int_equal(span.first_token + i / joined, temporal_patch * temporal_patch_blocks + block);
      assert_int_equal(position.row, block / columns * merge + inside / merge);
      assert_int_equal(position.column, block % columns * merge + inside % merge);
      assert_memory_equal(&position, &direct, sizeof position);
    }
  }
}

static void expect_borders(const struct ommai_vision_layout *layout, const struct naive *naive) {
  int64_t joined = ommai_vision_joined_patches(layout->config), temporal_patch = naive->n_blocks * joined;
  for (int64_t i = 0; i <= layout->n_temporal_patches; i++)
    assert_int_equal(layout->temporal_patch_starts[i], i * temporal_patch);
  if (!layout->config->window_size) {
    assert_int_equal(layout->n_windows, 0);
    return;
  }
  assert_int_equal(layout->n_windows, layout->n_temporal_patches * naive->n_windows);
  for (int64_t i = 0; i <= layout->n_windows; i++) {
    assert_int_equal(layout->window_starts[i],
                     i / naive->n_windows * temporal_patch + naive->borders[i % naive->n_windows] * joined);
  }
}

static void every_small_grid_lies_as_the_official_code_puts_it(void **state) {
  (void)state;
  static struct naive naive;
  const int64_t merges[] = {1, 2, 4};
  for (size_t m = 0; m < 3; m++) {
    for (int64_t window = 0; window <= 5; window++) {
      struct ommai_vision_config config = config_for(merges[m], window);
      for (int64_t rows = merges[m]; rows <= MAX_GRID; rows += merges[m]) {
        for (int64_t columns = merges[m]; columns <= MAX_GRID; columns += merges[m]) {
          struct ommai_vision_input input = {.n_frames = 1 + (rows + columns) % 4, .grid_rows = rows, .grid_columns = columns};
          void *memory;
          struct ommai_vision_layout layout = lay_out(&config, &input, 1, &memory);
          naive = (struct naive){0};
          naive_windows(&naive, rows / merges[m], columns / merges[m], window ? window : MAX_GRID);
          expect_spans(&layout, &naive, 32);
          expect_borders(&layout, &naive);
          free(memory);
        }
      }
    }
  }
}

/* Several inputs: each begins where the last one ended, in its own temporal patches and windows. */
static void inputs_lie_end_to_end(void **state) {
  (void)state;
  struct ommai_vision_config config = config_for(2, 3);
  const struct ommai_vision_input inputs[4] = {{.n_frames = 1, .grid_rows = 2, .grid_columns = 2},
                                               {.n_frames = 5, .grid_rows = 10, .grid_columns = 4},
                                               {.n_frames = 1, .grid_rows = 8, .grid_columns = 14},
                                               {.n_frames = 2, .grid_rows = 2, .grid_columns = 16}};
  void *memory;
  struct ommai_vision_layout layout = lay_out(&config, inputs, 4, &memory);
  const int64_t input_starts[5] = {0, 4, 4 + 3 * 40, 4 + 3 * 40 + 112, 4 + 3 * 40 + 112 + 32};
  assert_memory_equal(layout.input_starts, input_starts, sizeof input_starts);
  assert_int_equal(layout.n_temporal_patches, 1 + 3 + 1 + 1);
  assert_int_equal(layout.n_windows, 1 + 3 * 2 + 2 * 3 + 3);
  assert_int_equal(layout.temporal_patch_starts[6], input_starts[4]);
  assert_int_equal(layout.window_starts[16], input_starts[4]);
  for (int64_t i = 0; i < 4; i++) {
    assert_ptr_equal(ommai_vision_span_at(&layout, input_starts[i], 4).input, &inputs[i]);
    assert_ptr_equal(ommai_vision_span_at(&layout, input_starts[i + 1] - 4, 4).input, &inputs[i]);
  }
  free(memory);
}

/* The bound on windows is reached by temporal patches one block high. */
static void the_bound_on_windows_is_tight(void **state) {
  (void)state;
  for (int64_t window = 1; window <= 5; window++) {
    struct ommai_vision_config config = config_for(2, window);
    for (int64_t blocks = 1; blocks <= 40; blocks++) {
      const struct ommai_vision_sizes sizes = {4 * blocks, 1, 2 * blocks};
      assert_int_equal(ommai_vision_max_windows(&config, &sizes), (blocks + window - 1) / window);
    }
  }
}

/* Multiply-adds of attention by the borders that a pass would use, and of linear layers by their
 * shapes. */
static void flops_count_the_segments(void **state) {
  (void)state;
  for (int64_t window = 0; window <= 4; window++) {
    for (int gated = 0; gated < 2; gated++) {
      struct ommai_vision_config config = config_for(2, window);
      config.gated = gated;
      struct ommai_vision_input input = {.n_frames = 1, .grid_rows = 14, .grid_columns = 10};
      void *memory;
      struct ommai_vision_layout layout = lay_out(&config, &input, 1, &memory);
      double n = 140, h = 8, pairs = 0;
      for (int64_t i = 0; i < layout.n_windows; i++)
        pairs += 2 * pow((double)(layout.window_starts[i + 1] - layout.window_starts[i]), 2);
      pairs += n * n * (window ? 1 : 3);
      double expected = 2 * n * 24 * h + 3 * 2 * n * (h * 3 * h + h * h + (gated ? 3 : 2) * h * 4) + 4 * h * pairs +
                        2 * (n / 4) * (32 * 32 + 32 * 4);
      assert_true(fabs(ommai_vision_flops(&config, 14, 10) - expected) < 1e-6 * expected);
      free(memory);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_small_grid_lies_as_the_official_code_puts_it),
      cmocka_unit_test(inputs_lie_end_to_end),
      cmocka_unit_test(the_bound_on_windows_is_tight),
      cmocka_unit_test(flops_count_the_segments),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
