#include "kernels/gemv.h"

#include <string.h>

#include "base/checked.h"

/* k per micro-kernel call: 64 KiB of weights stay in L2 while a group's rows pass over them, and
 * the next 64 KiB arrive. Even, and a constant of the contract only in that the sums go on where
 * they stopped. */
#define BLOCK_BF16 512
#define BLOCK_F32 256

static const struct {
  int bits;
  int64_t k_step; /* n_in is padded to a multiple of it */
} layouts[OMMAI_WEIGHT_LAYOUTS] = {[OMMAI_WEIGHTS_BF16_PANELS] = {16, 32},
                                   [OMMAI_WEIGHTS_F32_PANELS] = {32, 16},
                                   [OMMAI_WEIGHTS_S8_PANELS] = {8, 64},
                                   [OMMAI_WEIGHTS_U4_PANELS] = {4, 64},
                                   [OMMAI_WEIGHTS_U6_PANELS] = {6, 64}};

int ommai_weights_bits(enum ommai_weight_layout layout) { return layouts[layout].bits; }

int64_t ommai_weights_padded_k(enum ommai_weight_layout layout, int64_t n_in) {
  return ommai_round_up(n_in, layouts[layout].k_step);
}

int64_t ommai_weights_panel_bytes(enum ommai_weight_layout layout, int64_t n_in) {
  return ommai_weights_padded_k(layout, n_in) * OMMAI_PANEL_COLUMNS * layouts[layout].bits / 8;
}

int64_t ommai_weights_panel_elements(enum ommai_weight_layout layout, int64_t n_in) {
  return ommai_weights_panel_bytes(layout, n_in) / ommai_max_i64(layouts[layout].bits / 8, 1);
}

#define GEMV_ENTRY(level) &ommai_gemv_##level,
const struct ommai_gemv_kernels *const ommai_gemv_kernels[] = {OMMAI_GEMV_KERNELS(GEMV_ENTRY) NULL};

OMMAI_CHOOSE_BY_LEVEL(ommai_gemv_select, ommai_gemv_kernels, ommai_gemv_kernels)

static void panel_of_bf16(const struct ommai_gemv_kernels *kernels, const ommai_bf16 *weights, int64_t n_in,
                          const ommai_bf16 *x, int64_t x_stride, int n_rows, float *sums) {
  for (int64_t k = 0; k < n_in; k += BLOCK_BF16) {
    int64_t n_k = ommai_min_i64(BLOCK_BF16, n_in - k);
    kernels->panel_bf16(weights + k * OMMAI_PANEL_COLUMNS, x + k, x_stride, n_rows, n_k, sums);
  }
}

/* One block in f32 arithmetic. */
static void block_of_f32(const struct ommai_gemv_kernels *kernels, const struct ommai_gemv_weights *weights, int64_t at,
                         const float *x, int64_t x_stride, int n_rows, int64_t n_k, float *sums) {
  if (weights->layout == OMMAI_WEIGHTS_BF16_PANELS) {
    kernels->panel_mixed((const ommai_bf16 *)weights->weights + at, x, x_stride, n_rows, n_k, sums);
  } else {
    kernels->panel_f32((const float *)weights->weights + at, x, x_stride, n_rows, n_k, sums);
  }
}

/* The panel that begins at element `first`, in f32 arithmetic; inputs in bf16 are expanded block by
 * block. */
static void panel_of_f32(const struct ommai_gemv_kernels *kernels, const struct ommai_gemv_weights *weights, int64_t first,
                         const void *x, int64_t x_stride, int n_rows, float *sums) {
  float block[OMMAI_GEMV_GROUP][BLOCK_F32];
  for (int64_t k = 0; k < weights->n_in; k += BLOCK_F32) {
    int64_t n_k = ommai_min_i64(BLOCK_F32, weights->n_in - k), at = first + k * OMMAI_PANEL_COLUMNS;
    if (weights->x_type == OMMA_F32) {
      block_of_f32(kernels, weights, at, (const float *)x + k, x_stride, n_rows, n_k, sums);
      continue;
    }
    const ommai_bf16 *from = (const ommai_bf16 *)x + k;
    for (int row = 0; row < n_rows; row++) {
      for (int64_t i = 0; i < n_k; i++) block[row][i] = ommai_bf16_to_f32(from[row * x_stride + i]);
    }
    block_of_f32(kernels, weights, at, block[0], BLOCK_F32, n_rows, n_k, sums);
  }
}

void ommai_gemv_finish(const float *sums, const float *bias, int n_rows, int n_columns, bool accumulate, float *y,
                       int64_t y_stride) {
  for (int row = 0; row < n_rows; row++) {
    const float *sum = sums + row * OMMAI_PANEL_COLUMNS;
    float *out = y + row * y_stride;
    if (accumulate) {
      for (int c = 0; c < n_columns; c++) out[c] += sum[c] + bias[c];
    } else {
      for (int c = 0; c < n_columns; c++) out[c] = sum[c] + bias[c];
    }
  }
}

