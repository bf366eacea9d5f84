/* Twelve chains of eight f32 multiply-adds in registers: enough to cover the latency of two
 * units. */
#include "kernels/peak.h"

/* The assembler repeats the lines between .irp and .endr. */
double ommai_peak_f32_avx2(int64_t rounds) {
  int64_t left = rounds;
  __asm__ volatile(
      ".irp i, 0,1,2,3,4,5,6,7,8,9,10,11,14,15\n"
      "vpxor %%xmm\\i, %%xmm\\i, %%xmm\\i\n"
      ".endr\n"
      "1:\n"
      ".irp i, 0,1,2,3,4,5,6,7,8,9,10,11\n"
      "vfmadd231ps %%ymm15, %%ymm14, %%ymm\\i\n"
      ".endr\n"
      "dec %[left]\n"
      "jnz 1b\n"
      : [left] "+r"(left)
      :
      : "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm14",
        "xmm15");
  return (double)rounds * 12 * 16;
}
