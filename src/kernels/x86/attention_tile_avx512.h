/* The tile kernel for AVX-512 with the queries in the lanes, for an including file that defines,
 * before the include:
 *
 *   UNIT_DIMS, UNIT_KEYS   dimensions of q and k, and keys of v, in one 32-bit unit of packed data
 *   (1 for f32, 2 for bf16)
 *   STEP_BLOCKS            blocks of keys that share a softmax step
 *   SUM_PARTS, SUM_UNITS   sums of a score side by side, and units of head_dim, at most, that go to
 *   them before they are added
 *   first_elements(count)                 mask of the first `count` of the elements of 16 units
 *   load_units(row, at, mask, dtype)      units [at, at + 16) of a row of q; zeros outside of the
 *   mask
 *   load_kept(row, at, mask, scales, key, types)   the same of a row of k, of integers times
 *   scales[key], which is read where the mask is not empty
 *   pack_values(job, out, types)          the values of a block, [v_head_dim / 8][BLOCK /
 *   UNIT_KEYS][8] units
 *   multiply_add(sum, a, b)               sum + a b, lane by lane, over the elements of the units
 *   make_weights(scores, maximum, ...)    scores of a block to weights in units, and their sum
 *   make_unit(first, last)                results of the dimensions of one unit, first and last of
 *   UNIT_DIMS, to units
 *   store_units(row, at, mask, units, dtype)   elements [at, at + 16 UNIT_DIMS) of a row
 *   SIGN_BITS                             of all elements of a unit
 *
 * Both products are one loop: 8 units of a broadcast against nv registers of 16 queries, 8 nv
 * accumulators.
 *   scores: k packed as [BLOCK / 8][units of head_dim][8 keys], queries as [units of head_dim][16
 *           nv] -> [BLOCK][16 nv] f32
 *   values: v packed as above, weights as [BLOCK / UNIT_KEYS][16 nv] -> [v_head_dim][16 nv] f32
 * so that no head dimension needs padding but to whole units (k) and to 8 (v). */
#pragma once

#include "kernels/x86/attention_parts_avx512.h"

enum { PART_ROWS = GROUP / SUM_PARTS };

static int64_t block_units(int32_t head_dim, int32_t v_head_dim) {
  return BLOCK * key_units(head_dim) + value_groups(v_head_dim) * GROUP * BLOCK_UNITS;
}
static size_t block_bytes(int32_t head_dim, int32_t v_head_dim) {
  return (size_t)block_units(head_dim, v_head_dim) * sizeof(uint32_t);
}

/* Queries, scores and over them the weights, sums. */
static size_t scratch_bytes(int32_t head_dim, int32_t v_head_dim) {
  int64_t scores = STEP_KEYS * MAX_NV * LANES;
  return (size_t)(query_units(head_dim) + scores + sum_units(v_head_dim)) * sizeof(uint32_t);
}

/* ---- packing --------------------------------------------------------------------------------- */

OMMAI_INLINE void pack_keys(const struct ommai_attention_pack *job, uint32_t *out, struct ommai_attention_types types) {
  int64_t units = key_units(job->head_dim), stride = job->k_stride * (int64_t)ommai_attention_element_size(types.kv);
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
        r[i] = load_kept(rows + i * stride, at, i < n_rows ? mask : 0, job->k_scales, group * GROUP + i, types);
      }
      ommai_avx512_transpose_8x16(r, pairs);
#pragma GCC unroll 8
      for (int i = 0; i < GROUP; i++) {
        _mm512_mask_storeu_epi32(out + (at + 2 * i) * GROUP, ommai_avx512_first((units - at - 2 * i) * GROUP), pairs[i]);
      }
    }
  }
}

OMMAI_INLINE void pack_block(const struct ommai_attention_pack *job, struct ommai_attention_types types) {
  uint32_t *packed = job->packed;
  pack_keys(job, packed, types);
  pack_values(job, packed + BLOCK * key_units(job->head_dim), types);
}

/* ---- products -------------------------------------------------------------------------------- */

/* The first rows of acc[8][nv] = the same for 8 / SUM_PARTS rows of a. Neighbouring units go to
 * SUM_PARTS sums, which are added in the end. */
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

