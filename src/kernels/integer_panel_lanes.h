/* The integer kernels without VNNI, for any vector width. The including file includes one of
 * integer_lanes_*.h before and defines SUM_VECTORS, the vectors of 32-bit sums that fit its
 * registers besides the rest: 8 or 24.
 *
 * int4: weights as unsigned bytes times inputs as signed ones, added up in 16 bits that wrap, for
 * CHUNK_K inputs at a time. The sums begin with what makes signed weights of them, w - 8, so that
 * each half of a lane ends within 16 bits: CHUNK_K / 2 x 8 x 127 < 2^15. Of SMALL_K inputs the
 * products fit as they are, SMALL_K / 2 x 15 x 127 < 2^15, which serves weights without a zero. */
#pragma once

#include "kernels/x86/integer_s8_lanes.h"

enum {
  TILE_FROM_ROWS = 17, /* where copying int8 weights pays */
  STREAM_ROWS = 16,    /* up to which weights are read as they come from memory */
  CHUNK_K = 64,        /* inputs whose products of 4 by 8 bits fit 16 bits together */
  SMALL_K = 32
};

/* ---- int4 ------------------------------------------------------------------------------------ */

/* halves += the products of each line's weights with the rows' inputs, those at x and eight further
 * for each next line. */
OMMAI_INLINE void add_lines_u4(const uint8_t *line, int64_t n_lines, const int8_t *x, int64_t stride,
                               struct integer_coming *stream, const int n_rows, const int n_vectors,
                               ivec (*halves)[PANEL_VECTORS]) {
  const int n_loops = PANEL_VECTORS / n_vectors;
  for (const uint8_t *end = line + n_lines * LINE; line != end; line += LINE, x += 8) {
    if (stream) integer_stream_line(stream, n_loops < 4 ? 4 / n_loops : 1, true);
#pragma GCC unroll 2
    for (int high = 0; high < 2; high++) {
      ivec q[PANEL_VECTORS];
      const uint8_t *from = line;
      /* loaded twice: kept, weights would take registers of sums */
      __asm__ volatile("" : "+r"(from));
#pragma GCC unroll 8
      for (int v = 0; v < n_vectors; v++) {
        ivec w = ivec_load(from + v * VECTOR);
        q[v] = ivec_and(high ? ivec_down(w, 4) : w, ivec_set1(0x0f0f0f0f));
      }
#pragma GCC unroll 8
      for (int row = 0; row < n_rows; row++) {
        ivec inputs = ivec_broadcast4(x + row * stride + 4 * high);
#pragma GCC unroll 8
        for (int v = 0; v < n_vectors; v++) ivec_add_halves_to(&halves[row][v], ivec_byte_products(q[v], inputs));
      }
    }
  }
}

/* For each chunk of a block and each row: -8 times the sum of the chunk's inputs, those that go to
 * the lower half of a lane (the first two of every four) and those of the upper one. */
struct chunk_starts {
  _Alignas(16) int16_t of[OMMAI_INTEGER_MAX_GROUP / CHUNK_K][MAX_ROWS][2];
};

/* Of 16-bit halves, in 32-bit lanes: sums of neighbours. */
OMMAI_INLINE __m128i add_neighbours(__m128i a, __m128i b) {
  return _mm_add_epi16(_mm_unpacklo_epi32(a, b), _mm_unpackhi_epi32(a, b));
}

OMMAI_INLINE void take_starts(const struct integer_block *block, const int n_rows, struct chunk_starts *starts) {
  for (int64_t k = 0; k < block->n_k; k += CHUNK_K) {
    const int8_t *x = block->x + k;
    int64_t n_k = ommai_min_i64(CHUNK_K, block->n_k - k);
    __m128i sums[MAX_ROWS];
#pragma GCC unroll 4
    for (int row = 0; row < MAX_ROWS; row++) {
      sums[row] = _mm_setzero_si128();
      for (int64_t i = 0; row < n_rows && i < n_k; i += OMMAI_INTEGER_GROUP_STEP) {
        __m128i inputs = _mm_loadu_si128((const void *)(x + row * block->stride + i));
        sums[row] = _mm_add_epi16(sums[row], _mm_maddubs_epi16(_mm_set1_epi8(1), inputs));
      }
    }
    __m128i all = add_neighbours(add_neighbours(sums[0], sums[2]), add_neighbours(sums[1], sums[3]));
    _mm_store_si128((void *)starts->of[k / CHUNK_K], _mm_mullo_epi16(all, _mm_set1_epi16(-8)));
  }
}

