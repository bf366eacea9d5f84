/* int6: integers in 0 .. 63 around 32, or with minimums, of a file: of dense weights none are
 * made. Where a CPU has no kernels for them they are kept as int8. */
#include <string.h>

#include "linear/linear_objects.h"

enum { PANEL = OMMAI_PANEL_COLUMNS, STEP = 16, LINE = 4 * PANEL, STEP_BYTES = 3 * LINE };

static ommai_integer_kernel kernel(const struct ommai_integer_kernels *kernels) { return kernels->u6; }

static ommai_integer_row_kernel row_kernel(const struct ommai_integer_kernels *kernels) {
  (void)kernels;
  return NULL;
}

/* Of 16 inputs, which begin a step: four bytes in three places. */
static void store_step(const uint8_t q[STEP], uint8_t *to) {
  for (int j = 0; j < 4; j++) {
    to[j] = (uint8_t)(q[j] >> 4 | q[4 + j] >> 4 << 2 | q[8 + j] >> 4 << 4 | q[12 + j] >> 4 << 6);
    to[LINE + j] = (uint8_t)((q[j] & 15) | (q[4 + j] & 15) << 4);
    to[2 * LINE + j] = (uint8_t)((q[8 + j] & 15) | (q[12 + j] & 15) << 4);
  }
}

static void store(const int8_t *q, int64_t k, int64_t n, int64_t column, uint8_t *panel) {
  uint8_t *to = panel + k / STEP * STEP_BYTES + 4 * column;
  for (int64_t i = 0; i < n; i += STEP, to += STEP_BYTES) {
    uint8_t step[STEP] = {0};
    memcpy(step, q + i, n - i < STEP ? (size_t)(n - i) : STEP);
    store_step(step, to);
  }
}

static int load(const uint8_t *panel, int64_t k, int64_t column) {
  const uint8_t *step = panel + k / STEP * STEP_BYTES + 4 * column + k % 4;
  const int low = step[(k % STEP / 8 + 1) * LINE] >> (k % 8 < 4 ? 0 : 4) & 15;
  return low | (step[0] >> k % STEP / 4 * 2 & 3) << 4;
}

static const struct ommai_integer_traits traits = {
    .zero = 32, .kernel = kernel, .row_kernel = row_kernel, .store = store, .load = load};

const struct ommai_linear_format ommai_linear_format_int6 = {.name = "int6",
                                                             .layout = OMMAI_WEIGHTS_U6_PANELS,
                                                             .part_panels = 2 * OMMAI_LINEAR_PART_PANELS,
                                                             .scale_bytes = ommai_integer_scale_bytes,
                                                             .finer = OMMAI_FORMAT_INT8,
                                                             .quantised = true,
                                                             .packing_share = 0.03,
                                                             .stored_bits = 6,
                                                             .integer = &traits,
                                                             .code = ommai_integer_code};
