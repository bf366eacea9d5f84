/* The tensors of GGUF files under the names and in the shapes that the families ask for: those of
 * the checkpoints that the files were converted from. Source of the mapping: llama.cpp's
 * conversion scripts and the Python package `gguf`. */
#pragma once

#include "families/gguf_files.h"
#include "vision/vision_tower.h"

#define OMMAI_GGUF_MAX_SHOWN (1 << 20) /* tensors after the experts of a layer were distinguished */

/* How a tensor is shown. */
enum ommai_gguf_showing {
  OMMAI_GGUF_AS_IT_IS,
  OMMAI_GGUF_EXPERTS, /* [experts, ...]: each alone, its number for '*' in the name */
  /* [experts, 2 * outputs, inputs]: of each the first half as `shown`, the other as `second` */
  OMMAI_GGUF_FUSED_EXPERTS,
  OMMAI_GGUF_GRID, /* [n * n, c] as [n, n, c] */
  /* '#' is a layer of the tower: counted over those with a merger (ommai_gguf_merger_layers) */
  OMMAI_GGUF_MERGER,
  /* blk.#.attn_k_b [heads, rank, keys] and attn_v_b [heads, values, rank]: one [heads * (keys +
   * values), rank] */
  OMMAI_GGUF_KEYS_VALUES,
  /* in another order or with other values (gguf_views.h), of gated delta nets and their models */
  OMMAI_GGUF_NORM,
  OMMAI_GGUF_DECAYS,
  OMMAI_GGUF_QKV,
  OMMAI_GGUF_CONVOLUTION, /* [c, n] as [c, 1, n] */
  OMMAI_GGUF_VALUE_HEADS,
  OMMAI_GGUF_VALUE_COLUMNS,
  /* of queries and keys: pairs that are rotated, side by side in the checkpoint; or in halves */
  OMMAI_GGUF_PAIRED_ROWS,
  OMMAI_GGUF_HALVED_ROWS
};

/* What stands before `.weight` or `.bias` in the file and in the checkpoint, or whole names; shown
 * NULL: not shown. '#' is a number. */
struct ommai_gguf_name {
  const char *file, *shown;
  enum ommai_gguf_showing showing;
  const char *second;
};

/* The layers of the tower, below OMMAI_VISION_MAX_DEPTH, that have a merger of their own
 * (v.deepstack.#), in order; returns how many there are. */
int64_t ommai_gguf_merger_layers(const struct ommai_gguf *mmproj, int64_t layers[OMMAI_VISION_MAX_DEPTH]);

/* All tensors, by the two lists of names, which end in NULL; those that no list has keep their own
 * names. The parts of the patch embedding become one. Lives as long as the files. */
struct ommai_gguf_tensors;

/* Errors: FORMAT for tensors whose shapes do not go together; UNSUPPORTED for quantised vectors;
 * LIMIT; MEMORY. */
enum omma_status ommai_gguf_tensors_create(const struct ommai_gguf_files *files, const struct ommai_gguf_name *text,
                                           const struct ommai_gguf_name *tower, const struct omma_allocator *allocator,
                                           struct ommai_gguf_tensors **tensors, struct omma_error *error);
/* NULL is allowed. */
void ommai_gguf_tensors_destroy(struct ommai_gguf_tensors *tensors);

/* [*count], in no order. */
const struct ommai_tensor *ommai_gguf_tensors_list(const struct ommai_gguf_tensors *tensors, int64_t *count);
