/* Few rows over whole panels by VPDPBUSD: weights come from memory at its own rate where nothing
 * stands between the groups: no calls, and sums in registers. Several panels of a layer may go side
 * by side, each a stream of its own. The including file defines PREFETCH_BYTES, how far ahead
 * weights are asked for (as measured) by code that asks for them at all. */
#pragma once

#include <immintrin.h>
#include <string.h>

#include "kernels/integer_panel_blocks.h"

#define INLINE static inline __attribute__((always_inline))

enum {
  PANEL = OMMAI_PANEL_COLUMNS,
  VECTORS = 4,
  RAISED = 128,
  MAX_HELD = 4 /* rows times panels */
};

INLINE __m512i broadcast4(const int8_t *x) {
  int32_t four;
  memcpy(&four, x, sizeof four);
  return _mm512_set1_epi32(four);
}

/* acc += products of 4 inputs of each row, from x on, with weights in unsigned bytes. */
INLINE void multiply4(const int8_t *x, int64_t stride, const __m512i w[VECTORS], const int n_rows, __m512i (*acc)[VECTORS]) {
#pragma GCC unroll 8
  for (int row = 0; row < n_rows; row++) {
    __m512i four = broadcast4(x + row * stride);
#pragma GCC unroll 8
    for (int v = 0; v < VECTORS; v++) acc[row][v] = _mm512_dpbusd_epi32(acc[row][v], w[v], four);
  }
}

/* Those of groups to come, a stream of short bursts besides the weights. May run past the end. */
INLINE void prefetch_scales(const struct ommai_integer_panel *panel, int64_t g) {
  enum { GROUPS_AHEAD = 8 };
  const char *coming = integer_stored_scales(panel, g + GROUPS_AHEAD);
  for (int64_t i = 0; i < integer_stored_scale_bytes(panel); i += 64) __builtin_prefetch(coming + i);
}

/* Sixteen scales of group g, or minimums, whose columns are those after the scales'. */
INLINE __m512 load_scales(const struct ommai_integer_panel *panel, int64_t g, int64_t column) {
  const int64_t at = g * panel->scale_stride + column;
  if (panel->halves) return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)(panel->halves + at)));
  if (!panel->codes) return _mm512_loadu_ps(panel->scales + at);
  __m512 code = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)(panel->codes + at))));
  return _mm512_mul_ps(_mm512_loadu_ps(panel->scales + (g >> panel->shared) * panel->scale_stride + column), code);
}

/* acc [n_rows][VECTORS]: less what the weights are raised by, times the sums of x over group g. */
INLINE void begin_group(const struct ommai_integer_panel *panel, const struct ommai_integer_rows *rows, int64_t g,
                        const int raised, const int n_rows, __m512i (*acc)[VECTORS]) {
#pragma GCC unroll 8
  for (int row = 0; row < n_rows; row++) {
    __m512i lower = _mm512_set1_epi32(-(raised + panel->zero) * rows->sums[row * panel->n_groups + g]);
#pragma GCC unroll 8
    for (int v = 0; v < VECTORS; v++) acc[row][v] = lower;
  }
}

/* What is asked for with each line of weights: nothing, what comes PREFETCH_BYTES later into the
 * first level of cache, or what comes FAR_BYTES later into the second. */
enum integer_asks { ASKS_NOTHING, ASKS_NEAR, ASKS_FAR };
enum { FAR_BYTES = 16384 };

INLINE void load_ahead(const uint8_t *line, const enum integer_asks asks, __m512i w[VECTORS]) {
#pragma GCC unroll 8
  for (int v = 0; v < VECTORS; v++) {
    w[v] = _mm512_loadu_si512(line + 64 * v);
    if (asks == ASKS_NEAR) _mm_prefetch((const char *)line + 64 * v + PREFETCH_BYTES, _MM_HINT_T0);
    if (asks == ASKS_FAR) _mm_prefetch((const char *)line + 64 * v + FAR_BYTES, _MM_HINT_T1);
  }
}

/* Inputs whose weights, of 8, 4 or 6 bits, lie in a step of whole lines: one line, or three of 6
 * bits. */
INLINE int64_t step_inputs(const int bits) { return bits == 8 ? 4 : bits == 4 ? 8 : 16; }

/* A panel's weights from an input on with which a step begins. */
INLINE const uint8_t *weights_at(const struct ommai_integer_panel *panel, int64_t k, const int bits) {
  return (const uint8_t *)panel->weights + k * PANEL * bits / 8;
}

/* Weights of inputs 4 m to 4 m + 3 of a step of 6 bits, from the lines with their high bits and
 * their low ones. */
INLINE __m512i six_bits(__m512i high, __m512i low, const int m) {
  enum { A_OR_B_AND_C = 0xf8 };
  if (m % 2) low = _mm512_srli_epi16(low, 4);
  if (m < 2) high = _mm512_slli_epi16(high, m ? 2 : 4);
  if (m == 3) high = _mm512_srli_epi16(high, 2);
  return _mm512_ternarylogic_epi32(_mm512_and_si512(low, _mm512_set1_epi8(15)), high, _mm512_set1_epi8(0x30), A_OR_B_AND_C);
}

