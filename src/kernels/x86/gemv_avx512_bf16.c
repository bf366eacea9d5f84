/* A panel of 64 columns, two k deep, lies in four registers of bf16 pairs, a line of 256 bytes. Up
 * to six rows pass over whole lines, in both forms below.
 *
 * More rows where the first level of cache has 48 KiB: over halves of lines, up to twelve rows at a
 * time, and over few lines, which stay there. Where it has 32 KiB: over whole lines, up to six rows
 * at a time, and over more of them, which the second level has by then: what is asked for that far
 * ahead must not come to the first. */
#include <immintrin.h>
#include <string.h>

#include "base/checked.h"
#include "kernels/gemv.h"
#include "kernels/row_groups.h"

#define INLINE static inline __attribute__((always_inline))

enum { VECTORS = 4, MAX_ROWS = 6, HALF = 2, MAX_HALF_ROWS = 12, LINE = 64 * VECTORS };

/* How far ahead weights are asked for; k that several passes share, 8 and 16 KiB of weights. */
enum { PREFETCH_BYTES = 6144, PREFETCH_BYTES_OF_MORE = 12288, SHARED_K = 64 };
enum { PREFETCH_BYTES_TO_L2 = 32768, SHARED_K_IN_L2 = 128 };

/* Weights to come: where several passes share some, each asks for its share of what follows, line
 * by line, so that memory works all the time. */
struct coming {
  const char *at;
  int64_t step; /* bytes for each line of this pass */
};

enum cache { TO_L1, TO_L2 };

/* pieces: of 64 bytes. */
INLINE void ask_for(struct coming *coming, const int pieces, const enum cache cache) {
#pragma GCC unroll 8
  for (int i = 0; i < pieces; i++) {
    if (cache == TO_L1) {
      _mm_prefetch(coming->at + 64 * i, _MM_HINT_T0);
    } else {
      _mm_prefetch(coming->at + 64 * i, _MM_HINT_T1);
    }
  }
  coming->at += coming->step;
}

/* x[k] and x[k + 1] in every lane; a missing second one is zero. */
INLINE __m512bh broadcast_pair(const ommai_bf16 *x, int n) {
  uint32_t pair = 0;
  memcpy(&pair, x, sizeof *x * (size_t)n);
  return (__m512bh)_mm512_set1_epi32((int)pair);
}

INLINE void step(__m512 (*sum)[VECTORS], const ommai_bf16 *line, const int vectors, const ommai_bf16 *x, int64_t x_stride,
                 const int n_rows, const int n) {
  __m512bh w[VECTORS];
#pragma GCC unroll 8
  for (int v = 0; v < vectors; v++) w[v] = (__m512bh)_mm512_loadu_si512(line + 32 * v);
#pragma GCC unroll 12
  for (int row = 0; row < n_rows; row++) {
    __m512bh value = broadcast_pair(x + row * x_stride, n);
#pragma GCC unroll 8
    for (int v = 0; v < vectors; v++) sum[row][v] = _mm512_dpbf16_ps(sum[row][v], w[v], value);
  }
}

/* weights, sums: from the first of 16 * vectors columns on. */
INLINE void add_rows(const ommai_bf16 *weights, const int vectors, struct coming coming, const int pieces,
                     const enum cache cache, const ommai_bf16 *x, int64_t x_stride, const int n_rows, int64_t n_k,
                     float *sums) {
  __m512 sum[MAX_HALF_ROWS][VECTORS];
#pragma GCC unroll 12
  for (int row = 0; row < n_rows; row++) {
#pragma GCC unroll 8
    for (int v = 0; v < vectors; v++) sum[row][v] = _mm512_loadu_ps(sums + row * OMMAI_PANEL_COLUMNS + 16 * v);
  }
  int64_t k = 0;
  for (; k + 2 <= n_k; k += 2) {
    ask_for(&coming, pieces, cache);
    step(sum, weights + k * OMMAI_PANEL_COLUMNS, vectors, x + k, x_stride, n_rows, 2);
  }
  if (k < n_k) step(sum, weights + k * OMMAI_PANEL_COLUMNS, vectors, x + k, x_stride, n_rows, 1);
#pragma GCC unroll 12
  for (int row = 0; row < n_rows; row++) {
#pragma GCC unroll 8
    for (int v = 0; v < vectors; v++) _mm512_storeu_ps(sums + row * OMMAI_PANEL_COLUMNS + 16 * v, sum[row][v]);
  }
}

