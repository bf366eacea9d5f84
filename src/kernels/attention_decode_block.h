/* The decode kernel but for its two products: softmax over a block, and the order of things. The
 * including file includes attention_lanes.h before, and defines
 *
 *   multiply_keys(job, head, n, scores, types)               scores [n][BLOCK] of n heads from
 *   `head` on, scaled, in units of log2, for
 *                                                            n_keys up to a multiple of 4: the rest
 *                                                            of those hold anything
 *   add_values(job, head, n, weights, rescale, types)        n heads' sums so far times rescale
 *   [n], plus the values times weights [n][BLOCK]
 *
 * where n is a constant up to SHARED_HEADS: heads share what is loaded of each row. A head's
 * operations do not depend on the others. */
#pragma once

#include <string.h>

#include "kernels/attention_lanes.h"

enum { SHARED_HEADS = 4, KEYS_AT_ONCE = 4 };

OMMAI_INLINE void multiply_keys(const struct ommai_attention_decode_block *job, int64_t head, int n, float *scores,
                                struct ommai_attention_types types);
OMMAI_INLINE void add_values(const struct ommai_attention_decode_block *job, int64_t head, int n, const float *weights,
                             const float *rescale, struct ommai_attention_types types);

/* Rows between the one that is read and the one that is asked for: some 8 KiB. */
OMMAI_INLINE int64_t rows_ahead(int64_t row_bytes) { return row_bytes > 512 ? 8 : row_bytes > 128 ? 32 : 64; }

/* Asks for rows that come some rows after `row` in the order in which memory is read: k, v, the
 * next block's k. */
OMMAI_INLINE void prefetch_rows(const struct ommai_attention_decode_block *job, bool is_v, int64_t row, int n_rows,
                                struct ommai_attention_types types) {
  const void *rows = is_v ? job->v : job->k, *after = is_v ? job->next_k : job->v;
  int64_t stride = is_v ? job->v_stride : job->k_stride, bytes = bytes_of(is_v ? job->v_head_dim : job->head_dim, types.kv);
  row += rows_ahead(bytes);
  if (row >= job->n_keys) {
    if (!after) return;
    row -= job->n_keys;
    rows = after;
    stride = is_v ? job->k_stride : job->v_stride;
    bytes = bytes_of(is_v ? job->head_dim : job->v_head_dim, types.kv);
  }
  const char *at = (const char *)rows + bytes_of(row * stride, types.kv);
  for (int i = 0; i < n_rows; i++, at += bytes_of(stride, types.kv)) {
    for (int64_t line = 0; line < bytes; line += 64) __builtin_prefetch(at + line);
  }
}

/* The rows of k from `key` on; the last stands for those after it. */
OMMAI_INLINE void key_rows(const struct ommai_attention_decode_block *job, int64_t key, const unsigned char *rows[KEYS_AT_ONCE],
                           struct ommai_attention_types types) {
  int64_t step = bytes_of(job->k_stride, types.kv);
  const unsigned char *first = (const unsigned char *)job->k + key * step;
#pragma GCC unroll 4
  for (int i = 0; i < KEYS_AT_ONCE; i++) rows[i] = first + ommai_min_i64(i, job->n_keys - 1 - key) * step;
}

/* The scales of a block's rows of integers, with ones for keys that it does not have. */
struct row_scales {
  _Alignas(64) float k[BLOCK], v[BLOCK];
};

OMMAI_INLINE void load_scales(const struct ommai_attention_decode_block *job, struct row_scales *scales) {
  memcpy(scales->k, job->k_scales, (size_t)job->n_keys * sizeof *scales->k);
  memcpy(scales->v, job->v_scales, (size_t)job->n_keys * sizeof *scales->v);
  for (int64_t key = job->n_keys; key < BLOCK; key++) scales->k[key] = scales->v[key] = 1.0f;
  for (int64_t key = 0; job->next_k_scales && key < BLOCK; key += 64 / (int64_t)sizeof(float)) {
    __builtin_prefetch(job->next_k_scales + key);
    __builtin_prefetch(job->next_v_scales + key);
  }
}

