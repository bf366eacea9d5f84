/* Rows of 8-bit integers times a panel of 64 outputs of weights in 8, 6 or 4 bits: few rows
 * (decoding) and tiles alike.
 *
 * A row r of inputs is integers x_r and one scale; a weight of output n is W[n][k] = scale[g][n] *
 * (q[n][k] - zero) - minimum[g][n], g being k's group of inputs. What the kernels compute is, for
 * each row and output, in this order and for every row count:
 *
 *   sum = 0
 *   for each group g:
 *     acc = sum over the group's k of x_r[k] * (q[n][k] - zero)               exact, in 32 bits
 *     sum = fma((float)acc, scale[g][n], sum)
 *     sum = fma(-minimum[g][n], (float)(sum over the group's k of x_r[k]), sum)      where there
 *     are minimums
 *
 * So all levels, all row counts, tiles and few rows give the same bits. Rows whose inputs have a
 * zero point z_r (x - z_r is meant) bring z_r, and the weights the sums of their q: acc is less by
 * z_r * weight_sum[n] then. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/half.h"
#include "kernels/gemv.h"

#define OMMAI_INTEGER_MAX_GROUP 256    /* where there are several */
#define OMMAI_INTEGER_GROUP_STEP 16    /* groups are multiples of this many inputs */
#define OMMAI_INTEGER_MAX_INPUTS 65536 /* sums of this many products stay below 2^31 */

/* One panel. */
struct ommai_integer_panel {
  const void *weights;   /* OMMAI_WEIGHTS_S8_PANELS, _U6_PANELS or _U4_PANELS */
  /* [n_groups][64], groups scale_stride apart; with minimums these 64 elements after the scales */
  const float *scales;
  bool has_minimums;
  int64_t scale_stride; /* elements */
  /* NULL, or one of these: f16 in place of scales, which are NULL then; or what scales and minimums
   * are multiplied by, exactly, for each group, of which 2^shared have a scale in common then. */
  const ommai_f16 *halves;
  const int8_t *codes;
  int shared;
  /* [64]; NULL where the rows have no zero points; else there is one group */
  const int32_t *weight_sums;
  int64_t n_groups, group; /* of `group` inputs, the last may end at k_padded */
  int64_t k_padded;
  int zero; /* 8 or 0 with U4_PANELS, 32 or 0 with U6_PANELS, else 0 */
};

struct ommai_integer_rows {
  /* [n_rows][stride], zeros from n_in to k_padded; no -128 with U4 and U6_PANELS */
  const int8_t *x;
  int64_t stride;       /* at least k_padded */
  const int32_t *sums;  /* [n_rows][n_groups] */
  const int32_t *zeros; /* [n_rows]; looked at where there are weight_sums */
  int64_t n_rows;       /* any number */
};

/* sums [n_rows][64], written. Pointers need their element's alignment only. */
typedef void (*ommai_integer_kernel)(const struct ommai_integer_panel *panel, const struct ommai_integer_rows *rows,
                                     float *sums);

/* One row over OMMAI_GEMV_PANELS panels of a layer side by side: sums [OMMAI_GEMV_PANELS][64],
 * written, with the bits that the kernel for one panel gives. The panels differ in weights, scales
 * and minimums alone, and have no weight_sums. */
typedef void (*ommai_integer_row_kernel)(const struct ommai_integer_panel *panels, const struct ommai_integer_rows *row,
                                         float *sums);

struct ommai_integer_kernels {
  enum ommai_cpu_level level;
  bool uses_vnni; /* at level avx512 beyond what the level has: see ommai_cpu_has_vnni */
  ommai_integer_kernel s8, u4;
  ommai_integer_kernel u6; /* NULL: weights of 6 bits are kept in 8 */
  /* NULL: memory brings one panel after the other as fast */
  ommai_integer_row_kernel row_s8, row_u4;
  /* Rows of a tile that a call takes best where weights have one group, with their outputs asked
   * for before: sums that are still in the first level of cache when they are finished. 0: all,
   * and nothing is asked for. */
  int64_t rows_together;
  /* The same, to the bit, for a CPU whose first level of cache is small; NULL: this does. */
  const struct ommai_integer_kernels *small_l1;
};

/* All there are: X(level). */
#if defined(__x86_64__)
#define OMMAI_INTEGER_KERNELS(X) X(scalar) X(avx2) X(avx2_vnni) X(avx512) X(avx512_vnni) X(amx)
#elif defined(__aarch64__)
#define OMMAI_INTEGER_KERNELS(X) X(scalar) X(neon) X(neon_dotprod) X(neon_bf16)
#else
#define OMMAI_INTEGER_KERNELS(X) X(scalar)
#endif
#define OMMAI_INTEGER_DECLARE(level) extern const struct ommai_integer_kernels ommai_integer_##level;
OMMAI_INTEGER_KERNELS(OMMAI_INTEGER_DECLARE)
#undef OMMAI_INTEGER_DECLARE

/* As a list; whether this machine runs one; and the best that it runs up to `level`. */
extern const struct ommai_integer_kernels *const ommai_integer_kernels[];
bool ommai_integer_runs(const struct ommai_integer_kernels *kernels);
const struct ommai_integer_kernels *ommai_integer_select(enum ommai_cpu_level level);

/* Of the table of level amx. */
void ommai_integer_row_s8_amx(const struct ommai_integer_panel *panels, const struct ommai_integer_rows *row, float *sums);
void ommai_integer_row_u4_amx(const struct ommai_integer_panel *panels, const struct ommai_integer_rows *row, float *sums);

/* The end of group g. */
static inline int64_t ommai_integer_group_end(const struct ommai_integer_panel *panel, int64_t g) {
  int64_t end = (g + 1) * panel->group;
  return end < panel->k_padded ? end : panel->k_padded;
}
