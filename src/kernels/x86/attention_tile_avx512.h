/* The tile kernel for AVX-512 with the queries in the lanes, for an including file that defines, before the include:
 *
 *   UNIT_DIMS, UNIT_KEYS   dimensions of q and k, and keys of v, in one 32-bit unit of packed data (1 for f32, 2 for bf16)
 *   STEP_BLOCKS            blocks of keys that share a softmax step
 *   SUM_PARTS, SUM_UNITS   sums of a score side by side, and units of head_dim, at most, that go to them before they are added
 *   first_elements(count)                 mask of the first `count` of the elements of 16 units
 *   load_units(row, at, mask, dtype)      units [at, at + 16) of a row of q or k; zeros outside of the mask
 *   pack_values(job, out, dtype)          the values of a block, [v_head_dim / 8][BLOCK / UNIT_KEYS][8] units
 *   multiply_add(sum, a, b)               sum + a b, lane by lane, over the elements of the units
 *   make_weights(scores, maximum, ...)    scores of a block to weights in units, and their sum
 *   make_unit(first, last)                results of the dimensions of one unit, first and last of UNIT_DIMS, to units
 *   store_units(row, at, mask, units, dtype)   elements [at, at + 16 UNIT_DIMS) of a row
 *   SIGN_BITS                             of all elements of a unit
 *
 * Both products are one loop: 8 units of a broadcast against nv registers of 16 queries, 8 nv accumulators.
 *   scores: k packed as [BLOCK / 8][units of head_dim][8 keys], queries as [units of head_dim][16 nv] -> [BLOCK][16 nv] f32
 *   values: v packed as above, weights as [BLOCK / UNIT_KEYS][16 nv] -> [v_head_dim][16 nv] f32
 * so that no head dimension needs padding but to whole units (k) and to 8 (v). */
#ifndef OMMAI_KERNELS_X86_ATTENTION_TILE_AVX512_H
#define OMMAI_KERNELS_X86_ATTENTION_TILE_AVX512_H

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
  STEP_KEYS = STEP_BLOCKS * BLOCK,
  PART_ROWS = GROUP / SUM_PARTS
};

#define LOG2_E 1.44269504088896340736f

static int64_t key_units(int32_t head_dim) { return ommai_div_up(head_dim, UNIT_DIMS); }
static int64_t value_groups(int32_t v_head_dim) { return ommai_div_up(v_head_dim, GROUP); }
static int64_t block_units(int32_t head_dim, int32_t v_head_dim) {
  return BLOCK * key_units(head_dim) + value_groups(v_head_dim) * GROUP * BLOCK_UNITS;
}
static size_t block_bytes(int32_t head_dim, int32_t v_head_dim) {
  return (size_t)block_units(head_dim, v_head_dim) * sizeof(uint32_t);
}

/* Units of each part of the scratch: queries, scores and over them the weights, sums. Queries and sums are whole squares of 16. */
static int64_t query_units(int32_t head_dim) { return ommai_round_up(key_units(head_dim), LANES) * MAX_NV * LANES; }
static int64_t sum_units(int32_t v_head_dim) { return ommai_round_up(v_head_dim, LANES * UNIT_DIMS) * MAX_NV * LANES; }
static size_t scratch_bytes(int32_t head_dim, int32_t v_head_dim) {
  int64_t scores = STEP_KEYS * MAX_NV * LANES;
  return (size_t)(query_units(head_dim) + scores + sum_units(v_head_dim)) * sizeof(uint32_t);
}

/* ---- packing ---------------------------------------------------------------------------------------------------------- */

