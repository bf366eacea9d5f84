/* Gated delta nets as llama.cpp's converter stores them, read as the checkpoint has them. Where
 * several value heads share a key head, those of the checkpoint that belong together stand next to
 * each other; in the file value head s of key head k is number s * n_key_heads + k. Norms have 1
 * added; the decays' logarithms are their negated rates. Source of the order: llama.cpp's
 * conversion scripts. */
#pragma once

#include "families/gguf_names.h"
#include "weights/gguf_blocks.h"

/* Sizes of a model's gated delta nets, by the keys ssm.*; all 0 in files without them. */
struct ommai_gguf_delta {
  int64_t n_key_heads, n_shared; /* value heads of each key head */
  int64_t key_dim;
};

/* Errors: FORMAT for keys that are missing, no integers or do not go together. */
enum omma_status ommai_gguf_delta_read(const struct ommai_gguf *file, struct ommai_gguf_delta *delta, struct omma_error *error);

/* A tensor of such a model as the checkpoint has it. */
struct ommai_gguf_delta_view {
  struct ommai_gguf_rows rows;
  enum ommai_gguf_showing showing;
  bool columns;                  /* the heads lie along the inputs; else along the outputs */
  int64_t fixed;                 /* columns or rows before the value heads */
  int64_t n_key_heads, n_shared; /* 0: nothing changes its place */
  int64_t head_dim;              /* of a value head, in columns or rows */
};

/* Makes `view` of a tensor of a showing from OMMAI_GGUF_NORM on; false where its shape is not that
 * of such a layer. *changes: false where the file has the checkpoint's values in their places. */
bool ommai_gguf_delta_view_make(const struct ommai_gguf_delta *delta, const struct ommai_gguf_tensor *tensor,
                                enum ommai_gguf_showing showing, struct ommai_gguf_delta_view *view, bool *changes);

/* The view as a stored matrix, whose context it is: it must live as long. */
struct ommai_stored_matrix ommai_gguf_delta_stored(const struct ommai_gguf_delta_view *view);
