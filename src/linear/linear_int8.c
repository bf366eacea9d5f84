/* int8: integers in -127 .. 127 with a scale for each output, or for each group of its inputs. */
#include "kernels/int8.h"
#include "linear/linear_objects.h"

static ommai_integer_kernel kernel(const struct ommai_integer_kernels *kernels) { return kernels->s8; }

static ommai_integer_row_kernel row_kernel(const struct ommai_integer_kernels *kernels) { return kernels->row_s8; }

static void fit(const struct ommai_row_ops *ops, const float *values, int64_t n, int8_t *q, float *scale) {
  ops->quantise_symmetric(values, OMMA_F32, n, q, scale);
}

static const struct ommai_integer_traits traits = {.max = OMMAI_INT8_MAX,
                                                   .kernel = kernel,
                                                   .row_kernel = row_kernel,
                                                   .fit = fit,
                                                   .store = ommai_integer_store_s8,
                                                   .load = ommai_integer_load_s8};

const struct ommai_linear_format ommai_linear_format_int8 = {.name = "int8",
                                                             .layout = OMMAI_WEIGHTS_S8_PANELS,
                                                             .part_panels = 2 * OMMAI_LINEAR_PART_PANELS,
                                                             .scale_bytes = ommai_integer_scale_bytes,
                                                             .tower = OMMA_WEIGHTS_INT8,
                                                             .finer = OMMAI_FORMAT_INT8,
                                                             .quantised = true,
                                                             .methods = {{"int8", 0}},
                                                             .packing_share = 0.04,
                                                             .stored_bits = 8,
                                                             .stored_group = 32,
                                                             .rounding = 0.5 / OMMAI_INT8_MAX,
                                                             .integer = &traits,
                                                             .code = ommai_integer_code};