/* One panel, one group of rows. */
static void run_panel(const struct ommai_gemv_kernels *kernels, const struct ommai_gemv_weights *weights, int64_t panel,
                      const void *x, int64_t x_stride, int n_rows, float *y, int64_t y_stride, bool accumulate) {
  _Alignas(64) float sums[OMMAI_GEMV_GROUP * OMMAI_PANEL_COLUMNS];
  memset(sums, 0, sizeof(float) * OMMAI_PANEL_COLUMNS * (size_t)n_rows);
  int64_t first = panel * OMMAI_PANEL_COLUMNS, offset = panel * ommai_weights_panel_elements(weights->layout, weights->n_in);
  int n_columns = (int)ommai_min_i64(OMMAI_PANEL_COLUMNS, weights->n_out - first);
  ommai_gemv_prefetch_bias(weights->bias + first);
  if (weights->arithmetic == OMMA_BF16) {
    panel_of_bf16(kernels, (const ommai_bf16 *)weights->weights + offset, weights->n_in, x, x_stride, n_rows, sums);
  } else {
    panel_of_f32(kernels, weights, offset, x, x_stride, n_rows, sums);
  }
  ommai_gemv_finish(sums, weights->bias + first, n_rows, n_columns, accumulate, y + first, y_stride);
}

bool ommai_gemv_side_by_side(const struct ommai_gemv_kernels *kernels, const struct ommai_gemv_weights *weights) {
  return kernels->panels_bf16 && weights->arithmetic == OMMA_BF16;
}

/* Some panels side by side, one group of rows. */
static void run_panels(const struct ommai_gemv_kernels *kernels, const struct ommai_gemv_weights *weights, int64_t first_panel,
                       int n_panels, const ommai_bf16 *x, int64_t x_stride, int n_rows, float *y, int64_t y_stride,
                       bool accumulate) {
  _Alignas(64) float sums[OMMAI_GEMV_PANELS * OMMAI_GEMV_WIDE_GROUP * OMMAI_PANEL_COLUMNS];
  int panel_sums = n_rows * OMMAI_PANEL_COLUMNS;
  int64_t elements = ommai_weights_panel_elements(weights->layout, weights->n_in), first = first_panel * OMMAI_PANEL_COLUMNS;
  for (int i = 0; i < n_panels; i++) ommai_gemv_prefetch_bias(weights->bias + first + i * OMMAI_PANEL_COLUMNS);
  kernels->panels_bf16((const ommai_bf16 *)weights->weights + first_panel * elements, elements, n_panels, x, x_stride, n_rows,
                       weights->n_in, sums);
  for (int i = 0; i < n_panels; i++, first += OMMAI_PANEL_COLUMNS) {
    int n_columns = (int)ommai_min_i64(OMMAI_PANEL_COLUMNS, weights->n_out - first);
    ommai_gemv_finish(sums + i * panel_sums, weights->bias + first, n_rows, n_columns, accumulate, y + first, y_stride);
  }
}

static void run_side_by_side(const struct ommai_gemv_kernels *kernels, const struct ommai_gemv_weights *weights,
                             const ommai_bf16 *x, int64_t x_stride, int64_t n_rows, float *y, int64_t y_stride, bool accumulate,
                             int64_t first_panel, int64_t n_panels) {
  for (int64_t end = first_panel + n_panels, panel = first_panel, n; panel < end; panel += n) {
    n = ommai_min_i64(OMMAI_GEMV_PANELS, end - panel);
    for (int64_t row = 0; row < n_rows; row += OMMAI_GEMV_WIDE_GROUP) {
      int group = (int)ommai_min_i64(OMMAI_GEMV_WIDE_GROUP, n_rows - row);
      run_panels(kernels, weights, panel, (int)n, x + row * x_stride, x_stride, group, y + row * y_stride, y_stride,
                 accumulate);
    }
  }
}

void ommai_gemv_run(const struct ommai_gemv_kernels *kernels, const struct ommai_gemv_weights *weights, const void *x,
                    int64_t x_stride, int64_t n_rows, float *y, int64_t y_stride, bool accumulate, int64_t first_panel,
                    int64_t n_panels) {
  int64_t x_bytes = x_stride * (weights->x_type == OMMA_BF16 ? 2 : 4);
  if (ommai_gemv_side_by_side(kernels, weights)) {
    run_side_by_side(kernels, weights, x, x_stride, n_rows, y, y_stride, accumulate, first_panel, n_panels);
    return;
  }
  for (int64_t panel = first_panel; panel < first_panel + n_panels; panel++) {
    for (int64_t row = 0; row < n_rows; row += OMMAI_GEMV_GROUP) {
      int group = (int)ommai_min_i64(OMMAI_GEMV_GROUP, n_rows - row);
      run_panel(kernels, weights, panel, (const char *)x + row * x_bytes, x_stride, group, y + row * y_stride, y_stride,
                accumulate);
    }
  }
}
