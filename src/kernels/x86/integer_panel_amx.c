/* Integer weights by AMX: 32 rows by 32 outputs in four tiles of sums. Packed int8 weights are what
 * the products want as they lie: a line of a panel is four inputs of 64 outputs. int4 weights are
 * unpacked to that form, a block at a time, once for all rows. Sums of a group are exact, so the
 * results are those of every other level, and few rows, which wait for memory, go to VPDPBUSD.
 *
 * Where groups are one product or a part of one, 14 rows by 32 outputs in two tiles: each group's
 * sums pass through memory to be scaled, and the sums over groups stay in registers. */
#include <immintrin.h>
#include <string.h>

#include "kernels/integer_panel_blocks.h"
#include "kernels/x86/tiles_amx.h"

#define INLINE static inline __attribute__((always_inline))

enum {
  PANEL = OMMAI_PANEL_COLUMNS,
  LANES = 16,
  GROUP = 32, /* rows, and outputs, that four tiles of sums take */
  VECTORS = GROUP / LANES,
  MAX_STEP = 64, /* inputs of a product */
  BLOCK_K = 256,
  SMALL_ROWS = 14,        /* whose sums over groups registers hold, by 32 outputs */
  LINE_BYTES = 4 * PANEL, /* of four inputs */
  GEMV_ROWS = 16
};

/* Inputs of a product: as many as a tile's row holds and a group consists of. */
static int64_t step_of(const struct ommai_integer_panel *panel) {
  int64_t step = MAX_STEP;
  while (panel->n_groups > 1 && panel->group % step != 0) step /= 2;
  return step;
}

/* Sums are tiles 0 .. 3, rows 4 and 5, weights 6 and 7. */
INLINE void configure(int64_t n_rows, int64_t step) {
  struct ommai_tile_config config = {.palette = 1};
  int first = (int)ommai_min_i64(n_rows, OMMAI_TILE_ROWS), second = (int)n_rows - first;
  for (int tile = 0; tile < 4; tile++) ommai_tile_shape(&config, tile, tile < 2 ? first : second, OMMAI_TILE_BYTES);
  ommai_tile_shape(&config, 4, first, (int)step);
  ommai_tile_shape(&config, 5, second, (int)step);
  ommai_tile_shape(&config, 6, (int)step / 4, OMMAI_TILE_BYTES);
  ommai_tile_shape(&config, 7, (int)step / 4, OMMAI_TILE_BYTES);
  ommai_tiles_configure(&config);
}

/* two: there are rows for the second half of the tiles. */
INLINE void multiply_step(const int8_t *weights, const int8_t *x, int64_t stride, const bool two) {
  ommai_tile_load(4, x, stride);
  ommai_tile_load(6, weights, LINE_BYTES);
  ommai_tile_multiply_s8(0, 4, 6);
  ommai_tile_load(7, weights + 4 * LANES, LINE_BYTES);
  ommai_tile_multiply_s8(1, 4, 7);
  if (!two) return;
  ommai_tile_load(5, x + OMMAI_TILE_ROWS * stride, stride);
  ommai_tile_multiply_s8(2, 5, 6);
  ommai_tile_multiply_s8(3, 5, 7);
}

INLINE void begin_sums(const void *sums, const bool begins, const bool two) {
  const int64_t stride = PANEL * (int64_t)sizeof(int32_t);
  if (begins) {
    ommai_tile_zero(0);
    ommai_tile_zero(1);
    if (!two) return;
    ommai_tile_zero(2);
    ommai_tile_zero(3);
    return;
  }
  const char *second = (const char *)sums + OMMAI_TILE_ROWS * stride;
  ommai_tile_load(0, sums, stride);
  ommai_tile_load(1, (const char *)sums + OMMAI_TILE_BYTES, stride);
  if (!two) return;
  ommai_tile_load(2, second, stride);
  ommai_tile_load(3, second + OMMAI_TILE_BYTES, stride);
}

