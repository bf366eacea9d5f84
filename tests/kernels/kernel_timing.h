/* Timing of single kernels, compared with the peak of the same core in the same moments. */
#pragma once

#include "kernels/kernel_entry.h"

struct kernel_time {
  double ns; /* per call, the best batch; 0: not timed */
  double gflops;
  /* of the kernel's level: bf16 products for bf16 kernels where it has them, else f32 */
  double peak_gflops;
  char shape[40];
};

/* Repeats the entry's call for about `seconds`. The peak is taken before and after, the better of
 * the two. */
struct kernel_time kernel_time_entry(const struct kernel_entry *entry, double seconds);
