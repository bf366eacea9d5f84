/* The peak loops with 128-bit registers: twenty-four chains of one instruction, which takes two
 * registers and adds to a third. */
#pragma once

#define OMMAI_PEAK_CHAINS_NEON 24

/* Counts `left`, an int64_t of at least 1, down to 0. `lanes`: how the instruction names its
 * inputs, "4s". The assembler repeats the lines between .irp and .endr. */
#define OMMAI_PEAK_LOOP_NEON(instruction, lanes, left)                                                                     \
  __asm__ volatile(                                                                                                        \
      ".irp i, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,30,31\n"                                      \
      "movi v\\i\\().4s, #0\n"                                                                                             \
      ".endr\n"                                                                                                            \
      "1:\n"                                                                                                               \
      ".irp i, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23\n" instruction " v\\i\\().4s, v30." lanes     \
      ", v31." lanes                                                                                                       \
      "\n"                                                                                                                 \
      ".endr\n"                                                                                                            \
      "subs %[count], %[count], #1\n"                                                                                      \
      "b.ne 1b\n"                                                                                                          \
      : [count] "+r"(left)                                                                                                 \
      :                                                                                                                    \
      : "cc", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15", "v16", \
        "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v30", "v31")
