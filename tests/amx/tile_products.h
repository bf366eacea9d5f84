/* Products of tiles against products by hand, in the order of Intel's manual. Included after the
 * instructions that are tried: the model's (tests/unit/test_tile_model.c) or a CPU's
 * (test_tile_hardware.c). */
#pragma once

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/half.h"
#include "kernels/x86/tiles_amx.h"
#include "support/test.h"

/* Denormals become zeros of their sign. */
static float flushed(float value) { return fabsf(value) < FLT_MIN ? copysignf(0.0f, value) : value; }

/* fma with denormal operands and results as zeros. */
static float fma_flushed(float a, float b, float c) { return flushed(fmaf(flushed(a), flushed(b), flushed(c))); }

struct operands {
  ommai_bf16 a[16][32], b[16][32];
  float sums[16][16];
};

static ommai_bf16 any_bf16(struct test_random *random) {
  int kind = (int)test_random_range(random, 0, 9);
  float value = test_random_normal(random);
  return ommai_bf16_from_f32(kind == 0 ? value * 0x1p-130f : kind == 1 ? value * 0x1p-64f : kind == 2 ? 0.0f : value);
}

static void fill(struct operands *o, struct test_random *random) {
  for (int i = 0; i < 16 * 32; i++) {
    o->a[i / 32][i % 32] = any_bf16(random);
    o->b[i / 32][i % 32] = any_bf16(random);
  }
  for (int i = 0; i < 256; i++) o->sums[i / 16][i % 16] = test_random_normal(random) * (i % 9 ? 1.0f : 0x1p-128f);
}

static void configure(int rows, int columns, int units) {
  struct ommai_tile_config config = {.palette = 1};
  ommai_tile_shape(&config, 0, rows, 4 * columns);
  ommai_tile_shape(&config, 1, rows, 4 * units);
  ommai_tile_shape(&config, 2, units, 4 * columns);
  ommai_tiles_configure(&config);
}

/* By the manual: two chains from zero, their sum, the addition. */
static float expected_bf16(const struct operands *o, int m, int n, int pairs) {
  float even = 0, odd = 0;
  for (int k = 0; k < pairs; k++) {
    even = fma_flushed(ommai_bf16_to_f32(o->a[m][2 * k]), ommai_bf16_to_f32(o->b[k][2 * n]), even);
    odd = fma_flushed(ommai_bf16_to_f32(o->a[m][2 * k + 1]), ommai_bf16_to_f32(o->b[k][2 * n + 1]), odd);
  }
  return flushed(flushed(o->sums[m][n]) + flushed(even + odd));
}

static void products_of_bf16_are_the_manual_s(void **state) {
  (void)state;
  struct test_random random = {7};
  for (int round = 0; round < 400; round++) {
    int rows = (int)test_random_range(&random, 1, 16), columns = (int)test_random_range(&random, 1, 16);
    int pairs = (int)test_random_range(&random, 1, 16);
    struct operands o;
    float found[16][16];
    fill(&o, &random);
    memset(found, 0x55, sizeof found);
    configure(rows, columns, pairs);
    ommai_tile_load(0, o.sums, sizeof *o.sums);
    ommai_tile_load(1, o.a, sizeof *o.a);
    ommai_tile_load(2, o.b, sizeof *o.b);
    ommai_tile_multiply_bf16(0, 1, 2);
    ommai_tile_store(0, found, sizeof *found);
    ommai_tiles_release();
    for (int m = 0; m < 16; m++) {
      for (int n = 0; n < 16; n++) {
        bool written = m < rows && n < columns;
        float expected = written ? expected_bf16(&o, m, n, pairs) : ommai_f32_from_bits(0x55555555);
        assert_memory_equal(&found[m][n], &expected, sizeof expected);
      }
    }
  }
}

static void products_of_bytes_are_exact(void **state) {
  (void)state;
  struct test_random random = {8};
  int8_t a[16][64], b[16][64];
  int32_t sums[16][16], found[16][16];
  for (int i = 0; i < 16 * 64; i++) {
    a[i / 64][i % 64] = (int8_t)(test_random_range(&random, 0, 255) - 128);
    b[i / 64][i % 64] = (int8_t)(test_random_range(&random, 0, 255) - 128);
  }
  for (int i = 0; i < 256; i++) sums[i / 16][i % 16] = (int32_t)test_random_range(&random, 0, 1 << 20) - (1 << 19);
  configure(16, 16, 16);
  ommai_tile_load(0, sums, sizeof *sums);
  ommai_tile_load(1, a, sizeof *a);
  ommai_tile_load(2, b, sizeof *b);
  ommai_tile_multiply_s8(0, 1, 2);
  ommai_tile_store(0, found, sizeof *found);
  ommai_tiles_release();
  for (int m = 0; m < 16; m++) {
    for (int n = 0; n < 16; n++) {
      int32_t expected = sums[m][n];
      for (int k = 0; k < 64; k++) expected += a[m][k] * b[k / 4][4 * n + k % 4];
      assert_int_equal(found[m][n], expected);
    }
  }
}
