/* Integer weights by VPDPBUSD: 16 outputs by 4 inputs a register, weights as the unsigned factor (signed ones raised by 128, which the sum
 * of a row's inputs takes back), a row's inputs broadcast as the signed one. */
#include <immintrin.h>
#include <string.h>

#include "kernels/integer_panel_blocks.h"

#define INLINE static inline __attribute__((always_inline))

enum {
  PANEL = OMMAI_PANEL_COLUMNS,
  VECTORS = 4,
  MOST_ROWS = 6,
  BLOCK_K = 256,
  PREFETCH_BYTES = 12288,
  STREAM_ROWS = 16,
  RAISED = 128
};

INLINE __m512i broadcast4(const int8_t *x) {
  int32_t four;
  memcpy(&four, x, sizeof four);
  return _mm512_set1_epi32(four);
}

INLINE void start(const struct integer_block *block, int raised, const int n_rows, __m512i (*acc)[VECTORS]) {
  const struct ommai_integer_panel *panel = block->panel;
#pragma GCC unroll 8
  for (int row = 0; row < n_rows; row++) {
    const float *sums = block->sums + row * PANEL;
    int32_t lower = (raised + panel->zero) * block->x_sums[row * panel->n_groups];
#pragma GCC unroll 8
    for (int v = 0; v < VECTORS; v++) {
      if (!block->begins) {
        acc[row][v] = _mm512_loadu_si512(sums + 16 * v);
        continue;
      }
      acc[row][v] = _mm512_set1_epi32(-lower);
      if (!panel->weight_sums) continue;
      __m512i of_zero =
          _mm512_mullo_epi32(_mm512_set1_epi32(block->zeros[row]), _mm512_loadu_si512(panel->weight_sums + 16 * v));
      acc[row][v] = _mm512_sub_epi32(acc[row][v], of_zero);
    }
  }
}

INLINE void finish(const struct integer_block *block, const int n_rows, __m512i (*acc)[VECTORS]) {
  const int32_t *x_sums = block->x_sums;
  int64_t n_groups = block->panel->n_groups;
#pragma GCC unroll 8
  for (int v = 0; v < VECTORS; v++) {
    float *sums = block->sums + 16 * v;
    __m512 scale = _mm512_loadu_ps(block->scales + 16 * v);
#pragma GCC unroll 8
    for (int row = 0; row < n_rows; row++) {
      if (!block->ends) {
        _mm512_storeu_si512(sums + row * PANEL, acc[row][v]);
        continue;
      }
      __m512 sum = block->first_group ? _mm512_setzero_ps() : _mm512_loadu_ps(sums + row * PANEL);
      _mm512_storeu_ps(sums + row * PANEL, _mm512_fmadd_ps(_mm512_cvtepi32_ps(acc[row][v]), scale, sum));
    }
    if (!block->ends || !block->minimums) continue;
    __m512 minimum = _mm512_loadu_ps(block->minimums + 16 * v);
#pragma GCC unroll 8
    for (int row = 0; row < n_rows; row++) {
      __m512 x_sum = _mm512_cvtepi32_ps(_mm512_set1_epi32(x_sums[row * n_groups]));
      _mm512_storeu_ps(sums + row * PANEL, _mm512_fnmadd_ps(minimum, x_sum, _mm512_loadu_ps(sums + row * PANEL)));
    }
  }
}

INLINE void rows_s8(const struct integer_block *block, const bool is_stream, const int n_rows) {
  const __m512i flip = _mm512_set1_epi8((char)RAISED);
  __m512i acc[MOST_ROWS][VECTORS];
  start(block, RAISED, n_rows, acc);
  for (int64_t k = 0; k < block->n_k; k += 4) {
    const uint8_t *line = block->weights + k * PANEL;
    __m512i w[VECTORS];
#pragma GCC unroll 8
    for (int v = 0; v < VECTORS; v++) {
      w[v] = _mm512_xor_si512(_mm512_loadu_si512(line + 64 * v), flip);
      if (is_stream) _mm_prefetch((const char *)line + 64 * v + PREFETCH_BYTES, _MM_HINT_T0);
    }
#pragma GCC unroll 8
    for (int row = 0; row < n_rows; row++) {
      __m512i x = broadcast4(block->x + row * block->stride + k);
#pragma GCC unroll 8
      for (int v = 0; v < VECTORS; v++) acc[row][v] = _mm512_dpbusd_epi32(acc[row][v], w[v], x);
    }
  }
  finish(block, n_rows, acc);
}

