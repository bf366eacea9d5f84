/* Six rows by 16 columns: twelve accumulators, two weights, a broadcast; eight loads for twelve
 * multiply-adds. */
#include "kernels/x86/lanes_avx2.h"

#define TILE_ROWS 6
#define TILE_VECTORS 2
#include "kernels/f32_tile_lanes.h"

const struct ommai_f32_tile_kernels ommai_f32_tile_avx2 = {OMMAI_CPU_AVX2, STRIP, expand_bf16, expand_f32, multiply};
