/* Tiles of rows in products of bf16 by AMX: 32 rows by 32 outputs in four tiles of sums, 32 inputs
 * at a time. Packed weights are what the products want as they lie: a line of a panel is a pair of
 * inputs of 64 outputs, so 16 lines and 16 outputs of them are a tile. So are rows of x.
 *
 * A block of weights stays in the first level of cache while all rows pass over it, and the next
 * one is asked for meanwhile. */
#include <immintrin.h>
#include <string.h>

#include "base/checked.h"
#include "kernels/bf16_tile.h"
#include "kernels/x86/tiles_amx.h"

#define INLINE static inline __attribute__((always_inline))

enum {
  PANEL = OMMAI_PANEL_COLUMNS,
  LANES = 16,
  STEP_K = 32,            /* inputs of a product */
  GROUP = 32,             /* rows, and outputs, that four tiles of sums take */
  BLOCK_K = 256,          /* a multiple of STEP_K */
  LINE_BYTES = 4 * PANEL, /* of a pair of inputs */
  LINE = 64               /* of cache */
};

/* Some inputs of some rows. */
struct block {
  const struct ommai_bf16_tile *tile;
  const ommai_bf16 *weights, *x; /* of the group's first row, from the block's first input on */
  int64_t n_k, row, n_rows;
  bool begins, ends;  /* the sums */
  const char *coming; /* weights to ask for, that many bytes for each step */
  int64_t coming_bytes;
};

/* Sums are tiles 0 .. 3, rows 4 and 5, weights 6 and 7. */
INLINE void configure(int64_t n_rows) {
  struct ommai_tile_config config = {.palette = 1};
  int first = (int)ommai_min_i64(n_rows, OMMAI_TILE_ROWS), second = (int)n_rows - first;
  for (int tile = 0; tile < 6; tile++) {
    ommai_tile_shape(&config, tile, tile == 2 || tile == 3 || tile == 5 ? second : first, OMMAI_TILE_BYTES);
  }
  ommai_tile_shape(&config, 6, OMMAI_TILE_ROWS, OMMAI_TILE_BYTES);
  ommai_tile_shape(&config, 7, OMMAI_TILE_ROWS, OMMAI_TILE_BYTES);
  ommai_tiles_configure(&config);
}

/* two: there are rows for the second half of the tiles. */
INLINE void multiply_step(const ommai_bf16 *weights, const void *x, int64_t x_bytes, const bool two) {
  ommai_tile_load(4, x, x_bytes);
  ommai_tile_load(6, weights, LINE_BYTES);
  ommai_tile_multiply_bf16(0, 4, 6);
  ommai_tile_load(7, weights + 2 * LANES, LINE_BYTES);
  ommai_tile_multiply_bf16(1, 4, 7);
  if (!two) return;
  ommai_tile_load(5, (const char *)x + OMMAI_TILE_ROWS * x_bytes, x_bytes);
  ommai_tile_multiply_bf16(2, 5, 6);
  ommai_tile_multiply_bf16(3, 5, 7);
}

INLINE void begin_sums(const float *sums, const bool begins, const bool two) {
  const int64_t stride = PANEL * (int64_t)sizeof *sums;
  if (begins) {
    ommai_tile_zero(0);
    ommai_tile_zero(1);
    if (!two) return;
    ommai_tile_zero(2);
    ommai_tile_zero(3);
    return;
  }
  ommai_tile_load(0, sums, stride);
  ommai_tile_load(1, sums + LANES, stride);
  if (!two) return;
  ommai_tile_load(2, sums + OMMAI_TILE_ROWS * PANEL, stride);
  ommai_tile_load(3, sums + OMMAI_TILE_ROWS * PANEL + LANES, stride);
}

INLINE void end_sums(float *sums, const bool two) {
  const int64_t stride = PANEL * (int64_t)sizeof *sums;
  ommai_tile_store(0, sums, stride);
  ommai_tile_store(1, sums + LANES, stride);
  if (!two) return;
  ommai_tile_store(2, sums + OMMAI_TILE_ROWS * PANEL, stride);
  ommai_tile_store(3, sums + OMMAI_TILE_ROWS * PANEL + LANES, stride);
}

/* 16 outputs of a row: its sums to y. */
INLINE void write_sums(const struct ommai_bf16_tile *tile, int64_t row, int column) {
  int64_t at = row * tile->y_stride + column;
  __m512 sum = _mm512_add_ps(_mm512_loadu_ps(tile->sums + row * PANEL + column), _mm512_loadu_ps(tile->bias + column));
  if (tile->y_type == OMMA_BF16) {
    _mm256_storeu_si256((__m256i *)(void *)((ommai_bf16 *)tile->y + at), (__m256i)_mm512_cvtneps_pbh(sum));
    return;
  }
  float *y = (float *)tile->y + at;
  _mm512_storeu_ps(y, tile->accumulate ? _mm512_add_ps(_mm512_loadu_ps(y), sum) : sum);
}

