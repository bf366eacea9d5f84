/* The peak loops with 512-bit registers: twenty-four chains of one instruction, which takes two
 * registers and adds to a third. */
#pragma once

#define OMMAI_PEAK_CHAINS_AVX512 24

/* Counts `left`, an int64_t of at least 1, down to 0. The assembler repeats the lines between .irp
 * and .endr. */
#define OMMAI_PEAK_LOOP_AVX512(instruction, left)                                                                        \
  __asm__ volatile(                                                                                                      \
      ".irp i, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"                                                                  \
      "vpxor %%xmm\\i, %%xmm\\i, %%xmm\\i\n"                                                                             \
      ".endr\n"                                                                                                          \
      ".irp i, 16,17,18,19,20,21,22,23,30,31\n"                                                                          \
      "vpxord %%zmm\\i, %%zmm\\i, %%zmm\\i\n"                                                                            \
      ".endr\n"                                                                                                          \
      "1:\n"                                                                                                             \
      ".irp i, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23\n" instruction                              \
      " %%zmm31, %%zmm30, %%zmm\\i\n"                                                                                    \
      ".endr\n"                                                                                                          \
      "dec %[count]\n"                                                                                                   \
      "jnz 1b\n"                                                                                                         \
      : [count] "+r"(left)                                                                                               \
      :                                                                                                                  \
      : "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", \
        "xmm13", "xmm14", "xmm15", "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", "xmm30", "xmm31")
