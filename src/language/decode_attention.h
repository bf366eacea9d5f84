/* The attention of a decode step, one row per sequence: what all kinds of attention share. A kind
 * chooses what is multiplied with the kept rows (attention_kind.h). */
#ifndef OMMAI_LANGUAGE_DECODE_ATTENTION_H
#define OMMAI_LANGUAGE_DECODE_ATTENTION_H

#include "base/arena.h"
#include "language/decoder.h"
#include "language/kv_cache.h"

struct ommai_decode_attention {
  const struct ommai_decoder *decoder;
  const struct ommai_kv_cache *cache;
  int64_t n_rows;
  const int32_t *page_table; /* [n_rows, max_pages] */
  int64_t max_pages;
  const void *q;  /* dtype [n_rows, q_width] */
  void *out;      /* dtype [n_rows, attended_width] */
  float *scratch; /* [n_rows, the shape's decode_scratch] */
  /* The plan serves all layers. */
  struct omma_attention_plan *plan;
  void *workspace;
  size_t workspace_size;
  /* MLA: dtype [n_rows, n_heads, kv_rank + rope_dim], [n_rows, n_heads, kv_rank] */
  void *mla_q, *mla_sums;
};

/* Takes the maximum that the plan and workspace of steps of up to max_rows rows need: to measure
 * it. */
#define OMMAI_DECODE_MAX_ROWS 4096
void ommai_decode_attention_measure(const struct ommai_decoder *decoder, int64_t max_rows, int64_t max_context, int n_workers,
                                    struct ommai_arena *arena);

/* Makes the plan: row i belongs to [starts[i], starts[i + 1]) and stands at position offsets[i].
 * decoder and n_rows are filled in. Errors: MEMORY. */
enum omma_status ommai_decode_attention_plan(struct ommai_decode_attention *attention, const int64_t *starts,
                                             const int64_t *offsets, int n_workers, struct ommai_arena *arena,
                                             struct omma_error *error);

/* q over the kept rows of a layer, to out. A kind may change what is read and written. */
struct omma_attention_tensors ommai_decode_attention_tensors(const struct ommai_decode_attention *attention, int64_t layer);

enum omma_status ommai_decode_attention_run(const struct ommai_decode_attention *attention,
                                            const struct omma_attention_tensors *tensors, const struct omma_team *team,
                                            struct omma_error *error);

#endif
