/* The loops that the integer kernels of all vector levels share: groups of inputs, blocks of a long
 * group, all rows over each block. */
#pragma once

#include <stdbool.h>
#if defined(__F16C__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "base/checked.h"
#include "kernels/integer_panel.h"
#include "kernels/row_groups.h"

/* Some inputs of one group, and rows. Between the blocks of the only group, `sums` holds 32-bit
 * integers. */
struct integer_block {
  const struct ommai_integer_panel *panel;
  const uint8_t *weights; /* from the block's first input on */
  const int8_t *x;        /* likewise, of the first row */
  int64_t stride, n_rows, n_k;
  int64_t group;                  /* which one it is */
  const float *scales, *minimums; /* the group's, codes included */
  const int32_t *x_sums;          /* the group's, of the first row; next row's n_groups further */
  const int32_t *zeros;
  bool first_group, begins, ends; /* of its group */
  float *sums;                    /* [n_rows][64] */
};

/* The block for some of its rows. */
static inline struct integer_block integer_block_rows(const struct integer_block *block, int64_t row, int64_t n_rows) {
  struct integer_block some = *block;
  some.x += row * block->stride;
  some.x_sums += row * block->panel->n_groups;
  some.zeros += block->panel->weight_sums ? row : 0;
  some.sums += row * OMMAI_PANEL_COLUMNS;
  some.n_rows = n_rows;
  return some;
}

/* What lies in memory for each group: halves, codes, or else scales, with their minimums. */
static inline const char *integer_stored_scales(const struct ommai_integer_panel *panel, int64_t g) {
  const int64_t at = g * panel->scale_stride;
  if (panel->halves) return (const char *)(panel->halves + at);
  return panel->codes ? (const char *)(panel->codes + at) : (const char *)(panel->scales + at);
}

static inline int64_t integer_stored_scale_bytes(const struct ommai_integer_panel *panel) {
  return panel->scale_stride * (int64_t)(panel->halves ? sizeof *panel->halves : panel->codes ? 1 : sizeof *panel->scales);
}

static inline void integer_floats_of_halves(const ommai_f16 *halves, int64_t n, float *out) {
#if defined(__F16C__)
  for (int64_t i = 0; i < n; i += 8) {
    _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(halves + i))));
  }
#elif defined(__aarch64__)
  for (int64_t i = 0; i < n; i += 4) vst1q_f32(out + i, vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(halves + i))));
#else
  for (int64_t i = 0; i < n; i++) out[i] = ommai_f16_to_f32(halves[i]);
#endif
}

/* Scales of group g, the minimums after them: the panel's, or in `expanded` what halves and codes
 * stand for. */
static inline const float *integer_group_scales(const struct ommai_integer_panel *panel, int64_t g,
                                                float expanded[2 * OMMAI_PANEL_COLUMNS]) {
  const int64_t at = g * panel->scale_stride, n = panel->has_minimums ? 2 * OMMAI_PANEL_COLUMNS : OMMAI_PANEL_COLUMNS;
  if (panel->halves) {
    integer_floats_of_halves(panel->halves + at, n, expanded);
    return expanded;
  }
  const float *scales = panel->scales + (g >> panel->shared) * panel->scale_stride;
  if (!panel->codes) return scales;
  for (int64_t i = 0; i < n; i++) expanded[i] = scales[i] * (float)panel->codes[at + i];
  return expanded;
}

/* The same of groups [begin, end), one after the other. */
static inline const float *integer_scales_of_groups(const struct ommai_integer_panel *panel, int64_t begin, int64_t end,
                                                    float *expanded) {
  if (!panel->halves && !panel->codes) return panel->scales + begin * panel->scale_stride;
  for (int64_t g = begin; g < end; g++) integer_group_scales(panel, g, expanded + (g - begin) * panel->scale_stride);
  return expanded;
}

/* Calls run for every block, in order: whole groups, but where there is one only and more than
 * gemv_rows rows, of at most block_k inputs. element_bits: of a weight. */