INLINE void end_sums(void *sums, int64_t stride, const bool two) {
  char *second = (char *)sums + OMMAI_TILE_ROWS * stride;
  ommai_tile_store(0, sums, stride);
  ommai_tile_store(1, (char *)sums + OMMAI_TILE_BYTES, stride);
  if (!two) return;
  ommai_tile_store(2, second, stride);
  ommai_tile_store(3, second + OMMAI_TILE_BYTES, stride);
}

/* Sums of a group, 32 outputs of the rows, less what zero points take off, to sums over groups. */
INLINE void finish_rows(const struct integer_block *block, const int32_t (*acc)[GROUP], int column, const bool minimums,
                        const bool zeros) {
  const struct ommai_integer_panel *panel = block->panel;
  const int64_t n_rows = block->n_rows, n_groups = panel->n_groups;
  const int zero = panel->zero;
  const bool first_group = block->first_group;
  __m512 scale[VECTORS], minimum[VECTORS];
  __m512i weight_sums[VECTORS];
  for (int v = 0; v < VECTORS; v++) {
    int at = column + v * LANES;
    scale[v] = _mm512_loadu_ps(block->scales + at);
    if (minimums) minimum[v] = _mm512_loadu_ps(block->minimums + at);
    if (zeros) weight_sums[v] = _mm512_loadu_si512(panel->weight_sums + at);
  }
  for (int64_t row = 0; row < n_rows; row++) {
    int32_t x_sum = block->x_sums[row * n_groups];
    const __m512i taken_off = _mm512_set1_epi32(zero * x_sum);
    float *sums = block->sums + row * PANEL + column;
#pragma GCC unroll 2
    for (int v = 0; v < VECTORS; v++) {
      __m512i exact = _mm512_sub_epi32(_mm512_load_si512(acc[row] + v * LANES), taken_off);
      if (zeros) exact = _mm512_sub_epi32(exact, _mm512_mullo_epi32(_mm512_set1_epi32(block->zeros[row]), weight_sums[v]));
      __m512 before = first_group ? _mm512_setzero_ps() : _mm512_loadu_ps(sums + v * LANES);
      __m512 sum = _mm512_fmadd_ps(_mm512_cvtepi32_ps(exact), scale[v], before);
      if (minimums) sum = _mm512_fnmadd_ps(minimum[v], _mm512_cvtepi32_ps(_mm512_set1_epi32(x_sum)), sum);
      _mm512_storeu_ps(sums + v * LANES, sum);
    }
  }
}

INLINE void finish(const struct integer_block *block, const int32_t (*acc)[GROUP], int column) {
  bool minimums = block->minimums != NULL, zeros = block->panel->weight_sums != NULL;
  if (minimums && zeros) {
    finish_rows(block, acc, column, true, true);
  } else if (minimums) {
    finish_rows(block, acc, column, true, false);
  } else if (zeros) {
    finish_rows(block, acc, column, false, true);
  } else {
    finish_rows(block, acc, column, false, false);
  }
}

/* 32 outputs of up to 32 rows; the block's rows are those. */
INLINE void half_panel(const struct integer_block *block, const int8_t *weights, int64_t step, int column, const bool two) {
  _Alignas(64) int32_t acc[GROUP][GROUP];
  float *sums = block->sums + column;
  begin_sums(sums, block->begins, two);
  for (int64_t k = 0; k < block->n_k; k += step) {
    multiply_step(weights + k * PANEL + 4 * column, block->x + k, block->stride, two);
  }
  if (!block->ends) {
    end_sums(sums, PANEL * (int64_t)sizeof *sums, two);
    return;
  }
  end_sums(acc, sizeof *acc, two);
  finish(block, (const int32_t(*)[GROUP])acc, column);
}

