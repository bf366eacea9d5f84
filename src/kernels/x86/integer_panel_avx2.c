/* Integer weights by AVX2: PMADDWD over 16-bit pairs, tiles by PMADDUBSW where they can, as for
 * 4-bit weights. */
#include "kernels/x86/integer_lanes_avx2.h"

#define SUM_VECTORS 8
#include "kernels/integer_panel_lanes.h"
#include "kernels/x86/integer_signed_avx2.h"

static void run_s8(const struct ommai_integer_panel *panel, const struct ommai_integer_rows *rows, float *sums) {
  run_s8_with(panel, rows, sums, many_signed_rows);
}

const struct ommai_integer_kernels ommai_integer_avx2 = {OMMAI_CPU_AVX2, false, run_s8, run_u4};
