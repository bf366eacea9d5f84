/* The tile contract in plain C: the reference that every other kernel is compared with.
 * Packed block: keys [64][head_dim], then values [64][v_head_dim], both f32; after keys of whole
 * numbers what one is worth. */
#include <math.h>

#include "base/checked.h"
#include "kernels/attention_element.h"
#include "kernels/attention_int8.h"
#include "kernels/attention_kernels.h"

#define LOG2_E 1.44269504088896340736f
enum { BLOCK = OMMAI_ATTENTION_BLOCK, ROWS = 16 };

static size_t block_bytes(int32_t head_dim, int32_t v_head_dim) {
  return (size_t)BLOCK * (size_t)(head_dim + v_head_dim) * sizeof(float);
}

static size_t int8_block_bytes(int32_t head_dim, int32_t v_head_dim) {
  return block_bytes(head_dim, v_head_dim) + sizeof(float);
}

/* One query row, one row of scores, one row of sums. */
static size_t scratch_bytes(int32_t head_dim, int32_t v_head_dim) {
  return (size_t)(head_dim + BLOCK + v_head_dim) * sizeof(float);
}

/* scales NULL: none. */
static void pack_rows(const void *rows, int64_t stride, const float *scales, int32_t n_rows, int32_t dim,
                      struct ommai_attention_types types, float *out) {
  for (int64_t row = 0; row < BLOCK; row++) {
    for (int32_t d = 0; d < dim; d++) {
      float value = row < n_rows ? ommai_attention_load(rows, row * stride + d, types.kv) : 0.0f;
      if (scales && row < n_rows) value *= scales[row];
      if (scales && types.q == OMMA_BF16) value = ommai_bf16_to_f32(ommai_bf16_from_f32(value));
      out[row * dim + d] = value;
    }
  }
}

static void pack(const struct ommai_attention_pack *job, struct ommai_attention_types types) {
  bool scaled = types.kv == OMMA_INT8;
  float *packed = job->packed;
  pack_rows(job->k, job->k_stride, scaled ? job->k_scales : NULL, job->n_keys, job->head_dim, types, packed);
  pack_rows(job->v, job->v_stride, scaled ? job->v_scales : NULL, job->n_keys, job->v_head_dim, types,
            packed + (int64_t)BLOCK * job->head_dim);
}

static float largest_of(const float *x, int64_t n) {
  float largest = 0.0f;
  for (int64_t i = 0; i < n; i++) largest = fmaxf(largest, fabsf(x[i]));
  return largest;
}

/* The same with keys, less the center, as integers (attention_int8.h). */
static void pack_bf16_int8(const struct ommai_attention_pack *job) {
  float *packed = job->packed;
  int64_t n = (int64_t)job->n_keys * job->head_dim;
  pack(job, (struct ommai_attention_types){OMMA_BF16, OMMA_BF16});
  for (int64_t i = 0; i < n; i++) packed[i] -= job->center[i % job->head_dim];
  const struct ommai_attention_int8_scale scale = ommai_attention_int8_scale(largest_of(packed, n));
  for (int64_t i = 0; i < n; i++) packed[i] = ommai_attention_to_int8(packed[i], scale.inverse);
  packed[(int64_t)BLOCK * (job->head_dim + job->v_head_dim)] = scale.step;
}

/* Running softmax of one row: maximum of the scores (in units of log2), sum of the weights,
 * weighted sum of the values. */
struct row {
  const float *q; /* [head_dim] */
  float scale;    /* of the scores, to units of log2 */
  float *scores;  /* [BLOCK] */
  float *out;     /* [v_head_dim] */
  float maximum, sum;
};

/* Keys [first, end) of a block. */
static void attend_block(const struct ommai_attention_tile *tile, struct row *row, const float *block, int64_t first,
                         int64_t end, bool round_weights) {
  const float *v = block + (int64_t)BLOCK * tile->head_dim;
  float maximum = row->maximum, sum = 0.0f;
  for (int64_t key = first; key < end; key++) {
    float dot = 0.0f;
    for (int32_t d = 0; d < tile->head_dim; d++) dot += row->q[d] * block[key * tile->head_dim + d];
    row->scores[key] = dot * row->scale;
    maximum = fmaxf(maximum, row->scores[key]);
  }
  float rescale = exp2f(row->maximum - maximum);
  for (int32_t d = 0; d < tile->v_head_dim; d++) row->out[d] *= rescale;
  for (int64_t key = first; key < end; key++) {
    float weight = exp2f(row->scores[key] - maximum);
    if (round_weights) weight = ommai_bf16_to_f32(ommai_bf16_from_f32(weight));
    sum += weight;
    for (int32_t d = 0; d < tile->v_head_dim; d++) row->out[d] += weight * v[key * tile->v_head_dim + d];
  }
  row->sum = row->sum * rescale + sum;
  row->maximum = maximum;
}

