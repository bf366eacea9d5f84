/* Twenty-four chains of sixteen f32 multiply-adds in registers. */
#include "kernels/peak.h"
#include "kernels/x86/peak_chains_avx512.h"

double ommai_peak_f32_avx512(int64_t rounds) {
  int64_t left = rounds;
  OMMAI_PEAK_LOOP_AVX512("vfmadd231ps", left);
  return (double)rounds * OMMAI_PEAK_CHAINS_AVX512 * 32;
}
