/* Pieces of the AVX-512 tile kernels, which have the queries in the lanes: products with 8 units of
 * a broadcast, the softmax's running maximum, rows in and out. For an including file that defines,
 * before the include, what attention_tile_avx512.h lists: UNIT_DIMS, UNIT_KEYS, STEP_BLOCKS,
 * SIGN_BITS, first_elements, load_units, multiply_add, make_unit and store_units. */
#pragma once

#include <math.h>

#include "base/checked.h"
#include "kernels/attention_kernels.h"
#include "kernels/attention_prefetch.h"
#include "kernels/x86/attention_avx512.h"

enum {
  BLOCK = OMMAI_ATTENTION_BLOCK,
  LANES = 16,
  MAX_NV = 3,
  GROUP = 8,
  BLOCK_UNITS = BLOCK / UNIT_KEYS,
  STEP_KEYS = STEP_BLOCKS * BLOCK
};

#define LOG2_E 1.44269504088896340736f

static inline int64_t value_groups(int32_t v_head_dim) { return ommai_div_up(v_head_dim, GROUP); }

/* Sums of the second product: whole squares of 16. */
static inline int64_t sum_units(int32_t v_head_dim) { return ommai_round_up(v_head_dim, LANES * UNIT_DIMS) * MAX_NV * LANES; }

/* Units of a row of q and k. */
static inline int64_t key_units(int32_t head_dim) { return ommai_div_up(head_dim, UNIT_DIMS); }

/* Packed queries are whole squares of 16. */
static inline int64_t query_units(int32_t head_dim) { return ommai_round_up(key_units(head_dim), LANES) * MAX_NV * LANES; }

/* Query rows to [units][16 nv]; with a negative scale the signs are turned instead, so that the
 * largest product is always the largest score. */
OMMAI_INLINE void pack_queries(const struct ommai_attention_tile *tile, uint32_t *out, int nv, enum omma_dtype dtype) {
  int64_t units = key_units(tile->head_dim), stride = tile->q_stride * (dtype == OMMA_F32 ? 4 : 2);
  __m512i sign = _mm512_set1_epi32(tile->scale < 0.0f ? (int)SIGN_BITS : 0);
  for (int v = 0; v < nv; v++) {
    const unsigned char *rows = (const unsigned char *)tile->q + v * LANES * stride;
    int64_t n_rows = tile->n_rows - v * LANES;
    for (int64_t at = 0; at < units; at += LANES) {
      __m512i r[LANES], columns[LANES];
      uint32_t mask = first_elements(tile->head_dim - at * UNIT_DIMS);
#pragma GCC unroll 16
      for (int i = 0; i < LANES; i++) {
        r[i] = load_units(rows + i * stride, at, i < n_rows ? mask : 0, dtype);
      }
      ommai_avx512_transpose_16x16(r, columns);
#pragma GCC unroll 16
      for (int i = 0; i < LANES; i++) {
        _mm512_store_si512(out + ((at + i) * nv + v) * LANES, _mm512_xor_si512(columns[i], sign));
      }
    }
  }
}

/* ---- products -------------------------------------------------------------------------------- */

OMMAI_INLINE void clear(__m512 acc[GROUP][MAX_NV], int nv) {
#pragma GCC unroll 8
  for (int i = 0; i < GROUP; i++) {
#pragma GCC unroll 3
    for (int v = 0; v < nv; v++) acc[i][v] = _mm512_setzero_ps();
  }
}

/* acc[n_rows][nv] += one unit of a [8] times b [16 nv]. */
OMMAI_INLINE void multiply_unit(__m512 acc[][MAX_NV], const uint32_t *a, const uint32_t *b, int n_rows, int nv) {
  __m512i columns[MAX_NV];
  /* one address for all units: GCC 12 makes an index or a register of its own for each otherwise */
  __asm__("" : "+r"(a), "+r"(b));
#pragma GCC unroll 3
  for (int v = 0; v < nv; v++) columns[v] = _mm512_load_si512(b + v * LANES);
#pragma GCC unroll 8
  for (int i = 0; i < n_rows; i++) {
    __m512i unit = _mm512_set1_epi32((int)a[i]);
#pragma GCC unroll 3
    for (int v = 0; v < nv; v++) acc[i][v] = multiply_add(acc[i][v], unit, columns[v]);
  }
}

