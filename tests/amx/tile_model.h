/* What kernels use of AMX, in C: the state of a thread's tiles, and the instructions by Intel's
 * manual (volume 2 of the Software Developer's Manual), with their faults. For tests alone:
 * included before a kernel's source, it takes the place of the instructions
 * (kernels/x86/tiles_amx.h).
 *
 * Products of bf16 in the manual's order, for each element of the sum:
 *
 *   even = odd = 0
 *   for each pair of the row: even = fma(a[0], b[0], even), odd = fma(a[1], b[1], odd)
 *   sum = sum + (even + odd)
 *
 * each rounded to nearest even, with denormal operands and results as zeros, whatever the thread's
 * own setting is: that of the SSE unit is changed meanwhile. */
#pragma once

#define OMMAI_TILE_MODEL
#include <immintrin.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/x86/tiles_amx.h"

struct tile_model {
  struct ommai_tile_config config; /* all zeros: none */
  uint8_t data[OMMAI_TILES][OMMAI_TILE_ROWS][OMMAI_TILE_BYTES];
};

/* One for all sources that are compiled with this one. */
__attribute__((weak, visibility("hidden"))) _Thread_local struct tile_model tile_model;

/* Where the CPU would raise an exception. */
static inline void tile_model_fault(const char *what) {
  fprintf(stderr, "tile model: %s\n", what);
  abort();
}

static inline void tile_model_want(bool condition, const char *what) {
  if (!condition) tile_model_fault(what);
}

static inline bool tile_model_is_configured(void) { return tile_model.config.palette != 0; }

/* ---- configuration --------------------------------------------------------------------------- */

static inline void ommai_tiles_release(void) { memset(&tile_model, 0, sizeof tile_model); }

static inline void ommai_tiles_configure(const struct ommai_tile_config *config) {
  tile_model_want(config->palette <= 1, "LDTILECFG: no such palette");
  tile_model_want(config->start_row == 0, "LDTILECFG: a start row, which no kernel sets");
  for (size_t i = 0; i < sizeof config->reserved; i++) tile_model_want(!config->reserved[i], "LDTILECFG: reserved bytes");
  for (int tile = 0; tile < 16; tile++) {
    int rows = config->rows[tile], bytes = config->row_bytes[tile];
    tile_model_want(tile < OMMAI_TILES || (!rows && !bytes), "LDTILECFG: a tile beyond the eighth");
    tile_model_want(rows <= OMMAI_TILE_ROWS && bytes <= OMMAI_TILE_BYTES, "LDTILECFG: a tile that is too large");
    tile_model_want(!rows == !bytes, "LDTILECFG: rows without bytes, or bytes without rows");
  }
  ommai_tiles_release();
  if (config->palette) tile_model.config = *config;
}

/* ---- loads and stores ------------------------------------------------------------------------ */

static inline void tile_model_check(int tile) {
  tile_model_want(tile_model_is_configured(), "tiles are not configured");
  tile_model_want(tile >= 0 && tile < OMMAI_TILES && tile_model.config.rows[tile], "this tile is not configured");
  tile_model_want(tile_model.config.row_bytes[tile] % 4 == 0, "rows are not whole elements of 32 bits");
}

/* Rows and bytes past the tile's shape become zero. */
static inline void ommai_tile_load(int tile, const void *at, int64_t stride) {
  tile_model_check(tile);
  memset(tile_model.data[tile], 0, sizeof tile_model.data[tile]);
  for (int row = 0; row < tile_model.config.rows[tile]; row++) {
    memcpy(tile_model.data[tile][row], (const char *)at + row * stride, tile_model.config.row_bytes[tile]);
  }
}

static inline void ommai_tile_store(int tile, void *at, int64_t stride) {
  tile_model_check(tile);
  for (int row = 0; row < tile_model.config.rows[tile]; row++) {
    memcpy((char *)at + row * stride, tile_model.data[tile][row], tile_model.config.row_bytes[tile]);
  }
}

static inline void ommai_tile_zero(int tile) {
  tile_model_check(tile);
  memset(tile_model.data[tile], 0, sizeof tile_model.data[tile]);
}

/* ---- products -------------------------------------------------------------------------------- */

/* sum [m][n], a [m][k], b [k][n] in elements of 32 bits. */
struct tile_model_shape {
  int m, n, k;
};

static inline struct tile_model_shape tile_model_product(int sum, int a, int b) {
  const struct ommai_tile_config *config = &tile_model.config;
  tile_model_want(sum != a && sum != b && a != b, "a product of tiles that are not three");
  tile_model_check(sum);
  tile_model_check(a);
  tile_model_check(b);
  struct tile_model_shape shape = {config->rows[sum], config->row_bytes[sum] / 4, config->rows[b]};
  tile_model_want(config->rows[a] == shape.m && config->row_bytes[a] / 4 == shape.k && config->row_bytes[b] / 4 == shape.n,
                  "a product of tiles whose shapes do not fit");
  return shape;
}

static inline float tile_model_float(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* A row of sums. Not inlined: nothing of it may leave the bracket of the rounding mode. */
static __attribute__((noinline, unused)) void tile_model_row_bf16(struct tile_model_shape shape, uint8_t *sums,
                                                                  const uint8_t *a, uint8_t (*b)[OMMAI_TILE_BYTES]) {
  float even[OMMAI_TILE_BYTES / 4] = {0}, odd[OMMAI_TILE_BYTES / 4] = {0}, sum[OMMAI_TILE_BYTES / 4];
  for (int k = 0; k < shape.k; k++) {
    uint32_t pair, columns[OMMAI_TILE_BYTES / 4];
    memcpy(&pair, a + 4 * k, sizeof pair);
    memcpy(columns, b[k], sizeof columns);
    float first = tile_model_float(pair << 16), second = tile_model_float(pair & 0xffff0000u);
    for (int n = 0; n < OMMAI_TILE_BYTES / 4; n++) {
      even[n] = fmaf(first, tile_model_float(columns[n] << 16), even[n]);
      odd[n] = fmaf(second, tile_model_float(columns[n] & 0xffff0000u), odd[n]);
    }
  }
  memcpy(sum, sums, sizeof sum);
  for (int n = 0; n < shape.n; n++) sum[n] += even[n] + odd[n];
  memcpy(sums, sum, sizeof sum);
}

static inline void ommai_tile_multiply_bf16(int sum, int a, int b) {
  enum { NEAREST_MASKED = 0x1f80, FLUSH = 0x8040 };
  struct tile_model_shape shape = tile_model_product(sum, a, b);
  unsigned before = _mm_getcsr();
  _mm_setcsr(NEAREST_MASKED | FLUSH);
  for (int m = 0; m < shape.m; m++) {
    tile_model_row_bf16(shape, tile_model.data[sum][m], tile_model.data[a][m], tile_model.data[b]);
  }
  _mm_setcsr(before);
}

static inline void ommai_tile_multiply_s8(int sum, int a, int b) {
  struct tile_model_shape shape = tile_model_product(sum, a, b);
  for (int m = 0; m < shape.m; m++) {
    int32_t sums[OMMAI_TILE_BYTES / 4];
    memcpy(sums, tile_model.data[sum][m], sizeof sums);
    for (int k = 0; k < shape.k; k++) {
      const int8_t *row = (const int8_t *)tile_model.data[a][m] + 4 * k, *columns = (const int8_t *)tile_model.data[b][k];
      for (int n = 0; n < shape.n; n++) {
        for (int i = 0; i < 4; i++) sums[n] += row[i] * columns[4 * n + i];
      }
    }
    memcpy(tile_model.data[sum][m], sums, sizeof sums);
  }
}
