/* Two rows by 32 columns: 16 accumulators, eight vectors of the state, a broadcast. */
#include "kernels/arm/lanes_neon.h"

#define TILE_ROWS 2
#include "kernels/delta_rule_lanes.h"

const struct ommai_delta_kernels ommai_delta_neon = {OMMAI_CPU_NEON, run};
