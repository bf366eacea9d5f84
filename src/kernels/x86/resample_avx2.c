/* Two taps per multiply-add: vpmaddwd on pairs (pixel of tap j, pixel of tap j + 1) times (weight
 * j, weight j + 1). */
#include <immintrin.h>
#include <string.h>

#include "kernels/resample.h"

/* Outputs before this one may load 16 bytes at each group of four taps without leaving the row. The
 * bound takes max_taps, not an output's own count, because it must hold for all outputs before one
 * that passes. */
static int32_t safe_outputs(const struct ommai_resample_pass *pass, int32_t begin, int32_t end) {
  int64_t reach = (int64_t)pass->max_taps * 3 + 4;
  while (end > begin && (int64_t)pass->first[end - 1] * 3 + reach > (int64_t)pass->n * 3) end--;
  return end;
}

/* Two packs saturate, which is the clamp. */
static void store_pixel(uint8_t *out, __m128i sums) {
  __m128i words = _mm_packs_epi32(sums, sums);
  int pixel = _mm_cvtsi128_si32(_mm_packus_epi16(words, words));
  memcpy(out, &pixel, 3);
}

void ommai_resample_row_avx2(const struct ommai_resample_pass *pass, const uint8_t *in, uint8_t *out, int32_t begin,
                             int32_t end) {
  /* Low half: taps 0 and 1 as (r0 r1 g0 g1 b0 b1) in 16 bits; high half: taps 2 and 3. */
  const __m256i spread_pixels = _mm256_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1,  //
                                                 6, -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1);
  const __m256i spread_weights = _mm256_setr_epi8(0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3,  //
                                                  4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7);
  const __m128i half = _mm_set1_epi32(1 << (pass->precision - 1)), shift = _mm_cvtsi32_si128(pass->precision);
  int32_t safe = safe_outputs(pass, begin, end);
  for (int64_t i = begin; i < safe; i++) {
    const uint8_t *pixels = in + (int64_t)pass->first[i] * 3;
    const int16_t *weights = pass->narrow + i * pass->max_taps;
    __m256i sums = _mm256_setzero_si256();
    for (int32_t j = 0; j < pass->count[i]; j += 4) {
      int64_t four;
      memcpy(&four, weights + j, sizeof four);
      __m256i taps = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(pixels + (int64_t)j * 3)));
      __m256i factors = _mm256_shuffle_epi8(_mm256_set1_epi64x(four), spread_weights);
      sums = _mm256_add_epi32(sums, _mm256_madd_epi16(_mm256_shuffle_epi8(taps, spread_pixels), factors));
    }
    __m128i total = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
    store_pixel(out + 3 * i, _mm_sra_epi32(_mm_add_epi32(total, half), shift));
  }
  ommai_resample_row_scalar(pass, in, out, safe, end);
}

/* 32 columns. Unpacking splits them by eights over the halves of four registers, and packing puts
 * them back. */
static void column_32(const int16_t *weights, int32_t n_taps, const uint8_t *in, int64_t stride, int precision, uint8_t *out) {
  const __m256i zero = _mm256_setzero_si256();
  const __m128i shift = _mm_cvtsi32_si128(precision);
  __m256i sums[4];
  for (int k = 0; k < 4; k++) sums[k] = _mm256_set1_epi32(1 << (precision - 1));
  for (int32_t j = 0; j < n_taps; j += 2) {
    int pair;
    memcpy(&pair, weights + j, sizeof pair);
    const uint8_t *row = in + j * stride;
    __m256i a = _mm256_loadu_si256((const __m256i *)row);
    __m256i b = j + 1 < n_taps ? _mm256_loadu_si256((const __m256i *)(row + stride)) : zero;
    __m256i low = _mm256_unpacklo_epi8(a, b), high = _mm256_unpackhi_epi8(a, b), factors = _mm256_set1_epi32(pair);
    sums[0] = _mm256_add_epi32(sums[0], _mm256_madd_epi16(_mm256_unpacklo_epi8(low, zero), factors));
    sums[1] = _mm256_add_epi32(sums[1], _mm256_madd_epi16(_mm256_unpackhi_epi8(low, zero), factors));
    sums[2] = _mm256_add_epi32(sums[2], _mm256_madd_epi16(_mm256_unpacklo_epi8(high, zero), factors));
    sums[3] = _mm256_add_epi32(sums[3], _mm256_madd_epi16(_mm256_unpackhi_epi8(high, zero), factors));
  }
  for (int k = 0; k < 4; k++) sums[k] = _mm256_sra_epi32(sums[k], shift);
  __m256i words_low = _mm256_packs_epi32(sums[0], sums[1]), words_high = _mm256_packs_epi32(sums[2], sums[3]);
  _mm256_storeu_si256((__m256i *)out, _mm256_packus_epi16(words_low, words_high));
}

void ommai_resample_column_avx2(const struct ommai_resample_pass *pass, int32_t i, const uint8_t *in, int64_t stride,
                                uint8_t *out, int64_t n_bytes) {
  const int16_t *weights = pass->narrow + (int64_t)i * pass->max_taps;
  int64_t x = 0;
  for (; x + 32 <= n_bytes; x += 32) column_32(weights, pass->count[i], in + x, stride, pass->precision, out + x);
  ommai_resample_column_scalar(pass, i, in + x, stride, out + x, n_bytes - x);
}
