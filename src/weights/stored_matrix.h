/* Weights that a file keeps in a format of its own, such as a quantised one. The readers of such
 * files make these; the code that packs weights reads them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* A group's scale and minimum as small integers times what several groups have in common. The
 * products are exact. */
struct ommai_scale_factors {
  float scale, minimum;
  int8_t scale_code, minimum_code;
};

/* A matrix [outputs][inputs] in such a format. Its values are those that the format defines, in
 * f32. Immutable; the functions may be called by any number of threads at once. */
struct ommai_stored_matrix {
  const void *context; /* for the functions */
  /* out[i] = W[output][first + i] for i < n. */
  void (*values)(const void *context, int64_t output, int64_t first, int64_t n, float *out);

  /* Where the values are integers times a scale, with one scale for `group` inputs each (a divisor
   * of the inputs, or all of them):
   *   W[output][i] = scale * (q[i] - zero) - minimum, q in 0 .. 15 where bits is 4, in 0 .. 63
   *   where it is 6, in -128 .. 127 where it is 8; minimum is 0 where not has_minimums; zero is 8
   *   or 32 where the integers of 4 or 6 bits lie around it (symmetric formats, which then need no
   *   minimums), else 0
   * integers, called for group 0 .. inputs / group - 1, gives those of one group: q [group], one
   * byte each. bits 0: there are no such integers, and the other members do not count. */
  int bits;
  int64_t group;
  bool has_minimums;
  int zero;
  void (*integers)(const void *context, int64_t output, int64_t group, int8_t *q, float *scale, float *minimum);

  /* Inputs whose groups have scale factors in common (whole groups; a divisor of the inputs).
   * factors, called for the same groups, gives those of one. 0: there are none, and factors is not
   * called. */
  int64_t shared;
  void (*factors)(const void *context, int64_t output, int64_t group, struct ommai_scale_factors *out);
  bool has_half_scales; /* scales and minimums are numbers of f16 */
};
