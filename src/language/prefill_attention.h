/* The attention of a chunk of prompt rows, in steps.
 *
 * Grouped: one plan over all heads, keys and values from the pages. Latent: the context's kept rows
 * are expanded to keys and values for a group of heads at a time, then that group attends; groups
 * are as large as a fixed budget allows. */
#ifndef OMMAI_LANGUAGE_PREFILL_ATTENTION_H
#define OMMAI_LANGUAGE_PREFILL_ATTENTION_H

#include "base/arena.h"
#include "language/decoder.h"
#include "language/kv_cache.h"

/* What attention reads and writes: q dtype [n_rows, q_width], out dtype [n_rows, attended_width];
 * the chunk's rows stand at positions first .. first + n_rows - 1. */
struct ommai_prefill_attention {
  const struct ommai_decoder *decoder;
  const struct ommai_kv_cache *cache;
  const int32_t *pages;
  int64_t first, n_rows;
  const void *q;
  void *out;
  struct omma_attention_plan *plan;
  void *workspace;
  size_t workspace_size;
  int64_t n_plan_steps;
  int64_t group_heads;    /* of one run of the plan */
  void *expanded;         /* latent: dtype [group_heads, n_pages * 64, expanded_width] */
  unsigned char *widened; /* latent: [n_workers] of ommai_mla_widened_size bytes */
  int64_t n_pages;        /* of the context */
};

/* Bytes for chunks of at most max_rows in contexts of at most max_context. 0 on overflow. */
size_t ommai_prefill_attention_size(const struct ommai_decoder *decoder, int64_t max_rows, int64_t max_context, int n_workers);

/* Lays it out; the first six members are filled in. Errors: MEMORY. */
enum omma_status ommai_prefill_attention_place(struct ommai_prefill_attention *attention, int n_workers,
                                               struct ommai_arena *arena, struct omma_error *error);

/* The steps of one layer, and steps [first, first + count) of them, within which at most one kind
 * of work is done: *count is made smaller where it ends early. Errors: INTERNAL. */
int64_t ommai_prefill_attention_steps(const struct ommai_prefill_attention *attention);
enum omma_status ommai_prefill_attention_run(const struct ommai_prefill_attention *attention, int64_t layer, int64_t first,
                                             int64_t *count, const struct omma_team *team, struct omma_error *error);

#endif
