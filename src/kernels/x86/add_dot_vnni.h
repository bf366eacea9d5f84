/* VPDPBUSD for kernels that hold many sums in registers. */
#pragma once

#include <immintrin.h>

/* In each lane sum += the products of the four bytes of a, unsigned, and b, signed. Not the
 * intrinsic: around that GCC 12 copies all sums to other registers or to memory. */
static inline __attribute__((always_inline)) void ommai_vnni_add_dot(__m512i *sum, __m512i a, __m512i b) {
  __asm__("vpdpbusd %2, %1, %0" : "+v"(*sum) : "v"(a), "v"(b));
}
