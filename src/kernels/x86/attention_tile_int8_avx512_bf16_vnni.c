/* The tile kernel for bf16 whose products are of 8-bit integers (attention_int8.h): VPDPBUSD over
 * four dimensions of a key per unit, and over the weights and values of four keys. The
 * instruction's first factor is unsigned: queries are raised by 128, and sums begin at -128 times
 * the sum of the key; weights are. A packed block: the keys' step, the values' step, 64 such
 * beginnings, keys [8][units][8], values [v_head_dim / 8][16 units][8], center and spread. */
#include <string.h>

#include "kernels/attention_int8.h"
#include "kernels/x86/add_dot_vnni.h"
#include "kernels/x86/attention_bf16_avx512.h"
#include "kernels/x86/attention_parts_avx512.h"

enum {
  DOT_DIMS = 4,
  DOT_KEYS = 4,
  RAISE = 128,
  VALUE_STEP = LANES,
  BEGINS = 2 * LANES,
  KEYS = BEGINS + BLOCK,
  BLOCK_DOTS = BLOCK / DOT_KEYS,
  MAX_BYTES = OMMA_ATTENTION_MAX_HEAD_DIM
};

_Static_assert(STEP_KEYS == OMMAI_ATTENTION_INT8_STEP, "keys whose weights share a unit");

static int64_t dot_units(int32_t head_dim) { return ommai_div_up(head_dim, DOT_DIMS); }

/* Places in a block, in units. */
static int64_t values_place(int32_t head_dim) { return KEYS + BLOCK * dot_units(head_dim); }
static int64_t center_place(int32_t head_dim, int32_t v_head_dim) {
  return values_place(head_dim) + value_groups(v_head_dim) * GROUP * BLOCK_DOTS;
}

/* With room for keys and values in bf16: a window kernel's block may lie in the place of one. */
static size_t int8_block_bytes(int32_t head_dim, int32_t v_head_dim) {
  int64_t keys = BLOCK * ommai_div_up(head_dim, UNIT_DIMS), values = value_groups(v_head_dim) * GROUP * BLOCK_UNITS;
  return (size_t)(KEYS + keys + values + 2 * value_groups(v_head_dim) * GROUP) * sizeof(uint32_t);
}

/* Scratch: the queries, their scales, scores and over them weights, sums. */
static int64_t int8_query_units(int32_t head_dim) { return ommai_round_up(dot_units(head_dim), LANES) * MAX_NV * LANES; }

static size_t int8_scratch_bytes(int32_t head_dim, int32_t v_head_dim) {
  int64_t scores = STEP_KEYS * MAX_NV * LANES, scales = MAX_NV * LANES;
  return (size_t)(int8_query_units(head_dim) + scales + scores + sum_units(v_head_dim)) * sizeof(uint32_t);
}

/* ---- to 8 bits ------------------------------------------------------------------------------- */

/* Elements [at, at + 16) of a row less those of center, which may be NULL. */
OMMAI_INLINE __m512 centered(const void *row, const float *center, int64_t at, int64_t dim) {
  __mmask16 mask = ommai_avx512_first(dim - at);
  __m512 x = ommai_avx512_load(row, at, mask, OMMA_BF16);
  return center ? _mm512_sub_ps(x, _mm512_maskz_loadu_ps(mask, center + at)) : x;
}

OMMAI_INLINE __m512 row_magnitudes(__m512 largest, const void *row, const float *center, int64_t dim) {
  for (int64_t at = 0; at < dim; at += LANES) largest = _mm512_max_ps(largest, _mm512_abs_ps(centered(row, center, at, dim)));
  return largest;
}

/* To the nearest integers; 0 for values that are not finite. */
OMMAI_INLINE __m512i to_integers(__m512 x, float inverse) {
  __m512 scaled = _mm512_mul_ps(x, _mm512_set1_ps(inverse));
  __mmask16 small = _mm512_cmp_ps_mask(_mm512_abs_ps(scaled), _mm512_set1_ps(128.0f), _CMP_LT_OQ);
  return _mm512_maskz_cvtps_epi32(small, scaled);
}

/* A row in 8 bits, and zeros up to whole registers of 16 units; its sum. */
OMMAI_INLINE int32_t row_to_int8(const void *row, const float *center, int64_t dim, float inverse, int8_t *out) {
  __m512i sum = _mm512_setzero_si512();
  for (int64_t at = 0; at < ommai_round_up(dim, LANES * DOT_DIMS); at += LANES) {
    __m512i x = to_integers(centered(row, center, at, dim), inverse);
    sum = _mm512_add_epi32(sum, x);
    _mm_store_si128((__m128i *)(void *)(out + at), _mm512_cvtepi32_epi8(x));
  }
  return _mm512_reduce_add_epi32(sum);
}

