/* int8 weights without VNNI, for any vector width: bytes times bytes, |x| times w with x's sign,
 * whose pairs of products fit 16 bits. Mostly two such pairs fit together, which are then widened
 * once: 7 instructions for 64 products, where products of weights widened before take 8.
 *
 * For negative x the weight's bits are turned over, which makes -w - 1 of it, for -128 too, and a
 * product that is too small by |x|: a row's sums begin higher by the magnitudes of its negative
 * inputs. The including file includes one of integer_lanes_*.h before. */
#pragma once

#include "kernels/integer_panel_sums.h"

enum {
  BLOCK_K = OMMAI_INTEGER_MAX_GROUP, /* of a longer group */
  /* bytes of four inputs' int8 weights, or of eight inputs' int4 ones */
  LINE = INTEGER_LINE,
  MAX_ROWS = 4, /* that go together */
  STEP_K = 8,   /* inputs: two lines */
  /* In tiles, and of more rows than that. Of 16 registers the sums and one row's inputs take
   * twelve: the more columns share these inputs, the fewer instructions, although each row loads
   * the weights again, by the instruction that uses them. */
  TILE_ROWS = SUM_VECTORS > 8 ? 4 : 2,
  TILE_VECTORS = SUM_VECTORS > 8 ? 2 : 4
};

/* ---- inputs ---------------------------------------------------------------------------------- */

/* Magnitudes, bytes with all bits set where an input is negative, and the sum of those inputs'
 * magnitudes. */
struct signed_rows {
  struct {
    uint8_t magnitudes[BLOCK_K], negative[BLOCK_K];
  } inputs[MAX_ROWS];
  int32_t taken[MAX_ROWS];
};

/* 32 inputs at k of a row, or 16 and zeros. */
OMMAI_INLINE __m256i inputs_at(const struct integer_block *block, int row, int64_t k) {
  const int8_t *x = block->x + row * block->stride + k;
  if (k + 32 <= block->n_k) return _mm256_loadu_si256((const void *)x);
  return _mm256_zextsi128_si256(_mm_loadu_si128((const void *)x));
}

