/* Tiles of rows in products of bf16 by AMX: 16 rows by 64 outputs in four tiles of sums, 32 inputs
 * at a time. Packed weights are what the products want as they lie: a line of a panel is a pair of
 * inputs of 64 outputs, so 16 lines and 16 outputs of them are a tile. Rows of x are packed: as
 * they lie, a tile's 16 lines would come from 16 places far apart, often of one set of the first
 * cache.
 *
 *   for each block of 256 inputs: x of all rows, which stays in the second cache
 *     for each panel: 32 KiB of weights, which stay in the first cache
 *       for each 16 rows: sums += x w, from where they were left
 *
 * So weights come from memory once for all rows (256 of them, as a rule: a core takes in a tile of
 * weights in the time of some 15 products), asked for a block ahead, and x from the second cache
 * once for 64 outputs. */
#include <immintrin.h>

#include "base/checked.h"
#include "kernels/bf16_tile.h"
#include "kernels/x86/tile_sums_amx.h"

#define INLINE static inline __attribute__((always_inline))

enum {
  PANEL = OMMAI_PANEL_COLUMNS,
  LANES = 16,
  ROWS = OMMAI_BF16_PACKED_ROWS,
  STEP_K = OMMAI_BF16_PACKED_INPUTS, /* inputs of a product */
  BLOCK_K = OMMAI_BF16_PACKED_BLOCK,
  ROW_TILE = ROWS * STEP_K, /* packed elements */
  LINE_BYTES = 4 * PANEL,   /* of a pair of inputs */
  LINE = 64,                /* of cache */
  MAX_PANELS = 4 /* their sums stay in the second cache next to x */
};

static int64_t block_steps(int64_t n_k, int64_t k) { return ommai_div_up(ommai_min_i64(BLOCK_K, n_k - k), STEP_K); }

/* Where the 16 rows that `row` is of begin, in the block of inputs from k on. */
static ommai_bf16 *packed_rows(const struct ommai_bf16_tile *tile, int64_t k, int64_t row) {
  return tile->packed.memory + k * tile->packed.n_rows + row / ROWS * block_steps(tile->n_k, k) * ROW_TILE;
}

static void pack(const struct ommai_bf16_tile *tile) {
  for (int64_t k = 0; k < tile->n_k; k += BLOCK_K) {
    for (int64_t i = 0; i < tile->n_rows; i++) {
      const ommai_bf16 *from = tile->x + i * tile->x_stride + k;
      int64_t row = tile->packed.first + i, left = ommai_min_i64(BLOCK_K, tile->n_k - k);
      ommai_bf16 *to = packed_rows(tile, k, row) + row % ROWS * STEP_K;
      for (; left > 0; left -= STEP_K, from += STEP_K, to += ROW_TILE) {
        __mmask32 mask = left >= STEP_K ? ~(__mmask32)0 : ((__mmask32)1 << left) - 1;
        _mm512_storeu_si512(to, _mm512_maskz_loadu_epi16(mask, from));
      }
    }
  }
}

/* A panel's inputs from k on, of all rows. */
struct block {
  const struct ommai_bf16_tile *tile;
  int64_t panel, k, steps;
  const ommai_bf16 *weights;
  float *sums;
  bool begins, ends;  /* the sums */
  const char *coming; /* weights to ask for, that many bytes for each step */
  int64_t coming_bytes;
};

/* Sums are tiles 0 .. 3, rows 4, weights 5 to 7. */
INLINE void multiply_step(const ommai_bf16 *weights, const ommai_bf16 *x) {
  ommai_tile_load(4, x, OMMAI_TILE_BYTES);
  ommai_tile_load(5, weights, LINE_BYTES);
  ommai_tile_multiply_bf16(0, 4, 5);
  ommai_tile_load(6, weights + 2 * LANES, LINE_BYTES);
  ommai_tile_multiply_bf16(1, 4, 6);
  ommai_tile_load(7, weights + 4 * LANES, LINE_BYTES);
  ommai_tile_multiply_bf16(2, 4, 7);
  ommai_tile_load(5, weights + 6 * LANES, LINE_BYTES);
  ommai_tile_multiply_bf16(3, 4, 5);
}