INLINE void group_s8(const struct ommai_integer_panel *panels, const int n_panels, const enum integer_asks asks, int64_t begin,
                     int64_t end, const int8_t *x, int64_t stride, const int n_rows, __m512i (*acc)[VECTORS]) {
  for (int64_t k = begin; k < end; k += 4) {
#pragma GCC unroll 4
    for (int p = 0; p < n_panels; p++) {
      __m512i w[VECTORS];
      load_ahead(weights_at(&panels[p], k, 8), asks, w);
#pragma GCC unroll 8
      for (int v = 0; v < VECTORS; v++) w[v] = _mm512_xor_si512(w[v], _mm512_set1_epi8((char)RAISED));
      multiply4(x + k, stride, w, n_rows, acc + p * n_rows);
    }
  }
}

INLINE void group_u4(const struct ommai_integer_panel *panels, const int n_panels, const enum integer_asks asks, int64_t begin,
                     int64_t end, const int8_t *x, int64_t stride, const int n_rows, __m512i (*acc)[VECTORS]) {
  for (int64_t k = begin; k < end; k += 8) {
#pragma GCC unroll 4
    for (int p = 0; p < n_panels; p++) {
      __m512i w[VECTORS], q[VECTORS];
      load_ahead(weights_at(&panels[p], k, 4), asks, w);
#pragma GCC unroll 8
      for (int v = 0; v < VECTORS; v++) q[v] = _mm512_and_si512(w[v], _mm512_set1_epi8(15));
      multiply4(x + k, stride, q, n_rows, acc + p * n_rows);
#pragma GCC unroll 8
      for (int v = 0; v < VECTORS; v++) q[v] = _mm512_and_si512(_mm512_srli_epi16(w[v], 4), _mm512_set1_epi8(15));
      multiply4(x + k + 4, stride, q, n_rows, acc + p * n_rows);
    }
  }
}

INLINE void group_u6(const struct ommai_integer_panel *panels, const int n_panels, const enum integer_asks asks, int64_t begin,
                     int64_t end, const int8_t *x, int64_t stride, const int n_rows, __m512i (*acc)[VECTORS]) {
  for (int64_t k = begin; k < end; k += 16) {
#pragma GCC unroll 4
    for (int p = 0; p < n_panels; p++) {
      const uint8_t *step = weights_at(&panels[p], k, 6);
      __m512i high[VECTORS], low[VECTORS], q[VECTORS];
      load_ahead(step, asks, high);
#pragma GCC unroll 4
      for (int m = 0; m < 4; m++) {
        if (m % 2 == 0) load_ahead(step + (m / 2 + 1) * 4 * PANEL, asks, low);
#pragma GCC unroll 8
        for (int v = 0; v < VECTORS; v++) q[v] = six_bits(high[v], low[v], m);
        multiply4(x + k + 4 * m, stride, q, n_rows, acc + p * n_rows);
      }
    }
  }
}

INLINE void end_group(const struct ommai_integer_panel *panel, const struct ommai_integer_rows *rows, int64_t g,
                      const int n_rows, __m512i (*acc)[VECTORS], __m512 (*sums)[VECTORS]) {
#pragma GCC unroll 8
  for (int v = 0; v < VECTORS; v++) {
    __m512 scale = load_scales(panel, g, 16 * v);
#pragma GCC unroll 8
    for (int row = 0; row < n_rows; row++) sums[row][v] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(acc[row][v]), scale, sums[row][v]);
    if (!panel->has_minimums) continue;
    __m512 minimum = load_scales(panel, g, PANEL + 16 * v);
#pragma GCC unroll 8
    for (int row = 0; row < n_rows; row++) {
      __m512 x_sum = _mm512_cvtepi32_ps(_mm512_set1_epi32(rows->sums[row * panel->n_groups + g]));
      sums[row][v] = _mm512_fnmadd_ps(minimum, x_sum, sums[row][v]);
    }
  }
}

/* out [n_panels][n_rows][64]; n_rows * n_panels <= MAX_HELD. The panels are of one layer: sizes,
 * groups and zero are equal. */
INLINE void stream(const struct ommai_integer_panel *panels, const int n_panels, const enum integer_asks asks,
                   const struct ommai_integer_rows *rows, const int bits, const int n_rows, float *out) {
  const int n_held = n_panels * n_rows;
  __m512 sums[MAX_HELD][VECTORS];
#pragma GCC unroll 16
  for (int i = 0; i < n_held * VECTORS; i++) sums[i / VECTORS][i % VECTORS] = _mm512_setzero_ps();
  for (int64_t g = 0; g < panels->n_groups; g++) {
    int64_t begin = g * panels->group, end = ommai_integer_group_end(panels, g);
    __m512i acc[MAX_HELD][VECTORS];
#pragma GCC unroll 4
    for (int p = 0; p < n_panels; p++) {
      if (panels->n_groups > 1) prefetch_scales(&panels[p], g);
      begin_group(&panels[p], rows, g, bits == 8 ? RAISED : 0, n_rows, acc + p * n_rows);
    }
    if (bits == 4) {
      group_u4(panels, n_panels, asks, begin, end, rows->x, rows->stride, n_rows, acc);
    } else if (bits == 6) {
      group_u6(panels, n_panels, asks, begin, end, rows->x, rows->stride, n_rows, acc);
    } else {
      group_s8(panels, n_panels, asks, begin, end, rows->x, rows->stride, n_rows, acc);
    }
#pragma GCC unroll 4
    for (int p = 0; p < n_panels; p++) end_group(&panels[p], rows, g, n_rows, acc + p * n_rows, sums + p * n_rows);
  }
#pragma GCC unroll 16
  for (int i = 0; i < n_held * VECTORS; i++) _mm512_storeu_ps(out + 16 * i, sums[i / VECTORS][i % VECTORS]);
}
