/* Integer weights by VPDPBUSD: 16 outputs by 4 inputs a register, weights as the unsigned factor
 * (signed ones raised by 128, which the sum of a row's inputs takes back), a row's inputs
 * broadcast as the signed one. */
#define PREFETCH_BYTES 8192
#include "kernels/integer_panel_blocks.h"
#include "kernels/x86/integer_groups_vnni.h"
#include "kernels/x86/integer_stream_vnni.h"

enum {
  MAX_ROWS = 6,
  HELD_ROWS = 3, /* whose sums over groups registers hold as well */
  STREAMED_ROWS = 2 * HELD_ROWS,
  BLOCK_K = 256,
  LINE = 64 * VECTORS, /* bytes */
  STREAM_ROWS = 16,    /* up to which weights are read as they come from memory */
  /* Where the first level of cache has 32 KiB: blocks for the second, which brings lines as fast as
   * they are multiplied, and passes of many rows that ask for 64 bytes with each line. */
  BLOCK_K_IN_L2 = 2048,
  HALF_LINE_ROWS = 3 * MAX_ROWS, /* up to which that is less than their share */
  ROWS_IN_L1 = 6 * MAX_ROWS      /* whose sums stay in it next to what passes */
};

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

INLINE void rows_u6(const struct integer_block *block, struct integer_coming coming, const int pieces, const bool near,
                    const int n_rows) {
  __m512i acc[MAX_ROWS][VECTORS];
  start(block, 0, n_rows, acc);
  for (int64_t k = 0; k < block->n_k; k += 16) {
    const uint8_t *step = block->weights + k * PANEL * 6 / 8;
    __m512i high[VECTORS], low[VECTORS], q[VECTORS];
    take_line(step, &coming, pieces, near, high);
#pragma GCC unroll 4
    for (int m = 0; m < 4; m++) {
      if (m % 2 == 0) take_line(step + (m / 2 + 1) * 4 * PANEL, &coming, pieces, near, low);
#pragma GCC unroll 8
      for (int v = 0; v < VECTORS; v++) q[v] = six_bits(high[v], low[v], m);
      multiply4(block->x + k + 4 * m, block->stride, q, n_rows, acc);
    }
  }
  finish(block, n_rows, acc);
}

INLINE void some_rows(const struct integer_block *block, const int bits, const struct integer_coming coming, const int pieces,
                      const bool near, const int n_rows) {
  if (bits == 4) {
    rows_u4(block, coming, pieces, near, n_rows);
  } else if (bits == 6) {
    rows_u6(block, coming, pieces, near, n_rows);
  } else {
    rows_s8(block, coming, pieces, near, n_rows);
  }
}

/* pieces: of 64 bytes that a line of a pass asks for: all of a later line in the only pass of few
 * rows, a share of the next block's where several passes share it, none where hardware prefetchers
 * do as well, or where many rows pass in bursts: each pass asks for its share at once. */
INLINE void all_rows(const struct integer_block *block, const int bits, const int pieces, const bool bursts) {
  const int64_t passes = ommai_div_up(block->n_rows, MAX_ROWS), bytes = block->n_k * PANEL * bits / 8;
  struct integer_coming burst = integer_coming(block, bits, MAX_ROWS);
  struct integer_coming coming = {block->weights + (passes > 1 ? bytes : PREFETCH_BYTES), pieces ? LINE / passes : 0};
  if (!bursts && block->panel->n_groups > 1) prefetch_scales(block->panel, block->group);
  for (int64_t row = 0, n; row < block->n_rows; row += n, coming.at += bytes / passes) {
    n = ommai_next_rows(block->n_rows - row, MAX_ROWS);
    const struct integer_block some = integer_block_rows(block, row, n);
    const bool near = pieces == VECTORS;
    if (bursts) integer_prefetch(&burst);
    switch (n) {
      case 1: some_rows(&some, bits, coming, pieces, near, 1); break;
      case 2: some_rows(&some, bits, coming, pieces, near, 2); break;
      case 3: some_rows(&some, bits, coming, pieces, near, 3); break;
      case 4: some_rows(&some, bits, coming, pieces, near, 4); break;
      case 5: some_rows(&some, bits, coming, pieces, near, 5); break;
      default: some_rows(&some, bits, coming, pieces, false, 6); break;
    }
  }
}

INLINE void all_rows_of(const struct integer_block *block, const int bits, const bool small_l1) {
  if (block->n_rows <= MAX_ROWS) {
    all_rows(block, bits, small_l1 ? 0 : VECTORS, false);
  } else if (block->n_rows <= (small_l1 ? HALF_LINE_ROWS : STREAM_ROWS)) {
    all_rows(block, bits, VECTORS / 2, false);
  } else {
    all_rows(block, bits, small_l1 ? 1 : 0, !small_l1);
  }
}

#define BLOCKS(name, bits)                                                                         \
  static void block_##name(const struct integer_block *block) { all_rows_of(block, bits, false); } \
  static void block_##name##_small_l1(const struct integer_block *block) { all_rows_of(block, bits, true); }
