/* The row-local work of a pass: what happens to a tile of patches between two attentions. */
#pragma once

#include "base/arena.h"
#include "image/patches.h"
#include "linear/row_tiles.h"
#include "vision/vision_layout.h"
#include "vision/vision_profile.h"

/* What one worker needs for its tile; every buffer has the tower's tile_rows rows. */
struct ommai_vision_scratch {
  void *normed;         /* dtype [tile_rows, h]; rows of the mergers as well */
  float *projected;     /* f32 [tile_rows, max(3h, out)], gate and up where there are */
  void *hidden;         /* dtype [tile_rows, max(patch_dim, intermediate, 4h, merger)] */
  float *cosine, *sine; /* [head_dim / 2] */
};

/* The rows of a pass and everything that their chains read; n = packed patches, h = hidden_size. */
struct ommai_vision_rows {
  const struct ommai_vision_tower *tower;
  const struct ommai_patch_spec *patches; /* how pixels become patches */
  struct ommai_vision_layout layout;
  struct ommai_row_tiles tiles;          /* of all packed patches */
  float *residual;                       /* [round_up(n, tile_rows), h] */
  void *qkv;                             /* dtype [n, 3h], after rope */
  void *attended;                        /* dtype [round_up(n, tile_rows), h] */
  float *rope_cosine, *rope_sine;        /* [max_side, head_dim / 2] */
  struct ommai_vision_scratch *scratch;  /* [n_workers] */
  struct ommai_vision_profile *profiles; /* [n_workers], or NULL */
};

/* Takes memory for a pass of at most these sizes; the same calls measure and place. */
void ommai_vision_rows_place(struct ommai_vision_rows *rows, const struct ommai_vision_tower *tower,
                             const struct ommai_vision_sizes *sizes, int n_workers, struct ommai_arena *arena);

/* Begins a pass over inputs of these sizes. */
void ommai_vision_rows_start(struct ommai_vision_rows *rows, const struct ommai_vision_input *inputs, int64_t n_inputs,
                             const struct ommai_vision_sizes *sizes, const struct ommai_patch_spec *patches, int n_workers);

/* ---- what entry, blocks and exit share ---- */

/* A walk over the spans of a tile: begins with the tile's first row and an empty span. */
struct ommai_vision_walk {
  struct ommai_vision_span span;
  int64_t row; /* the span's first packed patch */
};

/* Goes on to the next span; false: the tile is at its end. */
bool ommai_vision_walk_next(const struct ommai_vision_rows *rows, struct ommai_row_tile tile, struct ommai_vision_walk *walk);

/* Norms n_rows rows of x [n_rows, width] into out [n_rows, width] of out_type. */
void ommai_vision_norm_rows(const struct ommai_vision_tower *tower, const struct ommai_vision_norm *norm, float eps,
                            const float *x, int64_t n_rows, int64_t width, void *out, enum omma_dtype out_type);

/* silu(gate) * up: projected f32 [n_rows, 2 * width], gate and then up in each row, to out dtype
 * [n_rows, width]. */
void ommai_vision_gate_rows(const struct ommai_vision_tower *tower, const float *projected, int64_t n_rows, int64_t width,
                            void *out);

/* A linear layer of a block or merger over n_rows rows of a tile. */
void ommai_vision_apply(struct ommai_vision_rows *rows, const struct ommai_vision_linear *linear, const void *x, void *y,
                        int64_t n_rows, int worker);
