/* Jobs of the decode form: the keys of a row are cut into splits of fixed length by position; each split leaves a state per
 * query head, and the states are combined in order of position. */
#include <math.h>

#include "attention/attention_plan.h"
#include "base/checked.h"
#include "kernels/attention_element.h"

enum { SPLIT_BLOCKS = OMMAI_ATTENTION_SPLIT_KEYS / OMMAI_ATTENTION_BLOCK };

/* States of the pair's query heads over split `split`. */
static void run_split(const struct ommai_attention_run *run, const struct ommai_attention_job *job, int64_t split,
                      float *states) {
  const struct ommai_attention_problem *problem = &run->plan->problem;
  const struct ommai_attention_unit *unit = job->unit;
  struct ommai_attention_decode_block block = {
      .q = ommai_attention_q(run, unit->first_row, (int64_t)job->kv_head * problem->group),
      .q_head_stride = run->tensors.q_head_stride,
      .k_stride = run->tensors.k_token_stride,
      .v_stride = run->tensors.v_token_stride,
      .n_heads = problem->group,
      .head_dim = problem->head_dim,
      .v_head_dim = problem->v_head_dim,
      .scale = problem->scale,
      .state = states,
      .state_stride = (int64_t)(problem->state_bytes / sizeof(float))};
  int64_t n_blocks = ommai_div_up(unit->n_keys, OMMAI_ATTENTION_BLOCK);
  int64_t end = ommai_min_i64((split + 1) * SPLIT_BLOCKS, n_blocks);
  for (int64_t i = split * SPLIT_BLOCKS; i < end; i++) {
    block.k = ommai_attention_k_block(run, unit, job->kv_head, i);
    block.v = ommai_attention_v_block(run, unit, job->kv_head, i);
    block.n_keys = (int32_t)ommai_min_i64(unit->n_keys - i * OMMAI_ATTENTION_BLOCK, OMMAI_ATTENTION_BLOCK);
    block.first = i == split * SPLIT_BLOCKS;
    problem->decode->block(&block);
  }
}

void ommai_attention_decode_prepare(const struct ommai_attention_run *run, const struct ommai_attention_job *job) {
  const struct ommai_attention_problem *problem = &run->plan->problem;
  size_t split_bytes = problem->state_bytes * (size_t)problem->group;
  run_split(run, job, job->index, (float *)(void *)(job->shared + (size_t)job->index * split_bytes));
}

/* Adds the later splits' states to the first one's and writes the row. `stride`: floats from split to split. */
static void combine(const struct ommai_attention_problem *problem, float *first, int64_t stride, int64_t n_splits, void *out) {
  float maximum = first[OMMAI_ATTENTION_STATE_MAX];
  for (int64_t i = 1; i < n_splits; i++) maximum = fmaxf(maximum, first[i * stride + OMMAI_ATTENTION_STATE_MAX]);
  float *sums = first + OMMAI_ATTENTION_STATE_OUT;
  float weight = exp2f(first[OMMAI_ATTENTION_STATE_MAX] - maximum);
  float sum = weight * first[OMMAI_ATTENTION_STATE_SUM];
  for (int32_t d = 0; d < problem->v_head_dim; d++) sums[d] *= weight;
  for (int64_t i = 1; i < n_splits; i++) {
    const float *state = first + i * stride;
    weight = exp2f(state[OMMAI_ATTENTION_STATE_MAX] - maximum);
    sum += weight * state[OMMAI_ATTENTION_STATE_SUM];
    for (int32_t d = 0; d < problem->v_head_dim; d++) sums[d] += weight * state[OMMAI_ATTENTION_STATE_OUT + d];
  }
  for (int32_t d = 0; d < problem->v_head_dim; d++) ommai_attention_store(out, d, problem->dtype, sums[d] / sum + 0.0f);
}

void ommai_attention_decode_attend(const struct ommai_attention_run *run, const struct ommai_attention_job *job) {
  const struct ommai_attention_problem *problem = &run->plan->problem;
  float *states = (float *)(void *)(job->unit->small ? job->scratch : job->shared);
  if (job->unit->small) run_split(run, job, 0, states);
  int64_t stride = (int64_t)(problem->state_bytes / sizeof(float));
  int64_t n_splits = ommai_div_up(job->unit->n_keys, OMMAI_ATTENTION_SPLIT_KEYS);
  for (int32_t i = 0; i < problem->group; i++) {
    void *out = ommai_attention_out(run, job->unit->first_row, (int64_t)job->kv_head * problem->group + i);
    combine(problem, states + i * stride, stride * problem->group, n_splits, out);
  }
}