static inline void integer_for_each_block(const struct ommai_integer_panel *panel, const struct ommai_integer_rows *rows,
                                          int element_bits, int64_t gemv_rows, int64_t block_k, float *sums,
                                          void (*run)(const struct integer_block *block)) {
  float expanded[2 * OMMAI_PANEL_COLUMNS];
  for (int64_t g = 0; g < panel->n_groups; g++) {
    const float *scales = integer_group_scales(panel, g, expanded);
    int64_t begin = g * panel->group, end = ommai_integer_group_end(panel, g);
    int64_t step = panel->n_groups > 1 || rows->n_rows <= gemv_rows ? end - begin : block_k;
    struct integer_block block = {.panel = panel,
                                  .stride = rows->stride,
                                  .n_rows = rows->n_rows,
                                  .group = g,
                                  .scales = scales,
                                  .minimums = panel->has_minimums ? scales + OMMAI_PANEL_COLUMNS : NULL,
                                  .x_sums = rows->sums + g,
                                  .zeros = rows->zeros,
                                  .first_group = g == 0,
                                  .sums = sums};
    for (int64_t k = begin; k < end; k += step) {
      block.weights = (const uint8_t *)panel->weights + k * OMMAI_PANEL_COLUMNS * element_bits / 8;
      block.x = rows->x + k;
      block.n_k = ommai_min_i64(step, end - k);
      block.begins = k == begin;
      block.ends = k + step >= end;
      run(&block);
    }
  }
}

/* The next block's weights, on their way into the second level of cache while many rows pass over
 * this one: they are read in a burst, which hardware prefetchers miss. May run past the end of
 * the weights. */
struct integer_coming {
  const uint8_t *at;
  int64_t bytes; /* for each group of rows */
};

static inline struct integer_coming integer_coming(const struct integer_block *block, int element_bits, int max_rows) {
  int64_t bytes = block->n_k * OMMAI_PANEL_COLUMNS * element_bits / 8;
  return (struct integer_coming){block->weights + bytes, bytes / ommai_div_up(block->n_rows, max_rows) + 64};
}

static inline void integer_prefetch(struct integer_coming *coming) {
  for (int64_t done = 0; done < coming->bytes; done += 64) __builtin_prefetch(coming->at + done, 0, 2);
  coming->at += coming->bytes / 64 * 64;
}

/* The same for few rows, whose weights come from memory: what lies INTEGER_STREAM_BYTES ahead, into
 * the first level of cache, in equal shares over all loops that pass over the block's lines, so
 * that memory works as evenly as the arithmetic does. A block has no more bytes than that. */
enum { INTEGER_STREAM_BYTES = 8192, INTEGER_STREAM_K = 128, INTEGER_LINE = 4 * OMMAI_PANEL_COLUMNS };

static inline struct integer_coming integer_stream(const struct integer_block *block) {
  return (struct integer_coming){.at = block->weights + INTEGER_STREAM_BYTES};
}

/* One line's share, coming->bytes: at most `max_pieces` pieces of 64 bytes. near: into the first
 * level of cache, else into the second, which can wait for more of them at a time. */
static inline __attribute__((always_inline)) void integer_stream_line(struct integer_coming *coming, const int max_pieces,
                                                                      const bool near) {
#pragma GCC unroll 4
  for (int i = 0; i < max_pieces; i++) {
    if (near) {
      __builtin_prefetch(coming->at + 64 * i);
    } else {
      __builtin_prefetch(coming->at + 64 * i, 0, 2);
    }
  }
  coming->at += coming->bytes;
}

/* Scales and minimums of groups to come, a stream of short bursts besides the weights. May run past
 * the end. */
static inline void integer_prefetch_scales(const struct integer_block *block) {
  enum { GROUPS_AHEAD = 8 };
  const struct ommai_integer_panel *panel = block->panel;
  const char *coming = integer_stored_scales(panel, block->group + GROUPS_AHEAD);
  for (int64_t i = 0; i < integer_stored_scale_bytes(panel); i += 64) __builtin_prefetch(coming + i);
}