INLINE void rows_u4(const struct integer_block *block, const bool is_stream, const int n_rows) {
  const __m512i low = _mm512_set1_epi8(15);
  __m512i acc[MOST_ROWS][VECTORS];
  start(block, 0, n_rows, acc);
  for (int64_t k = 0; k < block->n_k; k += 8) {
    const uint8_t *line = block->weights + k / 2 * PANEL;
    __m512i w[VECTORS];
#pragma GCC unroll 8
    for (int v = 0; v < VECTORS; v++) {
      w[v] = _mm512_loadu_si512(line + 64 * v);
      if (is_stream) _mm_prefetch((const char *)line + 64 * v + PREFETCH_BYTES, _MM_HINT_T0);
    }
#pragma GCC unroll 8
    for (int half = 0; half < 2; half++) {
      __m512i q[VECTORS];
#pragma GCC unroll 8
      for (int v = 0; v < VECTORS; v++) q[v] = _mm512_and_si512(half ? _mm512_srli_epi16(w[v], 4) : w[v], low);
#pragma GCC unroll 8
      for (int row = 0; row < n_rows; row++) {
        __m512i x = broadcast4(block->x + row * block->stride + k + 4 * half);
#pragma GCC unroll 8
        for (int v = 0; v < VECTORS; v++) acc[row][v] = _mm512_dpbusd_epi32(acc[row][v], q[v], x);
      }
    }
  }
  finish(block, n_rows, acc);
}

INLINE void some_rows(const struct integer_block *block, const bool half, const bool is_stream, const int n_rows) {
  if (is_stream && block->panel->n_groups > 1) integer_prefetch_scales(block);
  if (half) {
    rows_u4(block, is_stream, n_rows);
  } else {
    rows_s8(block, is_stream, n_rows);
  }
}

/* is_stream: the weights are read as they come from memory, for one group of rows. */
INLINE void all_rows(const struct integer_block *block, const bool half, const bool is_stream) {
  struct integer_coming coming = integer_coming(block, half ? 4 : 8, MOST_ROWS);
  for (int64_t row = 0, n; row < block->n_rows; row += n) {
    n = ommai_next_rows(block->n_rows - row, MOST_ROWS);
    const struct integer_block some = integer_block_rows(block, row, n);
    if (!is_stream) integer_prefetch(&coming);
    switch (n) {
      case 1: some_rows(&some, half, is_stream, 1); break;
      case 2: some_rows(&some, half, is_stream, 2); break;
      case 3: some_rows(&some, half, is_stream, 3); break;
      case 4: some_rows(&some, half, is_stream, 4); break;
      case 5: some_rows(&some, half, is_stream, 5); break;
      default: some_rows(&some, half, is_stream, 6); break;
    }
  }
}

INLINE void all_rows_of(const struct integer_block *block, const bool half) {
  if (block->n_rows <= STREAM_ROWS) {
    all_rows(block, half, true);
  } else {
    all_rows(block, half, false);
  }
}

static void block_s8(const struct integer_block *block) { all_rows_of(block, false); }

static void block_u4(const struct integer_block *block) { all_rows_of(block, true); }

static void run_s8(const struct ommai_integer_panel *panel, const struct ommai_integer_rows *rows, float *sums) {
  integer_for_each_block(panel, rows, 8, MOST_ROWS, BLOCK_K, sums, block_s8);
}

static void run_u4(const struct ommai_integer_panel *panel, const struct ommai_integer_rows *rows, float *sums) {
  integer_for_each_block(panel, rows, 4, MOST_ROWS, BLOCK_K, sums, block_u4);
}

const struct ommai_integer_kernels ommai_integer_avx512_vnni = {OMMAI_CPU_AVX512, true, run_s8, run_u4};
