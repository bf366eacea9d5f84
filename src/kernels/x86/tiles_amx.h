/* Tiles of AMX, under one name each for what the kernels use of them: eight registers of up to 16
 * rows of up to 64 bytes, products of two of them added to a third.
 *
 * `tile` is a literal 0 .. 7. The test build puts C code in their place
 * (tests/amx/tile_model.h), so that kernels are tested on CPUs without tiles.
 *
 * A call that configures tiles releases them before it returns: the kernel saves and restores 8 KiB
 * for a thread that holds some, at every switch and in every signal's frame. */
#pragma once

#include <stdint.h>

enum {
  OMMAI_TILE_ROWS = 16,
  OMMAI_TILE_BYTES = 64, /* of a row */
  OMMAI_TILES = 8
};

/* What LDTILECFG reads: palette 1, bytes of a row and rows of each tile; zeros where one is not
 * used. */
struct ommai_tile_config {
  uint8_t palette, start_row, reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
};

static inline void ommai_tile_shape(struct ommai_tile_config *config, int tile, int rows, int row_bytes) {
  config->rows[tile] = (uint8_t)(row_bytes ? rows : 0);
  config->row_bytes[tile] = (uint16_t)(rows ? row_bytes : 0);
}

#ifndef OMMAI_TILE_MODEL

/* Sets the shapes; all tiles are zero afterwards. */
#define ommai_tiles_configure(config) __asm__ volatile("ldtilecfg %0" ::"m"(*(config)) : "memory")
#define ommai_tiles_release() __asm__ volatile("tilerelease" ::: "memory")

/* Rows that lie `stride` bytes apart. */
#define ommai_tile_load(tile, at, stride) \
  __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #tile ::"r"(at), "r"((int64_t)(stride)) : "memory")
#define ommai_tile_store(tile, at, stride) \
  __asm__ volatile("tilestored %%tmm" #tile ", (%0,%1,1)" ::"r"(at), "r"((int64_t)(stride)) : "memory")
#define ommai_tile_zero(tile) __asm__ volatile("tilezero %%tmm" #tile ::)

/* sum += a b: a [rows][pairs of bf16], b [pairs][columns of pairs]. In this order, with DAZ, FTZ
 * and to nearest even: for each element two chains of fma over the pairs' first and second parts,
 * from zero on; their sum; the addition to what was there. */
#define ommai_tile_multiply_bf16(sum, a, b) __asm__ volatile("tdpbf16ps %%tmm" #b ", %%tmm" #a ", %%tmm" #sum ::)

/* The same with fours of signed bytes, exact in 32 bits. */
#define ommai_tile_multiply_s8(sum, a, b) __asm__ volatile("tdpbssd %%tmm" #b ", %%tmm" #a ", %%tmm" #sum ::)

#endif
