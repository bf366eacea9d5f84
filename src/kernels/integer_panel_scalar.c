/* The readable form of the integer kernels; see integer_panel.h for their contract. */
#include <math.h>
#include <string.h>

#include "kernels/integer_panel_blocks.h"

enum { PANEL = OMMAI_PANEL_COLUMNS };

/* acc[c] += sum over begin <= k < end of x[k] q[c][k]. */
static void add_s8(const int8_t *weights, const int8_t *x, int64_t begin, int64_t end, int32_t *acc) {
  for (int64_t k = begin; k < end; k++) {
    const int8_t *quad = weights + k / 4 * (4 * PANEL) + k % 4;
    for (int c = 0; c < PANEL; c++) acc[c] += x[k] * quad[4 * c];
  }
}

static void add_u4(const uint8_t *weights, const int8_t *x, int64_t begin, int64_t end, int32_t *acc) {
  for (int64_t k = begin; k < end; k++) {
    const uint8_t *block = weights + k / 8 * (4 * PANEL) + k % 4;
    int shift = k % 8 < 4 ? 0 : 4;
    for (int c = 0; c < PANEL; c++) acc[c] += x[k] * (block[4 * c] >> shift & 15);
  }
}

static void add_u6(const uint8_t *weights, const int8_t *x, int64_t begin, int64_t end, int32_t *acc) {
  for (int64_t k = begin; k < end; k++) {
    const uint8_t *block = weights + k / 16 * (12 * PANEL) + k % 4;
    const uint8_t *high = block, *low = block + (k % 16 / 8 + 1) * (4 * PANEL);
    const int low_shift = k % 8 < 4 ? 0 : 4, high_shift = (int)(k % 16 / 4 * 2);
    for (int c = 0; c < PANEL; c++) {
      acc[c] += x[k] * ((low[4 * c] >> low_shift & 15) | (high[4 * c] >> high_shift & 3) << 4);
    }
  }
}

static void run(const struct ommai_integer_panel *panel, const struct ommai_integer_rows *rows, int bits, float *sums) {
  memset(sums, 0, (size_t)(rows->n_rows * PANEL) * sizeof *sums);
  for (int64_t row = 0; row < rows->n_rows; row++, sums += PANEL) {
    const int8_t *x = rows->x + row * rows->stride;
    for (int64_t g = 0; g < panel->n_groups; g++) {
      int64_t begin = g * panel->group, end = ommai_integer_group_end(panel, g);
      float expanded[2 * PANEL];
      const float *scales = integer_group_scales(panel, g, expanded);
      int32_t acc[PANEL], x_sum = rows->sums[row * panel->n_groups + g];
      for (int c = 0; c < PANEL; c++) {
        acc[c] = -panel->zero * x_sum - (panel->weight_sums ? rows->zeros[row] * panel->weight_sums[c] : 0);
      }
      if (bits == 4) {
        add_u4(panel->weights, x, begin, end, acc);
      } else if (bits == 6) {
        add_u6(panel->weights, x, begin, end, acc);
      } else {
        add_s8(panel->weights, x, begin, end, acc);
      }
      for (int c = 0; c < PANEL; c++) sums[c] = fmaf((float)acc[c], scales[c], sums[c]);
      for (int c = 0; panel->has_minimums && c < PANEL; c++) {
        sums[c] = fmaf(-scales[PANEL + c], (float)x_sum, sums[c]);
      }
    }
  }
}

static void run_s8(const struct ommai_integer_panel *panel, const struct ommai_integer_rows *rows, float *sums) {
  run(panel, rows, 8, sums);
}

static void run_u4(const struct ommai_integer_panel *panel, const struct ommai_integer_rows *rows, float *sums) {
  run(panel, rows, 4, sums);
}

static void run_u6(const struct ommai_integer_panel *panel, const struct ommai_integer_rows *rows, float *sums) {
  run(panel, rows, 6, sums);
}

const struct ommai_integer_kernels ommai_integer_scalar = {.level = OMMAI_CPU_SCALAR, .s8 = run_s8, .u4 = run_u4, .u6 = run_u6};
