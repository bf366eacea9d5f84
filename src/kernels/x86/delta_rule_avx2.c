/* Two rows by 32 columns: eight accumulators, four vectors of the state, a broadcast. */
#include "kernels/x86/lanes_avx2.h"

#define TILE_ROWS 2
#include "kernels/delta_rule_lanes.h"

const struct ommai_delta_kernels ommai_delta_avx2 = {OMMAI_CPU_AVX2, run};
