/* Many rows over weights with groups of inputs by VPDPBUSD: six rows and half of a panel's outputs
 * at a time, so that registers hold the sums over groups besides those of one group. With all of a
 * panel's outputs the sums would be loaded and stored for every group. */
#pragma once

#include "base/checked.h"
#include "kernels/row_groups.h"
#include "kernels/x86/add_dot_vnni.h"
#include "kernels/x86/integer_stream_vnni.h"

enum {
  GROUPS_ROWS = 6,
  GROUPS_VECTORS = 2,
  GROUPS_K = 2048,
  /* Above this many rows scales are made of their codes once, else for each pass. */
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
  const float *expanded; /* scales and minimums from group `begin` on; NULL: the panel's serve */
  int64_t begin;
};

INLINE __m512 groups_scales(const struct groups_part *part, const float *floats, int64_t g, int64_t column) {
  const struct ommai_integer_panel *panel = part->panel;
  if (!part->expanded) return load_scales(panel, floats, g, column);
  return _mm512_loadu_ps(part->expanded + (g - part->begin) * panel->scale_stride + (floats - panel->scales) + column);
}

/* Those of groups [begin, end). */
INLINE void groups_expand(const struct ommai_integer_panel *panel, int64_t begin, int64_t end, float *out) {
  for (int64_t g = begin; g < end; g++) {
    for (int64_t column = 0; column < panel->scale_stride; column += 16, out += 16) {
      _mm512_storeu_ps(out, load_scales(panel, panel->scales, g, column));
    }
  }
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

/* A line of weights from input k on: 4 of int8, 8 of int4. */
INLINE void groups_line(struct groups_part *part, int64_t k, const bool half, const int n_rows,
                        __m512i (*acc)[GROUPS_VECTORS]) {
  const __m512i low = _mm512_set1_epi8(15), flip = _mm512_set1_epi8((char)RAISED);
  const uint8_t *line = weights_at(part->panel, k, half) + 64 * part->first_vector;
  __m512i w[GROUPS_VECTORS], q[GROUPS_VECTORS];
  _mm_prefetch((const char *)part->coming, _MM_HINT_T1);
  part->coming += part->step;
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
INLINE void groups_add(struct groups_part *part, int64_t g, const bool half, const int n_rows,
                       __m512 (*total)[GROUPS_VECTORS]) {
  const struct ommai_integer_panel *panel = part->panel;
  const int32_t lower = -(half ? 0 : RAISED) - panel->zero;
  const int64_t column = 16 * part->first_vector;
  __m512i acc[GROUPS_ROWS][GROUPS_VECTORS];
  _mm_prefetch(part->coming_scales, _MM_HINT_T1);
  if (panel->minimums) _mm_prefetch(part->coming_scales + group_scale_bytes(panel) / 2, _MM_HINT_T1);
  part->coming_scales += part->scales_step;
#pragma GCC unroll 8
  for (int row = 0; row < n_rows; row++) {
    __m512i first = _mm512_set1_epi32(lower * part->x_sums[row * panel->n_groups + g]);
#pragma GCC unroll 8
    for (int v = 0; v < GROUPS_VECTORS; v++) acc[row][v] = first;
  }
  for (int64_t k = g * panel->group, end = ommai_integer_group_end(panel, g); k < end; k += half ? 8 : 4) {
    groups_line(part, k, half, n_rows, acc);
  }
#pragma GCC unroll 8
  for (int v = 0; v < GROUPS_VECTORS; v++) {
    __m512 scale = groups_scales(part, panel->scales, g, column + 16 * v);
#pragma GCC unroll 8
    for (int row = 0; row < n_rows; row++)
      total[row][v] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(acc[row][v]), scale, total[row][v]);
  }
  if (!panel->minimums) return;
  __m512 minimum[GROUPS_VECTORS];
#pragma GCC unroll 8
  for (int v = 0; v < GROUPS_VECTORS; v++) minimum[v] = groups_scales(part, panel->minimums, g, column + 16 * v);
#pragma GCC unroll 8
  for (int row = 0; row < n_rows; row++) {
    __m512 x_sum = _mm512_cvtepi32_ps(_mm512_set1_epi32(part->x_sums[row * panel->n_groups + g]));
#pragma GCC unroll 8
    for (int v = 0; v < GROUPS_VECTORS; v++) total[row][v] = _mm512_fnmadd_ps(minimum[v], x_sum, total[row][v]);
  }
}

/* sums [n_rows][64] of groups [begin, end), added where begin is not 0. */
INLINE void groups_of_part(struct groups_part *part, int64_t begin, int64_t end, const bool half, const int n_rows,
                           float *sums) {
  __m512 total[GROUPS_ROWS][GROUPS_VECTORS];
#pragma GCC unroll 8
  for (int row = 0; row < n_rows; row++) {
#pragma GCC unroll 8
    for (int v = 0; v < GROUPS_VECTORS; v++) {
      total[row][v] = begin ? _mm512_loadu_ps(sums + row * PANEL + 16 * (part->first_vector + v)) : _mm512_setzero_ps();
    }
  }
  for (int64_t g = begin; g < end; g++) groups_add(part, g, half, n_rows, total);
#pragma GCC unroll 8
  for (int row = 0; row < n_rows; row++) {
#pragma GCC unroll 8
    for (int v = 0; v < GROUPS_VECTORS; v++)
      _mm512_storeu_ps(sums + row * PANEL + 16 * (part->first_vector + v), total[row][v]);
  }
}

typedef void (*groups_kernel)(struct groups_part *part, int64_t begin, int64_t end, float *sums);

/* Functions of their own, so that each has the registers to itself. */
#define GROUPS(n)                                                                                                          \
  static __attribute__((noinline)) void groups_s8_##n(struct groups_part *part, int64_t begin, int64_t end, float *sums) { \
    groups_of_part(part, begin, end, false, n, sums);                                                                      \
  }                                                                                                                        \
  static __attribute__((noinline)) void groups_u4_##n(struct groups_part *part, int64_t begin, int64_t end, float *sums) { \
    groups_of_part(part, begin, end, true, n, sums);                                                                       \
  }
