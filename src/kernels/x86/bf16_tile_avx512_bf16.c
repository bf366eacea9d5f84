/* Six rows by 64 columns: 24 accumulators, four registers of weights, a pair of a row's inputs in
 * every lane of one. Ten loads for 24 products. A block of weights, 32 KiB, stays in the first
 * level of cache while all rows pass over it, and the ones after it are asked for meanwhile, a line
 * at a time: many at once would keep the rows' own loads waiting. Where the first level holds no
 * such block next to the rows, the second brings weights fast enough, and a block is as large as
 * that allows: sums pass through memory between blocks. */
#include <immintrin.h>
#include <string.h>

#include "base/checked.h"
#include "kernels/bf16_tile.h"
#include "kernels/row_groups.h"

#define INLINE static inline __attribute__((always_inline))

enum { PANEL = OMMAI_PANEL_COLUMNS, VECTORS = 4, LANES = 16, MAX_ROWS = 6, STEP_K = 8, LINE = 64 };
enum { BLOCK_K = 256, BLOCK_K_IN_L2 = 2048 };

/* Some inputs of some rows. */
struct block {
  const struct ommai_bf16_tile *tile;
  const ommai_bf16 *weights, *x;
  int64_t n_k, row;
  bool begins, ends;  /* the sums */
  bool asks;          /* for y before it is written */
  const char *coming; /* weights to ask for, that many bytes for each STEP_K inputs */
  int64_t coming_bytes;
};

/* x[0] and, where there are two, x[1] in every lane. */
INLINE __m512bh broadcast_pair(const ommai_bf16 *x, const int n) {
  uint32_t pair = 0;
  memcpy(&pair, x, sizeof *x * (size_t)n);
  return (__m512bh)_mm512_set1_epi32((int)pair);
}

INLINE void add_products(__m512 (*sum)[VECTORS], const ommai_bf16 *weights, const ommai_bf16 *x, int64_t x_stride,
                         const int n_rows, const int n) {
  __m512bh w[VECTORS];
#pragma GCC unroll 4
  for (int v = 0; v < VECTORS; v++) w[v] = (__m512bh)_mm512_loadu_si512(weights + 2 * LANES * v);
#pragma GCC unroll 6
  for (int row = 0; row < n_rows; row++) {
    __m512bh pair = broadcast_pair(x + row * x_stride, n);
#pragma GCC unroll 4
    for (int v = 0; v < VECTORS; v++) sum[row][v] = _mm512_dpbf16_ps(sum[row][v], w[v], pair);
  }
}

/* Sums of 16 outputs of a row to y. */
INLINE void write_sums(const struct ommai_bf16_tile *tile, __m512 sum, int64_t row, int column) {
  int64_t at = row * tile->y_stride + column;
  sum = _mm512_add_ps(sum, _mm512_loadu_ps(tile->bias + column));
  if (tile->y_type == OMMA_BF16) {
    _mm256_storeu_si256((__m256i *)(void *)((ommai_bf16 *)tile->y + at), (__m256i)_mm512_cvtneps_pbh(sum));
    return;
  }
  float *y = (float *)tile->y + at;
  _mm512_storeu_ps(y, tile->accumulate ? _mm512_add_ps(_mm512_loadu_ps(y), sum) : sum);
}

/* y is wanted at the end. */
INLINE void ask_for_y(const struct ommai_bf16_tile *tile, int64_t row, const int n_rows) {
  const int64_t size = tile->y_type == OMMA_BF16 ? sizeof(ommai_bf16) : sizeof(float);
#pragma GCC unroll 6
  for (int i = 0; i < n_rows; i++) {
    const char *y = (const char *)tile->y + (row + i) * tile->y_stride * size;
#pragma GCC unroll 4
    for (int v = 0; v < VECTORS; v++) _mm_prefetch(y + LANES * v * size, _MM_HINT_T0);
  }
}