/* ---- packing --------------------------------------------------------------------------------- */

/* Eight keys to [units][8]; rows from n_rows on are zeros. */
OMMAI_INLINE void pack_group(const struct ommai_attention_pack *job, int64_t first, float inverse, int32_t *begins,
                             uint32_t *out) {
  _Alignas(64) int8_t bytes[GROUP][MAX_BYTES];
  int64_t units = dot_units(job->head_dim), n_rows = job->n_keys - first;
  for (int64_t i = 0; i < GROUP; i++) {
    const uint16_t *row = (const uint16_t *)job->k + (first + i) * job->k_stride;
    int32_t sum = row_to_int8(row, job->center, i < n_rows ? job->head_dim : 0, inverse, bytes[i]);
    if (i >= n_rows) memset(bytes[i], 0, sizeof bytes[i]);
    begins[i] = -RAISE * sum;
  }
  for (int64_t at = 0; at < units; at += LANES) {
    __m512i r[GROUP], pairs[GROUP];
#pragma GCC unroll 8
    for (int i = 0; i < GROUP; i++) r[i] = _mm512_load_si512(bytes[i] + at * DOT_DIMS);
    ommai_avx512_transpose_8x16(r, pairs);
#pragma GCC unroll 8
    for (int i = 0; i < GROUP; i++) {
      _mm512_mask_storeu_epi32(out + (at + 2 * i) * GROUP, ommai_avx512_first((units - at - 2 * i) * GROUP), pairs[i]);
    }
  }
}

/* 16 values of a row from `at` on, less the center and over the spread. */
OMMAI_INLINE __m512 spread_values(const struct ommai_attention_pack *job, int64_t key, int64_t at) {
  __mmask16 mask = key < job->n_keys ? ommai_avx512_first(job->v_head_dim - at) : (__mmask16)0;
  __m512 x = ommai_avx512_load((const uint16_t *)job->v + key * job->v_stride, at, mask, OMMA_BF16);
  x = _mm512_sub_ps(x, _mm512_maskz_loadu_ps(mask, job->v_center + at));
  return _mm512_maskz_div_ps(mask, x, _mm512_mask_loadu_ps(x, mask, job->v_spread + at));
}

/* Values of a block to integers [v_head_dim / 8][BLOCK / 4][8 dims][4 keys]. */
OMMAI_INLINE void pack_int8_values(const struct ommai_attention_pack *job, uint32_t *packed) {
  float *center = (float *)packed + center_place(job->head_dim, job->v_head_dim);
  uint32_t *out = packed + values_place(job->head_dim);
  const int64_t groups = value_groups(job->v_head_dim);
  __m512 largest = _mm512_setzero_ps();
  for (int64_t key = 0; key < job->n_keys; key++) {
    for (int64_t at = 0; at < job->v_head_dim; at += LANES) {
      largest = _mm512_max_ps(largest, _mm512_abs_ps(spread_values(job, key, at)));
    }
  }
  const struct ommai_attention_int8_scale scale = ommai_attention_int8_scale(_mm512_reduce_max_ps(largest));
  _mm512_store_ps((float *)packed + VALUE_STEP, _mm512_set1_ps(scale.step));
  for (int64_t unit = 0; unit < BLOCK_DOTS; unit++) {
    for (int64_t at = 0; at < job->v_head_dim; at += LANES) {
      __m512i dots = _mm512_setzero_si512();
      for (int i = 0; i < DOT_KEYS; i++) {
        __m512i x = to_integers(spread_values(job, unit * DOT_KEYS + i, at), scale.inverse);
        __m512i byte = _mm512_and_si512(x, _mm512_set1_epi32(0xff));
        dots = _mm512_or_si512(dots, _mm512_sllv_epi32(byte, _mm512_set1_epi32(8 * i)));
      }
      uint32_t *to = out + (at / GROUP * BLOCK_DOTS + unit) * GROUP;
      _mm256_storeu_si256((__m256i *)(void *)to, _mm512_castsi512_si256(dots));
      if (at / GROUP + 1 < groups) {
        _mm256_storeu_si256((__m256i *)(void *)(to + BLOCK_DOTS * GROUP), _mm512_extracti64x4_epi64(dots, 1));
      }
    }
  }
  memcpy(center, job->v_center, (size_t)job->v_head_dim * sizeof *center);
  memcpy(center + groups * GROUP, job->v_spread, (size_t)job->v_head_dim * sizeof *center);
}

