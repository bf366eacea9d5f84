/* Integer weights by AVX-512 without VNNI. */
#include "kernels/x86/integer_lanes_avx512.h"

#define SUM_VECTORS 24
#include "kernels/integer_panel_lanes.h"

static void run_s8(const struct ommai_integer_panel *panel, const struct ommai_integer_rows *rows, float *sums) {
  run_s8_with(panel, rows, sums, many_rows_s8);
}

const struct ommai_integer_kernels ommai_integer_avx512 = {OMMAI_CPU_AVX512, false, run_s8, run_u4};