/* acc[8][nv] += sum over n units of a [n][8] times b [n][16 nv]. */
OMMAI_INLINE void multiply(__m512 acc[GROUP][MAX_NV], const uint32_t *a, const uint32_t *b, int64_t n, int nv) {
#pragma GCC unroll 2
  for (int64_t t = 0; t < n; t++) multiply_unit(acc, a + t * GROUP, b + t * nv * LANES, GROUP, nv);
}

/* Where each row's keys end, counted from `from`: as far as a block's length, which is all that
 * counts. Counted from a window's length further on, where they begin. */
OMMAI_INLINE void find_ends(const struct ommai_attention_tile *tile, int64_t from, __m512i ends[MAX_NV], int nv) {
  const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  int64_t last = ommai_min_i64(ommai_max_i64(tile->n_keys - from, -BLOCK), BLOCK);
  int64_t first = ommai_min_i64(ommai_max_i64(tile->first_visible - from, -BLOCK), BLOCK);
  for (int v = 0; v < nv; v++) {
    __m512i end = _mm512_add_epi32(lane, _mm512_set1_epi32((int)first + v * LANES));
    ends[v] = _mm512_min_epi32(end, _mm512_set1_epi32((int)last));
  }
}

/* Scores of a block that a row does not see become -inf; the largest are found anew. */
OMMAI_INLINE void mask_scores(float *scores, int64_t n_keys, const __m512i firsts[MAX_NV], const __m512i ends[MAX_NV],
                              __m512 largest[MAX_NV], int nv) {
  const __m512 hidden = _mm512_set1_ps(-INFINITY);
  for (int v = 0; v < nv; v++) largest[v] = hidden;
  for (int64_t key = 0; key < n_keys; key++) {
    for (int v = 0; v < nv; v++) {
      float *at = scores + (key * nv + v) * LANES;
      __m512i index = _mm512_set1_epi32((int)key);
      __mmask16 seen = _mm512_mask_cmple_epi32_mask(_mm512_cmplt_epi32_mask(index, ends[v]), firsts[v], index);
      __m512 score = _mm512_mask_mov_ps(hidden, seen, _mm512_load_ps(at));
      largest[v] = _mm512_max_ps(largest[v], score);
      _mm512_store_ps(at, score);
    }
  }
}

/* The block at `begin`, where a row does not see all of its n_keys keys. */
OMMAI_INLINE void mask_block(const struct ommai_attention_tile *tile, int64_t begin, int64_t n_keys, float *scores,
                             __m512 largest[MAX_NV], int nv) {
  __m512i firsts[MAX_NV], ends[MAX_NV];
  int64_t all_see = ommai_min_i64(tile->n_keys, tile->first_visible), last_begins = tile->n_keys - tile->window_keys;
  if (begin + n_keys <= all_see && begin >= last_begins) return;
  find_ends(tile, begin + tile->window_keys, firsts, nv);
  find_ends(tile, begin, ends, nv);
  mask_scores(scores, n_keys, firsts, ends, largest, nv);
}

/* What happens to the sums of the blocks before. */
enum carry { CARRY_NOTHING, CARRY_AS_IS, CARRY_RESCALED };
OMMAI_INLINE void multiply_values(const uint32_t *values, int64_t stride, const uint32_t *weights, int64_t n_units,
                                  int64_t n_groups, float *sums, enum carry carry, const __m512 rescale[MAX_NV],
                                  struct ommai_attention_prefetch *prefetch, int nv) {
  __m512 acc[GROUP][MAX_NV];
  for (int64_t group = 0; group < n_groups; group++, sums += GROUP * nv * LANES) {
    ommai_attention_prefetch_step(prefetch);
    clear(acc, nv);
#pragma GCC unroll 1
    for (int64_t at = 0; at < n_units; at += BLOCK_UNITS) {
      multiply(acc, values + group * BLOCK_UNITS * GROUP + at / BLOCK_UNITS * stride, weights + at * nv * LANES,
               ommai_min_i64(n_units - at, BLOCK_UNITS), nv);
    }
#pragma GCC unroll 8
    for (int i = 0; i < GROUP; i++) {
#pragma GCC unroll 3
      for (int v = 0; v < nv; v++) {
        float *at = sums + (i * nv + v) * LANES;
        __m512 sum = acc[i][v];
        if (carry == CARRY_AS_IS) sum = _mm512_add_ps(_mm512_load_ps(at), sum);
        if (carry == CARRY_RESCALED) sum = _mm512_fmadd_ps(_mm512_load_ps(at), rescale[v], sum);
        _mm512_store_ps(at, sum);
      }
    }
  }
}