/* All rows over a block of int8 weights. */
INLINE void all_rows(const struct integer_block *block, const int8_t *weights, int element_bits) {
  struct integer_coming coming = integer_coming(block, element_bits, GROUP);
  int64_t step = step_of(block->panel), configured = 0;
  for (int64_t row = 0; row < block->n_rows; row += GROUP) {
    int64_t n_rows = ommai_min_i64(GROUP, block->n_rows - row);
    const struct integer_block some = integer_block_rows(block, row, n_rows);
    integer_prefetch(&coming);
    if (n_rows != configured) configure(configured = n_rows, step);
    for (int column = 0; column < PANEL; column += GROUP) {
      if (n_rows > OMMAI_TILE_ROWS) {
        half_panel(&some, weights, step, column, true);
      } else {
        half_panel(&some, weights, step, column, false);
      }
    }
  }
}

static void block_s8(const struct integer_block *block) { all_rows(block, (const int8_t *)block->weights, 8); }

/* n_k inputs of a panel of int4 weights, a multiple of 8, as lines of int8, less `zero`. A line of
 * packed weights has the low halves of its bytes for four inputs, the high ones for the four
 * after. */
INLINE void unpack(const uint8_t *packed, int64_t n_k, int zero, int8_t *weights) {
  const __m512i low = _mm512_set1_epi8(15), less = _mm512_set1_epi8((char)zero);
  for (int64_t at = 0; at < n_k * PANEL / 2; at += OMMAI_TILE_BYTES) {
    __m512i pairs = _mm512_loadu_si512(packed + at);
    int8_t *to = weights + at / LINE_BYTES * (2 * LINE_BYTES) + at % LINE_BYTES;
    _mm512_store_si512(to, _mm512_sub_epi8(_mm512_and_si512(pairs, low), less));
    _mm512_store_si512(to + LINE_BYTES, _mm512_sub_epi8(_mm512_and_si512(_mm512_srli_epi16(pairs, 4), low), less));
  }
}

static void block_u4(const struct integer_block *block) {
  _Alignas(64) int8_t weights[OMMAI_INTEGER_MAX_GROUP * PANEL];
  unpack((const uint8_t *)block->weights, block->n_k, 0, weights);
  all_rows(block, weights, 4);
}

/* ---- small groups ---------------------------------------------------------------------------- */

/* Groups of one product, or of parts of one. */
static bool has_small_groups(const struct ommai_integer_panel *panel) {
  return panel->n_groups > 1 && (panel->group == MAX_STEP || panel->group % MAX_STEP != 0);
}

/* Some groups of a panel, and rows. */
struct group_block {
  const struct ommai_integer_panel *panel;
  const int8_t *weights; /* of the first group on, less the panel's zero */
  const int8_t *x;       /* likewise, of the first row */
  int64_t stride, n_k, step;
  const float *scales; /* [groups][64], or with minimums [groups][2][64] */
  bool has_minimums;
  const int32_t *x_sums;
  bool first; /* of the panel's */
  float *sums;
};

/* 32 outputs of a group in tiles 0 and 1 or 2 and 3, so that one pair is multiplied while the other
 * goes through memory. Rows are tile 4, weights 6 and 7. */
INLINE void multiply_group(const struct group_block *block, const int8_t *weights, int64_t k, int64_t end, const int pair,
                           int32_t (*acc)[OMMAI_TILE_ROWS][LANES]) {
  if (pair == 0) {
    ommai_tile_zero(0);
    ommai_tile_zero(1);
  } else {
    ommai_tile_zero(2);
    ommai_tile_zero(3);
  }
  for (; k < end; k += block->step) {
    ommai_tile_load(4, block->x + k, block->stride);
    ommai_tile_load(6, weights + k * PANEL, LINE_BYTES);
    ommai_tile_load(7, weights + k * PANEL + 4 * LANES, LINE_BYTES);
    if (pair == 0) {
      ommai_tile_multiply_s8(0, 4, 6);
      ommai_tile_multiply_s8(1, 4, 7);
    } else {
      ommai_tile_multiply_s8(2, 4, 6);
      ommai_tile_multiply_s8(3, 4, 7);
    }
  }
  if (pair == 0) {
    ommai_tile_store(0, acc[0], OMMAI_TILE_BYTES);
    ommai_tile_store(1, acc[1], OMMAI_TILE_BYTES);
  } else {
    ommai_tile_store(2, acc[0], OMMAI_TILE_BYTES);
    ommai_tile_store(3, acc[1], OMMAI_TILE_BYTES);
  }
}

