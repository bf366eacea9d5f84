/* Six rows by 16 columns: 24 accumulators, four weights, a broadcast. */
#include "kernels/arm/lanes_neon.h"

#define TILE_ROWS 6
#define TILE_VECTORS 4
#include "kernels/f32_tile_lanes.h"

const struct ommai_f32_tile_kernels ommai_f32_tile_neon = {
    OMMAI_CPU_NEON, STRIP, TILE_ROWS, OMMAI_TILE_K, expand_bf16, expand_f32, multiply};
