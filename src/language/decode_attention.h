/* The mixing of a decode step, one row per sequence, and what all attentions share in it: a mixer
 * chooses what is multiplied with the kept rows (mixer.h). */
#pragma once

#include "base/arena.h"
#include "language/decoder.h"
#include "language/decoder_rows.h"
#include "language/kv_cache.h"
#include "language/mixer.h"

/* What serves all layers of a group. */
struct ommai_decode_mixing {
  const struct ommai_decoder *decoder;
  const struct ommai_kv_cache *cache;
  int64_t group;
  const struct ommai_decode_row *rows;
  int64_t n_rows;
  const void *q;    /* dtype [n_rows, q_width] */
  float *projected; /* [n_rows, projected]; where finish_row has been, scratch of decode_scratch */
  void *out;        /* dtype [n_rows, mixed] */
  /* Attention: */
  int32_t *page_table; /* [n_rows, max_pages] */
  int64_t max_pages;
  struct omma_attention_plan *plan;
  void *workspace;
  size_t workspace_size;
  /* MLA: dtype [n_rows, n_heads, kv_rank + rope_dim], [n_rows, n_heads, kv_rank] */
  void *mla_q, *mla_sums;
  unsigned char *delta; /* gated delta net: the workers' memory */
};

/* Takes the maximum that page table, plan and workspace of steps of up to max_rows rows need: to
 * measure it. */
void ommai_decode_attention_measure(const struct ommai_decoder *decoder, const struct ommai_layer_group *group,
                                    int64_t max_rows, int64_t max_context, int n_workers, struct ommai_arena *arena);

/* Makes page table and plan. Errors: MEMORY. */
enum omma_status ommai_decode_attention_plan(struct ommai_decode_mixing *mixing, int n_workers, struct ommai_arena *arena,
                                             struct omma_error *error);

/* q over the kept rows of a layer, to out. A mixer may change what is read and written. */
struct omma_attention_tensors ommai_decode_attention_tensors(const struct ommai_decode_mixing *mixing, int64_t layer);

enum omma_status ommai_decode_attention_run(const struct ommai_decode_mixing *mixing,
                                            const struct omma_attention_tensors *tensors, const struct omma_team *team,
                                            struct omma_error *error);
