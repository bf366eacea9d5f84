/* The tile contract in plain C: the reference that every other kernel is compared with.
 * Packed block: keys [64][head_dim], then values [64][v_head_dim], both f32; after integers
 * what one of the keys' and of the values' is worth, and what was taken off the values. */
#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "kernels/attention_element.h"
#include "kernels/attention_int8.h"
#include "kernels/attention_kernels.h"

#define LOG2_E 1.44269504088896340736f
enum { BLOCK = OMMAI_ATTENTION_BLOCK, ROWS = 16, STEP = OMMAI_ATTENTION_INT8_STEP };

static size_t block_bytes(int32_t head_dim, int32_t v_head_dim) {
  return (size_t)BLOCK * (size_t)(head_dim + v_head_dim) * sizeof(float);
}

/* Two steps, center and spread of the values. */
static size_t int8_block_bytes(int32_t head_dim, int32_t v_head_dim) {
  return block_bytes(head_dim, v_head_dim) + (size_t)(2 + 2 * v_head_dim) * sizeof(float);
}

/* One query row, one row of scores, one row of sums. */
static size_t scratch_bytes(int32_t head_dim, int32_t v_head_dim) {
  return (size_t)(head_dim + BLOCK + v_head_dim) * sizeof(float);
}

/* One query row, the scores of a step, sums of integers, one row of sums. */
static size_t int8_scratch_bytes(int32_t head_dim, int32_t v_head_dim) {
  return (size_t)(head_dim + STEP + 2 * v_head_dim) * sizeof(float);
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

/* To integers; what one is worth. */
static float to_int8(float *x, int64_t n) {
  const struct ommai_attention_int8_scale scale = ommai_attention_int8_scale(largest_of(x, n));
  for (int64_t i = 0; i < n; i++) x[i] = ommai_attention_to_int8(x[i], scale.inverse);
  return scale.step;
}

/* The same in integers (attention_int8.h). */
static void pack_bf16_int8(const struct ommai_attention_pack *job) {
  float *packed = job->packed, *values = packed + (int64_t)BLOCK * job->head_dim;
  float *steps = values + (int64_t)BLOCK * job->v_head_dim;
  int64_t n = (int64_t)job->n_keys * job->head_dim, n_values = (int64_t)job->n_keys * job->v_head_dim;
  pack(job, (struct ommai_attention_types){OMMA_BF16, OMMA_BF16});
  for (int64_t i = 0; i < n; i++) packed[i] -= job->center[i % job->head_dim];
  for (int64_t i = 0; i < n_values; i++) {
    values[i] = (values[i] - job->v_center[i % job->v_head_dim]) / job->v_spread[i % job->v_head_dim];
  }
  steps[0] = to_int8(packed, n);
  steps[1] = to_int8(values, n_values);
  memcpy(steps + 2, job->v_center, (size_t)job->v_head_dim * sizeof *steps);
  memcpy(steps + 2 + job->v_head_dim, job->v_spread, (size_t)job->v_head_dim * sizeof *steps);
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

static void attend(const struct ommai_attention_tile *tile, enum omma_dtype dtype) {
  float *q = tile->scratch;
  struct row row = {.q = q, .scale = tile->scale * LOG2_E, .scores = q + tile->head_dim, .out = q + tile->head_dim + BLOCK};
  int64_t block_floats = ommai_round_up((int64_t)BLOCK * (tile->head_dim + tile->v_head_dim), 16);
  for (int64_t r = 0; r < tile->n_rows; r++) {
    for (int32_t d = 0; d < tile->head_dim; d++) q[d] = ommai_attention_load(tile->q, r * tile->q_stride + d, dtype);
    for (int32_t d = 0; d < tile->v_head_dim; d++) row.out[d] = 0.0f;
    row.maximum = -INFINITY;
    row.sum = 0.0f;
    int64_t end = ommai_min_i64(tile->n_keys, tile->first_visible + r), first = ommai_max_i64(0, end - tile->window_keys);
    for (int64_t key = first / BLOCK * BLOCK; key < end; key += BLOCK) {
      const float *block = (const float *)tile->packed + (key - tile->first_key) / BLOCK * block_floats;
      attend_block(tile, &row, block, ommai_max_i64(first - key, 0), ommai_min_i64(end - key, BLOCK), dtype == OMMA_BF16);
    }
    for (int32_t d = 0; d < tile->v_head_dim; d++) {
      ommai_attention_store(tile->out, r * tile->out_stride + d, dtype, row.out[d] / row.sum + 0.0f);
    }
  }
}

/* ---- in integers ----------------------------------------------------------------------------- */

/* A block's keys, values and steps. */
struct int8_block {
  const float *keys, *values, *steps;
};

static struct int8_block int8_block_of(const struct ommai_attention_tile *tile, int64_t key) {
  int64_t floats = ommai_round_up((int64_t)(int8_block_bytes(tile->head_dim, tile->v_head_dim) / sizeof(float)), 16);
  const float *keys = (const float *)tile->packed + key / BLOCK * floats, *values = keys + (int64_t)BLOCK * tile->head_dim;
  return (struct int8_block){keys, values, values + (int64_t)BLOCK * tile->v_head_dim};
}

/* Keys [first, end), at most STEP of them, first a multiple of that. sums: [v_head_dim]. */
static void attend_step(const struct ommai_attention_tile *tile, struct row *row, int64_t first, int64_t end, float *sums) {
  float maximum = row->maximum, unit = OMMAI_ATTENTION_INT8_LEAST_UNIT;
  for (int64_t key = first; key < end; key++) {
    const struct int8_block block = int8_block_of(tile, key);
    float dot = 0.0f;
    for (int32_t d = 0; d < tile->head_dim; d++) dot += row->q[d] * block.keys[key % BLOCK * tile->head_dim + d];
    row->scores[key - first] = dot * (row->scale * block.steps[0]);
    maximum = fmaxf(maximum, row->scores[key - first]);
  }
  for (int64_t key = first; key < end; key++) {
    float worth = exp2f(row->scores[key - first] - maximum) * int8_block_of(tile, key).steps[1];
    unit = fmaxf(unit, worth * (1.0f / OMMAI_ATTENTION_INT8_LARGEST_WEIGHT));
  }
  float rescale = exp2f(row->maximum - maximum);
  row->sum *= rescale;
  for (int32_t d = 0; d < tile->v_head_dim; d++) sums[d] = 0.0f;
  for (int64_t key = first; key < end; key++) {
    const struct int8_block block = int8_block_of(tile, key);
    float weight = exp2f(row->scores[key - first] - maximum), whole = rintf(weight * (block.steps[1] / unit));
    row->sum += weight;
    for (int32_t d = 0; d < tile->v_head_dim; d++) sums[d] += whole * block.values[key % BLOCK * tile->v_head_dim + d];
  }
  for (int32_t d = 0; d < tile->v_head_dim; d++) row->out[d] = row->out[d] * rescale + sums[d] * unit;
  row->maximum = maximum;
}

static void attend_bf16_int8(const struct ommai_attention_tile *tile) {
  float *q = tile->scratch, *sums = q + tile->head_dim + STEP;
  struct row row = {.q = q, .scores = q + tile->head_dim, .out = sums + tile->v_head_dim};
  const float *center = int8_block_of(tile, 0).steps + 2, *spread = center + tile->v_head_dim;
  for (int64_t r = 0; r < tile->n_rows; r++) {
    for (int32_t d = 0; d < tile->head_dim; d++) q[d] = ommai_attention_load(tile->q, r * tile->q_stride + d, OMMA_BF16);
    for (int32_t d = 0; d < tile->v_head_dim; d++) row.out[d] = 0.0f;
    row.scale = to_int8(q, tile->head_dim) * (tile->scale * LOG2_E);
    row.maximum = -INFINITY;
    row.sum = 0.0f;
    int64_t end = ommai_min_i64(tile->n_keys, tile->first_visible + r);
    for (int64_t key = 0; key < end; key += STEP) attend_step(tile, &row, key, ommai_min_i64(key + STEP, end), sums);
    for (int32_t d = 0; d < tile->v_head_dim; d++) {
      float sum = row.out[d] * spread[d] + center[d] * row.sum;
      ommai_attention_store(tile->out, r * tile->out_stride + d, OMMA_BF16, sum / row.sum + 0.0f);
    }
  }
}

/* ---- the kernels ----------------------------------------------------------------------------- */

#define SCALAR_OBJECT(name, Q, KV, pack, attend)                                    \
  const struct ommai_attention_tile_kernel ommai_attention_tile_##name##_scalar = { \
      "tile_" #name "_scalar", OMMAI_CPU_SCALAR, {OMMA_##Q, OMMA_##KV}, ROWS, 1, block_bytes, scratch_bytes, pack, attend}

#define SCALAR_PACK(name, Q, KV)                                    \
  static void pack_##name(const struct ommai_attention_pack *job) { \
    pack(job, (struct ommai_attention_types){OMMA_##Q, OMMA_##KV}); \
  }

#define SCALAR_KERNEL(type, TYPE)                                                                   \
  SCALAR_PACK(type, TYPE, TYPE)                                                                     \
  static void attend_##type(const struct ommai_attention_tile *tile) { attend(tile, OMMA_##TYPE); } \
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

const struct ommai_attention_tile_kernel ommai_attention_int8_bf16_scalar = {
    "tile_bf16_int8_scalar", OMMAI_CPU_SCALAR, {OMMA_BF16, OMMA_BF16}, ROWS, 1, int8_block_bytes,
    int8_scratch_bytes,      pack_bf16_int8,   attend_bf16_int8};
