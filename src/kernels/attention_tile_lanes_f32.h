/* The tile kernel's packed data where a unit is one f32: bf16 and f16 are widened while packing,
 * and integers multiplied by their scales. The including file includes attention_lanes.h and
 * defines GROUP, MAX_NV, multiply() (see attention_tile_lanes.h), and
 *
 *   put_lanes(out, index, span, value)   stores LANES neighbours from `index`, a multiple of LANES,
 *   on of an axis that is cut
 *                                        into groups of GROUP, `span` floats from group to group */
#pragma once

#include "kernels/attention_lanes.h"

enum { UNIT_DIMS = 1, UNIT_KEYS = 1, UNIT_WORDS = 1, SUM_UNITS = 40 };

/* Row `index` of n_rows that begin at `rows`: LANES elements from `at` on, times the row's scale
 * where rows have one; zeros for what the row does not have. */
OMMAI_INLINE vec load_kept(const unsigned char *rows, int64_t stride, const float *scales, int64_t index, int64_t n_rows,
                           int64_t at, int64_t dim, struct ommai_attention_types types) {
  vec part = load_part(rows + index * stride, at, index < n_rows ? dim - at : 0, types.kv);
  if (types.kv != OMMA_INT8) return part;
  vec scaled = vec_mul(part, vec_set1(index < n_rows ? scales[index] : 0.0f));
  return types.q == OMMA_BF16 ? vec_round_bf16(scaled) : scaled;
}

OMMAI_INLINE void pack_keys(const struct ommai_attention_pack *job, float *out, struct ommai_attention_types types) {
  int64_t dim = job->head_dim, stride = bytes_of(job->k_stride, types.kv);
  for (int64_t key = 0; key < BLOCK; key += LANES) {
    for (int64_t at = 0; at < dim; at += LANES) {
      vec r[LANES];
#pragma GCC unroll 8
      for (int i = 0; i < LANES; i++) {
        r[i] = load_kept(job->k, stride, job->k_scales, key + i, job->n_keys, at, dim, types);
      }
      vec_transpose(r);
#pragma GCC unroll 8
      for (int i = 0; i < LANES; i++) {
        if (at + i < dim) put_lanes(out + (at + i) * GROUP, key, dim * GROUP, r[i]);
      }
    }
  }
}

OMMAI_INLINE void pack_values(const struct ommai_attention_pack *job, float *out, struct ommai_attention_types types) {
  int64_t dim = job->v_head_dim, stride = bytes_of(job->v_stride, types.kv);
  for (int64_t key = 0; key < BLOCK; key++, out += GROUP) {
    for (int64_t at = 0; at < dim; at += LANES) {
      put_lanes(out, at, BLOCK * GROUP, load_kept(job->v, stride, job->v_scales, key, job->n_keys, at, dim, types));
    }
  }
}

/* With a negative scale the signs are turned, so that the largest product is always the largest
 * score. */
OMMAI_INLINE void pack_queries(const struct ommai_attention_tile *tile, float *out, int nv, enum omma_dtype dtype) {
  int64_t dim = tile->head_dim, stride = bytes_of(tile->q_stride, dtype);
  vec sign = vec_set1(tile->scale < 0.0f ? -1.0f : 1.0f);
  for (int v = 0; v < nv; v++) {
    const unsigned char *rows = (const unsigned char *)tile->q + v * LANES * stride;
    int64_t n_rows = tile->n_rows - v * LANES;
    for (int64_t at = 0; at < dim; at += LANES) {
      vec r[LANES];
#pragma GCC unroll 8
      for (int i = 0; i < LANES; i++) r[i] = load_part(rows + i * stride, at, i < n_rows ? dim - at : 0, dtype);
      vec_transpose(r);
#pragma GCC unroll 8
      for (int i = 0; i < LANES; i++) vec_store(out + ((at + i) * nv + v) * LANES, vec_mul(r[i], sign));
    }
  }
}

OMMAI_INLINE vec make_weights(const float *scores, float *weights, int64_t n_keys, int nv, vec scale, vec maximum,
                              enum omma_dtype dtype) {
  int64_t stride = (int64_t)nv * LANES;
  vec even = vec_zero(), odd = vec_zero();
  for (int64_t key = 0; key < n_keys; key += 2, scores += 2 * stride, weights += 2 * stride) {
    vec a = below(vec_load(scores), maximum, scale), b = below(vec_load(scores + stride), maximum, scale);
    a = dtype == OMMA_BF16 ? exp2_cubic(a) : exp2_full(a);
    b = dtype == OMMA_BF16 ? exp2_cubic(b) : exp2_full(b);
    if (dtype == OMMA_BF16) {
      a = vec_round_bf16(a);
      b = vec_round_bf16(b);
    }
    even = vec_add(even, a);
    odd = vec_add(odd, b);
    vec_store(weights, a);
    vec_store(weights + stride, b);
  }
  return vec_add(even, odd);
}