/* In place; what a unit is worth. */
static float row_to_int8(float *q, int32_t dim) {
  const struct ommai_attention_int8_scale scale = ommai_attention_int8_scale(largest_of(q, dim));
  for (int32_t d = 0; d < dim; d++) q[d] = ommai_attention_to_int8(q[d], scale.inverse);
  return scale.step;
}

static void attend(const struct ommai_attention_tile *tile, enum omma_dtype dtype, bool int8) {
  float *q = tile->scratch;
  struct row row = {.q = q, .scores = q + tile->head_dim, .out = q + tile->head_dim + BLOCK};
  int64_t used_floats = (int64_t)BLOCK * (tile->head_dim + tile->v_head_dim);
  int64_t block_floats = ommai_round_up(used_floats + int8, 16);
  for (int64_t r = 0; r < tile->n_rows; r++) {
    for (int32_t d = 0; d < tile->head_dim; d++) q[d] = ommai_attention_load(tile->q, r * tile->q_stride + d, dtype);
    for (int32_t d = 0; d < tile->v_head_dim; d++) row.out[d] = 0.0f;
    float scale = (int8 ? row_to_int8(q, tile->head_dim) : 1.0f) * (tile->scale * LOG2_E);
    row.maximum = -INFINITY;
    row.sum = 0.0f;
    int64_t end = ommai_min_i64(tile->n_keys, tile->first_visible + r), first = ommai_max_i64(0, end - tile->window_keys);
    for (int64_t key = first / BLOCK * BLOCK; key < end; key += BLOCK) {
      const float *block = (const float *)tile->packed + (key - tile->first_key) / BLOCK * block_floats;
      row.scale = int8 ? scale * block[used_floats] : scale;
      attend_block(tile, &row, block, ommai_max_i64(first - key, 0), ommai_min_i64(end - key, BLOCK), dtype == OMMA_BF16);
    }
    for (int32_t d = 0; d < tile->v_head_dim; d++) {
      ommai_attention_store(tile->out, r * tile->out_stride + d, dtype, row.out[d] / row.sum + 0.0f);
    }
  }
}

#define SCALAR_OBJECT(name, Q, KV, pack, attend)                                    \
  const struct ommai_attention_tile_kernel ommai_attention_tile_##name##_scalar = { \
      "tile_" #name "_scalar", OMMAI_CPU_SCALAR, {OMMA_##Q, OMMA_##KV}, ROWS, 1, block_bytes, scratch_bytes, pack, attend}

#define SCALAR_PACK(name, Q, KV)                                    \
  static void pack_##name(const struct ommai_attention_pack *job) { \
    pack(job, (struct ommai_attention_types){OMMA_##Q, OMMA_##KV}); \
  }

#define SCALAR_KERNEL(type, TYPE)                                                                          \
  SCALAR_PACK(type, TYPE, TYPE)                                                                            \
  static void attend_##type(const struct ommai_attention_tile *tile) { attend(tile, OMMA_##TYPE, false); } \
  SCALAR_OBJECT(type, TYPE, TYPE, pack_##type, attend_##type)

#define SCALAR_KERNEL_KV8(type, TYPE) \
  SCALAR_PACK(type##_kv8, TYPE, INT8) \
  SCALAR_OBJECT(type##_kv8, TYPE, INT8, pack_##type##_kv8, attend_##type)

SCALAR_KERNEL(f32, F32);
SCALAR_KERNEL(bf16, BF16);
SCALAR_KERNEL(f16, F16);
SCALAR_OBJECT(f32_bf16, F32, BF16, pack_bf16, attend_f32);
SCALAR_KERNEL_KV8(f32, F32);
SCALAR_KERNEL_KV8(bf16, BF16);

static void attend_bf16_int8(const struct ommai_attention_tile *tile) { attend(tile, OMMA_BF16, true); }

const struct ommai_attention_tile_kernel ommai_attention_int8_bf16_scalar = {
    "tile_bf16_int8_scalar", OMMAI_CPU_SCALAR, {OMMA_BF16, OMMA_BF16}, ROWS, 1, int8_block_bytes,
    scratch_bytes,           pack_bf16_int8,   attend_bf16_int8};
