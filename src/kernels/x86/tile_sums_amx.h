/* Tiles 0 .. 3 as the sums of up to 16 rows by 64 outputs, 32 bits each, which lie [rows][64]: from
 * zero, or from where they were left, and back. */
#pragma once

#include <stdbool.h>

#include "kernels/x86/tiles_amx.h"

enum { OMMAI_TILE_SUM_BYTES = 4 * OMMAI_TILE_BYTES /* of a row */ };

static inline __attribute__((always_inline)) void ommai_tiles_begin_sums(const void *sums, bool begins) {
  if (begins) {
    ommai_tile_zero(0);
    ommai_tile_zero(1);
    ommai_tile_zero(2);
    ommai_tile_zero(3);
    return;
  }
  ommai_tile_load(0, sums, OMMAI_TILE_SUM_BYTES);
  ommai_tile_load(1, (const char *)sums + OMMAI_TILE_BYTES, OMMAI_TILE_SUM_BYTES);
  ommai_tile_load(2, (const char *)sums + 2 * OMMAI_TILE_BYTES, OMMAI_TILE_SUM_BYTES);
  ommai_tile_load(3, (const char *)sums + 3 * OMMAI_TILE_BYTES, OMMAI_TILE_SUM_BYTES);
}

static inline __attribute__((always_inline)) void ommai_tiles_end_sums(void *sums) {
  ommai_tile_store(0, sums, OMMAI_TILE_SUM_BYTES);
  ommai_tile_store(1, (char *)sums + OMMAI_TILE_BYTES, OMMAI_TILE_SUM_BYTES);
  ommai_tile_store(2, (char *)sums + 2 * OMMAI_TILE_BYTES, OMMAI_TILE_SUM_BYTES);
  ommai_tile_store(3, (char *)sums + 3 * OMMAI_TILE_BYTES, OMMAI_TILE_SUM_BYTES);
}
