/* Tile kernels in f32 for NEON: 12 queries by 8 keys take 24 of the 32 registers. */
#include "kernels/arm/lanes_neon.h"

#include "kernels/attention_lanes.h"

enum { GROUP = 8, MAX_NV = 3 };

OMMAI_INLINE void put_lanes(float *out, int64_t index, int64_t span, vec value) {
  vec_store(out + index / GROUP * span + index % GROUP, value);
}

/* Four rows of the product against one register of units. */
OMMAI_INLINE void multiply_four(vec acc[4][MAX_NV], vec units, const vec columns[MAX_NV], int nv) {
#pragma GCC unroll 3
  for (int v = 0; v < nv; v++) {
    acc[0][v] = vfmaq_laneq_f32(acc[0][v], columns[v], units, 0);
    acc[1][v] = vfmaq_laneq_f32(acc[1][v], columns[v], units, 1);
    acc[2][v] = vfmaq_laneq_f32(acc[2][v], columns[v], units, 2);
    acc[3][v] = vfmaq_laneq_f32(acc[3][v], columns[v], units, 3);
  }
}

OMMAI_INLINE void multiply(vec acc[GROUP][MAX_NV], const float *a, const float *b, int64_t n, int nv) {
#pragma GCC unroll 8
  for (int i = 0; i < GROUP; i++) {
#pragma GCC unroll 3
    for (int v = 0; v < nv; v++) acc[i][v] = vec_zero();
  }
#pragma GCC unroll 1
  for (int64_t t = 0; t < n; t++, a += GROUP, b += nv * LANES) {
    vec columns[MAX_NV];
#pragma GCC unroll 3
    for (int v = 0; v < nv; v++) columns[v] = vec_load(b + v * LANES);
    multiply_four(acc, vec_load(a), columns, nv);
    multiply_four(acc + 4, vec_load(a + 4), columns, nv);
  }
}

#include "kernels/attention_tile_lanes_f32.h"

#include "kernels/attention_tile_lanes.h"

TILE_KERNEL(f32, F32, 12, NEON, neon);
TILE_KERNEL(bf16, BF16, 12, NEON, neon);
TILE_KERNEL(f16, F16, 12, NEON, neon);
TILE_KERNEL_F32_BF16(12, NEON, neon);
TILE_KERNEL_KV8(f32, F32, 12, NEON, neon);
TILE_KERNEL_KV8(bf16, BF16, 12, NEON, neon);
