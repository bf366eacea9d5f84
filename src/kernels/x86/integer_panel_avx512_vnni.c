/* Integer weights by VPDPBUSD: 16 outputs by 4 inputs a register, weights as the unsigned factor
 * (signed ones raised by 128, which the sum of a row's inputs takes back), a row's inputs
 * broadcast as the signed one. */
#include <immintrin.h>
#include <string.h>

#include "kernels/integer_panel_blocks.h"

#define INLINE static inline __attribute__((always_inline))

enum {
  PANEL = OMMAI_PANEL_COLUMNS,
  VECTORS = 4,
  MAX_ROWS = 6,
  HELD_ROWS = 3, /* whose sums over groups registers hold as well */
  BLOCK_K = 256,
  LINE = 64 * VECTORS, /* bytes */
  PREFETCH_BYTES = 8192,
  STREAM_ROWS = 16, /* up to which weights are read as they come from memory */
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

/* A line of weights, while a share of those to come is asked for. */
INLINE void take_line(const uint8_t *line, struct integer_coming *coming, const int pieces, const bool near,
                      __m512i w[VECTORS]) {
#pragma GCC unroll 8
  for (int v = 0; v < VECTORS; v++) w[v] = _mm512_loadu_si512(line + 64 * v);
  integer_stream_line(coming, pieces, near);
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

INLINE void rows_s8(const struct integer_block *block, struct integer_coming coming, const int pieces, const bool near,
                    const int n_rows) {
  const __m512i flip = _mm512_set1_epi8((char)RAISED);
  __m512i acc[MAX_ROWS][VECTORS];
  start(block, RAISED, n_rows, acc);
  for (int64_t k = 0; k < block->n_k; k += 4) {
    __m512i w[VECTORS];
    take_line(block->weights + k * PANEL, &coming, pieces, near, w);
#pragma GCC unroll 8
    for (int v = 0; v < VECTORS; v++) w[v] = _mm512_xor_si512(w[v], flip);
    multiply4(block->x + k, block->stride, w, n_rows, acc);
  }
  finish(block, n_rows, acc);
}

INLINE void rows_u4(const struct integer_block *block, struct integer_coming coming, const int pieces, const bool near,
                    const int n_rows) {
  const __m512i low = _mm512_set1_epi8(15);
  __m512i acc[MAX_ROWS][VECTORS];
  start(block, 0, n_rows, acc);
  for (int64_t k = 0; k < block->n_k; k += 8) {
    __m512i w[VECTORS];
    take_line(block->weights + k / 2 * PANEL, &coming, pieces, near, w);
#pragma GCC unroll 8
    for (int half = 0; half < 2; half++) {
      __m512i q[VECTORS];
#pragma GCC unroll 8
      for (int v = 0; v < VECTORS; v++) q[v] = _mm512_and_si512(half ? _mm512_srli_epi16(w[v], 4) : w[v], low);
      multiply4(block->x + k + 4 * half, block->stride, q, n_rows, acc);
    }
  }
  finish(block, n_rows, acc);
}

INLINE void some_rows(const struct integer_block *block, const bool half, const struct integer_coming coming, const int pieces,
                      const bool near, const int n_rows) {
  if (half) {
    rows_u4(block, coming, pieces, near, n_rows);
  } else {
    rows_s8(block, coming, pieces, near, n_rows);
  }
}

/* pieces: of 64 bytes that a line of a pass asks for: all of a later line in the only pass of few
 * rows, a share of the next block's where several passes share it, none where many rows pass and
 * each asks for its share at once. */
INLINE void all_rows(const struct integer_block *block, const bool half, const int pieces) {
  const int64_t passes = ommai_div_up(block->n_rows, MAX_ROWS), bytes = block->n_k * PANEL / (half ? 2 : 1);
  struct integer_coming burst = integer_coming(block, half ? 4 : 8, MAX_ROWS);
  struct integer_coming coming = {block->weights + (passes > 1 ? bytes : PREFETCH_BYTES), pieces ? LINE / passes : 0};
  if (pieces && block->panel->n_groups > 1) integer_prefetch_scales(block);
  for (int64_t row = 0, n; row < block->n_rows; row += n, coming.at += bytes / passes) {
    n = ommai_next_rows(block->n_rows - row, MAX_ROWS);
    const struct integer_block some = integer_block_rows(block, row, n);
    const bool near = pieces == VECTORS;
    if (!pieces) integer_prefetch(&burst);
    switch (n) {
      case 1: some_rows(&some, half, coming, pieces, near, 1); break;
      case 2: some_rows(&some, half, coming, pieces, near, 2); break;
      case 3: some_rows(&some, half, coming, pieces, near, 3); break;
      case 4: some_rows(&some, half, coming, pieces, near, 4); break;
      case 5: some_rows(&some, half, coming, pieces, near, 5); break;
      default: some_rows(&some, half, coming, pieces, false, 6); break;
    }
  }
}

INLINE void all_rows_of(const struct integer_block *block, const bool half) {
  if (block->n_rows <= MAX_ROWS) {
    all_rows(block, half, VECTORS);
  } else if (block->n_rows <= STREAM_ROWS) {
    all_rows(block, half, VECTORS / 2);
  } else {
    all_rows(block, half, 0);
  }
}

static void block_s8(const struct integer_block *block) { all_rows_of(block, false); }

static void block_u4(const struct integer_block *block) { all_rows_of(block, true); }

/* ---- few rows over a whole panel ------------------------------------------------------------- */

/* Weights come from memory at its own rate where nothing stands between the groups: no calls, and
 * sums in registers. */

/* Scales and minimums of groups to come, a stream of short bursts besides the weights. May run past
 * the end. */
INLINE void prefetch_scales(const float *scales, int64_t stride) {
  enum { GROUPS_AHEAD = 8, LINE_FLOATS = 16 };
  const float *coming = scales + GROUPS_AHEAD * stride;
  for (int64_t i = 0; i < stride; i += LINE_FLOATS) __builtin_prefetch(coming + i);
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

INLINE void load_ahead(const uint8_t *line, __m512i w[VECTORS]) {
#pragma GCC unroll 8
  for (int v = 0; v < VECTORS; v++) {
    w[v] = _mm512_loadu_si512(line + 64 * v);
    _mm_prefetch((const char *)line + 64 * v + PREFETCH_BYTES, _MM_HINT_T0);
  }
}

INLINE void group_s8(const uint8_t *weights, const int8_t *x, int64_t stride, int64_t n_k, const int n_rows,
                     __m512i (*acc)[VECTORS]) {
  for (int64_t k = 0; k < n_k; k += 4) {
    __m512i w[VECTORS];
    load_ahead(weights + k * PANEL, w);
#pragma GCC unroll 8
    for (int v = 0; v < VECTORS; v++) w[v] = _mm512_xor_si512(w[v], _mm512_set1_epi8((char)RAISED));
    multiply4(x + k, stride, w, n_rows, acc);
  }
}

INLINE void group_u4(const uint8_t *weights, const int8_t *x, int64_t stride, int64_t n_k, const int n_rows,
                     __m512i (*acc)[VECTORS]) {
  for (int64_t k = 0; k < n_k; k += 8) {
    __m512i w[VECTORS], q[VECTORS];
    load_ahead(weights + k / 2 * PANEL, w);
#pragma GCC unroll 8
    for (int v = 0; v < VECTORS; v++) q[v] = _mm512_and_si512(w[v], _mm512_set1_epi8(15));
    multiply4(x + k, stride, q, n_rows, acc);
#pragma GCC unroll 8
    for (int v = 0; v < VECTORS; v++) q[v] = _mm512_and_si512(_mm512_srli_epi16(w[v], 4), _mm512_set1_epi8(15));
    multiply4(x + k + 4, stride, q, n_rows, acc);
  }
}

INLINE void end_group(const struct ommai_integer_panel *panel, const struct ommai_integer_rows *rows, int64_t g,
                      const int n_rows, __m512i (*acc)[VECTORS], __m512 (*sums)[VECTORS]) {
  const float *scales = panel->scales + g * panel->scale_stride;
  const float *minimums = panel->minimums ? panel->minimums + g * panel->scale_stride : NULL;
#pragma GCC unroll 8
  for (int v = 0; v < VECTORS; v++) {
    __m512 scale = _mm512_loadu_ps(scales + 16 * v);
#pragma GCC unroll 8
    for (int row = 0; row < n_rows; row++) sums[row][v] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(acc[row][v]), scale, sums[row][v]);
    if (!minimums) continue;
    __m512 minimum = _mm512_loadu_ps(minimums + 16 * v);
#pragma GCC unroll 8
    for (int row = 0; row < n_rows; row++) {
      __m512 x_sum = _mm512_cvtepi32_ps(_mm512_set1_epi32(rows->sums[row * panel->n_groups + g]));
      sums[row][v] = _mm512_fnmadd_ps(minimum, x_sum, sums[row][v]);
    }
  }
}

INLINE void stream(const struct ommai_integer_panel *panel, const struct ommai_integer_rows *rows, const bool half,
                   const int n_rows, float *out) {
  __m512 sums[HELD_ROWS][VECTORS];
#pragma GCC unroll 16
  for (int i = 0; i < n_rows * VECTORS; i++) sums[i / VECTORS][i % VECTORS] = _mm512_setzero_ps();
  for (int64_t g = 0; g < panel->n_groups; g++) {
    int64_t k = g * panel->group, n_k = ommai_integer_group_end(panel, g) - k;
    const uint8_t *weights = (const uint8_t *)panel->weights + (half ? k / 2 : k) * PANEL;
    __m512i acc[HELD_ROWS][VECTORS];
    if (panel->n_groups > 1) prefetch_scales(panel->scales + g * panel->scale_stride, panel->scale_stride);
    begin_group(panel, rows, g, half ? 0 : RAISED, n_rows, acc);
    if (half) {
      group_u4(weights, rows->x + k, rows->stride, n_k, n_rows, acc);
    } else {
      group_s8(weights, rows->x + k, rows->stride, n_k, n_rows, acc);
    }
    end_group(panel, rows, g, n_rows, acc, sums);
  }
#pragma GCC unroll 16
  for (int i = 0; i < n_rows * VECTORS; i++) _mm512_storeu_ps(out + 16 * i, sums[i / VECTORS][i % VECTORS]);
}

/* Functions of their own, so that each has the registers to itself. */
#define STREAM(n)                                                                                           \
  static __attribute__((noinline)) void stream_s8_##n(const struct ommai_integer_panel *panel,              \
                                                      const struct ommai_integer_rows *rows, float *sums) { \
    stream(panel, rows, false, n, sums);                                                                    \
  }                                                                                                         \
  static __attribute__((noinline)) void stream_u4_##n(const struct ommai_integer_panel *panel,              \
                                                      const struct ommai_integer_rows *rows, float *sums) { \
    stream(panel, rows, true, n, sums);                                                                     \
  }