/* As many pieces are asked for in a step as vectors are read. */
INLINE void rows_times_columns(const ommai_bf16 *weights, const int vectors, const struct coming coming, const ommai_bf16 *x,
                               int64_t x_stride, const int n_rows, int64_t n_k, float *sums) {
  add_rows(weights, vectors, coming, vectors, TO_L1, x, x_stride, n_rows, n_k, sums);
}

INLINE void whole_lines(const ommai_bf16 *weights, const int pieces, const ommai_bf16 *x, int64_t x_stride, int n_rows,
                        int64_t n_k, float *sums) {
  const struct coming coming = {(const char *)weights + PREFETCH_BYTES, LINE};
  switch (n_rows) {
    case 1: add_rows(weights, VECTORS, coming, pieces, TO_L1, x, x_stride, 1, n_k, sums); break;
    case 2: add_rows(weights, VECTORS, coming, pieces, TO_L1, x, x_stride, 2, n_k, sums); break;
    case 3: add_rows(weights, VECTORS, coming, pieces, TO_L1, x, x_stride, 3, n_k, sums); break;
    case 4: add_rows(weights, VECTORS, coming, pieces, TO_L1, x, x_stride, 4, n_k, sums); break;
    case 5: add_rows(weights, VECTORS, coming, pieces, TO_L1, x, x_stride, 5, n_k, sums); break;
    default: add_rows(weights, VECTORS, coming, pieces, TO_L1, x, x_stride, 6, n_k, sums); break;
  }
}

/* weights, sums: from the first column of a half on. n_rows: 6 to 12. */
static void rows_times_half(const ommai_bf16 *weights, struct coming coming, const ommai_bf16 *x, int64_t x_stride, int n_rows,
                            int64_t n_k, float *sums) {
  switch (n_rows) {
    case 6: rows_times_columns(weights, HALF, coming, x, x_stride, 6, n_k, sums); break;
    case 7: rows_times_columns(weights, HALF, coming, x, x_stride, 7, n_k, sums); break;
    case 8: rows_times_columns(weights, HALF, coming, x, x_stride, 8, n_k, sums); break;
    case 9: rows_times_columns(weights, HALF, coming, x, x_stride, 9, n_k, sums); break;
    case 10: rows_times_columns(weights, HALF, coming, x, x_stride, 10, n_k, sums); break;
    case 11: rows_times_columns(weights, HALF, coming, x, x_stride, 11, n_k, sums); break;
    default: rows_times_columns(weights, HALF, coming, x, x_stride, 12, n_k, sums); break;
  }
}

static void half_lines(const ommai_bf16 *weights, const ommai_bf16 *x, int64_t x_stride, int n_rows, int64_t n_k, float *sums) {
  const int passes = n_rows <= MAX_HALF_ROWS ? VECTORS / HALF : 2 * VECTORS / HALF;
  for (int64_t k = 0; k < n_k; k += SHARED_K) {
    const int64_t shared_k = ommai_min_i64(SHARED_K, n_k - k), pass_bytes = shared_k / 2 * LINE / passes;
    const ommai_bf16 *from = weights + k * OMMAI_PANEL_COLUMNS;
    struct coming coming = {(const char *)from + PREFETCH_BYTES_OF_MORE, LINE / passes};
    for (int row = 0, n; row < n_rows; row += n) {
      n = ommai_next_rows(n_rows - row, MAX_HALF_ROWS);
      for (int v = 0; v < VECTORS; v += HALF, coming.at += pass_bytes) {
        rows_times_half(from + 32 * v, coming, x + row * x_stride + k, x_stride, n, shared_k,
                        sums + row * OMMAI_PANEL_COLUMNS + 16 * v);
      }
    }
  }
}

