/* Many rows over weights with groups of inputs by VPDPBUSD: six rows and half of a panel's outputs
 * at a time, so that registers hold the sums over groups besides those of one group. With all of a
 * panel's outputs the sums would be loaded and stored for every group. */
#pragma once

#include "base/checked.h"
#include "kernels/integer_panel_blocks.h"
#include "kernels/row_groups.h"
#include "kernels/x86/add_dot_vnni.h"
#include "kernels/x86/integer_stream_vnni.h"

enum {
  GROUPS_ROWS = 6,
  GROUPS_VECTORS = 2,
  GROUPS_K = 2048,
  /* Above this many rows scales are made of their codes once, and bytes of weights of 6 bits, else
   * for each pass. */
  GROUPS_EXPAND_ROWS = 16,
  GROUPS_SCALES = GROUPS_K / OMMAI_INTEGER_GROUP_STEP * 2 * PANEL
};

/* Rows, and from which of a panel's vectors on. */
struct groups_part {
  const struct ommai_integer_panel *panel;
  const int8_t *x;
  int64_t stride;
  const int32_t *x_sums; /* of the first group; next row's n_groups further */
  int first_vector;
  /* Of the next groups: what is asked for, a step further with each line and each group. */
  const uint8_t *coming;
  const char *coming_scales;
  int64_t step, scales_step;
  int64_t begin;          /* the first group of those below */
  const uint8_t *weights; /* the panel's, or its bytes */
  const float *expanded;  /* scales and minimums; NULL: the panel's serve */
};

INLINE __m512 groups_scales(const struct groups_part *part, int64_t g, int64_t column) {
  const struct ommai_integer_panel *panel = part->panel;
  if (!part->expanded) return load_scales(panel, g, column);
  return _mm512_loadu_ps(part->expanded + (g - part->begin) * panel->scale_stride + column);
}

/* Bytes of the weights of 6 bits of inputs [begin, end), as lines of 4 inputs. */
static void groups_expand_weights(const struct ommai_integer_panel *panel, int64_t begin, int64_t end, uint8_t *out) {
  for (int64_t k = begin; k < end; k += 16, out += 16 * PANEL) {
    const uint8_t *step = weights_at(panel, k, 6);
#pragma GCC unroll 4
    for (int m = 0; m < 4; m++) {
#pragma GCC unroll 4
      for (int v = 0; v < VECTORS; v++) {
        __m512i high = _mm512_loadu_si512(step + 64 * v), low = _mm512_loadu_si512(step + (m / 2 + 1) * 4 * PANEL + 64 * v);
        _mm512_storeu_si512(out + m * 4 * PANEL + 64 * v, six_bits(high, low, m));
      }
    }
  }
}

/* The weights from input k on. */
INLINE const uint8_t *groups_weights(const struct groups_part *part, int64_t k, const int bits) {
  return part->weights + (k - part->begin * part->panel->group) * PANEL * bits / 8 + 64 * part->first_vector;
}

/* acc += products of 4 inputs of each row. */
INLINE void groups_multiply4(const struct groups_part *part, int64_t k, const __m512i w[GROUPS_VECTORS], const int n_rows,
                             __m512i (*acc)[GROUPS_VECTORS]) {
#pragma GCC unroll 8
  for (int row = 0; row < n_rows; row++) {
    __m512i four = broadcast4(part->x + row * part->stride + k);
#pragma GCC unroll 8
    for (int v = 0; v < GROUPS_VECTORS; v++) ommai_vnni_add_dot(&acc[row][v], w[v], four);
  }
}

INLINE void groups_ask_line(struct groups_part *part) {
  _mm_prefetch((const char *)part->coming, _MM_HINT_T1);
  part->coming += part->step;
}

/* A step of weights of 6 bits from input k on. */
INLINE void groups_six_bits(struct groups_part *part, int64_t k, const int n_rows, __m512i (*acc)[GROUPS_VECTORS]) {
  const uint8_t *step = groups_weights(part, k, 6);
  __m512i high[GROUPS_VECTORS], low[GROUPS_VECTORS], q[GROUPS_VECTORS];
#pragma GCC unroll 8
  for (int v = 0; v < GROUPS_VECTORS; v++) high[v] = _mm512_loadu_si512(step + 64 * v);
#pragma GCC unroll 4
  for (int m = 0; m < 4; m++) {
    if (m < 3) groups_ask_line(part);
#pragma GCC unroll 8
    for (int v = 0; v < GROUPS_VECTORS; v++) {
      if (m % 2 == 0) low[v] = _mm512_loadu_si512(step + (m / 2 + 1) * 4 * PANEL + 64 * v);
      q[v] = six_bits(high[v], low[v], m);
    }
    groups_multiply4(part, k + 4 * m, q, n_rows, acc);
  }
}

