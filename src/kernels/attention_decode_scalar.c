/* The decode contract in plain C. */
#include <math.h>

#include "kernels/attention_element.h"
#include "kernels/attention_kernels.h"

#define LOG2_E 1.44269504088896340736f

static float score(const struct ommai_attention_decode_block *job, int32_t head, int64_t key, enum omma_dtype dtype) {
  float dot = 0.0f;
  for (int32_t d = 0; d < job->head_dim; d++) {
    dot += ommai_attention_load(job->q, head * job->q_head_stride + d, dtype) *
           ommai_attention_load(job->k, key * job->k_stride + d, dtype);
  }
  return dot * (job->scale * LOG2_E);
}

static void decode_head(const struct ommai_attention_decode_block *job, int32_t head, enum omma_dtype dtype) {
  float *state = job->state + head * job->state_stride;
  float *out = state + OMMAI_ATTENTION_STATE_OUT;
  float scores[OMMAI_ATTENTION_BLOCK];
  float before = job->first ? -INFINITY : state[OMMAI_ATTENTION_STATE_MAX];
  float maximum = before, sum = 0.0f;
  for (int64_t key = 0; key < job->n_keys; key++) {
    scores[key] = score(job, head, key, dtype);
    maximum = fmaxf(maximum, scores[key]);
  }
  float rescale = exp2f(before - maximum);
  for (int32_t d = 0; d < job->v_head_dim; d++) out[d] = job->first ? 0.0f : out[d] * rescale;
  for (int64_t key = 0; key < job->n_keys; key++) {
    float weight = exp2f(scores[key] - maximum);
    if (dtype == OMMA_BF16) weight = ommai_bf16_to_f32(ommai_bf16_from_f32(weight));
    sum += weight;
    for (int32_t d = 0; d < job->v_head_dim; d++)
      out[d] += weight * ommai_attention_load(job->v, key * job->v_stride + d, dtype);
  }
  state[OMMAI_ATTENTION_STATE_SUM] = job->first ? sum : state[OMMAI_ATTENTION_STATE_SUM] * rescale + sum;
  state[OMMAI_ATTENTION_STATE_MAX] = maximum;
}

static void block_f32(const struct ommai_attention_decode_block *job) {
  for (int32_t head = 0; head < job->n_heads; head++) decode_head(job, head, OMMA_F32);
}

static void block_bf16(const struct ommai_attention_decode_block *job) {
  for (int32_t head = 0; head < job->n_heads; head++) decode_head(job, head, OMMA_BF16);
}

const struct ommai_attention_decode_kernel ommai_attention_decode_f32_scalar = {"decode_f32_scalar", OMMAI_CPU_SCALAR, OMMA_F32,
                                                                                block_f32};
const struct ommai_attention_decode_kernel ommai_attention_decode_bf16_scalar = {"decode_bf16_scalar", OMMAI_CPU_SCALAR,
                                                                                 OMMA_BF16, block_bf16};
