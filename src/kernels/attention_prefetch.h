/* Asking for the rows of a prefetch, a share at a time. */
#pragma once

#include "kernels/attention_kernels.h"

/* Asks for the next rows of one kind. Into the second level: they are wanted some tens of
 * microseconds later, and together they are more than the first level holds. */
static inline void ommai_attention_prefetch_step(struct ommai_attention_prefetch *prefetch) {
  enum { KINDS = sizeof prefetch->base / sizeof *prefetch->base };
  if (!prefetch || prefetch->kind == KINDS) return;
  int kind = prefetch->kind;
  int32_t end = prefetch->row + prefetch->rows_per_step;
  for (; prefetch->row < end && prefetch->row < prefetch->n_rows; prefetch->row++) {
    const char *row = (const char *)prefetch->base[kind] + prefetch->row * prefetch->stride[kind];
    for (int64_t at = 0; at < prefetch->row_bytes[kind]; at += 64) __builtin_prefetch(row + at, 0, 2);
  }
  if (prefetch->row < prefetch->n_rows) return;
  prefetch->row = 0;
  prefetch->kind++;
}
