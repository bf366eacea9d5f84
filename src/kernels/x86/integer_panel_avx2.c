/* Integer weights by AVX2. */
#include "kernels/x86/integer_lanes_avx2.h"

#define SUM_VECTORS 8
#include "kernels/integer_panel_lanes.h"

const struct ommai_integer_kernels ommai_integer_avx2 = {.level = OMMAI_CPU_AVX2, .s8 = run_s8, .u4 = run_u4};
