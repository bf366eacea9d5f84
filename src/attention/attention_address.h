/* Where rows and blocks of a run lie in the caller's tensors. */
#pragma once

#include "attention/attention_plan.h"
#include "kernels/attention_element.h"

/* Row `row` of head `head` in q and out. */
static inline const void *ommai_attention_q(const struct ommai_attention_run *run, int64_t row, int64_t head) {
  const struct omma_attention_tensors *t = &run->tensors;
  return ommai_attention_at(t->q, row * t->q_token_stride + head * t->q_head_stride, run->plan->problem.types.q);
}

static inline void *ommai_attention_out(const struct ommai_attention_run *run, int64_t row, int64_t head) {
  const struct omma_attention_tensors *t = &run->tensors;
  return ommai_attention_at_out(t->out, row * t->out_token_stride + head * t->out_head_stride, run->plan->problem.types.q);
}

/* Block `block` of a unit in a tensor of keys or values, through the page table where there is one;
 * head_offset: elements to the kv head. */
static inline const void *ommai_attention_block_at(const struct ommai_attention_run *run,
                                                   const struct ommai_attention_unit *unit, int64_t block, const void *base,
                                                   int64_t token_stride, int64_t page_stride, int64_t head_offset) {
  const struct omma_attention_tensors *t = &run->tensors;
  int64_t index;
  if (run->plan->problem.paged) {
    index = t->page_table[unit->segment * t->page_table_stride + block] * page_stride;
  } else {
    index = (unit->first_key + block * OMMAI_ATTENTION_BLOCK) * token_stride;
  }
  return ommai_attention_at(base, index + head_offset, run->plan->problem.types.kv);
}

/* Key and value block `block` of a unit and kv head. */
static inline const void *ommai_attention_k_block(const struct ommai_attention_run *run,
                                                  const struct ommai_attention_unit *unit, int32_t kv_head, int64_t block) {
  const struct omma_attention_tensors *t = &run->tensors;
  return ommai_attention_block_at(run, unit, block, t->k, t->k_token_stride, t->k_page_stride, kv_head * t->k_head_stride);
}

static inline const void *ommai_attention_v_block(const struct ommai_attention_run *run,
                                                  const struct ommai_attention_unit *unit, int32_t kv_head, int64_t block) {
  const struct omma_attention_tensors *t = &run->tensors;
  return ommai_attention_block_at(run, unit, block, t->v, t->v_token_stride, t->v_page_stride, kv_head * t->v_head_stride);
}

/* The scales of a block of keys, and of values, from the kv head's base on; NULL for types without
 * scales. */
static inline const float *ommai_attention_scales_at(const struct ommai_attention_run *run,
                                                     const struct ommai_attention_unit *unit, int64_t block, const float *base,
                                                     int64_t page_stride, int64_t head_offset) {
  const struct omma_attention_tensors *t = &run->tensors;
  if (run->plan->problem.types.kv != OMMA_INT8) return NULL;
  if (!run->plan->problem.paged) return base + head_offset + unit->first_key + block * OMMAI_ATTENTION_BLOCK;
  return base + head_offset + t->page_table[unit->segment * t->page_table_stride + block] * page_stride;
}

static inline const float *ommai_attention_k_scales(const struct ommai_attention_run *run,
                                                    const struct ommai_attention_unit *unit, int32_t kv_head, int64_t block) {
  const struct omma_attention_tensors *t = &run->tensors;
  return ommai_attention_scales_at(run, unit, block, t->k_scales, t->k_scale_page_stride, kv_head * t->k_scale_head_stride);
}

static inline const float *ommai_attention_v_scales(const struct ommai_attention_run *run,
                                                    const struct ommai_attention_unit *unit, int32_t kv_head, int64_t block) {
  const struct omma_attention_tensors *t = &run->tensors;
  return ommai_attention_scales_at(run, unit, block, t->v_scales, t->v_scale_page_stride, kv_head * t->v_scale_head_stride);
}