BLOCKS(s8, 8)
BLOCKS(u6, 6)
BLOCKS(u4, 4)

/* ---- few rows over a whole panel ------------------------------------------------------------- */

/* Functions of their own, so that each has the registers to itself. */
#define STREAM(name, bits, asks, n)                                                                      \
  static __attribute__((noinline)) void name##_##n(const struct ommai_integer_panel *panel,              \
                                                   const struct ommai_integer_rows *rows, float *sums) { \
    stream(panel, 1, asks, rows, bits, n, sums);                                                         \
  }
#define STREAMS(name, bits, asks) \
  STREAM(name, bits, asks, 1)     \
  STREAM(name, bits, asks, 2)     \
  STREAM(name, bits, asks, 3)     \
  static const ommai_integer_kernel name[HELD_ROWS] = {name##_1, name##_2, name##_3}
STREAMS(stream_s8, 8, ASKS_NEAR);
STREAMS(stream_u6, 6, ASKS_NEAR);
STREAMS(stream_u4, 4, ASKS_NEAR);
/* Where hardware prefetchers do better alone they are left alone; weights that take long to unpack
 * come too late then. */
STREAMS(stream_s8_small_l1, 8, ASKS_NOTHING);
STREAMS(stream_u6_small_l1, 6, ASKS_FAR);
STREAMS(stream_u4_small_l1, 4, ASKS_NOTHING);
STREAMS(stream_u4_far, 4, ASKS_FAR);

/* ---- */

static bool is_few(const struct ommai_integer_panel *panel, const struct ommai_integer_rows *rows) {
  return rows->n_rows <= HELD_ROWS && !panel->weight_sums;
}

/* Whether weights and scales take long to unpack, so that few rows at a time do better. */
static bool is_streamed(const struct ommai_integer_panel *panel, const struct ommai_integer_rows *rows, const int bits) {
  const bool slow = bits == 6 || (bits == 4 && panel->has_minimums);
  return is_few(panel, rows) || (slow && panel->n_groups > 1 && rows->n_rows <= STREAMED_ROWS);
}

static bool has_many_groups(const struct ommai_integer_panel *panel, const struct ommai_integer_rows *rows) {
  return panel->n_groups > 1 && rows->n_rows > MAX_ROWS;
}

static int64_t block_k_small_l1(const struct ommai_integer_rows *rows) {
  return rows->n_rows <= STREAM_ROWS ? BLOCK_K : BLOCK_K_IN_L2;
}

/* By streams, of which those after the first find the panel in the second level of cache. */
static void run_streams(const ommai_integer_kernel *streams, const struct ommai_integer_panel *panel,
                        const struct ommai_integer_rows *rows, float *sums) {
  for (int64_t row = 0, n; row < rows->n_rows; row += n) {
    struct ommai_integer_rows some = *rows;
    n = some.n_rows = ommai_next_rows(rows->n_rows - row, HELD_ROWS);
    some.x += row * rows->stride;
    some.sums += row * panel->n_groups;
    streams[n - 1](panel, &some, sums + row * PANEL);
  }
}

#define RUNS(name, bits, few)                                                                                           \
  static void run_##name(const struct ommai_integer_panel *panel, const struct ommai_integer_rows *rows, float *sums) { \
    if (is_few(panel, rows)) {                                                                                          \
      stream_##name[rows->n_rows - 1](panel, rows, sums);                                                               \
    } else {                                                                                                            \
      integer_for_each_block(panel, rows, bits, MAX_ROWS, BLOCK_K, sums, block_##name);                                 \
    }                                                                                                                   \
  }                                                                                                                     \
  static void run_##name##_small_l1(const struct ommai_integer_panel *panel, const struct ommai_integer_rows *rows,     \
                                    float *sums) {                                                                      \
    if (is_streamed(panel, rows, bits)) {                                                                               \
      run_streams(few, panel, rows, sums);                                                                              \
    } else if (has_many_groups(panel, rows)) {                                                                          \
      groups_run(panel, rows, bits, sums);                                                                              \
    } else {                                                                                                            \
      integer_for_each_block(panel, rows, bits, MAX_ROWS, block_k_small_l1(rows), sums, block_##name##_small_l1);       \
    }                                                                                                                   \
  }
RUNS(s8, 8, stream_s8_small_l1)
RUNS(u6, 6, stream_u6_small_l1)
RUNS(u4, 4, (panel->has_minimums && rows->n_rows > 1 ? stream_u4_far : stream_u4_small_l1))

static const struct ommai_integer_kernels small_l1 = {.level = OMMAI_CPU_AVX512,
                                                      .uses_vnni = true,
                                                      .s8 = run_s8_small_l1,
                                                      .u4 = run_u4_small_l1,
                                                      .u6 = run_u6_small_l1,
                                                      .rows_together = ROWS_IN_L1};

const struct ommai_integer_kernels ommai_integer_avx512_vnni = {
    .level = OMMAI_CPU_AVX512, .uses_vnni = true, .s8 = run_s8, .u4 = run_u4, .u6 = run_u6, .small_l1 = &small_l1};
