/* The decode kernel for AVX-512. The including file defines, before the include:
 *
 *   ELEMENTS                                   of q and k in a register
 *   first_elements(count)                      mask of the first `count` of them
 *   multiply_add(sum, q, k, at, mask, types)   for 4 rows of k: sum + the products of elements [at, at + ELEMENTS) under the mask
 *
 * Scores: four rows of k at a time against a row of q, then the sums of lanes for sixteen at once. Values: for 32
 * dimensions at a time, up to four heads share what is loaded of each row of v. */
#ifndef OMMAI_KERNELS_X86_ATTENTION_DECODE_AVX512_H
#define OMMAI_KERNELS_X86_ATTENTION_DECODE_AVX512_H

#include <math.h>

#include "base/checked.h"
#include "kernels/attention_kernels.h"
#include "kernels/x86/attention_avx512.h"

enum { BLOCK = OMMAI_ATTENTION_BLOCK, LANES = 16, SHARED_HEADS = 4, KEYS_AT_ONCE = 4 };

#define LOG2_E 1.44269504088896340736f

/* Bytes of `count` elements. */
OMMAI_INLINE int64_t bytes_of(int64_t count, enum omma_dtype dtype) { return count * (dtype == OMMA_F32 ? 4 : 2); }

/* Asks for the lines of row `key` of the next keys that are `head`'s share: requests in a burst would wait for each other. */
OMMAI_INLINE void prefetch_key(const struct ommai_attention_decode_block *job, int64_t head, int64_t key,
                               struct ommai_attention_types types) {
  if (!job->next_k) return;
  const char *row = (const char *)job->next_k + bytes_of(key * job->k_stride, types.kv);
  int64_t row_bytes = bytes_of(job->head_dim, types.kv);
  for (int64_t at = head * 64; at < row_bytes; at += 64 * job->n_heads) _mm_prefetch(row + at, _MM_HINT_T1);
}

/* Products of q with the rows from `key` on, each spread over 16 lanes; the last key stands for those behind it. */
OMMAI_INLINE void multiply_rows(const struct ommai_attention_decode_block *job, const void *q, int64_t key,
                                __m512 sums[KEYS_AT_ONCE], struct ommai_attention_types types) {
  const void *rows[KEYS_AT_ONCE];
#pragma GCC unroll 4
  for (int i = 0; i < KEYS_AT_ONCE; i++) {
    int64_t row = ommai_min_i64(key + i, job->n_keys - 1);
    rows[i] = (const unsigned char *)job->k + bytes_of(row * job->k_stride, types.kv);
    sums[i] = _mm512_setzero_ps();
  }
  int64_t at = 0;
  for (; at + ELEMENTS <= job->head_dim; at += ELEMENTS) multiply_add(sums, q, rows, at, first_elements(ELEMENTS), types);
  if (at < job->head_dim) multiply_add(sums, q, rows, at, first_elements(job->head_dim - at), types);
}

/* Products of q with the keys [first, first + 16), unscaled; lanes of keys that do not exist hold anything. */
OMMAI_INLINE __m512 score_keys(const struct ommai_attention_decode_block *job, int64_t head, const void *q, int64_t first,
                               struct ommai_attention_types types) {
  __m512i parts[LANES / KEYS_AT_ONCE], lanes[4];
#pragma GCC unroll 1
  for (int i = 0; i < LANES / KEYS_AT_ONCE; i++) {
    __m512 sums[KEYS_AT_ONCE];
    int64_t key = first + i * KEYS_AT_ONCE;
    for (int j = 0; j < KEYS_AT_ONCE; j++) prefetch_key(job, head, key + j, types);
    multiply_rows(job, q, key, sums, types);
    parts[i] = _mm512_castps_si512(ommai_avx512_join4(sums, ommai_avx512_sum));
  }
  ommai_avx512_lanes4(parts[0], parts[1], parts[2], parts[3], lanes);
  __m512 low = _mm512_add_ps(_mm512_castsi512_ps(lanes[0]), _mm512_castsi512_ps(lanes[1]));
  __m512 high = _mm512_add_ps(_mm512_castsi512_ps(lanes[2]), _mm512_castsi512_ps(lanes[3]));
  return _mm512_add_ps(low, high);
}

