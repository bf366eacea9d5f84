/* Twenty-four chains of thirty-two bf16 multiply-adds in registers. */
#include "kernels/peak.h"
#include "kernels/x86/peak_chains_avx512.h"

#ifndef OMMAI_VDPBF16PS
#define OMMAI_VDPBF16PS "vdpbf16ps"
#endif

double ommai_peak_bf16_avx512_bf16(int64_t rounds) {
  int64_t left = rounds;
  OMMAI_PEAK_LOOP_AVX512(OMMAI_VDPBF16PS, left);
  return (double)rounds * OMMAI_PEAK_CHAINS_AVX512 * 64;
}