INLINE void scale_group(const struct group_block *block, int64_t group, int column, int n_rows, const bool minimums,
                        int32_t (*acc)[OMMAI_TILE_ROWS][LANES], __m512 (*sums)[VECTORS]) {
  const int64_t at = group * block->panel->scale_stride + column;
  const __m512 scale[VECTORS] = {_mm512_loadu_ps(block->scales + at), _mm512_loadu_ps(block->scales + at + LANES)};
#pragma GCC unroll 14
  for (int row = 0; row < SMALL_ROWS; row++) {
    int last = row < n_rows ? row : n_rows - 1;
#pragma GCC unroll 2
    for (int v = 0; v < VECTORS; v++) {
      sums[row][v] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(_mm512_load_si512(acc[v][row])), scale[v], sums[row][v]);
      if (!minimums) continue;
      __m512 x_sum = _mm512_cvtepi32_ps(_mm512_set1_epi32(block->x_sums[last * block->panel->n_groups + group]));
      sums[row][v] = _mm512_fnmadd_ps(_mm512_loadu_ps(block->scales + at + PANEL + v * LANES), x_sum, sums[row][v]);
    }
  }
}

/* 32 outputs of n_rows rows, `whole`: of SMALL_ROWS; else rows of zeros make up for those that are
 * missing. */
INLINE void small_groups(const struct group_block *block, int column, int n_rows, const bool whole, const bool minimums) {
  _Alignas(64) int32_t acc[2][VECTORS][OMMAI_TILE_ROWS][LANES];
  __m512 sums[SMALL_ROWS][VECTORS];
  const int8_t *weights = block->weights + 4 * column;
  const int64_t size = block->panel->group;
  if (whole) {
    n_rows = SMALL_ROWS;
  } else {
    memset(acc, 0, sizeof acc);
  }
#pragma GCC unroll 14
  for (int row = 0; row < SMALL_ROWS; row++) {
#pragma GCC unroll 2
    for (int v = 0; v < VECTORS; v++) {
      const float *at = block->sums + row * PANEL + column + v * LANES;
      sums[row][v] = block->first || row >= n_rows ? _mm512_setzero_ps() : _mm512_loadu_ps(at);
    }
  }
  int64_t group = 0, k = 0;
  for (; k + size < block->n_k; k += 2 * size, group += 2) {
    multiply_group(block, weights, k, k + size, 0, acc[0]);
    multiply_group(block, weights, k + size, ommai_min_i64(k + 2 * size, block->n_k), 1, acc[1]);
    scale_group(block, group, column, n_rows, minimums, acc[0], sums);
    scale_group(block, group + 1, column, n_rows, minimums, acc[1], sums);
  }
  if (k < block->n_k) {
    multiply_group(block, weights, k, block->n_k, 0, acc[0]);
    scale_group(block, group, column, n_rows, minimums, acc[0], sums);
  }
#pragma GCC unroll 14
  for (int row = 0; row < SMALL_ROWS; row++) {
#pragma GCC unroll 2
    for (int v = 0; v < VECTORS; v++) {
      if (row < n_rows) _mm512_storeu_ps(block->sums + row * PANEL + column + v * LANES, sums[row][v]);
    }
  }
}

static void configure_small(int64_t n_rows, int64_t step) {
  struct ommai_tile_config config = {.palette = 1};
  for (int tile = 0; tile < 4; tile++) ommai_tile_shape(&config, tile, (int)n_rows, OMMAI_TILE_BYTES);
  ommai_tile_shape(&config, 4, (int)n_rows, (int)step);
  ommai_tile_shape(&config, 6, (int)step / 4, OMMAI_TILE_BYTES);
  ommai_tile_shape(&config, 7, (int)step / 4, OMMAI_TILE_BYTES);
  ommai_tiles_configure(&config);
}

