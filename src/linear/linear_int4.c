/* int4: integers in 0 .. 15 around 8, or with minimums, with a scale for each group of an output's
 * inputs. */
#include <string.h>

#include "linear/linear_objects.h"

enum { PANEL = OMMAI_PANEL_COLUMNS };

static ommai_integer_kernel kernel(const struct ommai_integer_kernels *kernels) { return kernels->u4; }

static ommai_integer_row_kernel row_kernel(const struct ommai_integer_kernels *kernels) { return kernels->row_u4; }

static void fit(const struct ommai_row_ops *ops, const float *values, int64_t n, int8_t *q, float *scale) {
  ops->fit_int4(values, n, q, scale);
}

static void store(const int8_t *q, int64_t k, int64_t n, int64_t column, uint8_t *panel) {
  uint8_t *to = panel + k / 2 * PANEL + 4 * column;
  for (int64_t i = 0; i < n; i += 8, to += 4 * PANEL) {
    uint64_t eight = 0;
    if (n - i >= 8) {
      memcpy(&eight, q + i, 8); /* a fixed size is one load */
    } else {
      memcpy(&eight, q + i, (size_t)(n - i));
    }
    uint32_t pairs = (uint32_t)eight | (uint32_t)(eight >> 32) << 4;
    memcpy(to, &pairs, sizeof pairs);
  }
}

static int load(const uint8_t *panel, int64_t k, int64_t column) {
  return panel[k / 8 * 4 * PANEL + 4 * column + k % 4] >> (k % 8 < 4 ? 0 : 4) & 15;
}

static const struct ommai_integer_traits traits = {
    .zero = 8, .kernel = kernel, .row_kernel = row_kernel, .fit = fit, .store = store, .load = load};

const struct ommai_linear_format ommai_linear_format_int4 = {
    .name = "int4",
    .layout = OMMAI_WEIGHTS_U4_PANELS,
    .part_panels = 2 * OMMAI_LINEAR_PART_PANELS,
    .scale_bytes = ommai_integer_scale_bytes,
    .finer = OMMAI_FORMAT_INT8,
    .quantised = true,
    .methods = {{"int4", OMMA_INT4_GROUP}, {"int4-g32", 32}, {"int4-g64", 64}, {"int4-g128", 128}},
    .packing_share = 0.025,
    .stored_bits = 4,
    .rounding = 0.2, /* fit_int4 may let the extremes go for the sake of the others */
    .integer = &traits,
    .code = ommai_integer_code};
