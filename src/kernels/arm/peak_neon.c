/* Twenty-four chains of four f32 multiply-adds in registers. */
#include "kernels/arm/peak_chains_neon.h"
#include "kernels/peak.h"

double ommai_peak_f32_neon(int64_t rounds) {
  int64_t left = rounds;
  OMMAI_PEAK_LOOP_NEON("fmla", "4s", left);
  return (double)rounds * OMMAI_PEAK_CHAINS_NEON * 8;
}