/* acc = the products of the chunk at k with weights less 8; starts NULL: with weights. */
OMMAI_INLINE void chunk_u4(const struct integer_block *block, const struct chunk_starts *starts, int column, int64_t k,
                           struct integer_coming *stream, const int n_rows, const int n_vectors, ivec (*acc)[PANEL_VECTORS]) {
  const uint8_t *line = block->weights + k / 2 * PANEL + 4 * column;
  int64_t n_lines = ommai_min_i64(CHUNK_K, block->n_k - k) / 8;
#pragma GCC unroll 8
  for (int row = 0; row < n_rows; row++) {
#pragma GCC unroll 8
    for (int v = 0; v < n_vectors; v++) acc[row][v] = starts ? ivec_broadcast4(starts->of[k / CHUNK_K][row]) : ivec_zero();
  }
  add_lines_u4(line, n_lines, block->x + k, block->stride, stream, n_rows, n_vectors, acc);
#pragma GCC unroll 8
  for (int row = 0; row < n_rows; row++) {
#pragma GCC unroll 8
    for (int v = 0; v < n_vectors; v++) acc[row][v] = ivec_products(acc[row][v], ivec_set1(0x00010001));
  }
}

OMMAI_INLINE void add_all(ivec (*acc)[PANEL_VECTORS], ivec (*more)[PANEL_VECTORS], const int n_rows, const int n_vectors) {
#pragma GCC unroll 8
  for (int row = 0; row < n_rows; row++) {
#pragma GCC unroll 8
    for (int v = 0; v < n_vectors; v++) acc[row][v] = ivec_add(acc[row][v], more[row][v]);
  }
}

/* What is known of a block of int4 weights: nothing; that it is one chunk, of weights with a zero
 * of 8; that it is a whole group of SMALL_K inputs at most, of weights without a zero. */
enum kind_u4 { ANY_U4, CHUNK_U4, SMALL_U4 };

OMMAI_INLINE void columns_u4(const struct integer_block *block, const struct chunk_starts *starts, int column,
                             struct integer_coming *stream, const enum kind_u4 kind, const int n_rows, const int n_vectors) {
  const bool is_plain = kind != ANY_U4;
  ivec acc[MAX_ROWS][PANEL_VECTORS], more[MAX_ROWS][PANEL_VECTORS];
  chunk_u4(block, starts, column, 0, stream, n_rows, n_vectors, acc);
  for (int64_t k = CHUNK_K; !is_plain && k < block->n_k; k += CHUNK_K) {
    chunk_u4(block, starts, column, k, stream, n_rows, n_vectors, more);
    add_all(acc, more, n_rows, n_vectors);
  }
  if (!is_plain && (!block->begins || block->panel->zero != 8)) {
    start(block, column, -8, n_rows, n_vectors, more);
    add_all(acc, more, n_rows, n_vectors);
  }
  finish(block, column, n_rows, n_vectors, acc);
}

OMMAI_INLINE void rows_u4(const struct integer_block *block, struct integer_coming *stream, int64_t n_parts,
                          const enum kind_u4 kind, const int n_rows) {
  const int fit = SUM_VECTORS / n_rows, n_vectors = fit >= 4 ? 4 : fit >= 2 ? 2 : 1;
  struct chunk_starts starts;
  if (kind != SMALL_U4) take_starts(block, n_rows, &starts);
  if (stream) stream->bytes = LINE / (n_parts * PANEL_VECTORS / n_vectors);
  for (int v = 0; v < PANEL_VECTORS; v += n_vectors) {
    columns_u4(block, kind == SMALL_U4 ? NULL : &starts, v * LANES, stream, kind, n_rows, n_vectors);
  }
}

OMMAI_INLINE void all_rows_u4(const struct integer_block *block, const bool is_stream, const enum kind_u4 kind) {
  const int64_t n_parts = ommai_div_up(block->n_rows, MAX_ROWS);
  struct integer_coming coming = is_stream ? integer_stream(block) : integer_coming(block, 4, MAX_ROWS);
  struct integer_coming *stream = is_stream ? &coming : NULL;
  if (block->panel->n_groups > 1) integer_prefetch_scales(block);
  for (int64_t row = 0, n; row < block->n_rows; row += n) {
    n = ommai_next_rows(block->n_rows - row, MAX_ROWS);
    const struct integer_block some = integer_block_rows(block, row, n);
    if (!is_stream) integer_prefetch(&coming);
    switch (n) {
      case 1: rows_u4(&some, stream, n_parts, kind, 1); break;
      case 2: rows_u4(&some, stream, n_parts, kind, 2); break;
      case 3: rows_u4(&some, stream, n_parts, kind, 3); break;
      default: rows_u4(&some, stream, n_parts, kind, 4); break;
    }
  }
}