/* Asks for the share of units [at, at + n) of the next group of keys that falls to one part of this
 * group's rows: several passes over pieces of a group hide the stream of keys from the machine. */
OMMAI_INLINE void prefetch_keys(const uint32_t *group, int64_t units, int64_t at, int64_t n, int64_t part) {
  enum { LINE_UNITS = 16 / GROUP };
  int64_t share = ommai_div_up(n, SUM_PARTS);
  for (int64_t unit = at + part * share; unit < at + (part + 1) * share; unit += LINE_UNITS) {
    ommai_avx512_prefetch(group, (units + unit) * GROUP * (int64_t)sizeof *group);
  }
}

/* Scores [8 n_groups][16 nv] of a block, unscaled, and the largest of each row. Several short sums,
 * added in the end, are nearer to the exact one than one long sum: SUM_PARTS at a time, over
 * SUM_UNITS units each time. */
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
      /* one piece has everything; shows the compiler that sums stay in registers */
      if (SUM_PARTS == 1) break;
    }
  }
}

/* ---- a tile ---------------------------------------------------------------------------------- */

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
    softmax.maximum[v] = _mm512_set1_ps(OMMAI_ATTENTION_LEAST_SCORE);
    softmax.sum[v] = _mm512_setzero_ps();
  }
  pack_queries(tile, queries, nv, dtype);
  const uint32_t *block = tile->packed;
  for (int64_t begin = tile->first_key, end; begin < tile->n_keys; begin = end) {
    end = begin / STEP_KEYS * STEP_KEYS + STEP_KEYS;
    int64_t n_keys = ommai_min_i64(tile->n_keys, end) - begin;
    for (int v = 0; v < nv; v++) largest[v] = _mm512_set1_ps(-INFINITY);
    for (int64_t at = 0; at < n_keys; at += BLOCK) {
      __m512 maxima[MAX_NV];
      float *part = scores + at * nv * LANES;
      int64_t groups = ommai_div_up(ommai_min_i64(n_keys - at, BLOCK), GROUP);
      multiply_keys(block + at / BLOCK * stride, queries, units, groups, part, maxima, tile->prefetch, nv);
      mask_block(tile, begin + at, groups * GROUP, part, maxima, nv);
      for (int v = 0; v < nv; v++) largest[v] = _mm512_max_ps(largest[v], maxima[v]);
    }
    bool first = begin == tile->first_key;
    enum carry carry = raise_maximum(&softmax, largest, scale, ommai_attention_slack(dtype), first, nv);
    n_keys = ommai_round_up(n_keys, GROUP);
    for (int v = 0; v < nv; v++) {
      __m512 sum = make_weights(scores + v * LANES, weights + v * LANES, n_keys, nv * LANES, scale, softmax.maximum[v], dtype);
      softmax.sum[v] = _mm512_fmadd_ps(softmax.sum[v], softmax.rescale[v], sum);
    }
    multiply_values(block + BLOCK * units, stride, weights, n_keys / UNIT_KEYS, n_groups, sums, carry, softmax.rescale,
                    tile->prefetch, nv);
    block += (end - begin) / BLOCK * stride;
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

#define TILE_PACK(name, Q, KV)                                            \
  static void pack_##name(const struct ommai_attention_pack *job) {       \
    pack_block(job, (struct ommai_attention_types){OMMA_##Q, OMMA_##KV}); \
  }

/* One function per number of registers, then the choice among them. */
#define TILE_KERNEL(type, TYPE, LEVEL, suffix)                                                                   \
  TILE_PACK(type, TYPE, TYPE)                                                                                    \
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

/* After those of both types: f32 queries attend to bf16 keys and values, which are packed as
 * f32. */
#define TILE_KERNEL_F32_BF16(LEVEL, suffix) TILE_OBJECT(f32_bf16, F32, BF16, LEVEL, suffix, pack_bf16, attend_f32)

/* After that of the type: its queries attend to integers with scales, which are packed as the type
 * is. */
#define TILE_KERNEL_KV8(type, TYPE, LEVEL, suffix) \
  TILE_PACK(type##_kv8, TYPE, INT8)                \
  TILE_OBJECT(type##_kv8, TYPE, INT8, LEVEL, suffix, pack_##type##_kv8, attend_##type)
