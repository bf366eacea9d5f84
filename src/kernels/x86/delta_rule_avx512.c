/* Eight rows by 32 columns: 16 accumulators, two vectors of the state, a broadcast. */
#include "kernels/x86/lanes_avx512.h"

#define TILE_ROWS 8
#include "kernels/delta_rule_lanes.h"

const struct ommai_delta_kernels ommai_delta_avx512 = {OMMAI_CPU_AVX512, run};
