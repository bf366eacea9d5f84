/* Twelve rows by 32 columns: 24 accumulators, two weights, a broadcast; 14 loads for 24
 * multiply-adds. */
#include "kernels/x86/lanes_avx512.h"

#define TILE_ROWS 12
#define TILE_VECTORS 2
#include "kernels/f32_tile_lanes.h"

const struct ommai_f32_tile_kernels ommai_f32_tile_avx512 = {
    OMMAI_CPU_AVX512, STRIP, TILE_ROWS, OMMAI_TILE_K, expand_bf16, expand_f32, multiply};