/* All rows over some groups. */
static void all_rows_of_groups(const struct group_block *block, int64_t n_rows) {
  const bool minimums = block->has_minimums;
  int64_t configured = 0, n;
  for (int64_t row = 0; row < n_rows; row += n) {
    struct group_block some = *block;
    n = ommai_min_i64(SMALL_ROWS, n_rows - row);
    some.x += row * block->stride;
    some.x_sums += row * block->panel->n_groups;
    some.sums += row * PANEL;
    if (n != configured) configure_small(configured = n, block->step);
    for (int column = 0; column < PANEL; column += GROUP) {
      if (minimums && n == SMALL_ROWS) {
        small_groups(&some, column, SMALL_ROWS, true, true);
      } else if (minimums) {
        small_groups(&some, column, (int)n, false, true);
      } else if (n == SMALL_ROWS) {
        small_groups(&some, column, SMALL_ROWS, true, false);
      } else {
        small_groups(&some, column, (int)n, false, false);
      }
    }
  }
}

static void run_small_groups(const struct ommai_integer_panel *panel, const struct ommai_integer_rows *rows, int bits,
                             float *sums) {
  _Alignas(64) int8_t weights[BLOCK_K * PANEL];
  float scales[BLOCK_K / OMMAI_INTEGER_GROUP_STEP * 2 * PANEL];
  const int64_t n = ommai_max_i64(BLOCK_K / panel->group, 1);
  for (int64_t g = 0; g < panel->n_groups; g += n) {
    const int64_t last = ommai_min_i64(g + n, panel->n_groups) - 1;
    int64_t begin = g * panel->group, end = ommai_integer_group_end(panel, last);
    const uint8_t *packed = (const uint8_t *)panel->weights + begin * PANEL * bits / 8;
    const struct group_block block = {.panel = panel,
                                      .weights = bits == 4 ? weights : (const int8_t *)packed,
                                      .x = rows->x + begin,
                                      .stride = rows->stride,
                                      .n_k = end - begin,
                                      .step = step_of(panel),
                                      .scales = integer_scales_of_groups(panel, g, last + 1, scales),
                                      .has_minimums = panel->has_minimums,
                                      .x_sums = rows->sums + g,
                                      .first = g == 0,
                                      .sums = sums};
    if (bits == 4) unpack(packed, block.n_k, panel->zero, weights);
    all_rows_of_groups(&block, rows->n_rows);
  }
  ommai_tiles_release();
}

/* ---- panels ---------------------------------------------------------------------------------- */

static void run_s8(const struct ommai_integer_panel *panel, const struct ommai_integer_rows *rows, float *sums) {
  if (rows->n_rows <= GEMV_ROWS) {
    ommai_integer_avx512_vnni.s8(panel, rows, sums);
    return;
  }
  if (has_small_groups(panel)) {
    run_small_groups(panel, rows, 8, sums);
    return;
  }
  integer_for_each_block(panel, rows, 8, 0, BLOCK_K, sums, block_s8);
  ommai_tiles_release();
}

static void run_u4(const struct ommai_integer_panel *panel, const struct ommai_integer_rows *rows, float *sums) {
  if (rows->n_rows <= GEMV_ROWS) {
    ommai_integer_avx512_vnni.u4(panel, rows, sums);
    return;
  }
  if (has_small_groups(panel)) {
    run_small_groups(panel, rows, 4, sums);
    return;
  }
  integer_for_each_block(panel, rows, 4, 0, BLOCK_K, sums, block_u4);
  ommai_tiles_release();
}

const struct ommai_integer_kernels ommai_integer_amx = {
    .level = OMMAI_CPU_AMX, .s8 = run_s8, .u4 = run_u4, .row_s8 = ommai_integer_row_s8_amx, .row_u4 = ommai_integer_row_u4_amx};