/* ---- a tile ---------------------------------------------------------------------------------- */

/* Row `dim` of the sums over the weights. Adding zero turns a negative zero into a positive one. */
OMMAI_INLINE __m512 result_at(const float *sums, int64_t dim, __m512 inverse, int v, int nv) {
  __m512 sum = _mm512_load_ps(sums + (dim * nv + v) * LANES);
  return _mm512_add_ps(_mm512_mul_ps(sum, inverse), _mm512_setzero_ps());
}

/* Sums [v_head_dim][16 nv] over their weights to rows. */
OMMAI_INLINE void write_rows(const struct ommai_attention_tile *tile, const float *sums, const __m512 total[MAX_NV], int nv,
                             enum omma_dtype dtype) {
  int64_t stride = tile->out_stride * (dtype == OMMA_F32 ? 4 : 2);
  for (int v = 0; v < nv; v++) {
    unsigned char *rows = (unsigned char *)tile->out + v * LANES * stride;
    int64_t n_rows = ommai_min_i64(tile->n_rows - v * LANES, LANES);
    __m512 inverse = _mm512_div_ps(_mm512_set1_ps(1.0f), total[v]);
    for (int64_t at = 0; at < tile->v_head_dim; at += LANES * UNIT_DIMS) {
      __m512i columns[LANES], r[LANES];
      uint32_t mask = first_elements(tile->v_head_dim - at);
#pragma GCC unroll 16
      for (int i = 0; i < LANES; i++) {
        __m512 first = result_at(sums, at + i * UNIT_DIMS, inverse, v, nv);
        __m512 last = result_at(sums, at + i * UNIT_DIMS + UNIT_DIMS - 1, inverse, v, nv);
        columns[i] = make_unit(first, last);
      }
      ommai_avx512_transpose_16x16(columns, r);
#pragma GCC unroll 16
      for (int i = 0; i < LANES; i++) {
        if (i < n_rows) store_units(rows + i * stride, at, mask, r[i], dtype);
      }
    }
  }
}

/* Per row: the maximum in use (unscaled) and the sum of the weights. */
struct softmax {
  __m512 maximum[MAX_NV], sum[MAX_NV], rescale[MAX_NV];
};

/* Raises the maxima that a block's largest scores exceed by more than `slack`, and returns what
 * becomes of the sums so far. */
OMMAI_INLINE enum carry raise_maximum(struct softmax *softmax, const __m512 largest[MAX_NV], __m512 scale, float slack,
                                      bool first, int nv) {
  __m512 before[MAX_NV];
  unsigned raised = 0;
  for (int v = 0; v < nv; v++) {
    before[v] = softmax->maximum[v];
    __m512 excess = ommai_avx512_below(largest[v], before[v], scale);
    __mmask16 raise = _mm512_cmp_ps_mask(excess, _mm512_set1_ps(slack), _CMP_GT_OQ);
    softmax->maximum[v] = _mm512_mask_mov_ps(before[v], raise, largest[v]);
    softmax->rescale[v] = _mm512_set1_ps(1.0f);
    raised |= raise;
  }
  if (raised) {
    for (int v = 0; v < nv; v++)
      softmax->rescale[v] = ommai_avx512_exp2(ommai_avx512_below(before[v], softmax->maximum[v], scale));
  }
  if (first) return CARRY_NOTHING;
  return raised ? CARRY_RESCALED : CARRY_AS_IS;
}
