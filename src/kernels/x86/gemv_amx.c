/* Few rows in products of bf16 by AMX: 16 rows by 64 outputs in four tiles of sums, 32 inputs at a
 * time, as in bf16_tile_amx.c and with its bits. Weights come from memory, which is slower than the
 * tiles by far: so 16 rows take little longer than one, and what matters is how weights are asked
 * for. Four panels side by side are four streams, each a step of 4 KiB ahead; sums of a step go
 * through the first cache. */
#include <immintrin.h>
#include <string.h>

#include "base/checked.h"
#include "kernels/gemv.h"
#include "kernels/x86/tile_sums_amx.h"

#define INLINE static inline __attribute__((always_inline))

enum {
  PANEL = OMMAI_PANEL_COLUMNS,
  GROUP = OMMAI_TILE_ROWS,
  MAX_ROWS = OMMAI_GEMV_WIDE_GROUP,
  STEP_K = 32,   /* inputs of a product */
  BLOCK_K = 256, /* inputs of which rows are copied at a time */
  STEP_BYTES = STEP_K * PANEL * 2,
  LINE_BYTES = 4 * PANEL /* of a pair of inputs */
};

/* Some inputs of all rows, tile by tile, zeros where there are none. */
struct rows {
  _Alignas(64) ommai_bf16 tiles[BLOCK_K / STEP_K][MAX_ROWS][STEP_K];
};

static void copy_rows(const ommai_bf16 *x, int64_t x_stride, int n_rows, int64_t n_k, struct rows *rows) {
  for (int row = 0; row < n_rows; row++) {
    for (int64_t k = 0; k < n_k; k += STEP_K) {
      __mmask32 mask = n_k - k >= STEP_K ? ~(__mmask32)0 : ((__mmask32)1 << (n_k - k)) - 1;
      _mm512_store_si512(rows->tiles[k / STEP_K][row], _mm512_maskz_loadu_epi16(mask, x + row * x_stride + k));
    }
  }
}

/* What a tile of the step after the one at `weights` consists of. */
INLINE void ask_for(const char *weights, const int tile, const bool asks) {
  const char *at = weights + STEP_BYTES + tile * OMMAI_TILE_BYTES;
#pragma GCC unroll 16
  for (int line = 0; asks && line < OMMAI_TILE_ROWS; line++) _mm_prefetch(at + line * LINE_BYTES, _MM_HINT_T0);
}

/* Sums are tiles 0 .. 3, rows 4, weights 5 to 7. */
INLINE void step(const char *weights, const ommai_bf16 *x, float *sums, bool begins, const bool asks) {
  ommai_tiles_begin_sums(sums, begins);
  ommai_tile_load(4, x, OMMAI_TILE_BYTES);
  ask_for(weights, 0, asks);
  ommai_tile_load(5, weights, LINE_BYTES);
  ommai_tile_multiply_bf16(0, 4, 5);
  ask_for(weights, 1, asks);
  ommai_tile_load(6, weights + OMMAI_TILE_BYTES, LINE_BYTES);
  ommai_tile_multiply_bf16(1, 4, 6);
  ask_for(weights, 2, asks);
  ommai_tile_load(7, weights + 2 * OMMAI_TILE_BYTES, LINE_BYTES);
  ommai_tile_multiply_bf16(2, 4, 7);
  ask_for(weights, 3, asks);
  ommai_tile_load(5, weights + 3 * OMMAI_TILE_BYTES, LINE_BYTES);
  ommai_tile_multiply_bf16(3, 4, 5);
  ommai_tiles_end_sums(sums);
}

static void configure(int n_rows) {
  struct ommai_tile_config config = {.palette = 1};
  for (int tile = 0; tile < OMMAI_TILES; tile++) {
    ommai_tile_shape(&config, tile, tile < 5 ? n_rows : OMMAI_TILE_ROWS, OMMAI_TILE_BYTES);
  }
  ommai_tiles_configure(&config);
}

/* sums [n_panels][held][64], `held` rows of which the last may be more than there are. */
INLINE void multiply(const ommai_bf16 *weights, int64_t panel_elements, int n_panels, const ommai_bf16 *x, int64_t x_stride,
                     int n_rows, int64_t n_k, int held, const bool two, float *sums) {
  struct rows rows;
  if (two) memset(&rows, 0, sizeof rows);
  for (int64_t k = 0; k < n_k; k += STEP_K) {
    int64_t in_block = k % BLOCK_K;
    if (in_block == 0) copy_rows(x + k, x_stride, n_rows, ommai_min_i64(BLOCK_K, n_k - k), &rows);
    for (int panel = 0; panel < n_panels; panel++) {
      const char *from = (const char *)(weights + panel * panel_elements + k * PANEL);
      float *to = sums + panel * held * PANEL;
      step(from, rows.tiles[in_block / STEP_K][0], to, k == 0, true);
      if (two) step(from, rows.tiles[in_block / STEP_K][GROUP], to + GROUP * PANEL, k == 0, false);
    }
  }
}

static void panels_bf16(const ommai_bf16 *weights, int64_t panel_elements, int n_panels, const ommai_bf16 *x, int64_t x_stride,
                        int n_rows, int64_t n_k, float *sums) {
  _Alignas(64) float held[OMMAI_GEMV_PANELS][MAX_ROWS][PANEL];
  configure((int)ommai_min_i64(n_rows, GROUP));
  if (n_rows <= GROUP) {
    multiply(weights, panel_elements, n_panels, x, x_stride, n_rows, n_k, n_rows, false, sums);
  } else {
    multiply(weights, panel_elements, n_panels, x, x_stride, n_rows, n_k, MAX_ROWS, true, held[0][0]);
    for (int panel = 0; panel < n_panels; panel++) {
      memcpy(sums + panel * n_rows * PANEL, held[panel], sizeof *held[panel] * (size_t)n_rows);
    }
  }
  ommai_tiles_release();
}

const struct ommai_gemv_kernels ommai_gemv_amx = {.level = OMMAI_CPU_AMX,
                                                  .panels_bf16 = panels_bf16,
                                                  .panel_f32 = ommai_gemv_panel_f32_avx512,
                                                  .panel_mixed = ommai_gemv_panel_mixed_avx512};