static bool is_small_u4(const struct ommai_integer_panel *panel) { return panel->group <= SMALL_K && panel->zero == 0; }

static void block_u4(const struct integer_block *block) {
  const bool is_stream = block->n_rows <= STREAM_ROWS;
  if (is_small_u4(block->panel)) {
    if (is_stream) {
      all_rows_u4(block, true, SMALL_U4);
    } else {
      all_rows_u4(block, false, SMALL_U4);
    }
  } else if (is_stream) {
    all_rows_u4(block, true, ANY_U4);
  } else {
    all_rows_u4(block, false, ANY_U4);
  }
}

/* ---- panels ---------------------------------------------------------------------------------- */

static void run_s8(const struct ommai_integer_panel *panel, const struct ommai_integer_rows *rows, float *sums) {
  if (rows->n_rows < TILE_FROM_ROWS) {
    integer_for_each_block(panel, rows, 8, 0, INTEGER_STREAM_K, sums, rows->n_rows <= MAX_ROWS ? gemv_s8 : some_rows_s8);
  } else {
    integer_for_each_block(panel, rows, 8, 0, BLOCK_K, sums, tile_s8);
  }
}

/* A few rows over groups: all that differs between blocks is known, and nothing stands between
 * them. */
OMMAI_INLINE void few_u4(const struct ommai_integer_panel *panel, const struct ommai_integer_rows *rows,
                         const enum kind_u4 kind, const int n_rows, float *sums) {
  float expanded[2 * PANEL];
  memset(sums, 0, (size_t)n_rows * PANEL * sizeof *sums);
  for (int64_t g = 0; g < panel->n_groups; g++) {
    int64_t k = g * panel->group;
    const float *scales = integer_group_scales(panel, g, expanded);
    const struct integer_block block = {
        .panel = panel,
        .weights = (const uint8_t *)panel->weights + k / 2 * PANEL,
        .x = rows->x + k,
        .stride = rows->stride,
        .n_k = ommai_integer_group_end(panel, g) - k,
        .group = g,
        .scales = scales,
        .minimums = kind == CHUNK_U4 || !panel->has_minimums ? NULL : scales + PANEL,
        .x_sums = rows->sums + g,
        .begins = true,
        .ends = true,
        .sums = sums,
    };
    struct integer_coming stream = integer_stream(&block);
    integer_prefetch_scales(&block);
    rows_u4(&block, &stream, 1, kind, n_rows);
  }
}

/* Functions of their own, so that each has the registers to itself. */
#define FEW_U4(kind, n)                                                                                        \
  static __attribute__((noinline)) void few_##kind##_##n(const struct ommai_integer_panel *panel,              \
                                                         const struct ommai_integer_rows *rows, float *sums) { \
    few_u4(panel, rows, kind, n, sums);                                                                        \
  }
#define FEW(kind) FEW_U4(kind, 1) FEW_U4(kind, 2) FEW_U4(kind, 3) FEW_U4(kind, 4)
FEW(ANY_U4)
FEW(CHUNK_U4)
FEW(SMALL_U4)

#define FEW_TABLE(kind) [kind] = {few_##kind##_1, few_##kind##_2, few_##kind##_3, few_##kind##_4}
static const ommai_integer_kernel gemv_u4[][MAX_ROWS] = {FEW_TABLE(ANY_U4), FEW_TABLE(CHUNK_U4), FEW_TABLE(SMALL_U4)};

static void run_u4(const struct ommai_integer_panel *panel, const struct ommai_integer_rows *rows, float *sums) {
  if (panel->n_groups > 1 && rows->n_rows <= MAX_ROWS) {
    const bool is_chunk = panel->group <= CHUNK_K && panel->zero == 8 && !panel->has_minimums;
    gemv_u4[is_chunk ? CHUNK_U4 : is_small_u4(panel) ? SMALL_U4 : ANY_U4][rows->n_rows - 1](panel, rows, sums);
    return;
  }
  integer_for_each_block(panel, rows, 4, 0, rows->n_rows <= STREAM_ROWS ? INTEGER_STREAM_K : BLOCK_K, sums, block_u4);
}
