/* The routed feed-forward part: each expert over the rows that were sent to it, then each row's
 * weighted sum.
 *
 * Rows go by slots (router.h). What an expert makes of a row does not depend on the other rows,
 * and a row's sum runs over its experts in rising order, so that a row's bits depend on the row
 * alone. */
#pragma once

#include "language/decoder.h"
#include "language/feed_forward.h"
#include "language/router.h"
#include "linear/row_tiles.h"

extern const struct ommai_ffn ommai_ffn_experts;

/* Router logits f32 [n_rows, ommai_router_outputs] to the rows' slots, from row `first` on. */
void ommai_experts_choose(const struct ommai_decoder *decoder, int64_t layer, const float *logits, int64_t first,
                          int64_t n_rows, const struct ommai_routing *routing);

/* What a worker needs for a tile of OMMAI_MAX_TILE_ROWS rows; decoding, what a step needs for its
 * slots. */
struct ommai_experts_scratch {
  void *gathered;   /* dtype [tile, hidden] */
  float *projected; /* [tile, 2 * intermediate] */
  void *gated;      /* dtype [tile, intermediate] */
  void *prepared;   /* decoding: [slots, the decoder's gemv_row_bytes] */
};

/* Prompts: one tile of the sorted routing. rows dtype [n, hidden]; results f32 [slots, hidden], in
 * the order of `sorted`. A failing linear layer is kept in tiles->failure. */
void ommai_experts_run_tile(const struct ommai_decoder *decoder, int64_t layer, const struct ommai_routing *routing,
                            int64_t tile, const void *rows, float *results, const struct ommai_experts_scratch *scratch,
                            struct ommai_row_tiles *tiles, int worker);

/* residual f32 [hidden] += the weighted sum of row `row`'s results. */
void ommai_experts_add_row(const struct ommai_decoder *decoder, const struct ommai_routing *routing, int64_t row,
                           const float *results, float *residual);

/* Decoding: all experts over few rows, panels of their columns shared out over the team. rows and
 * results as above. The routing gets sorted. */
void ommai_experts_run_few(const struct ommai_decoder *decoder, int64_t layer, struct ommai_routing *routing, int64_t n_rows,
                           const void *rows, const struct ommai_experts_scratch *scratch, float *results,
                           const struct omma_team *team);