/* Weights [BLOCK] of a head, its new maximum and sum. Returns what its sums so far are to be multiplied by. */
OMMAI_INLINE float weigh_keys(const struct ommai_attention_decode_block *job, int64_t head, float *weights,
                              struct ommai_attention_types types) {
  const void *q = (const unsigned char *)job->q + bytes_of(head * job->q_head_stride, types.q);
  const __m512 scale = _mm512_set1_ps(job->scale * LOG2_E), none = _mm512_set1_ps(-INFINITY);
  float *state = job->state + head * job->state_stride;
  float before = job->first ? -INFINITY : state[OMMAI_ATTENTION_STATE_MAX];
  __m512 largest = _mm512_set1_ps(before), sum = _mm512_setzero_ps();
  for (int64_t first = 0; first < job->n_keys; first += LANES) {
    __m512 scores = _mm512_mul_ps(score_keys(job, head, q, first, types), scale);
    scores = _mm512_mask_mov_ps(none, ommai_avx512_first(job->n_keys - first), scores);
    largest = _mm512_max_ps(largest, scores);
    _mm512_store_ps(weights + first, scores);
  }
  float maximum = _mm512_reduce_max_ps(largest);
  for (int64_t first = 0; first < job->n_keys; first += LANES) {
    __m512 weight = ommai_avx512_exp2(_mm512_sub_ps(_mm512_load_ps(weights + first), _mm512_set1_ps(maximum)));
    if (types.q == OMMA_BF16) {
      __m512i kept = _mm512_set1_epi32((int)0xffff0000u);
      weight = _mm512_castsi512_ps(_mm512_and_si512(ommai_avx512_round_bf16_bits(weight), kept));
    }
    sum = _mm512_add_ps(sum, weight);
    _mm512_store_ps(weights + first, weight);
  }
  float rescale = _mm512_cvtss_f32(ommai_avx512_exp2(_mm512_set1_ps(before - maximum)));
  float total = _mm512_reduce_add_ps(sum);
  state[OMMAI_ATTENTION_STATE_SUM] = job->first ? total : fmaf(state[OMMAI_ATTENTION_STATE_SUM], rescale, total);
  state[OMMAI_ATTENTION_STATE_MAX] = maximum;
  return rescale;
}

/* Adds the values to the sums of n heads from `head` on. weights: [n][BLOCK]. */
OMMAI_INLINE void add_values(const struct ommai_attention_decode_block *job, int64_t head, int n, const float *weights,
                             const float *rescale, struct ommai_attention_types types) {
  int64_t step = bytes_of(job->v_stride, types.kv);
  for (int64_t at = 0; at < job->v_head_dim; at += 2 * LANES) {
    __mmask16 low = ommai_avx512_first(job->v_head_dim - at), high = ommai_avx512_first(job->v_head_dim - at - LANES);
    __m512 acc[SHARED_HEADS][2];
#pragma GCC unroll 4
    for (int i = 0; i < n; i++) acc[i][0] = acc[i][1] = _mm512_setzero_ps();
    const unsigned char *row = job->v;
    const char *next = head == 0 && job->next_v ? (const char *)job->next_v + bytes_of(at, types.kv) : (const char *)job->v;
    for (int64_t key = 0; key < job->n_keys; key++, row += step, next += step) {
      _mm_prefetch(next, _MM_HINT_T1);
      __m512 a = ommai_avx512_load(row, at, low, types.kv), b = ommai_avx512_load(row, at + LANES, high, types.kv);
#pragma GCC unroll 4
      for (int i = 0; i < n; i++) {
        __m512 weight = _mm512_set1_ps(weights[i * BLOCK + key]);
        acc[i][0] = _mm512_fmadd_ps(weight, a, acc[i][0]);
        acc[i][1] = _mm512_fmadd_ps(weight, b, acc[i][1]);
      }
    }
#pragma GCC unroll 4
    for (int i = 0; i < n; i++) {
      float *out = job->state + (head + i) * job->state_stride + OMMAI_ATTENTION_STATE_OUT + at;
      if (!job->first) {
        acc[i][0] = _mm512_fmadd_ps(_mm512_maskz_load_ps(low, out), _mm512_set1_ps(rescale[i]), acc[i][0]);
        acc[i][1] = _mm512_fmadd_ps(_mm512_maskz_load_ps(high, out + LANES), _mm512_set1_ps(rescale[i]), acc[i][1]);
      }
      _mm512_mask_store_ps(out, low, acc[i][0]);
      _mm512_mask_store_ps(out + LANES, high, acc[i][1]);
    }
  }
}

OMMAI_INLINE void decode_block(const struct ommai_attention_decode_block *job, struct ommai_attention_types types) {
  _Alignas(64) float weights[SHARED_HEADS * BLOCK];
  float rescale[SHARED_HEADS];
  for (int64_t head = 0; head < job->n_heads;) {
    int64_t left = job->n_heads - head, n = left >= SHARED_HEADS ? SHARED_HEADS : left >= 2 ? 2 : 1;
    for (int64_t i = 0; i < n; i++) rescale[i] = weigh_keys(job, head + i, weights + i * BLOCK, types);
    if (n == SHARED_HEADS) {
      add_values(job, head, SHARED_HEADS, weights, rescale, types);
    } else if (n == 2) {
      add_values(job, head, 2, weights, rescale, types);
    } else {
      add_values(job, head, 1, weights, rescale, types);
    }
    head += n;
  }
}

#define DECODE_KERNEL(type, Q, KV, LEVEL, suffix)                                         \
  static void block_##type(const struct ommai_attention_decode_block *job) {              \
    decode_block(job, (struct ommai_attention_types){OMMA_##Q, OMMA_##KV});               \
  }                                                                                       \
  const struct ommai_attention_decode_kernel ommai_attention_decode_##type##_##suffix = { \
      "decode_" #type "_" #suffix, OMMAI_CPU_##LEVEL, {OMMA_##Q, OMMA_##KV}, block_##type}

#endif