OMMAI_INLINE void pack_keys(const struct ommai_attention_pack *job, uint32_t *out, enum omma_dtype dtype) {
  int64_t units = key_units(job->head_dim), stride = job->k_stride * (dtype == OMMA_F32 ? 4 : 2);
  for (int64_t group = 0; group < BLOCK / GROUP; group++, out += units * GROUP) {
    const unsigned char *rows = (const unsigned char *)job->k + group * GROUP * stride;
    int64_t n_rows = job->n_keys - group * GROUP;
    for (int64_t at = 0; at < units; at += LANES) {
      __m512i r[GROUP], pairs[GROUP];
      uint32_t mask = first_elements(job->head_dim - at * UNIT_DIMS);
#pragma GCC unroll 8
      for (int i = 0; i < GROUP; i++) ommai_avx512_prefetch(rows, (i + OMMAI_AVX512_ROWS_AHEAD) * stride + at * 4);
#pragma GCC unroll 8
      for (int i = 0; i < GROUP; i++) {
        r[i] = load_units(rows + i * stride, at, i < n_rows ? mask : 0, dtype);
      }
      ommai_avx512_transpose_8x16(r, pairs);
#pragma GCC unroll 8
      for (int i = 0; i < GROUP; i++) {
        _mm512_mask_storeu_epi32(out + (at + 2 * i) * GROUP, ommai_avx512_first((units - at - 2 * i) * GROUP), pairs[i]);
      }
    }
  }
}

OMMAI_INLINE void pack_block(const struct ommai_attention_pack *job, enum omma_dtype dtype) {
  uint32_t *packed = job->packed;
  pack_keys(job, packed, dtype);
  pack_values(job, packed + BLOCK * key_units(job->head_dim), dtype);
}

/* Query rows to [units][16 nv]; with a negative scale the signs are turned instead, so that the largest product is always the
 * largest score. */
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

/* ---- products --------------------------------------------------------------------------------------------------------- */

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

/* The first rows of acc[8][nv] = the same for 8 / SUM_PARTS rows of a. Neighbouring units go to SUM_PARTS sums, which are added in
 * the end. */
OMMAI_INLINE void multiply_parts(__m512 acc[GROUP][MAX_NV], const uint32_t *a, const uint32_t *b, int64_t n, int nv) {
  int64_t t = 0;
  clear(acc, nv);
#pragma GCC unroll 1
  for (; t + SUM_PARTS <= n; t += SUM_PARTS) {
#pragma GCC unroll 8
    for (int part = 0; part < SUM_PARTS; part++) {
      multiply_unit(acc + part * PART_ROWS, a + (t + part) * GROUP, b + (t + part) * nv * LANES, PART_ROWS, nv);
    }
  }
#pragma GCC unroll 1
  for (; t < n; t++) multiply_unit(acc, a + t * GROUP, b + t * nv * LANES, PART_ROWS, nv);
#pragma GCC unroll 3
  for (int span = GROUP / 2; span >= PART_ROWS; span /= 2) {
#pragma GCC unroll 8
    for (int i = 0; i < span; i++) {
#pragma GCC unroll 3
      for (int v = 0; v < nv; v++) acc[i][v] = _mm512_add_ps(acc[i][v], acc[i + span][v]);
    }
  }
}

/* Asks for the share of units [at, at + n) of the next group of keys that falls to one part of this group's rows: several passes
 * over pieces of a group hide the stream of keys from the machine. */
OMMAI_INLINE void prefetch_keys(const uint32_t *group, int64_t units, int64_t at, int64_t n, int64_t part) {
  enum { LINE_UNITS = 16 / GROUP };
  int64_t share = ommai_div_up(n, SUM_PARTS);
  for (int64_t unit = at + part * share; unit < at + (part + 1) * share; unit += LINE_UNITS) {
    ommai_avx512_prefetch(group, (units + unit) * GROUP * (int64_t)sizeof *group);
  }
}

/* Scores [8 n_groups][16 nv] of a block, unscaled, and the largest of each row. Several short sums, added in the end, are nearer to
 * the exact one than one long sum: SUM_PARTS at a time, over SUM_UNITS units each time. */