/* 16 outputs of a row: its sums to y. */
INLINE void write_sums(const struct block *block, int64_t row, int column) {
  const struct ommai_bf16_tile *tile = block->tile;
  const float *bias = tile->bias + block->panel * PANEL + column;
  int64_t at = block->panel * tile->y_panel + row * tile->y_stride + column;
  __m512 sum = _mm512_add_ps(_mm512_loadu_ps(block->sums + row * PANEL + column), _mm512_loadu_ps(bias));
  if (tile->y_type == OMMA_BF16) {
    _mm256_storeu_si256((__m256i *)(void *)((ommai_bf16 *)tile->y + at), (__m256i)_mm512_cvtneps_pbh(sum));
    return;
  }
  float *y = (float *)tile->y + at;
  _mm512_storeu_ps(y, tile->accumulate ? _mm512_add_ps(_mm512_loadu_ps(y), sum) : sum);
}

/* Of 16 rows those that are there get outputs. */
static void some_rows(struct block *block, int64_t first) {
  const struct ommai_bf16_tile *tile = block->tile;
  const ommai_bf16 *x = packed_rows(tile, block->k, tile->packed.first + first);
  float *sums = block->sums + first * PANEL;
  int64_t past = ommai_min_i64(first + ROWS, tile->n_rows);
  ommai_tiles_begin_sums(sums, block->begins);
  for (int64_t i = 0; i < block->steps; i++) {
    for (const char *end = block->coming + block->coming_bytes; block->coming < end; block->coming += LINE) {
      _mm_prefetch(block->coming, _MM_HINT_T1);
    }
    multiply_step(block->weights + i * STEP_K * PANEL, x + i * ROW_TILE);
  }
  ommai_tiles_end_sums(sums);
  for (int64_t row = first; block->ends && row < past; row++) {
    for (int column = 0; column < PANEL; column += LANES) write_sums(block, row, column);
  }
}

/* The block after this one: of the next panel, or the first one's next inputs, or what lies after
 * the panels. */
static void look_ahead(struct block *block) {
  const struct ommai_bf16_tile *tile = block->tile;
  bool last_panel = block->panel + 1 == tile->n_panels;
  int64_t panel = last_panel && !block->ends ? 0 : block->panel + 1;
  int64_t k = !last_panel ? block->k : block->ends ? 0 : block->k + BLOCK_K;
  int64_t lines = block_steps(tile->n_k, k) * STEP_K * PANEL * (int64_t)sizeof(ommai_bf16) / LINE;
  block->coming = (const char *)(tile->weights + panel * tile->panel_elements + k * PANEL);
  block->coming_bytes = ommai_div_up(lines, block->steps * ommai_div_up(tile->n_rows, ROWS)) * LINE;
}

static void configure(void) {
  struct ommai_tile_config config = {.palette = 1};
  for (int tile = 0; tile < OMMAI_TILES; tile++) ommai_tile_shape(&config, tile, OMMAI_TILE_ROWS, OMMAI_TILE_BYTES);
  ommai_tiles_configure(&config);
}

static void run(const struct ommai_bf16_tile *tile) {
  configure();
  for (int64_t k = 0; k < tile->n_k; k += BLOCK_K) {
    for (int64_t panel = 0; panel < tile->n_panels; panel++) {
      struct block block = {.tile = tile, .panel = panel, .k = k, .steps = block_steps(tile->n_k, k)};
      block.weights = tile->weights + panel * tile->panel_elements + k * PANEL;
      block.sums = tile->sums + panel * ommai_round_up(tile->n_rows, ROWS) * PANEL;
      block.begins = k == 0;
      block.ends = k + BLOCK_K >= tile->n_k;
      look_ahead(&block);
      for (int64_t first = 0; first < tile->n_rows; first += ROWS) some_rows(&block, first);
    }
  }
  ommai_tiles_release();
}

const struct ommai_bf16_tile_kernel ommai_bf16_tile_amx = {
    .level = OMMAI_CPU_AMX, .max_panels = MAX_PANELS, .pack = pack, .run = run};
