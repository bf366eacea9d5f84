/* The decode kernel for vectors of any width. The including file includes attention_lanes.h before.
 *
 * Scores: a row of k against a row of q, which is widened once; the sum over the lanes is one fixed tree. Values: for VALUE_VECS
 * registers of dimensions at a time, up to four heads share what is loaded of each row of v. A head's operations do not depend on
 * the others. */
#ifndef OMMAI_KERNELS_ATTENTION_DECODE_LANES_H
#define OMMAI_KERNELS_ATTENTION_DECODE_LANES_H

#include "kernels/attention_lanes.h"

enum { SHARED_HEADS = 4, VALUE_VECS = 2, VALUE_DIMS = VALUE_VECS * LANES, CHAINS = 4 };

/* Asks for the lines of row `key` of the next keys that are `head`'s share. */
OMMAI_INLINE void prefetch_key(const struct ommai_attention_decode_block *job, int64_t head, int64_t key,
                               struct ommai_attention_types types) {
  if (!job->next_k) return;
  const char *row = (const char *)job->next_k + bytes_of(key * job->k_stride, types.kv);
  int64_t row_bytes = bytes_of(job->head_dim, types.kv);
  for (int64_t at = head * 64; at < row_bytes; at += 64 * job->n_heads) __builtin_prefetch(row + at, 0, 2);
}

/* Scores [n_keys] of a head, scaled, in units of log2; what is left of the block becomes -inf. */
OMMAI_INLINE void score_keys(const struct ommai_attention_decode_block *job, int64_t head, float scores[BLOCK],
                             struct ommai_attention_types types) {
  float q[OMMA_ATTENTION_MAX_DECODE_HEAD_DIM];
  const void *row = (const unsigned char *)job->q + bytes_of(head * job->q_head_stride, types.q);
  for (int64_t at = 0; at < job->head_dim; at += LANES) {
    vec_store(q + at, load_part(row, at, job->head_dim - at, types.q));
  }
  const unsigned char *k = job->k;
  for (int64_t key = 0; key < job->n_keys; key++, k += bytes_of(job->k_stride, types.kv)) {
    vec sums[CHAINS] = {vec_zero(), vec_zero(), vec_zero(), vec_zero()};
    int64_t at = 0;
    prefetch_key(job, head, key, types);
    for (; at + CHAINS * LANES <= job->head_dim; at += CHAINS * LANES) {
#pragma GCC unroll 4
      for (int i = 0; i < CHAINS; i++) {
        sums[i] = vec_fma(vec_load(q + at + i * LANES), vec_load_row(k, at + i * LANES, types.kv), sums[i]);
      }
    }
    for (; at < job->head_dim; at += LANES) {
      sums[0] = vec_fma(vec_load(q + at), load_part(k, at, job->head_dim - at, types.kv), sums[0]);
    }
    scores[key] = vec_sum(vec_add(vec_add(sums[0], sums[1]), vec_add(sums[2], sums[3]))) * (job->scale * LOG2_E);
  }
  for (int64_t key = job->n_keys; key < BLOCK; key++) scores[key] = -INFINITY;
}

/* Weights [BLOCK] of a head, its new maximum and sum. Returns what its sums so far are to be multiplied by. */
OMMAI_INLINE float weigh_keys(const struct ommai_attention_decode_block *job, int64_t head, float weights[BLOCK],
                              struct ommai_attention_types types) {
  float *state = job->state + head * job->state_stride;
  float before = job->first ? -INFINITY : state[OMMAI_ATTENTION_STATE_MAX];
  vec largest = vec_set1(before), sum = vec_zero();
  score_keys(job, head, weights, types);
  for (int64_t first = 0; first < BLOCK; first += LANES) largest = vec_max(largest, vec_load(weights + first));
  float maximum = vec_largest(largest);
  for (int64_t first = 0; first < BLOCK; first += LANES) {
    vec weight = exp2_full(vec_sub(vec_load(weights + first), vec_set1(maximum)));
    if (types.q == OMMA_BF16) weight = vec_round_bf16(weight);
    sum = vec_add(sum, weight);
    vec_store(weights + first, weight);
  }
  float rescale[LANES], total = vec_sum(sum);
  vec_store(rescale, exp2_full(vec_set1(before - maximum)));
  state[OMMAI_ATTENTION_STATE_SUM] = job->first ? total : fmaf(state[OMMAI_ATTENTION_STATE_SUM], rescale[0], total);
  state[OMMAI_ATTENTION_STATE_MAX] = maximum;
  return rescale[0];
}

/* Adds the values to the sums of n heads from `head` on. weights: [n][BLOCK]. What pads a head's sums to whole registers is
 * inside of its state and holds zeros. */
OMMAI_INLINE void add_values(const struct ommai_attention_decode_block *job, int64_t head, int n, const float *weights,
                             const float *rescale, struct ommai_attention_types types) {
  int64_t step = bytes_of(job->v_stride, types.kv);
  for (int64_t at = 0; at < job->v_head_dim; at += VALUE_DIMS) {
    int64_t left = job->v_head_dim - at;
    vec acc[SHARED_HEADS][VALUE_VECS];
#pragma GCC unroll 4
    for (int i = 0; i < n; i++) acc[i][0] = acc[i][1] = vec_zero();
    const unsigned char *row = job->v;
    const char *next = head == 0 && job->next_v ? (const char *)job->next_v + bytes_of(at, types.kv) : (const char *)job->v;
    for (int64_t key = 0; key < job->n_keys; key++, row += step, next += step) {
      __builtin_prefetch(next, 0, 2);
      vec a = load_part(row, at, left, types.kv), b = load_part(row, at + LANES, left - LANES, types.kv);
#pragma GCC unroll 4
      for (int i = 0; i < n; i++) {
        vec weight = vec_set1(weights[i * BLOCK + key]);
        acc[i][0] = vec_fma(weight, a, acc[i][0]);
        acc[i][1] = vec_fma(weight, b, acc[i][1]);
      }
    }
#pragma GCC unroll 4
    for (int i = 0; i < n; i++) {
      float *out = job->state + (head + i) * job->state_stride + OMMAI_ATTENTION_STATE_OUT + at;
#pragma GCC unroll 2
      for (int j = 0; j < VALUE_VECS; j++, out += LANES) {
        if (left <= j * LANES) break;
        vec_store(out, job->first ? acc[i][j] : vec_fma(vec_load(out), vec_set1(rescale[i]), acc[i][j]));
      }
    }
  }
}

OMMAI_INLINE void decode_block(const struct ommai_attention_decode_block *job, struct ommai_attention_types types) {
  float weights[SHARED_HEADS * BLOCK], rescale[SHARED_HEADS];
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