/* Scores [BLOCK] of a head to weights; its new maximum and sum. Returns what its sums so far are to
 * be multiplied by. */
OMMAI_INLINE float weigh_keys(const struct ommai_attention_decode_block *job, int64_t head, float *weights,
                              const struct row_scales *scales, struct ommai_attention_types types) {
  float *state = job->state + head * job->state_stride;
  float before = job->first ? -INFINITY : state[OMMAI_ATTENTION_STATE_MAX];
  vec largest = vec_set1(before), sum = vec_zero();
  for (int64_t key = job->n_keys; key < BLOCK; key++) weights[key] = -INFINITY;
#pragma GCC unroll 8
  for (int64_t first = 0; first < BLOCK; first += LANES) {
    if (types.kv == OMMA_INT8) vec_store(weights + first, vec_mul(vec_load(weights + first), vec_load(scales->k + first)));
    largest = vec_max(largest, vec_load(weights + first));
  }
  float maximum = vec_largest(largest);
#pragma GCC unroll 8
  for (int64_t first = 0; first < BLOCK; first += LANES) {
    vec weight = exp2_full(vec_sub(vec_load(weights + first), vec_set1(maximum)));
    if (types.q == OMMA_BF16 && types.kv == OMMA_BF16) weight = vec_round_bf16(weight);
    sum = vec_add(sum, weight);
    if (types.kv == OMMA_INT8) weight = vec_mul(weight, vec_load(scales->v + first));
    vec_store(weights + first, weight);
  }
  float rescale[LANES], total = vec_sum(sum);
  vec_store(rescale, exp2_full(vec_set1(before - maximum)));
  state[OMMAI_ATTENTION_STATE_SUM] = job->first ? total : fmaf(state[OMMAI_ATTENTION_STATE_SUM], rescale[0], total);
  state[OMMAI_ATTENTION_STATE_MAX] = maximum;
  return rescale[0];
}

OMMAI_INLINE void attend_heads(const struct ommai_attention_decode_block *job, int64_t head, int n,
                               const struct row_scales *scales, struct ommai_attention_types types) {
  _Alignas(64) float weights[SHARED_HEADS * BLOCK];
  float rescale[SHARED_HEADS];
  multiply_keys(job, head, n, weights, types);
#pragma GCC unroll 1
  for (int i = 0; i < n; i++) rescale[i] = weigh_keys(job, head + i, weights + i * BLOCK, scales, types);
  add_values(job, head, n, weights, rescale, types);
}

OMMAI_INLINE void decode_block(const struct ommai_attention_decode_block *job, struct ommai_attention_types types) {
  struct row_scales scales;
  if (types.kv == OMMA_INT8) load_scales(job, &scales);
  for (int64_t head = 0; head < job->n_heads; head += SHARED_HEADS) {
    switch (job->n_heads - head) {
      case 1: attend_heads(job, head, 1, &scales, types); break;
      case 2: attend_heads(job, head, 2, &scales, types); break;
      case 3: attend_heads(job, head, 3, &scales, types); break;
      default: attend_heads(job, head, SHARED_HEADS, &scales, types); break;
    }
  }
}

#define DECODE_KERNEL(type, Q, KV, LEVEL, suffix)                                         \
  static void block_##type(const struct ommai_attention_decode_block *job) {              \
    decode_block(job, (struct ommai_attention_types){OMMA_##Q, OMMA_##KV});               \
  }                                                                                       \
  const struct ommai_attention_decode_kernel ommai_attention_decode_##type##_##suffix = { \
      "decode_" #type "_" #suffix, OMMAI_CPU_##LEVEL, {OMMA_##Q, OMMA_##KV}, block_##type}