OMMAI_INLINE void multiply_keys(const uint32_t *keys, const uint32_t *queries, int64_t units, int64_t n_groups, float *scores,
                                __m512 largest[MAX_NV], struct ommai_attention_prefetch *prefetch, int nv) {
  __m512 acc[GROUP][MAX_NV];
  int64_t n_units = ommai_div_up(units, ommai_div_up(units, SUM_UNITS));
  for (int v = 0; v < nv; v++) largest[v] = _mm512_set1_ps(-INFINITY);
  for (int64_t key = 0; key < n_groups * GROUP; key += PART_ROWS) {
    if (key % GROUP == 0) ommai_attention_prefetch_step(prefetch);
    const uint32_t *group = keys + key / GROUP * units * GROUP, *rows = group + key % GROUP;
    for (int64_t at = 0; at < units; at += n_units) {
      if (SUM_PARTS > 1) prefetch_keys(group, units, at, n_units, key % GROUP / PART_ROWS);
      multiply_parts(acc, rows + at * GROUP, queries + at * nv * LANES, ommai_min_i64(units - at, n_units), nv);
#pragma GCC unroll 8
      for (int i = 0; i < PART_ROWS; i++) {
#pragma GCC unroll 3
        for (int v = 0; v < nv; v++) {
          float *score = scores + ((key + i) * nv + v) * LANES;
          if (at > 0) acc[i][v] = _mm512_add_ps(acc[i][v], _mm512_load_ps(score));
          if (at + n_units >= units) largest[v] = _mm512_max_ps(largest[v], acc[i][v]);
          _mm512_store_ps(score, acc[i][v]);
        }
      }
      if (SUM_PARTS == 1) break; /* one piece has everything: tells the compiler that sums stay in registers */
    }
  }
}

