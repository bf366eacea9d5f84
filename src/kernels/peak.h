/* What one core can do at best: multiply-adds that never leave the registers, and reading memory.
 * The measure for every other figure. */
#pragma once

#include <stdint.h>

#include "kernels/cpu.h"

/* Runs `rounds` of independent multiply-adds and returns how many floating-point operations they
 * were (2 per multiply-add). */
typedef double (*ommai_peak_loop)(int64_t rounds);

/* The loop for a level; for bf16 NULL where the level has no bf16 dot product. */
ommai_peak_loop ommai_peak_f32(enum ommai_cpu_level level);
ommai_peak_loop ommai_peak_bf16(enum ommai_cpu_level level);

/* Reads n_words, a multiple of 8, and does as little as possible with them. */
void ommai_peak_read(const uint64_t *words, int64_t n_words);

#if defined(__x86_64__)
double ommai_peak_f32_avx2(int64_t rounds);
double ommai_peak_f32_avx512(int64_t rounds);
double ommai_peak_bf16_avx512_bf16(int64_t rounds);
double ommai_peak_bf16_amx(int64_t rounds);
#elif defined(__aarch64__)
double ommai_peak_f32_neon(int64_t rounds);
double ommai_peak_bf16_neon_bf16(int64_t rounds);
#endif
