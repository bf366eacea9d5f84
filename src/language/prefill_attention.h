/* The mixing of a chunk of prompt rows, in steps, and what all attentions share in it: a mixer
 * chooses the problem and the tensors (mixer.h). */
#pragma once

#include "base/arena.h"
#include "language/decoder.h"
#include "language/decoder_rows.h"
#include "language/kv_cache.h"
#include "language/mixer.h"

/* The pieces of a chunk: rows borders[i] .. borders[i + 1] - 1 stand at positions from firsts[i] on
 * of the sequence that has pages[i]. */
struct ommai_chunk_pieces {
  int64_t n;
  int64_t *borders, *firsts; /* [n + 1], [n] */
  struct ommai_state_pages *pages;
  struct ommai_prompt_row *next; /* as given */

  bool *dropped; /* its pages are somebody else's, not to be written; its rows may hold anything */
};

/* The position after a piece's last row. */
static inline int64_t ommai_chunk_piece_end(const struct ommai_chunk_pieces *pieces, int64_t i) {
  return pieces->firsts[i] + pieces->borders[i + 1] - pieces->borders[i];
}

/* What serves all layers of a group. */
struct ommai_prefill_mixing {
  const struct ommai_decoder *decoder;
  const struct ommai_kv_cache *cache;
  int64_t group;
  const struct ommai_chunk_pieces *pieces;
  const void *q;    /* dtype [n_rows, q_width] */
  float *projected; /* [n_rows, projected] */
  void *out;        /* dtype [n_rows, mixed] */
  int64_t n_steps;  /* of a layer */
  /* Attention: */
  int32_t *page_table;
  int64_t n_pages; /* of each piece in the table; MLA: of all pieces, one after the other */
  struct omma_attention_plan *plan;
  void *workspace;
  size_t workspace_size;
  int64_t n_plan_steps;
  /* MLA: */
  int32_t *page_rows;     /* [n_pages] */
  int64_t group_heads;    /* of one run of the plan */
  void *expanded;         /* dtype [group_heads, n_pages * 64, expanded_width] */
  unsigned char *widened; /* [n_workers] of a page's kept rows, f32 */
  unsigned char *delta;   /* gated delta net: the workers' memory */
};

/* n_heads heads of the pieces' rows against as many kv heads; keys are left to the caller. The
 * pieces must outlive the spec. */
struct omma_attention_spec ommai_prefill_attention_spec(const struct ommai_decoder *decoder, int64_t n_heads,
                                                        const struct ommai_chunk_pieces *pieces);
/* The largest: for upper bounds alone. */
struct omma_attention_spec ommai_prefill_attention_largest(const struct ommai_decoder *decoder, int64_t n_heads,
                                                           const struct ommai_prefill_limits *limits);

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
