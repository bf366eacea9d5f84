/* Twenty-four chains of sixteen bf16 multiply-adds (two rows by two columns by four) in
 * registers. */
#include "kernels/arm/peak_chains_neon.h"
#include "kernels/peak.h"

double ommai_peak_bf16_neon_bf16(int64_t rounds) {
  int64_t left = rounds;
  OMMAI_PEAK_LOOP_NEON("bfmmla", "8h", left);
  return (double)rounds * OMMAI_PEAK_CHAINS_NEON * 32;
}