OMMAI_INLINE int32_t sum_of_four(__m256i a) {
  __m128i two = _mm_add_epi64(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
  return _mm_cvtsi128_si32(_mm_add_epi64(two, _mm_unpackhi_epi64(two, two)));
}

/* Four inputs whose magnitudes are at most this in sum fit together with any weights, 128 * 255 <
 * 2^15. */
enum { MAX_INPUT_SUM = 255 };

/* Of four steps' magnitudes: in the lower half of each 64 bits the sums of the two fours of a
 * step. */
OMMAI_INLINE __m256i fours_of(__m256i magnitudes) {
  __m256i pairs = _mm256_maddubs_epi16(magnitudes, _mm256_set1_epi8(1));
  return _mm256_add_epi16(pairs, _mm256_srli_epi64(pairs, 32));
}

/* A bit for each of four steps. */
OMMAI_INLINE uint32_t large_steps(__m256i fours) {
  __m256i large = _mm256_cmpgt_epi16(fours, _mm256_set1_epi16(MAX_INPUT_SUM));
  large = _mm256_slli_epi64(_mm256_or_si256(large, _mm256_slli_epi32(large, 16)), 32);
  return (uint32_t)_mm256_movemask_pd(_mm256_castsi256_pd(large));
}

/* looks: a bit is returned for each step of inputs that are too large in some row to fit
 * together. */
OMMAI_INLINE uint32_t take_signs(const struct integer_block *block, struct signed_rows *rows, const bool looks,
                                 const int n_rows) {
  const __m256i zero = _mm256_setzero_si256();
  __m256i taken[MAX_ROWS];
  uint32_t large = 0;
#pragma GCC unroll 4
  for (int row = 0; row < n_rows; row++) taken[row] = zero;
  for (int64_t k = 0; k < block->n_k; k += 32) {
    __m256i most = zero;
#pragma GCC unroll 4
    for (int row = 0; row < n_rows; row++) {
      __m256i x = inputs_at(block, row, k), magnitudes = _mm256_abs_epi8(x), negative = _mm256_cmpgt_epi8(zero, x);
      _mm256_storeu_si256((void *)(rows->inputs[row].magnitudes + k), magnitudes);
      _mm256_storeu_si256((void *)(rows->inputs[row].negative + k), negative);
      taken[row] = _mm256_add_epi64(taken[row], _mm256_sad_epu8(_mm256_and_si256(magnitudes, negative), zero));
      if (looks) most = _mm256_max_epi16(most, fours_of(magnitudes));
    }
    if (looks) large |= large_steps(most) << (k / STEP_K);
  }
#pragma GCC unroll 4
  for (int row = 0; row < n_rows; row++) rows->taken[row] = sum_of_four(taken[row]);
  return large;
}

OMMAI_INLINE void start_signed(const struct integer_block *block, const struct signed_rows *rows, int column, const int n_rows,
                               const int n_vectors, ivec (*acc)[PANEL_VECTORS]) {
  start(block, column, 0, n_rows, n_vectors, acc);
#pragma GCC unroll 4
  for (int row = 0; row < n_rows; row++) {
#pragma GCC unroll 8
    for (int v = 0; v < n_vectors; v++) acc[row][v] = ivec_add(acc[row][v], ivec_set1(rows->taken[row]));
  }
}

/* A row's inputs of a step. */
struct signed_inputs {
  ivec first, next, first_negative, next_negative;
};

OMMAI_INLINE struct signed_inputs signed_inputs(const uint8_t *magnitudes) {
  const uint8_t *negative = magnitudes + BLOCK_K;
  return (struct signed_inputs){ivec_broadcast4(magnitudes), ivec_broadcast4(magnitudes + 4), ivec_broadcast4(negative),
                                ivec_broadcast4(negative + 4)};
}

/* Pairs of products, 16 bits each, too small by the magnitudes of negative inputs. */
OMMAI_INLINE ivec signed_products(ivec magnitudes, ivec negative, ivec w) {
  return ivec_byte_products(magnitudes, ivec_xor(w, negative));
}

OMMAI_INLINE ivec add_widened(ivec sum, ivec halves) { return ivec_add(sum, ivec_products(halves, ivec_set1(0x00010001))); }

/* sum += the products of a step's two lines. */
OMMAI_INLINE ivec add_signed(ivec sum, const struct signed_inputs *x, ivec line, ivec next, const bool large) {
  ivec halves = signed_products(x->first, x->first_negative, line);
  ivec more = signed_products(x->next, x->next_negative, next);
  if (large) return add_widened(add_widened(sum, more), halves);
  return add_widened(sum, ivec_add_halves(halves, more));
}

/* acc += the products of a step's two lines, the second `next` bytes after the first. */
OMMAI_INLINE void add_step(const struct signed_rows *rows, const void *weights, int64_t next, int64_t k, const bool large,
                           const int n_rows, const int n_vectors, ivec (*acc)[PANEL_VECTORS]) {
  const uint8_t *line = weights, *inputs = rows->inputs[0].magnitudes + k;
  __asm__("" : "+r"(inputs)); /* one address for all rows, not one for each */
#pragma GCC unroll 4
  for (int row = 0; row < n_rows; row++) {
    const struct signed_inputs x = signed_inputs(inputs + row * (int64_t)sizeof rows->inputs[0]);
    /* those of more than two vectors do not stay in registers from row to row */
    if (n_vectors > 2) __asm__ volatile("" : "+r"(line));
#pragma GCC unroll 8
    for (int v = 0; v < n_vectors; v++) {
      acc[row][v] = add_signed(acc[row][v], &x, ivec_load(line + v * VECTOR), ivec_load(line + next + v * VECTOR), large);
    }
  }
}

/* ---- tiles ----------------------------------------------------------------------------------- */

/* 128 (|w1| + |w2| + |w3| + |w4| + 4) < 2^15 for sums up to MAX_WEIGHT_SUM. Inputs of which some
 * output's four weights have more come last and are widened pair by pair, which takes 8
 * instructions too; sums are exact, so the order is free. */
enum {
  MAX_WEIGHT_SUM = 251,
  STRIP_COLUMNS = TILE_VECTORS * LANES,
  STRIPS = PANEL / STRIP_COLUMNS,
  STEP_VECTORS = 2 * TILE_VECTORS,
  MAX_STEPS = BLOCK_K / STEP_K
};

/* Weights of STRIP_COLUMNS outputs. */
struct signed_strip {
  /* a line of all vectors, and the next line */
  _Alignas(VECTOR) int8_t weights[MAX_STEPS][STEP_VECTORS][VECTOR];
  int16_t k[MAX_STEPS];
  int n_steps, n_small; /* those at first have sums up to MAX_WEIGHT_SUM */
};

/* Whether any four weights have a larger sum. */
OMMAI_INLINE bool is_large(ivec line, ivec next) {
  const ivec ones = ivec_set1(0x01010101);
  ivec sums = ivec_add_halves(ivec_byte_products(ivec_magnitudes(line), ones), ivec_byte_products(ivec_magnitudes(next), ones));
  return ivec_any_half_above(sums, MAX_WEIGHT_SUM);
}

static void copy_strip(const uint8_t *weights, int64_t n_k, struct signed_strip *strip) {
  int end = strip->n_steps = (int)(n_k / STEP_K);
  strip->n_small = 0;
  for (int64_t k = 0; k < n_k; k += STEP_K) {
    const uint8_t *line = weights + k * PANEL;
    ivec w[STEP_VECTORS];
    bool large = false;
#pragma GCC unroll 8
    for (int i = 0; i < STEP_VECTORS; i++) w[i] = ivec_load(line + i / TILE_VECTORS * LINE + i % TILE_VECTORS * VECTOR);
#pragma GCC unroll 4
    for (int v = 0; v < TILE_VECTORS; v++) large |= is_large(w[v], w[TILE_VECTORS + v]);
    int step = large ? --end : strip->n_small++;
    strip->k[step] = (int16_t)k;
#pragma GCC unroll 8
    for (int i = 0; i < STEP_VECTORS; i++) ivec_store(strip->weights[step][i], w[i]);
  }
}

OMMAI_INLINE void add_steps(const struct signed_strip *strip, const struct signed_rows *rows, int begin, int end,
                            const bool large, const int n_rows, ivec (*acc)[PANEL_VECTORS]) {
  for (int step = begin; step < end; step++) {
    add_step(rows, strip->weights[step], TILE_VECTORS * VECTOR, strip->k[step], large, n_rows, TILE_VECTORS, acc);
  }
}

OMMAI_INLINE void columns_of_strip(const struct integer_block *block, const struct signed_strip *strip,
                                   const struct signed_rows *rows, int column, const int n_rows) {
  ivec acc[TILE_ROWS][PANEL_VECTORS];
  start_signed(block, rows, column, n_rows, TILE_VECTORS, acc);
  add_steps(strip, rows, 0, strip->n_small, false, n_rows, acc);
  add_steps(strip, rows, strip->n_small, strip->n_steps, true, n_rows, acc);
  finish(block, column, n_rows, TILE_VECTORS, acc);
}

OMMAI_INLINE void rows_of_tile(const struct integer_block *block, const struct signed_strip *strips, const int n_rows) {
  struct signed_rows rows;
  take_signs(block, &rows, false, n_rows);
  for (int i = 0; i < STRIPS; i++) columns_of_strip(block, &strips[i], &rows, i * STRIP_COLUMNS, n_rows);
}

static void tile_s8(const struct integer_block *block) {
  struct signed_strip strips[STRIPS];
  struct integer_coming coming = integer_coming(block, 8, TILE_ROWS);
  for (int i = 0; i < STRIPS; i++) copy_strip(block->weights + i * TILE_VECTORS * VECTOR, block->n_k, &strips[i]);
  for (int64_t row = 0, n; row < block->n_rows; row += n) {
    n = ommai_next_rows(block->n_rows - row, TILE_ROWS);
    const struct integer_block some = integer_block_rows(block, row, n);
    integer_prefetch(&coming);
    switch (n) {
      case 1: rows_of_tile(&some, strips, 1); break;
#if SUM_VECTORS > 8
      case 2: rows_of_tile(&some, strips, 2); break;
      case 3: rows_of_tile(&some, strips, 3); break;
#endif
      default: rows_of_tile(&some, strips, TILE_ROWS); break;
    }
  }
}

/* ---- few rows -------------------------------------------------------------------------------- */

/* Weights are read once, from memory, so it is inputs that are looked at. */
struct gemv_rows {
  struct signed_rows rows;
  uint32_t large; /* a bit for each step of inputs that are too large in some row */
};

OMMAI_INLINE void columns_of_few(const struct integer_block *block, const struct gemv_rows *few, int column,
                                 struct integer_coming *stream, const int n_rows, const int n_vectors) {
  ivec acc[MAX_ROWS][PANEL_VECTORS];
  start_signed(block, &few->rows, column, n_rows, n_vectors, acc);
  for (int64_t k = 0; k < block->n_k; k += STEP_K) {
    const uint8_t *line = block->weights + k * PANEL + 4 * column;
#pragma GCC unroll 2
    for (int i = 0; i < STEP_K / 4; i++) integer_stream_line(stream, n_vectors * 4 / PANEL_VECTORS, true);
    if (few->large >> (k / STEP_K) & 1) {
      add_step(&few->rows, line, LINE, k, true, n_rows, n_vectors, acc);
    } else {
      add_step(&few->rows, line, LINE, k, false, n_rows, n_vectors, acc);
    }
  }
  finish(block, column, n_rows, n_vectors, acc);
}

/* n_parts groups of rows share what is to be asked for. */
OMMAI_INLINE void rows_s8(const struct integer_block *block, struct integer_coming *stream, int64_t n_parts, const int n_rows,
                          const int n_vectors) {
  struct gemv_rows few;
  few.large = take_signs(block, &few.rows, true, n_rows);
  stream->bytes = LINE / (n_parts * PANEL_VECTORS / n_vectors);
  for (int v = 0; v < PANEL_VECTORS; v += n_vectors) columns_of_few(block, &few, v * LANES, stream, n_rows, n_vectors);
}

/* At most MAX_ROWS. */
static void gemv_s8(const struct integer_block *block) {
  struct integer_coming stream = integer_stream(block);
  switch (block->n_rows) {
    case 1: rows_s8(block, &stream, 1, 1, PANEL_VECTORS); break;
    case 2: rows_s8(block, &stream, 1, 2, 2); break;
    case 3: rows_s8(block, &stream, 1, 3, 2); break;
    default: rows_s8(block, &stream, 1, 4, 2); break;
  }
}

/* More than those. */
static void some_rows_s8(const struct integer_block *block) {
  const int64_t n_parts = ommai_div_up(block->n_rows, TILE_ROWS);
  struct integer_coming stream = integer_stream(block);
  for (int64_t row = 0, n; row < block->n_rows; row += n) {
    n = ommai_next_rows(block->n_rows - row, TILE_ROWS);
    const struct integer_block some = integer_block_rows(block, row, n);
    switch (n) {
      case 1: rows_s8(&some, &stream, n_parts, 1, PANEL_VECTORS); break;
#if SUM_VECTORS > 8
      case 2: rows_s8(&some, &stream, n_parts, 2, TILE_VECTORS); break;
      case 3: rows_s8(&some, &stream, n_parts, 3, TILE_VECTORS); break;
#endif
      default: rows_s8(&some, &stream, n_parts, TILE_ROWS, TILE_VECTORS); break;
    }
  }
}
