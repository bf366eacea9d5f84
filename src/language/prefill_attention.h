/* The mixing of a chunk of prompt rows, in steps, and what all attentions share in it: a mixer
 * chooses the problem and the tensors (mixer.h). */
#pragma once

#include "base/arena.h"
#include "language/mixer.h"

/* What serves all layers of a group; the chunk's rows stand at positions first .. first + n_rows -
 * 1. */
struct ommai_prefill_mixing {
  const struct ommai_decoder *decoder;
  const struct ommai_kv_cache *cache;
  int64_t group;
  const int32_t *pages; /* the group's (state.h) */
  int64_t first, n_rows;
  const void *q;    /* dtype [n_rows, q_width] */
  float *projected; /* [n_rows, projected] */
  void *out;        /* dtype [n_rows, mixed] */
  int64_t n_steps;  /* of a layer */
  /* Attention: */
  struct omma_attention_plan *plan;
  void *workspace;
  size_t workspace_size;
  int64_t n_plan_steps;
  /* MLA: */
  int64_t n_pages;        /* of the context */
  int64_t group_heads;    /* of one run of the plan */
  void *expanded;         /* dtype [group_heads, n_pages * 64, expanded_width] */
  unsigned char *widened; /* [n_workers] of a page's kept rows, f32 */
};

/* n_heads heads of n_rows rows from position *offset on, against as many kv heads, packed. *offset
 * must outlive the spec. */
struct omma_attention_spec ommai_prefill_attention_spec(const struct ommai_decoder *decoder, int64_t n_heads, int64_t n_rows,
                                                        const int64_t *offset);

/* The maximum that plans of several specs need. Zero-initialised: none yet. */
struct ommai_prefill_bound {
  size_t plan, workspace;
};
void ommai_prefill_bound_add(struct ommai_prefill_bound *bound, const struct ommai_decoder *decoder,
                             const struct omma_attention_spec *spec, int n_workers);

/* Makes the plan and takes its workspace. Errors: MEMORY. */
enum omma_status ommai_prefill_attention_plan(struct ommai_prefill_mixing *mixing, const struct omma_attention_spec *spec,
                                              int n_workers, struct ommai_arena *arena, struct omma_error *error);

/* Steps [first, first + count) of the plan. */
enum omma_status ommai_prefill_attention_run(const struct ommai_prefill_mixing *mixing,
                                             const struct omma_attention_tensors *tensors, int64_t first, int64_t count,
                                             const struct omma_team *team, struct omma_error *error);
