/* Integer weights by AVX-512 without VNNI. */
#include "kernels/x86/integer_lanes_avx512.h"

#define SUM_VECTORS 24
#include "kernels/integer_panel_lanes.h"

const struct ommai_integer_kernels ommai_integer_avx512 = {.level = OMMAI_CPU_AVX512, .s8 = run_s8, .u4 = run_u4};
