/* Jobs of the decode mode: the keys of a row are cut into splits of fixed length by position; each
 * split leaves a state per query head, and the states are combined in order of position. */
#include <math.h>

#include "attention/attention_address.h"
#include "attention/attention_plan.h"
#include "base/checked.h"
#include "kernels/attention_element.h"

enum { SPLIT_BLOCKS = OMMAI_ATTENTION_SPLIT_KEYS / OMMAI_ATTENTION_BLOCK };

static int64_t state_floats(const struct ommai_attention_problem *problem) {
  return (int64_t)(problem->state_bytes / sizeof(float));
}

/* Leaves out the first `count` keys of a block, which are outside of the window. */
static void skip_keys(const struct ommai_attention_problem *problem, int64_t count,
                      struct ommai_attention_decode_block *block) {
  block->k = ommai_attention_at(block->k, count * block->k_stride, problem->types.kv);
  block->v = ommai_attention_at(block->v, count * block->v_stride, problem->types.kv);
  if (problem->types.kv == OMMA_INT8) block->k_scales += count, block->v_scales += count;
  block->n_keys -= (int32_t)count;
}

/* Points `block` at key block `index` of kv head `head` of the job, and at what comes next: the
 * same block of the next head, which is its neighbour in memory, then the next block. */
static void point_at(const struct ommai_attention_run *run, const struct ommai_attention_job *job, int64_t index, int64_t end,
                     int32_t head, struct ommai_attention_decode_block *block) {
  const struct ommai_attention_problem *problem = &run->plan->problem;
  int32_t kv_head = job->first_head + head;
  bool last_head = head + 1 == job->n_heads;
  int64_t next_index = last_head ? index + 1 : index;
  int32_t next_head = last_head ? job->first_head : kv_head + 1;
  bool more = next_index < end;
  block->q = ommai_attention_q(run, job->unit->first_row, (int64_t)kv_head * problem->group);
  block->k = ommai_attention_k_block(run, job->unit, kv_head, index);
  block->v = ommai_attention_v_block(run, job->unit, kv_head, index);
  block->k_scales = ommai_attention_k_scales(run, job->unit, kv_head, index);
  block->v_scales = ommai_attention_v_scales(run, job->unit, kv_head, index);
  block->next_k = more ? ommai_attention_k_block(run, job->unit, next_head, next_index) : NULL;
  block->next_v = more ? ommai_attention_v_block(run, job->unit, next_head, next_index) : NULL;
  block->next_k_scales = more ? ommai_attention_k_scales(run, job->unit, next_head, next_index) : NULL;
  block->next_v_scales = more ? ommai_attention_v_scales(run, job->unit, next_head, next_index) : NULL;
  block->n_keys = (int32_t)ommai_min_i64(job->unit->n_keys - index * OMMAI_ATTENTION_BLOCK, OMMAI_ATTENTION_BLOCK);
}

/* States [n_heads * group] of the pair over split `split`, counted from position 0. */
static void run_split(const struct ommai_attention_run *run, const struct ommai_attention_job *job, int64_t split,
                      float *states) {
  const struct ommai_attention_problem *problem = &run->plan->problem;
  struct ommai_attention_decode_block block = {.q_head_stride = run->tensors.q_head_stride,
                                               .k_stride = run->tensors.k_token_stride,
                                               .v_stride = run->tensors.v_token_stride,
                                               .n_heads = problem->group,
                                               .head_dim = problem->head_dim,
                                               .v_head_dim = problem->v_head_dim,
                                               .scale = problem->scale,
                                               .state_stride = state_floats(problem)};
  int64_t end = ommai_min_i64((split + 1) * SPLIT_BLOCKS, ommai_div_up(job->unit->n_keys, OMMAI_ATTENTION_BLOCK));
  int64_t first_key = ommai_attention_first_key(problem, job->unit->n_keys);
  int64_t first = ommai_max_i64(first_key / OMMAI_ATTENTION_BLOCK, split * SPLIT_BLOCKS);
  for (int64_t i = first; i < end; i++) {
    for (int32_t head = 0; head < job->n_heads; head++) {
      point_at(run, job, i, end, head, &block);
      if (i * OMMAI_ATTENTION_BLOCK < first_key) skip_keys(problem, first_key - i * OMMAI_ATTENTION_BLOCK, &block);
      block.first = i == first;
      block.state = states + (int64_t)head * problem->group * block.state_stride;
      problem->decode->block(&block);
    }
  }
}

void ommai_attention_decode_prepare(const struct ommai_attention_run *run, const struct ommai_attention_job *job) {
  const struct ommai_attention_problem *problem = &run->plan->problem;
  size_t split_bytes = problem->state_bytes * (size_t)(problem->group * job->n_heads);
  float *states = (float *)(void *)(job->shared + (size_t)job->index * split_bytes);
  run_split(run, job, job->unit->first_part + job->index, states);
}

/* Adds the later splits' states to the first one's and writes the row. `stride`: floats from split
 * to split. */
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
  for (int32_t d = 0; d < problem->v_head_dim; d++) ommai_attention_store(out, d, problem->types.q, sums[d] / sum + 0.0f);
}

void ommai_attention_decode_attend(const struct ommai_attention_run *run, const struct ommai_attention_job *job) {
  const struct ommai_attention_problem *problem = &run->plan->problem;
  float *states = (float *)(void *)(job->unit->small ? job->scratch : job->shared);
  if (job->unit->small) run_split(run, job, job->unit->first_part, states);
  int64_t stride = state_floats(problem);
  int32_t n_heads = job->n_heads * problem->group;
  for (int32_t i = 0; i < n_heads; i++) {
    void *out = ommai_attention_out(run, job->unit->first_row, (int64_t)job->first_head * problem->group + i);
    combine(problem, states + i * stride, stride * n_heads, job->unit->n_parts, out);
  }
}
