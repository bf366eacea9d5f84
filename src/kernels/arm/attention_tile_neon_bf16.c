/* The tile kernel for bf16 with BFMMLA, which multiplies two rows by two columns of four products
 * each: 8 keys by 12 queries are 4 by 6 such squares. A unit is four dimensions of a key or query,
 * or four keys of a dimension of the values. */
#include "kernels/arm/squares_neon.h"

#include "kernels/attention_lanes.h"

enum { GROUP = 8, MAX_NV = 3, UNIT_DIMS = 4, UNIT_KEYS = 4, UNIT_WORDS = 2, SUM_UNITS = OMMA_ATTENTION_MAX_HEAD_DIM };

/* Two units as the operand of a product. */
OMMAI_INLINE bfloat16x8_t load_pair(const float *at) { return vreinterpretq_bf16_f32(vld1q_f32(at)); }

OMMAI_INLINE void multiply(vec acc[GROUP][MAX_NV], const float *a, const float *b, int64_t n, int nv) {
  vec squares[GROUP / 2][2 * MAX_NV];
#pragma GCC unroll 4
  for (int i = 0; i < GROUP / 2; i++) {
#pragma GCC unroll 6
    for (int j = 0; j < 2 * nv; j++) squares[i][j] = vec_zero();
  }
#pragma GCC unroll 1
  for (int64_t t = 0; t < n; t++, a += GROUP * UNIT_WORDS, b += nv * LANES * UNIT_WORDS) {
    bfloat16x8_t columns[2 * MAX_NV];
#pragma GCC unroll 6
    for (int j = 0; j < 2 * nv; j++) columns[j] = load_pair(b + j * 4);
#pragma GCC unroll 4
    for (int i = 0; i < GROUP / 2; i++) {
      bfloat16x8_t rows = load_pair(a + i * 4);
#pragma GCC unroll 6
      for (int j = 0; j < 2 * nv; j++) squares[i][j] = vbfmmlaq_f32(squares[i][j], rows, columns[j]);
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < GROUP / 2; i++) {
#pragma GCC unroll 3
    for (int v = 0; v < nv; v++) {
      rows_of_squares(squares[i][2 * v], squares[i][2 * v + 1], &acc[2 * i][v], &acc[2 * i + 1][v]);
    }
  }
}

/* One row's elements to units `span` words apart, for rows of q and k. */
OMMAI_INLINE void pack_row(const uint16_t *row, int64_t dim, uint16x8_t sign, float *out, int64_t span) {
  for (int64_t at = 0; at < dim; at += 8, out += 2 * span) {
    float32x4_t units = vreinterpretq_f32_u16(veorq_u16(load_eight(row + at, dim - at), sign));
    vst1_f32(out, vget_low_f32(units));
    if (dim - at > UNIT_DIMS) vst1_f32(out + span, vget_high_f32(units));
  }
}

OMMAI_INLINE void pack_keys(const struct ommai_attention_pack *job, float *out, struct ommai_attention_types types) {
  (void)types;
  int64_t units = ommai_div_up(job->head_dim, UNIT_DIMS);
  for (int64_t key = 0; key < BLOCK; key++) {
    float *first = out + (key / GROUP * units * GROUP + key % GROUP) * UNIT_WORDS;
    const uint16_t *row = (const uint16_t *)job->k + key * job->k_stride;
    if (key < job->n_keys) {
      pack_row(row, job->head_dim, vdupq_n_u16(0), first, GROUP * UNIT_WORDS);
    } else {
      for (int64_t i = 0; i < units; i++) vst1_f32(first + i * GROUP * UNIT_WORDS, vdup_n_f32(0.0f));
    }
  }
}

/* With a negative scale the signs are turned, so that the largest product is always the largest
 * score. */
OMMAI_INLINE void pack_queries(const struct ommai_attention_tile *tile, float *out, int nv, enum omma_dtype dtype) {
  (void)dtype;
  int64_t units = ommai_div_up(tile->head_dim, UNIT_DIMS), span = (int64_t)nv * LANES * UNIT_WORDS;
  uint16x8_t sign = vdupq_n_u16(tile->scale < 0.0f ? 0x8000 : 0);
  for (int64_t r = 0; r < nv * LANES; r++, out += UNIT_WORDS) {
    const uint16_t *row = (const uint16_t *)tile->q + r * tile->q_stride;
    if (r < tile->n_rows) {
      pack_row(row, tile->head_dim, sign, out, span);
    } else {
      for (int64_t i = 0; i < units; i++) vst1_f32(out + i * span, vdup_n_f32(0.0f));
    }
  }
}

/* Four rows of values, eight dimensions of each side by side. */
OMMAI_INLINE void pack_values(const struct ommai_attention_pack *job, float *out, struct ommai_attention_types types) {
  (void)types;
  for (int64_t key = 0; key < BLOCK; key += UNIT_KEYS, out += GROUP * UNIT_WORDS) {
    const uint16_t *row = (const uint16_t *)job->v + key * job->v_stride;
    for (int64_t at = 0; at < job->v_head_dim; at += GROUP) {
      uint16x8x4_t rows;
#pragma GCC unroll 4
      for (int i = 0; i < UNIT_KEYS; i++) {
        rows.val[i] = load_eight(row + i * job->v_stride + at, key + i < job->n_keys ? job->v_head_dim - at : 0);
      }
      vst4q_u16((uint16_t *)(void *)(out + at / GROUP * (BLOCK / UNIT_KEYS) * GROUP * UNIT_WORDS), rows);
    }
  }
}

/* Four keys of four rows to four units, and the sums of the weights as rounded: four parts of each
 * row till the end. */
OMMAI_INLINE vec make_weights(const float *scores, float *weights, int64_t n_keys, int nv, vec scale, vec maximum,
                              enum omma_dtype dtype) {
  (void)dtype;
  int64_t stride = (int64_t)nv * LANES;
  vec parts[LANES] = {vec_zero(), vec_zero(), vec_zero(), vec_zero()};
  for (int64_t key = 0; key < n_keys; key += UNIT_KEYS, scores += UNIT_KEYS * stride, weights += UNIT_WORDS * stride) {
    vec r[UNIT_KEYS];
#pragma GCC unroll 4
    for (int i = 0; i < UNIT_KEYS; i++) r[i] = exp2_cubic(below(vec_load(scores + i * stride), maximum, scale));
    vec_transpose(r);
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) {
      bfloat16x8_t pair = vcvtq_high_bf16_f32(vcvtq_low_bf16_f32(r[2 * i]), r[2 * i + 1]);
      parts[2 * i] = vec_add(parts[2 * i], vcvtq_low_f32_bf16(pair));
      parts[2 * i + 1] = vec_add(parts[2 * i + 1], vcvtq_high_f32_bf16(pair));
      vst1q_f32(weights + i * LANES, vreinterpretq_f32_bf16(pair));
    }
  }
  return vpaddq_f32(vpaddq_f32(parts[0], parts[1]), vpaddq_f32(parts[2], parts[3]));
}

#include "kernels/attention_tile_lanes.h"

TILE_KERNEL(bf16, BF16, 12, NEON_BF16, neon_bf16);
