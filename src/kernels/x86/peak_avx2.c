/* Twelve chains of eight f32 multiply-adds in registers: enough to cover the latency of two units. */
#include "kernels/peak.h"

double ommai_peak_f32_avx2(int64_t rounds) {
  int64_t left = rounds;
  __asm__ volatile(
      "vpxor %%xmm0, %%xmm0, %%xmm0\n"
      "vpxor %%xmm1, %%xmm1, %%xmm1\n"
      "vpxor %%xmm2, %%xmm2, %%xmm2\n"
      "vpxor %%xmm3, %%xmm3, %%xmm3\n"
      "vpxor %%xmm4, %%xmm4, %%xmm4\n"
      "vpxor %%xmm5, %%xmm5, %%xmm5\n"
      "vpxor %%xmm6, %%xmm6, %%xmm6\n"
      "vpxor %%xmm7, %%xmm7, %%xmm7\n"
      "vpxor %%xmm8, %%xmm8, %%xmm8\n"
      "vpxor %%xmm9, %%xmm9, %%xmm9\n"
      "vpxor %%xmm10, %%xmm10, %%xmm10\n"
      "vpxor %%xmm11, %%xmm11, %%xmm11\n"
      "vpxor %%xmm14, %%xmm14, %%xmm14\n"
      "vpxor %%xmm15, %%xmm15, %%xmm15\n"
      "1:\n"
      "vfmadd231ps %%ymm15, %%ymm14, %%ymm0\n"
      "vfmadd231ps %%ymm15, %%ymm14, %%ymm1\n"
      "vfmadd231ps %%ymm15, %%ymm14, %%ymm2\n"
      "vfmadd231ps %%ymm15, %%ymm14, %%ymm3\n"
      "vfmadd231ps %%ymm15, %%ymm14, %%ymm4\n"
      "vfmadd231ps %%ymm15, %%ymm14, %%ymm5\n"
      "vfmadd231ps %%ymm15, %%ymm14, %%ymm6\n"
      "vfmadd231ps %%ymm15, %%ymm14, %%ymm7\n"
      "vfmadd231ps %%ymm15, %%ymm14, %%ymm8\n"
      "vfmadd231ps %%ymm15, %%ymm14, %%ymm9\n"
      "vfmadd231ps %%ymm15, %%ymm14, %%ymm10\n"
      "vfmadd231ps %%ymm15, %%ymm14, %%ymm11\n"
      "dec %[left]\n"
      "jnz 1b\n"
      : [left] "+r"(left)
      :
      : "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm14",
        "xmm15");
  return (double)rounds * 12 * 16;
}