INLINE void write_group(const struct block *block, int column) {
  for (int64_t row = block->row; row < block->row + block->n_rows; row++) {
    write_sums(block->tile, row, column);
    write_sums(block->tile, row, column + LANES);
  }
}

/* The inputs of the last step where they are fewer, and zeros, which stand in for what lies past
 * them. */
INLINE void copy_rest(const struct block *block, int64_t k, ommai_bf16 rest[GROUP][STEP_K]) {
  memset(rest, 0, (size_t)block->n_rows * sizeof *rest);
  for (int64_t row = 0; row < block->n_rows; row++) {
    memcpy(rest[row], block->x + row * block->tile->x_stride + k, (size_t)(block->n_k - k) * sizeof **rest);
  }
}

/* Asks for the outputs of a group of rows, a share for each of the last block's steps: y is larger
 * than the caches as a rule, and writing it would wait for its lines. */
INLINE void prefetch_outputs(const struct block *block, int column, int64_t k) {
  const struct ommai_bf16_tile *tile = block->tile;
  const int64_t size = tile->y_type == OMMA_BF16 ? sizeof(ommai_bf16) : sizeof(float);
  const int64_t step = k / STEP_K, steps = ommai_div_up(block->n_k, STEP_K);
  for (int64_t i = step * block->n_rows / steps; i < (step + 1) * block->n_rows / steps; i++) {
    char *y = (char *)tile->y + ((block->row + i) * tile->y_stride + column) * size;
    for (int64_t at = 0; at < GROUP * size; at += LINE) _m_prefetchw(y + at);
  }
}

INLINE void half_panel(struct block *block, int column, const bool two) {
  const int64_t x_bytes = block->tile->x_stride * (int64_t)sizeof(ommai_bf16);
  const ommai_bf16 *weights = block->weights + 2 * column;
  float *sums = block->tile->sums + block->row * PANEL + column;
  int64_t k = 0;
  begin_sums(sums, block->begins, two);
  for (; k + STEP_K <= block->n_k; k += STEP_K) {
    for (const char *end = block->coming + block->coming_bytes; block->coming < end; block->coming += LINE) {
      _mm_prefetch(block->coming, _MM_HINT_T1);
    }
    if (block->ends) prefetch_outputs(block, column, k);
    multiply_step(weights + k * PANEL, block->x + k, x_bytes, two);
  }
  if (k < block->n_k) {
    _Alignas(64) ommai_bf16 rest[GROUP][STEP_K];
    copy_rest(block, k, rest);
    multiply_step(weights + k * PANEL, rest, sizeof *rest, two);
  }
  end_sums(sums, two);
  if (block->ends) write_group(block, column);
}

static void some_rows(struct block *block) {
  for (int column = 0; column < PANEL; column += GROUP) {
    if (block->n_rows > OMMAI_TILE_ROWS) {
      half_panel(block, column, true);
    } else {
      half_panel(block, column, false);
    }
  }
}

static void run(const struct ommai_bf16_tile *tile) {
  /* Lines asked for in a step, so that a block's are while all rows pass over the one before. */
  int64_t steps = 2 * (BLOCK_K / STEP_K) * ommai_div_up(tile->n_rows, GROUP), configured = 0;
  int64_t step_lines = ommai_div_up(BLOCK_K * PANEL * (int64_t)sizeof(ommai_bf16) / LINE, steps);
  for (int64_t k = 0; k < tile->n_k; k += BLOCK_K) {
    int64_t n_k = ommai_min_i64(BLOCK_K, tile->n_k - k);
    struct block block = {.tile = tile, .weights = tile->weights + k * PANEL, .n_k = n_k, .coming_bytes = step_lines * LINE};
    block.begins = k == 0;
    block.ends = k + n_k == tile->n_k;
    block.coming = (const char *)(block.weights + ommai_round_up(n_k, STEP_K) * PANEL);
    for (; block.row < tile->n_rows; block.row += GROUP) {
      block.n_rows = ommai_min_i64(GROUP, tile->n_rows - block.row);
      block.x = tile->x + block.row * tile->x_stride + k;
      if (block.n_rows != configured) configure(configured = block.n_rows);
      some_rows(&block);
    }
  }
  ommai_tiles_release();
}

const struct ommai_bf16_tile_kernel ommai_bf16_tile_amx = {OMMAI_CPU_AMX, run};