/* Scores that a row does not see become -inf; the largest are found anew. limits: keys of the block that each row sees. */
OMMAI_INLINE void mask_scores(float *scores, int64_t n_keys, const __m512i limits[MAX_NV], __m512 largest[MAX_NV], int nv) {
  const __m512 hidden = _mm512_set1_ps(-INFINITY);
  for (int v = 0; v < nv; v++) largest[v] = hidden;
  for (int64_t key = 0; key < n_keys; key++) {
    for (int v = 0; v < nv; v++) {
      float *at = scores + (key * nv + v) * LANES;
      __mmask16 seen = _mm512_cmplt_epi32_mask(_mm512_set1_epi32((int)key), limits[v]);
      __m512 score = _mm512_mask_mov_ps(hidden, seen, _mm512_load_ps(at));
      largest[v] = _mm512_max_ps(largest[v], score);
      _mm512_store_ps(at, score);
    }
  }
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

/* ---- a tile ----------------------------------------------------------------------------------------------------------- */

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

/* Keys of the block at `begin` that each row of the tile sees. */
OMMAI_INLINE void find_limits(const struct ommai_attention_tile *tile, int64_t begin, __m512i limits[MAX_NV], int nv) {
  const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  __m512i last = _mm512_set1_epi32((int)ommai_min_i64(tile->n_keys - begin, BLOCK));
  int64_t first = ommai_max_i64(tile->first_visible - begin, -BLOCK);
  for (int v = 0; v < nv; v++) {
    __m512i row = _mm512_add_epi32(lane, _mm512_set1_epi32((int)ommai_min_i64(first, BLOCK) + v * LANES));
    limits[v] = _mm512_min_epi32(row, last);
  }
}

/* Per row: the maximum in use (unscaled) and the sum of the weights. */
struct softmax {
  __m512 maximum[MAX_NV], sum[MAX_NV], rescale[MAX_NV];
};

/* Raises the maxima that a block's largest scores exceed by more than `slack`, and says what becomes of the sums so far. */
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

OMMAI_INLINE void attend_rows(const struct ommai_attention_tile *tile, int nv, enum omma_dtype dtype) {
  int64_t units = key_units(tile->head_dim), n_groups = value_groups(tile->v_head_dim);
  int64_t stride = (int64_t)(ommai_round_up((int64_t)block_bytes(tile->head_dim, tile->v_head_dim), 64) / 4);
  uint32_t *queries = tile->scratch;
  float *scores = (float *)(queries + query_units(tile->head_dim));
  uint32_t *weights = (uint32_t *)scores;
  float *sums = scores + STEP_KEYS * MAX_NV * LANES;
  __m512 scale = _mm512_set1_ps(fabsf(tile->scale) * LOG2_E), largest[MAX_NV];
  struct softmax softmax;
  for (int v = 0; v < nv; v++) {
    softmax.maximum[v] = _mm512_set1_ps(-INFINITY);
    softmax.sum[v] = _mm512_setzero_ps();
  }
  pack_queries(tile, queries, nv, dtype);
  int64_t all_see = ommai_min_i64(tile->n_keys, tile->first_visible);
  const uint32_t *block = tile->packed;
  for (int64_t begin = 0; begin < tile->n_keys; begin += STEP_KEYS, block += STEP_KEYS / BLOCK * stride) {
    int64_t n_keys = ommai_min_i64(tile->n_keys - begin, STEP_KEYS);
    for (int v = 0; v < nv; v++) largest[v] = _mm512_set1_ps(-INFINITY);
    for (int64_t at = 0; at < n_keys; at += BLOCK) {
      __m512 most[MAX_NV];
      float *part = scores + at * nv * LANES;
      int64_t groups = ommai_div_up(ommai_min_i64(n_keys - at, BLOCK), GROUP);
      multiply_keys(block + at / BLOCK * stride, queries, units, groups, part, most, tile->prefetch, nv);
      if (begin + at + groups * GROUP > all_see) {
        __m512i limits[MAX_NV];
        find_limits(tile, begin + at, limits, nv);
        mask_scores(part, groups * GROUP, limits, most, nv);
      }
      for (int v = 0; v < nv; v++) largest[v] = _mm512_max_ps(largest[v], most[v]);
    }
    enum carry carry = raise_maximum(&softmax, largest, scale, ommai_attention_slack(dtype), begin == 0, nv);
    n_keys = ommai_round_up(n_keys, GROUP);
    for (int v = 0; v < nv; v++) {
      __m512 sum = make_weights(scores + v * LANES, weights + v * LANES, n_keys, nv * LANES, scale, softmax.maximum[v], dtype);
      softmax.sum[v] = _mm512_fmadd_ps(softmax.sum[v], softmax.rescale[v], sum);
    }
    multiply_values(block + BLOCK * units, stride, weights, n_keys / UNIT_KEYS, n_groups, sums, carry, softmax.rescale,
                    tile->prefetch, nv);
  }
  write_rows(tile, sums, softmax.sum, nv, dtype);
}

#define TILE_OBJECT(name, Q, KV, LEVEL, suffix, pack, attend)                                                      \
  const struct ommai_attention_tile_kernel ommai_attention_tile_##name##_##suffix = {"tile_" #name "_48_" #suffix, \
                                                                                     OMMAI_CPU_##LEVEL,            \
                                                                                     {OMMA_##Q, OMMA_##KV},        \
                                                                                     MAX_NV * LANES,               \
                                                                                     LANES,                        \
                                                                                     block_bytes,                  \
                                                                                     scratch_bytes,                \
                                                                                     pack,                         \
                                                                                     attend}

/* One function per number of registers, then the choice among them. */
#define TILE_KERNEL(type, TYPE, LEVEL, suffix)                                                                   \
  static void pack_##type(const struct ommai_attention_pack *job) { pack_block(job, OMMA_##TYPE); }              \
  static void attend_##type##_16(const struct ommai_attention_tile *tile) { attend_rows(tile, 1, OMMA_##TYPE); } \
  static void attend_##type##_32(const struct ommai_attention_tile *tile) { attend_rows(tile, 2, OMMA_##TYPE); } \
  static void attend_##type##_48(const struct ommai_attention_tile *tile) { attend_rows(tile, 3, OMMA_##TYPE); } \
  static void attend_##type(const struct ommai_attention_tile *tile) {                                           \
    if (tile->n_rows <= LANES) {                                                                                 \
      attend_##type##_16(tile);                                                                                  \
    } else if (tile->n_rows <= 2 * LANES) {                                                                      \
      attend_##type##_32(tile);                                                                                  \
    } else {                                                                                                     \
      attend_##type##_48(tile);                                                                                  \
    }                                                                                                            \
  }                                                                                                              \
  TILE_OBJECT(type, TYPE, TYPE, LEVEL, suffix, pack_##type, attend_##type)

/* After those of both types: f32 queries attend to bf16 keys and values, which are packed as f32. */
#define TILE_KERNEL_F32_BF16(LEVEL, suffix) TILE_OBJECT(f32_bf16, F32, BF16, LEVEL, suffix, pack_bf16, attend_f32)

#endif