/* A line of weights from input k on: 4 of 8 bits, 8 of 4 bits. */
INLINE void groups_line(struct groups_part *part, int64_t k, const bool half, const int n_rows,
                        __m512i (*acc)[GROUPS_VECTORS]) {
  const __m512i low = _mm512_set1_epi8(15), flip = _mm512_set1_epi8((char)RAISED);
  const uint8_t *line = groups_weights(part, k, half ? 4 : 8);
  __m512i w[GROUPS_VECTORS], q[GROUPS_VECTORS];
  groups_ask_line(part);
#pragma GCC unroll 8
  for (int v = 0; v < GROUPS_VECTORS; v++) {
    w[v] = _mm512_loadu_si512(line + 64 * v);
    q[v] = half ? _mm512_and_si512(w[v], low) : _mm512_xor_si512(w[v], flip);
  }
  groups_multiply4(part, k, q, n_rows, acc);
  if (!half) return;
#pragma GCC unroll 8
  for (int v = 0; v < GROUPS_VECTORS; v++) q[v] = _mm512_and_si512(_mm512_srli_epi16(w[v], 4), low);
  groups_multiply4(part, k + 4, q, n_rows, acc);
}

/* total += group g. */
INLINE void groups_add(struct groups_part *part, int64_t g, const int bits, const int n_rows, __m512 (*total)[GROUPS_VECTORS]) {
  const struct ommai_integer_panel *panel = part->panel;
  const int32_t lower = -(bits == 8 ? RAISED : 0) - panel->zero;
  const int64_t column = 16 * part->first_vector;
  __m512i acc[GROUPS_ROWS][GROUPS_VECTORS];
  _mm_prefetch(part->coming_scales, _MM_HINT_T1);
  if (panel->has_minimums) _mm_prefetch(part->coming_scales + integer_stored_scale_bytes(panel) / 2, _MM_HINT_T1);
  part->coming_scales += part->scales_step;
#pragma GCC unroll 8
  for (int row = 0; row < n_rows; row++) {
    __m512i first = _mm512_set1_epi32(lower * part->x_sums[row * panel->n_groups + g]);
#pragma GCC unroll 8
    for (int v = 0; v < GROUPS_VECTORS; v++) acc[row][v] = first;
  }
  for (int64_t k = g * panel->group, end = ommai_integer_group_end(panel, g); k < end; k += step_inputs(bits)) {
    if (bits == 6) {
      groups_six_bits(part, k, n_rows, acc);
    } else {
      groups_line(part, k, bits == 4, n_rows, acc);
    }
  }
#pragma GCC unroll 8
  for (int v = 0; v < GROUPS_VECTORS; v++) {
    __m512 scale = groups_scales(part, g, column + 16 * v);
#pragma GCC unroll 8
    for (int row = 0; row < n_rows; row++)
      total[row][v] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(acc[row][v]), scale, total[row][v]);
  }
  if (!panel->has_minimums) return;
  __m512 minimum[GROUPS_VECTORS];
#pragma GCC unroll 8
  for (int v = 0; v < GROUPS_VECTORS; v++) minimum[v] = groups_scales(part, g, PANEL + column + 16 * v);
#pragma GCC unroll 8
  for (int row = 0; row < n_rows; row++) {
    __m512 x_sum = _mm512_cvtepi32_ps(_mm512_set1_epi32(part->x_sums[row * panel->n_groups + g]));
#pragma GCC unroll 8
    for (int v = 0; v < GROUPS_VECTORS; v++) total[row][v] = _mm512_fnmadd_ps(minimum[v], x_sum, total[row][v]);
  }
}

/* sums [n_rows][64] of groups [begin, end), added where begin is not 0. */
INLINE void groups_of_part(struct groups_part *part, int64_t begin, int64_t end, const int bits, const int n_rows,
                           float *sums) {
  __m512 total[GROUPS_ROWS][GROUPS_VECTORS];
#pragma GCC unroll 8
  for (int row = 0; row < n_rows; row++) {
#pragma GCC unroll 8
    for (int v = 0; v < GROUPS_VECTORS; v++) {
      total[row][v] = begin ? _mm512_loadu_ps(sums + row * PANEL + 16 * (part->first_vector + v)) : _mm512_setzero_ps();
    }
  }
  for (int64_t g = begin; g < end; g++) groups_add(part, g, bits, n_rows, total);
#pragma GCC unroll 8
  for (int row = 0; row < n_rows; row++) {
#pragma GCC unroll 8
    for (int v = 0; v < GROUPS_VECTORS; v++)
      _mm512_storeu_ps(sums + row * PANEL + 16 * (part->first_vector + v), total[row][v]);
  }
}

typedef void (*groups_kernel)(struct groups_part *part, int64_t begin, int64_t end, float *sums);

/* Functions of their own, so that each has the registers to itself. */
#define GROUPS_OF(name, bits, n)                                                                                              \
  static                                                                                                                      \
      __attribute__((noinline)) void groups_##name##_##n(struct groups_part *part, int64_t begin, int64_t end, float *sums) { \
    groups_of_part(part, begin, end, bits, n, sums);                                                                          \
  }