INLINE void rows_times_block(const struct block *block, const int n_rows) {
  const ommai_bf16 *weights = block->weights, *x = block->x;
  const char *coming = block->coming;
  int64_t n_k = block->n_k, x_stride = block->tile->x_stride, k = 0;
  float *sums = block->tile->sums + block->row * PANEL;
  __m512 sum[MAX_ROWS][VECTORS];
#pragma GCC unroll 6
  for (int row = 0; row < n_rows; row++) {
#pragma GCC unroll 4
    for (int v = 0; v < VECTORS; v++) {
      sum[row][v] = block->begins ? _mm512_setzero_ps() : _mm512_loadu_ps(sums + row * PANEL + LANES * v);
    }
  }
  if (block->ends && block->asks) ask_for_y(block->tile, block->row, n_rows);
  for (; k + STEP_K <= n_k; k += STEP_K) {
    for (const char *end = coming + block->coming_bytes; coming < end; coming += LINE) _mm_prefetch(coming, _MM_HINT_T1);
#pragma GCC unroll 4
    for (int at = 0; at < STEP_K; at += 2) add_products(sum, weights + (k + at) * PANEL, x + k + at, x_stride, n_rows, 2);
  }
  for (; k + 2 <= n_k; k += 2) add_products(sum, weights + k * PANEL, x + k, x_stride, n_rows, 2);
  if (k < n_k) add_products(sum, weights + k * PANEL, x + k, x_stride, n_rows, 1);
#pragma GCC unroll 6
  for (int row = 0; row < n_rows; row++) {
#pragma GCC unroll 4
    for (int v = 0; v < VECTORS; v++) {
      if (block->ends) {
        write_sums(block->tile, sum[row][v], block->row + row, LANES * v);
      } else {
        _mm512_storeu_ps(sums + row * PANEL + LANES * v, sum[row][v]);
      }
    }
  }
}

static void some_rows(const struct block *block, int n_rows) {
  switch (n_rows) {
    case 1: rows_times_block(block, 1); break;
    case 2: rows_times_block(block, 2); break;
    case 3: rows_times_block(block, 3); break;
    case 4: rows_times_block(block, 4); break;
    case 5: rows_times_block(block, 5); break;
    default: rows_times_block(block, 6); break;
  }
}

static void run_blocks(const struct ommai_bf16_tile *tile, int64_t block_k, bool asks) {
  /* Lines asked for in a step, so that a block's are while all groups of rows pass over the one
   * before. */
  int64_t step_lines = ommai_div_up(STEP_K * PANEL * 2 / LINE, ommai_div_up(tile->n_rows, MAX_ROWS));
  for (int64_t k = 0; k < tile->n_k; k += block_k) {
    int64_t n_k = ommai_min_i64(block_k, tile->n_k - k);
    struct block block = {.tile = tile, .weights = tile->weights + k * PANEL, .n_k = n_k, .coming_bytes = step_lines * LINE};
    block.asks = tile->accumulate || asks;
    block.begins = k == 0;
    block.ends = k + n_k == tile->n_k;
    block.coming = (const char *)(block.weights + ommai_round_up(n_k, 2) * PANEL);
    for (int64_t n; block.row < tile->n_rows; block.row += n) {
      n = ommai_next_rows(tile->n_rows - block.row, MAX_ROWS);
      block.x = tile->x + block.row * tile->x_stride + k;
      some_rows(&block, (int)n);
      block.coming += n_k / STEP_K * block.coming_bytes;
    }
  }
}

static void run(const struct ommai_bf16_tile *tile) { run_blocks(tile, BLOCK_K, false); }

static void run_small_l1(const struct ommai_bf16_tile *tile) { run_blocks(tile, BLOCK_K_IN_L2, true); }

static const struct ommai_bf16_tile_kernel small_l1 = {
    .level = OMMAI_CPU_AVX512_BF16, .max_panels = 1, .run = run_small_l1};

const struct ommai_bf16_tile_kernel ommai_bf16_tile_avx512_bf16 = {
    .level = OMMAI_CPU_AVX512_BF16, .max_panels = 1, .run = run, .small_l1 = &small_l1};