static void pack_bf16_int8(const struct ommai_attention_pack *job) {
  uint32_t *packed = job->packed;
  int64_t units = dot_units(job->head_dim);
  __m512 largest = _mm512_setzero_ps();
  for (int64_t key = 0; key < job->n_keys; key++) {
    const uint16_t *row = (const uint16_t *)job->k + key * job->k_stride;
    for (int64_t at = 0; at < job->head_dim; at += 32) {
      ommai_avx512_prefetch(row, (OMMAI_AVX512_ROWS_AHEAD * job->k_stride + at) * 2);
    }
    largest = row_magnitudes(largest, row, job->center, job->head_dim);
  }
  const struct ommai_attention_int8_scale scale = ommai_attention_int8_scale(_mm512_reduce_max_ps(largest));
  _mm512_store_ps((float *)packed, _mm512_set1_ps(scale.step));
  for (int64_t first = 0; first < BLOCK; first += GROUP) {
    pack_group(job, first, scale.inverse, (int32_t *)packed + BEGINS + first, packed + KEYS + first * units);
  }
  pack_int8_values(job, packed);
}

/* All of a tile's query rows at once: the steps of a row wait for each other, so only a few rows
 * would be on their way at a time. */
OMMAI_INLINE void ask_for_queries(const struct ommai_attention_tile *tile) {
  for (int64_t i = 0; i < tile->n_rows; i++) {
    const uint16_t *row = (const uint16_t *)tile->q + i * tile->q_stride;
    for (int64_t at = 0; at < tile->head_dim; at += 32) ommai_avx512_prefetch(row, at * 2);
  }
}

/* Query rows to [units][16 nv], raised, and what a unit of each row's scores is worth in units of
 * log2. With a negative scale the signs are turned, so that the largest product is always the
 * largest score. */
OMMAI_INLINE void pack_int8_queries(const struct ommai_attention_tile *tile, uint32_t *out, float *scales, int nv) {
  _Alignas(64) int8_t bytes[LANES][MAX_BYTES];
  float unit = fabsf(tile->scale) * LOG2_E;
  ask_for_queries(tile);
  for (int v = 0; v < nv; v++) {
    for (int64_t i = 0; i < LANES; i++) {
      int64_t index = ommai_min_i64(v * LANES + i, tile->n_rows - 1);
      const uint16_t *row = (const uint16_t *)tile->q + index * tile->q_stride;
      __m512 largest = row_magnitudes(_mm512_setzero_ps(), row, NULL, tile->head_dim);
      const struct ommai_attention_int8_scale scale = ommai_attention_int8_scale(_mm512_reduce_max_ps(largest));
      scales[v * LANES + i] = scale.step * unit;
      row_to_int8(row, NULL, tile->head_dim, tile->scale < 0.0f ? -scale.inverse : scale.inverse, bytes[i]);
    }
    for (int64_t at = 0; at < dot_units(tile->head_dim); at += LANES) {
      __m512i r[LANES], columns[LANES];
#pragma GCC unroll 16
      for (int i = 0; i < LANES; i++) r[i] = _mm512_load_si512(bytes[i] + at * DOT_DIMS);
      ommai_avx512_transpose_16x16(r, columns);
#pragma GCC unroll 16
      for (int i = 0; i < LANES; i++) {
        _mm512_store_si512(out + ((at + i) * nv + v) * LANES, _mm512_xor_si512(columns[i], _mm512_set1_epi8((char)RAISE)));
      }
    }
  }
}

/* ---- a tile ---------------------------------------------------------------------------------- */

/* acc[8][nv] += a unit of eight keys times one of the queries. */
OMMAI_INLINE void add_dots(__m512i acc[][MAX_NV], const uint32_t *keys, const uint32_t *queries, int nv) {
  __m512i columns[MAX_NV];
#pragma GCC unroll 3
  for (int v = 0; v < nv; v++) columns[v] = _mm512_load_si512(queries + v * LANES);
#pragma GCC unroll 8
  for (int i = 0; i < GROUP; i++) {
    __m512i unit = _mm512_set1_epi32((int)keys[i]);
#pragma GCC unroll 3
    for (int v = 0; v < nv; v++) ommai_vnni_add_dot(&acc[i][v], columns[v], unit);
  }
}

