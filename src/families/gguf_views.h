/* Tensors whose rows or columns llama.cpp's converter puts in another order, read as the checkpoint
 * has them. Source of the orders: llama.cpp's conversion scripts.
 *
 * Gated delta nets: where several value heads share a key head, those of the checkpoint that belong
 * together stand next to each other; in the file value head s of key head k is number s *
 * n_key_heads + k. Norms have 1 added; the decays' logarithms are their negated rates.
 *
 * Queries and keys that are rotated: the two entries of a pair are next to each other in one of
 * checkpoint and file, and half a head apart in the other. */
#pragma once

#include "weights/gguf.h"
#include "weights/gguf_blocks.h"

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
  /* in another order or with other values, of gated delta nets and their models */
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

/* What the keys of a file say of its heads. */
struct ommai_gguf_heads {
  int64_t n_key_heads, n_shared; /* of gated delta nets: value heads of each key head; else 0 */
  int64_t key_dim;               /* likewise */
  int64_t head_dim;              /* of attention; 0: the file does not say */
};

/* Those of a language model. Errors: FORMAT for keys that are missing, no integers or do not go
 * together. */
enum omma_status ommai_gguf_heads_read(const struct ommai_gguf *file, struct ommai_gguf_heads *heads, struct omma_error *error);
/* Those of a tower. Errors: FORMAT. */
enum omma_status ommai_gguf_tower_heads_read(const struct ommai_gguf *mmproj, struct ommai_gguf_heads *heads,
                                             struct omma_error *error);

/* A tensor as the checkpoint has it. From row or column `fixed` on, the checkpoint has
 * [...][grid[0]][grid[1]][unit] of them, the file [...][grid[1]][grid[0]][unit]. */
struct ommai_gguf_view {
  struct ommai_gguf_rows rows;
  enum ommai_gguf_showing showing;
  bool columns; /* these are columns; else rows */
  int64_t fixed;
  int64_t grid[2]; /* 0: nothing changes its place */
  int64_t unit;
};

/* Makes `view` of a tensor of a showing from OMMAI_GGUF_NORM on; false where its shape does not go
 * together with the heads. *changes: false where the file has the checkpoint's values in their
 * places. */
bool ommai_gguf_view_make(const struct ommai_gguf_heads *heads, const struct ommai_gguf_tensor *tensor,
                          enum ommai_gguf_showing showing, struct ommai_gguf_view *view, bool *changes);

/* The view as a stored matrix, whose context it is: it must live as long. */
struct ommai_stored_matrix ommai_gguf_view_stored(const struct ommai_gguf_view *view);
