/* Four tiles of sums and products of four others, in registers. */
#include "kernels/peak.h"
#include "kernels/x86/tiles_amx.h"

double ommai_peak_bf16_amx(int64_t rounds) {
  enum { PRODUCTS = 4, OPERATIONS = 2 * 16 * 16 * 32 };
  struct ommai_tile_config config = {.palette = 1};
  for (int tile = 0; tile < OMMAI_TILES; tile++) ommai_tile_shape(&config, tile, OMMAI_TILE_ROWS, OMMAI_TILE_BYTES);
  ommai_tiles_configure(&config);
  for (int64_t round = 0; round < rounds; round++) {
    ommai_tile_multiply_bf16(0, 4, 6);
    ommai_tile_multiply_bf16(1, 4, 7);
    ommai_tile_multiply_bf16(2, 5, 6);
    ommai_tile_multiply_bf16(3, 5, 7);
  }
  ommai_tiles_release();
  return (double)rounds * PRODUCTS * OPERATIONS;
}