#define ALL_GROUPS GROUPS(1) GROUPS(2) GROUPS(3) GROUPS(4) GROUPS(5) GROUPS(6)
ALL_GROUPS

/* By the number of rows. */
static const groups_kernel groups_s8[GROUPS_ROWS + 1] = {NULL,        groups_s8_1, groups_s8_2, groups_s8_3,
                                                         groups_s8_4, groups_s8_5, groups_s8_6};
static const groups_kernel groups_u4[GROUPS_ROWS + 1] = {NULL,        groups_u4_1, groups_u4_2, groups_u4_3,
                                                         groups_u4_4, groups_u4_5, groups_u4_6};

/* The groups from `end` on, as many bytes of weights as there are before it: a quarter for each of
 * the first passes, 64 bytes with each line and each group; the others ask for nothing. */
INLINE void groups_ask(struct groups_part *part, int64_t end, int64_t bytes, int64_t pass, const bool half) {
  const struct ommai_integer_panel *panel = part->panel;
  const bool asks = pass < VECTORS;
  part->coming = weights_at(panel, ommai_integer_group_end(panel, end - 1), half) + (asks ? pass * bytes / VECTORS : 0);
  const int64_t lines = ommai_max_i64(group_scale_bytes(panel) / (panel->minimums ? 2 : 1) / 64, 1);
  part->coming_scales = group_scales(panel, end) + (asks ? pass % lines * 64 : 0);
  part->step = asks ? 64 : 0;
  part->scales_step = asks ? group_scale_bytes(panel) : 0;
}

/* As ommai_integer_kernel, for panels without weight_sums. As many groups at a time as lie in the
 * second level of cache next to the rows. */
static void groups_run(const struct ommai_integer_panel *panel, const struct ommai_integer_rows *rows, const bool half,
                       float *sums) {
  const int64_t together = GROUPS_K / panel->group;
  const bool expands = panel->codes && rows->n_rows > GROUPS_EXPAND_ROWS;
  float expanded[GROUPS_SCALES];
  for (int64_t begin = 0, end; begin < panel->n_groups; begin = end) {
    end = ommai_min_i64(begin + together, panel->n_groups);
    const int64_t bytes = (ommai_integer_group_end(panel, end - 1) - begin * panel->group) * PANEL / (half ? 2 : 1);
    struct groups_part part = {.panel = panel, .stride = rows->stride, .begin = begin, .expanded = expands ? expanded : NULL};
    if (expands) groups_expand(panel, begin, end, expanded);
    for (int64_t row = 0, n, pass = 0; row < rows->n_rows; row += n) {
      n = ommai_next_rows(rows->n_rows - row, GROUPS_ROWS);
      part.x = rows->x + row * rows->stride;
      part.x_sums = rows->sums + row * panel->n_groups;
      for (part.first_vector = 0; part.first_vector < VECTORS; part.first_vector += GROUPS_VECTORS) {
        groups_ask(&part, end, bytes, pass++, half);
        (half ? groups_u4 : groups_s8)[n](&part, begin, end, sums + row * PANEL);
      }
    }
  }
}