#define GROUPS(n) GROUPS_OF(s8, 8, n) GROUPS_OF(u6, 6, n) GROUPS_OF(u4, 4, n)
#define ALL_GROUPS GROUPS(1) GROUPS(2) GROUPS(3) GROUPS(4) GROUPS(5) GROUPS(6)
ALL_GROUPS

/* By the number of rows. */
static const groups_kernel groups_s8[GROUPS_ROWS + 1] = {NULL,        groups_s8_1, groups_s8_2, groups_s8_3,
                                                         groups_s8_4, groups_s8_5, groups_s8_6};
static const groups_kernel groups_u4[GROUPS_ROWS + 1] = {NULL,        groups_u4_1, groups_u4_2, groups_u4_3,
                                                         groups_u4_4, groups_u4_5, groups_u4_6};
static const groups_kernel groups_u6[GROUPS_ROWS + 1] = {NULL,        groups_u6_1, groups_u6_2, groups_u6_3,
                                                         groups_u6_4, groups_u6_5, groups_u6_6};

/* The groups from `end` on, as many bytes of weights as there are before it: a quarter for each of
 * the first passes, 64 bytes with each line and each group; the others ask for nothing. */
INLINE void groups_ask(struct groups_part *part, int64_t end, int64_t bytes, int64_t pass, const int bits) {
  const struct ommai_integer_panel *panel = part->panel;
  const bool asks = pass < VECTORS;
  part->coming = weights_at(panel, ommai_integer_group_end(panel, end - 1), bits) + (asks ? pass * bytes / VECTORS : 0);
  const int64_t lines = ommai_max_i64(integer_stored_scale_bytes(panel) / (panel->has_minimums ? 2 : 1) / 64, 1);
  part->coming_scales = integer_stored_scales(panel, end) + (asks ? pass % lines * 64 : 0);
  part->step = asks ? 64 : 0;
  part->scales_step = asks ? integer_stored_scale_bytes(panel) : 0;
}

/* All rows over groups [begin, end) of a part, whose weights have `bits`; the panel's have
 * panel_bits. */
INLINE void groups_all_rows(struct groups_part *part, const struct ommai_integer_rows *rows, int64_t end, const int bits,
                            const int panel_bits, float *sums) {
  const struct ommai_integer_panel *panel = part->panel;
  const groups_kernel *kernels = bits == 8 ? groups_s8 : bits == 4 ? groups_u4 : groups_u6;
  const int64_t n_inputs = ommai_integer_group_end(panel, end - 1) - part->begin * panel->group;
  for (int64_t row = 0, n, pass = 0; row < rows->n_rows; row += n) {
    n = ommai_next_rows(rows->n_rows - row, GROUPS_ROWS);
    part->x = rows->x + row * rows->stride;
    part->x_sums = rows->sums + row * panel->n_groups;
    for (part->first_vector = 0; part->first_vector < VECTORS; part->first_vector += GROUPS_VECTORS) {
      groups_ask(part, end, n_inputs * PANEL * panel_bits / 8, pass++, panel_bits);
      kernels[n](part, part->begin, end, sums + row * PANEL);
    }
  }
}

/* As many groups at a time as lie in the second level of cache next to the rows. bytes
 * [GROUPS_K][64]: for those of weights of 6 bits; NULL: they are taken as they lie. */
INLINE void groups_each(const struct ommai_integer_panel *panel, const struct ommai_integer_rows *rows, const int bits,
                        uint8_t *bytes, float *sums) {
  const bool expands = panel->codes && rows->n_rows > GROUPS_EXPAND_ROWS;
  float expanded[GROUPS_SCALES];
  for (int64_t begin = 0, end; begin < panel->n_groups; begin = end) {
    const int64_t first = begin * panel->group;
    end = ommai_min_i64(begin + GROUPS_K / panel->group, panel->n_groups);
    struct groups_part part = {.panel = panel,
                               .stride = rows->stride,
                               .begin = begin,
                               .weights = bytes ? bytes : weights_at(panel, first, bits),
                               .expanded = expands ? expanded : NULL};
    if (expands) integer_scales_of_groups(panel, begin, end, expanded);
    if (bytes) {
      groups_expand_weights(panel, first, ommai_integer_group_end(panel, end - 1), bytes);
      groups_all_rows(&part, rows, end, 8, bits, sums);
    } else {
      groups_all_rows(&part, rows, end, bits, bits, sums);
    }
  }
}

static __attribute__((noinline)) void groups_run_unpacked(const struct ommai_integer_panel *panel,
                                                          const struct ommai_integer_rows *rows, float *sums) {
  _Alignas(64) uint8_t bytes[GROUPS_K * PANEL];
  groups_each(panel, rows, 6, bytes, sums);
}

/* As ommai_integer_kernel, for panels without weight_sums. */
INLINE void groups_run(const struct ommai_integer_panel *panel, const struct ommai_integer_rows *rows, const int bits,
                       float *sums) {
  if (bits == 6 && rows->n_rows > GROUPS_EXPAND_ROWS) {
    groups_run_unpacked(panel, rows, sums);
  } else {
    groups_each(panel, rows, bits, NULL, sums);
  }
}