/* Scores [8 n_groups][16 nv] of a block in integers, as f32, and the largest of each row. */
OMMAI_INLINE void multiply_int8_keys(const uint32_t *block, const uint32_t *queries, int64_t units, int64_t n_groups,
                                     float *scores, __m512 largest[MAX_NV], struct ommai_attention_prefetch *prefetch, int nv) {
  const int32_t *begins = (const int32_t *)block + BEGINS;
  const uint32_t *keys = block + KEYS;
  for (int v = 0; v < nv; v++) largest[v] = _mm512_set1_ps(-INFINITY);
  for (int64_t group = 0; group < n_groups; group++, begins += GROUP, keys += units * GROUP, scores += GROUP * nv * LANES) {
    __m512i acc[GROUP][MAX_NV];
    ommai_attention_prefetch_step(prefetch);
#pragma GCC unroll 8
    for (int i = 0; i < GROUP; i++) {
#pragma GCC unroll 3
      for (int v = 0; v < nv; v++) acc[i][v] = _mm512_set1_epi32(begins[i]);
    }
#pragma GCC unroll 1
    for (int64_t t = 0; t < units; t++) add_dots(acc, keys + t * GROUP, queries + t * nv * LANES, nv);
#pragma GCC unroll 8
    for (int i = 0; i < GROUP; i++) {
#pragma GCC unroll 3
      for (int v = 0; v < nv; v++) {
        __m512 score = _mm512_cvtepi32_ps(acc[i][v]);
        largest[v] = _mm512_max_ps(largest[v], score);
        _mm512_store_ps(scores + (i * nv + v) * LANES, score);
      }
    }
  }
}

/* What an integer of a row's scores in a block is worth; above zero, so that a score of -inf stays
 * one. */
OMMAI_INLINE __m512 score_scale(const uint32_t *block, const float *query_scales, int v) {
  __m512 scale = _mm512_mul_ps(_mm512_load_ps((const float *)block), _mm512_load_ps(query_scales + v * LANES));
  return _mm512_max_ps(scale, _mm512_set1_ps(0x1p-126f));
}

struct step {
  const uint32_t *block;
  int64_t stride, begin, n_keys, units;
};

/* Scores of all blocks of a step, the largest of each row in units of log2, and those of each
 * block as they are. */
OMMAI_INLINE void score_step(const struct ommai_attention_tile *tile, const struct step *step, const uint32_t *queries,
                             const float *query_scales, float *scores, __m512 largest[MAX_NV],
                             __m512 of_blocks[STEP_BLOCKS][MAX_NV], int nv) {
  for (int v = 0; v < nv; v++) largest[v] = _mm512_set1_ps(-INFINITY);
  for (int64_t at = 0; at < step->n_keys; at += BLOCK) {
    __m512 maxima[MAX_NV];
    const uint32_t *block = step->block + at / BLOCK * step->stride;
    float *part = scores + at * nv * LANES;
    int64_t groups = ommai_div_up(ommai_min_i64(step->n_keys - at, BLOCK), GROUP);
    multiply_int8_keys(block, queries, step->units, groups, part, maxima, tile->prefetch, nv);
    mask_block(tile, step->begin + at, groups * GROUP, part, maxima, nv);
    for (int v = 0; v < nv; v++) {
      of_blocks[at / BLOCK][v] = maxima[v];
      largest[v] = _mm512_max_ps(largest[v], _mm512_mul_ps(maxima[v], score_scale(block, query_scales, v)));
    }
  }
}

/* ---- weights and values ---------------------------------------------------------------------- */

/* Weights of a block in 8 bits, four keys to a unit; returns the sum of those before rounding. */
OMMAI_INLINE __m512 weigh_int8(const float *scores, uint32_t *weights, int64_t n_keys, int64_t stride, __m512 scale, __m512 max,
                               __m512 factor) {
  /* 2^23: a sum with it is rounded to an integer, in the low bits. */
  const __m512 whole = _mm512_set1_ps(8388608.0f);
  const __m512i exponent = _mm512_set1_epi32(0x4b000000);
  __m512 sum = _mm512_setzero_ps();
  for (int64_t key = 0; key < n_keys; key += DOT_KEYS) {
    __m512 e[DOT_KEYS];
    __m512i u[DOT_KEYS];
#pragma GCC unroll 4
    for (int i = 0; i < DOT_KEYS; i++) {
      e[i] = ommai_avx512_exp2_cubic(_mm512_fmsub_ps(_mm512_load_ps(scores + (key + i) * stride), scale, max));
      u[i] = _mm512_castps_si512(_mm512_fmadd_ps(e[i], factor, whole));
    }
    sum = _mm512_add_ps(sum, _mm512_add_ps(_mm512_add_ps(e[0], e[1]), _mm512_add_ps(e[2], e[3])));
    __m512i low = _mm512_add_epi32(_mm512_sub_epi32(u[0], exponent), _mm512_slli_epi32(u[1], 8));
    __m512i high = _mm512_add_epi32(_mm512_slli_epi32(u[2], 16), _mm512_slli_epi32(u[3], 24));
    _mm512_store_si512(weights + key / DOT_KEYS * stride, _mm512_add_epi32(low, high));
  }
  return sum;
}

