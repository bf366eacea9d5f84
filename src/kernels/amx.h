/* Whether this process may compute with AMX. Most machines that its kernels are tested on have C
 * code in place of such instructions (tests/amx), so a process tries the kernels before it takes
 * them. x86-64 only. */
#pragma once

#include <stdbool.h>

/* What is missing, in words that follow "lacks" and "needs"; NULL: nothing. In this order: the
 * CPU's features, the operating system's support of tiles, its permission, which is asked for (and
 * which child processes inherit), and a self-test that passes. The answer is found once and kept,
 * as the permission is: so a caller that is to do without tiles does not ask. Thread-safe; takes
 * some milliseconds the first time. */
const char *ommai_amx_lacks(void);

/* Whether the CPU has all that the level amx needs of it, whatever the operating system gives. */
bool ommai_amx_in_cpu(void);

/* Compares the kernels with those of AVX-512 on small problems: integers must be equal, sums of
 * bf16 within 2 (n + 3) 2^-24 times the sum of the n products' magnitudes, and for few rows equal
 * to those of many, attention within 2^-6 of the largest value. One call at a time: it has one
 * place for its problems. */
bool ommai_amx_self_test(void);

/* Whether trial() returns true in a child process: not where it returns false, ends by a signal (an
 * instruction that faults), or no process can be made. The child sees a copy of the memory and has
 * one thread: the trial may not allocate or lock. Children and signals of the host program are left
 * alone: none is sent when this child ends. */
bool ommai_passes_in_child(bool (*trial)(void));
