#include "kernels/resample.h"

#include <stddef.h>

#include "base/checked.h"

/* Columns summed at once: few enough to stay in L1 next to the rows they come from. */
enum { SUM_COLUMNS = 256 };

void ommai_resample_select(enum ommai_cpu_level level, const struct ommai_resample_pass *pass,
                           struct ommai_resample_kernels *kernels) {
  *kernels = (struct ommai_resample_kernels){ommai_resample_row_scalar, ommai_resample_column_scalar};
#if defined(__x86_64__)
  if (pass->narrow && level >= OMMAI_CPU_AVX2 && level <= OMMAI_CPU_AMX) {
    *kernels = (struct ommai_resample_kernels){ommai_resample_row_avx2, ommai_resample_column_avx2};
  }
#else
  (void)level;
  (void)pass;
#endif
}

static uint8_t clamp_byte(int32_t value) { return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value); }

void ommai_resample_row_scalar(const struct ommai_resample_pass *pass, const uint8_t *in, uint8_t *out, int32_t begin,
                               int32_t end) {
  int32_t half = 1 << (pass->precision - 1);
  for (int64_t i = begin; i < end; i++) {
    const uint8_t *pixel = in + (int64_t)pass->first[i] * 3;
    const int32_t *weights = pass->weights + i * pass->max_taps;
    int32_t red = half, green = half, blue = half;
    for (int32_t j = 0; j < pass->count[i]; j++) {
      red += weights[j] * pixel[3 * j];
      green += weights[j] * pixel[3 * j + 1];
      blue += weights[j] * pixel[3 * j + 2];
    }
    out[3 * i] = clamp_byte(red >> pass->precision);
    out[3 * i + 1] = clamp_byte(green >> pass->precision);
    out[3 * i + 2] = clamp_byte(blue >> pass->precision);
  }
}

void ommai_resample_column_scalar(const struct ommai_resample_pass *pass, int32_t i, const uint8_t *in, int64_t stride,
                                  uint8_t *out, int64_t n_bytes) {
  const int32_t *weights = pass->weights + (int64_t)i * pass->max_taps;
  for (int64_t x0 = 0; x0 < n_bytes; x0 += SUM_COLUMNS) {
    int32_t sums[SUM_COLUMNS];
    int64_t n = ommai_min_i64(SUM_COLUMNS, n_bytes - x0);
    for (int64_t x = 0; x < n; x++) sums[x] = 1 << (pass->precision - 1);
    for (int32_t j = 0; j < pass->count[i]; j++) {
      const uint8_t *row = in + x0 + j * stride;
      int32_t weight = weights[j];
      for (int64_t x = 0; x < n; x++) sums[x] += weight * row[x];
    }
    for (int64_t x = 0; x < n; x++) out[x0 + x] = clamp_byte(sums[x] >> pass->precision);
  }
}