/* sums [v_head_dim][16 nv] += weights times values of a step, times what a unit of the products is
 * worth. */
OMMAI_INLINE void multiply_int8_values(const uint32_t *values, int64_t stride, const uint32_t *weights, int64_t n_units,
                                       int64_t n_groups, float *sums, enum carry carry, const __m512 rescale[MAX_NV],
                                       const __m512 unit[MAX_NV], struct ommai_attention_prefetch *prefetch, int nv) {
  for (int64_t group = 0; group < n_groups; group++, sums += GROUP * nv * LANES) {
    __m512i acc[GROUP][MAX_NV];
    ommai_attention_prefetch_step(prefetch);
#pragma GCC unroll 8
    for (int i = 0; i < GROUP; i++) {
#pragma GCC unroll 3
      for (int v = 0; v < nv; v++) acc[i][v] = _mm512_setzero_si512();
    }
#pragma GCC unroll 1
    for (int64_t at = 0; at < n_units; at += BLOCK_DOTS) {
      const uint32_t *from = values + group * BLOCK_DOTS * GROUP + at / BLOCK_DOTS * stride;
#pragma GCC unroll 1
      for (int64_t t = 0; t < ommai_min_i64(n_units - at, BLOCK_DOTS); t++) {
        add_dots(acc, from + t * GROUP, weights + (at + t) * nv * LANES, nv);
      }
    }
#pragma GCC unroll 8
    for (int i = 0; i < GROUP; i++) {
#pragma GCC unroll 3
      for (int v = 0; v < nv; v++) {
        float *at = sums + (i * nv + v) * LANES;
        __m512 sum = _mm512_mul_ps(_mm512_cvtepi32_ps(acc[i][v]), unit[v]);
        if (carry == CARRY_AS_IS) sum = _mm512_add_ps(_mm512_load_ps(at), sum);
        if (carry == CARRY_RESCALED) sum = _mm512_fmadd_ps(_mm512_load_ps(at), rescale[v], sum);
        _mm512_store_ps(at, sum);
      }
    }
  }
}

/* What a unit of each row's weights is worth: of those that weigh_int8 computes. of_blocks: the
 * largest scores. */
OMMAI_INLINE void find_units(const struct step *step, const float *query_scales, const __m512 of_blocks[STEP_BLOCKS][MAX_NV],
                             const struct softmax *softmax, __m512 unit[MAX_NV], int nv) {
  for (int v = 0; v < nv; v++) unit[v] = _mm512_set1_ps(OMMAI_ATTENTION_INT8_LEAST_UNIT);
  for (int64_t at = 0; at < step->n_keys; at += BLOCK) {
    const uint32_t *block = step->block + at / BLOCK * step->stride;
    __m512 worth = _mm512_mul_ps(_mm512_load_ps((const float *)block + VALUE_STEP),
                                 _mm512_set1_ps(1.0f / OMMAI_ATTENTION_INT8_LARGEST_WEIGHT));
    for (int v = 0; v < nv; v++) {
      __m512 scale = score_scale(block, query_scales, v);
      __m512 weight = ommai_avx512_exp2_cubic(_mm512_fmsub_ps(of_blocks[at / BLOCK][v], scale, softmax->maximum[v]));
      unit[v] = _mm512_max_ps(unit[v], _mm512_mul_ps(weight, worth));
    }
  }
}

/* The spread and the center that packing took from the values. */
OMMAI_INLINE void put_back_center(const uint32_t *block, const struct ommai_attention_tile *tile, float *sums,
                                  const __m512 total[MAX_NV], int nv) {
  const float *center = (const float *)block + center_place(tile->head_dim, tile->v_head_dim);
  const float *spread = center + value_groups(tile->v_head_dim) * GROUP;
  for (int64_t d = 0; d < tile->v_head_dim; d++) {
    for (int v = 0; v < nv; v++) {
      float *at = sums + (d * nv + v) * LANES;
      __m512 sum = _mm512_mul_ps(_mm512_load_ps(at), _mm512_set1_ps(spread[d]));
      _mm512_store_ps(at, _mm512_fmadd_ps(total[v], _mm512_set1_ps(center[d]), sum));
    }
  }
}

