/* Tile kernels in f32 for AVX2: 24 queries by 4 keys fill the sixteen registers. */
#include "kernels/x86/lanes_avx2.h"

#include "kernels/attention_lanes.h"

enum { GROUP = 4, MAX_NV = 3 };

OMMAI_INLINE void put_lanes(float *out, int64_t index, int64_t span, vec value) {
  float *first = out + index / GROUP * span;
  _mm_storeu_ps(first, _mm256_castps256_ps128(value));
  _mm_storeu_ps(first + span, _mm256_extractf128_ps(value, 1));
}

OMMAI_INLINE void multiply(vec acc[GROUP][MAX_NV], const float *a, const float *b, int64_t n, int nv) {
#pragma GCC unroll 4
  for (int i = 0; i < GROUP; i++) {
#pragma GCC unroll 3
    for (int v = 0; v < nv; v++) acc[i][v] = vec_zero();
  }
#pragma GCC unroll 4
  for (int64_t t = 0; t < n; t++, a += GROUP, b += nv * LANES) {
    vec columns[MAX_NV];
#pragma GCC unroll 3
    for (int v = 0; v < nv; v++) columns[v] = vec_load(b + v * LANES);
#pragma GCC unroll 4
    for (int i = 0; i < GROUP; i++) {
      vec unit = vec_set1(a[i]);
#pragma GCC unroll 3
      for (int v = 0; v < nv; v++) acc[i][v] = vec_fma(unit, columns[v], acc[i][v]);
    }
  }
}

#include "kernels/attention_tile_lanes_f32.h"

#include "kernels/attention_tile_lanes.h"

TILE_KERNEL(f32, F32, 24, AVX2, avx2);
TILE_KERNEL(bf16, BF16, 24, AVX2, avx2);
TILE_KERNEL(f16, F16, 24, AVX2, avx2);
TILE_KERNEL_F32_BF16(24, AVX2, avx2);
TILE_KERNEL_KV8(f32, F32, 24, AVX2, avx2);
TILE_KERNEL_KV8(bf16, BF16, 24, AVX2, avx2);