static void panel_bf16(const ommai_bf16 *weights, const ommai_bf16 *x, int64_t x_stride, int n_rows, int64_t n_k, float *sums) {
  if (n_rows <= MAX_ROWS) {
    whole_lines(weights, VECTORS, x, x_stride, n_rows, n_k, sums);
  } else {
    half_lines(weights, x, x_stride, n_rows, n_k, sums);
  }
}

/* ---- a first level of 32 KiB ----------------------------------------------------------------- */

INLINE void group_times_lines(const ommai_bf16 *weights, const struct coming coming, const int pieces, const ommai_bf16 *x,
                              int64_t x_stride, int n_rows, int64_t n_k, float *sums) {
  switch (n_rows) {
    case 3: add_rows(weights, VECTORS, coming, pieces, TO_L2, x, x_stride, 3, n_k, sums); break;
    case 4: add_rows(weights, VECTORS, coming, pieces, TO_L2, x, x_stride, 4, n_k, sums); break;
    case 5: add_rows(weights, VECTORS, coming, pieces, TO_L2, x, x_stride, 5, n_k, sums); break;
    default: add_rows(weights, VECTORS, coming, pieces, TO_L2, x, x_stride, 6, n_k, sums); break;
  }
}

/* n_rows: 7 to 20, two to four groups of three or more, of which each asks for its share of a
 * line's four pieces. */
static void groups_of_rows(const ommai_bf16 *weights, const ommai_bf16 *x, int64_t x_stride, int n_rows, int64_t n_k,
                           float *sums) {
  const int groups = (int)ommai_div_up(n_rows, MAX_ROWS);
  for (int64_t k = 0; k < n_k; k += SHARED_K_IN_L2) {
    const int64_t shared_k = ommai_min_i64(SHARED_K_IN_L2, n_k - k);
    const ommai_bf16 *from = weights + k * OMMAI_PANEL_COLUMNS;
    struct coming coming = {.at = (const char *)from + PREFETCH_BYTES_TO_L2};
    for (int row = 0, group = 0, n; row < n_rows; row += n, group++) {
      n = ommai_next_rows(n_rows - row, MAX_ROWS);
      const int pieces = VECTORS * (group + 1) / groups - VECTORS * group / groups;
      const ommai_bf16 *x_row = x + row * x_stride + k;
      float *sum = sums + row * OMMAI_PANEL_COLUMNS;
      coming.step = (int64_t)64 * pieces;
      if (pieces == 1) {
        group_times_lines(from, coming, 1, x_row, x_stride, n, shared_k, sum);
      } else {
        group_times_lines(from, coming, 2, x_row, x_stride, n, shared_k, sum);
      }
      coming.at += shared_k / 2 * coming.step;
    }
  }
}

static void panel_bf16_small_l1(const ommai_bf16 *weights, const ommai_bf16 *x, int64_t x_stride, int n_rows, int64_t n_k,
                                float *sums) {
  if (n_rows <= MAX_ROWS) {
    whole_lines(weights, 0, x, x_stride, n_rows, n_k, sums);
  } else {
    groups_of_rows(weights, x, x_stride, n_rows, n_k, sums);
  }
}

static const struct ommai_gemv_kernels small_l1 = {.level = OMMAI_CPU_AVX512_BF16,
                                                   .panel_bf16 = panel_bf16_small_l1,
                                                   .panel_f32 = ommai_gemv_panel_f32_avx512,
                                                   .panel_mixed = ommai_gemv_panel_mixed_avx512};

const struct ommai_gemv_kernels ommai_gemv_avx512_bf16 = {.level = OMMAI_CPU_AVX512_BF16,
                                                          .panel_bf16 = panel_bf16,
                                                          .panel_f32 = ommai_gemv_panel_f32_avx512,
                                                          .panel_mixed = ommai_gemv_panel_mixed_avx512,
                                                          .small_l1 = &small_l1};