OMMAI_INLINE void attend_int8_rows(const struct ommai_attention_tile *tile, int nv) {
  int64_t n_groups = value_groups(tile->v_head_dim);
  struct step step = {.block = tile->packed, .units = dot_units(tile->head_dim)};
  step.stride = ommai_round_up((int64_t)int8_block_bytes(tile->head_dim, tile->v_head_dim), 64) / 4;
  uint32_t *queries = tile->scratch;
  float *query_scales = (float *)(queries + int8_query_units(tile->head_dim));
  float *scores = query_scales + MAX_NV * LANES, *sums = scores + STEP_KEYS * MAX_NV * LANES;
  uint32_t *weights = (uint32_t *)scores;
  struct softmax softmax;
  for (int v = 0; v < nv; v++) {
    softmax.maximum[v] = _mm512_set1_ps(-INFINITY);
    softmax.sum[v] = _mm512_setzero_ps();
  }
  pack_int8_queries(tile, queries, query_scales, nv);
  for (; step.begin < tile->n_keys; step.begin += STEP_KEYS, step.block += STEP_KEYS / BLOCK * step.stride) {
    __m512 largest[MAX_NV], of_blocks[STEP_BLOCKS][MAX_NV], unit[MAX_NV];
    step.n_keys = ommai_min_i64(tile->n_keys - step.begin, STEP_KEYS);
    score_step(tile, &step, queries, query_scales, scores, largest, of_blocks, nv);
    enum carry carry = raise_maximum(&softmax, largest, _mm512_set1_ps(1.0f), 0.0f, step.begin == 0, nv);
    find_units(&step, query_scales, of_blocks, &softmax, unit, nv);
    int64_t n_keys = ommai_round_up(step.n_keys, GROUP);
    for (int v = 0; v < nv; v++) {
      softmax.sum[v] = _mm512_mul_ps(softmax.sum[v], softmax.rescale[v]);
      for (int64_t at = 0; at < n_keys; at += BLOCK) {
        const uint32_t *block = step.block + at / BLOCK * step.stride;
        __m512 factor = _mm512_div_ps(_mm512_load_ps((const float *)block + VALUE_STEP), unit[v]);
        __m512 sum = weigh_int8(scores + (at * nv + v) * LANES, weights + (at / DOT_KEYS * nv + v) * LANES,
                                ommai_min_i64(n_keys - at, BLOCK), nv * LANES, score_scale(block, query_scales, v),
                                softmax.maximum[v], factor);
        softmax.sum[v] = _mm512_add_ps(softmax.sum[v], sum);
      }
    }
    multiply_int8_values(step.block + values_place(tile->head_dim), step.stride, weights, n_keys / DOT_KEYS, n_groups, sums,
                         carry, softmax.rescale, unit, tile->prefetch, nv);
  }
  put_back_center(tile->packed, tile, sums, softmax.sum, nv);
  write_rows(tile, sums, softmax.sum, nv, OMMA_BF16);
}

static void attend_16(const struct ommai_attention_tile *tile) { attend_int8_rows(tile, 1); }
static void attend_32(const struct ommai_attention_tile *tile) { attend_int8_rows(tile, 2); }
static void attend_48(const struct ommai_attention_tile *tile) { attend_int8_rows(tile, 3); }

static void attend_bf16_int8(const struct ommai_attention_tile *tile) {
  if (tile->n_rows <= LANES) {
    attend_16(tile);
  } else if (tile->n_rows <= 2 * LANES) {
    attend_32(tile);
  } else {
    attend_48(tile);
  }
}

const struct ommai_attention_tile_kernel ommai_attention_int8_bf16_avx512_bf16_vnni = {"tile_bf16_int8_48_avx512_bf16_vnni",
                                                                                       OMMAI_CPU_AVX512_BF16,
                                                                                       {OMMA_BF16, OMMA_BF16},
                                                                                       MAX_NV *LANES,
                                                                                       LANES,
                                                                                       int8_block_bytes,
                                                                                       int8_scratch_bytes,
                                                                                       pack_bf16_int8,
                                                                                       attend_bf16_int8};
