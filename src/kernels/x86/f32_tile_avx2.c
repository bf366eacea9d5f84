/* Three rows by 32 columns: twelve accumulators, three broadcasts, a weight; seven loads for twelve
 * multiply-adds. Six rows by 16 take eight, and blocks of 128 inputs leave half of a first level of
 * cache of 32 KiB to rows and sums. */
#include "kernels/x86/lanes_avx2.h"

#define TILE_ROWS 3
#define TILE_VECTORS 4
#include "kernels/f32_tile_lanes.h"

const struct ommai_f32_tile_kernels ommai_f32_tile_avx2 = {
    OMMAI_CPU_AVX2, STRIP, TILE_ROWS, 128, expand_bf16, expand_f32, multiply};