STREAM(1)
STREAM(2)
STREAM(3)

static const ommai_integer_kernel streams_s8[HELD_ROWS] = {stream_s8_1, stream_s8_2, stream_s8_3};
static const ommai_integer_kernel streams_u4[HELD_ROWS] = {stream_u4_1, stream_u4_2, stream_u4_3};

/* ---- */

static bool is_few(const struct ommai_integer_panel *panel, const struct ommai_integer_rows *rows) {
  return rows->n_rows <= HELD_ROWS && !panel->weight_sums;
}

static void run_s8(const struct ommai_integer_panel *panel, const struct ommai_integer_rows *rows, float *sums) {
  if (is_few(panel, rows)) {
    streams_s8[rows->n_rows - 1](panel, rows, sums);
  } else {
    integer_for_each_block(panel, rows, 8, MAX_ROWS, BLOCK_K, sums, block_s8);
  }
}

static void run_u4(const struct ommai_integer_panel *panel, const struct ommai_integer_rows *rows, float *sums) {
  if (is_few(panel, rows)) {
    streams_u4[rows->n_rows - 1](panel, rows, sums);
  } else {
    integer_for_each_block(panel, rows, 4, MAX_ROWS, BLOCK_K, sums, block_u4);
  }
}

const struct ommai_integer_kernels ommai_integer_avx512_vnni = {OMMAI_CPU_AVX512, true, run_s8, run_u4};
