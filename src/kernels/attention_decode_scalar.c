/* The decode contract in plain C. */
#include <math.h>

#include "kernels/attention_element.h"
#include "kernels/attention_kernels.h"

#define LOG2_E 1.44269504088896340736f

static float score(const struct ommai_attention_decode_block *job, int32_t head, int64_t key,
                   struct ommai_attention_types types) {
  float dot = 0.0f;
  for (int32_t d = 0; d < job->head_dim; d++) {
    dot += ommai_attention_load(job->q, head * job->q_head_stride + d, types.q) *
           ommai_attention_load(job->k, key * job->k_stride + d, types.kv);
  }
  if (types.kv == OMMA_INT8) dot *= job->k_scales[key];
  return dot * (job->scale * LOG2_E);
}

static void decode_head(const struct ommai_attention_decode_block *job, int32_t head, struct ommai_attention_types types) {
  float *state = job->state + head * job->state_stride;
  float *out = state + OMMAI_ATTENTION_STATE_OUT;
  float scores[OMMAI_ATTENTION_BLOCK];
  float before = job->first ? -INFINITY : state[OMMAI_ATTENTION_STATE_MAX];
  float maximum = before, sum = 0.0f;
  for (int64_t key = 0; key < job->n_keys; key++) {
    scores[key] = score(job, head, key, types);
    maximum = fmaxf(maximum, scores[key]);
  }
  float rescale = exp2f(before - maximum);
  for (int32_t d = 0; d < job->v_head_dim; d++) out[d] = job->first ? 0.0f : out[d] * rescale;
  for (int64_t key = 0; key < job->n_keys; key++) {
    float weight = exp2f(scores[key] - maximum);
    if (types.q == OMMA_BF16 && types.kv == OMMA_BF16) weight = ommai_bf16_to_f32(ommai_bf16_from_f32(weight));
    sum += weight;
    if (types.kv == OMMA_INT8) weight *= job->v_scales[key];
    for (int32_t d = 0; d < job->v_head_dim; d++)
      out[d] += weight * ommai_attention_load(job->v, key * job->v_stride + d, types.kv);
  }
  state[OMMAI_ATTENTION_STATE_SUM] = job->first ? sum : state[OMMAI_ATTENTION_STATE_SUM] * rescale + sum;
  state[OMMAI_ATTENTION_STATE_MAX] = maximum;
}

#define DECODE_KERNEL(type, Q, KV)                                                            \
  static const struct ommai_attention_types types_##type = {OMMA_##Q, OMMA_##KV};             \
  static void block_##type(const struct ommai_attention_decode_block *job) {                  \
    for (int32_t head = 0; head < job->n_heads; head++) decode_head(job, head, types_##type); \
  }                                                                                           \
  const struct ommai_attention_decode_kernel ommai_attention_decode_##type##_scalar = {       \
      "decode_" #type "_scalar", OMMAI_CPU_SCALAR, {OMMA_##Q, OMMA_##KV}, block_##type}

DECODE_KERNEL(f32, F32, F32);
DECODE_KERNEL(f32_bf16, F32, BF16);
DECODE_KERNEL(f32_kv8, F32, INT8);
DECODE_KERNEL(bf16, BF16, BF16);
DECODE_KERNEL(bf16_kv8, BF16, INT8);
