#include "kernels/peak.h"

/* Sixteen chains of single multiply-adds: what plain C reaches. The volatile sink keeps the
 * loop. */
static double peak_f32_scalar(int64_t rounds) {
  float sums[16] = {0};
  volatile float factor = 0.5f;
  float a = factor, b = factor;
  for (int64_t round = 0; round < rounds; round++) {
    for (int i = 0; i < 16; i++) sums[i] = sums[i] * a + b;
  }
  volatile float sink = 0;
  for (int i = 0; i < 16; i++) sink = sink + sums[i];
  return (double)rounds * 32;
}

ommai_peak_loop ommai_peak_f32(enum ommai_cpu_level level) {
#if defined(__x86_64__)
  if (level >= OMMAI_CPU_AVX512 && level <= OMMAI_CPU_AMX) return ommai_peak_f32_avx512;
  if (level == OMMAI_CPU_AVX2 || level == OMMAI_CPU_AVX2_VNNI) return ommai_peak_f32_avx2;
#elif defined(__aarch64__)
  if (level >= OMMAI_CPU_NEON) return ommai_peak_f32_neon;
#endif
  (void)level;
  return peak_f32_scalar;
}

ommai_peak_loop ommai_peak_bf16(enum ommai_cpu_level level) {
#if defined(__x86_64__)
  if (level == OMMAI_CPU_AVX512_BF16) return ommai_peak_bf16_avx512_bf16;
  if (level == OMMAI_CPU_AMX) return ommai_peak_bf16_amx;
#elif defined(__aarch64__)
  if (level == OMMAI_CPU_NEON_BF16) return ommai_peak_bf16_neon_bf16;
#endif
  (void)level;
  return 0;
}

/* Sums that do not wait for each other, of words that were asked for a page before: the hardware
 * alone looks less far ahead. The volatile sink keeps the loop. */
void ommai_peak_read(const uint64_t *words, int64_t n_words) {
  enum { SUMS = 8, AHEAD = 512 };
  uint64_t sums[SUMS] = {0};
  for (int64_t at = 0; at < n_words; at += SUMS) {
    __builtin_prefetch(words + at + AHEAD);
    for (int i = 0; i < SUMS; i++) sums[i] += words[at + i];
  }
  volatile uint64_t sink = 0;
  for (int i = 0; i < SUMS; i++) sink = sink + sums[i];
}
