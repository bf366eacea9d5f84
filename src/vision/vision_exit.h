/* The tower's exit: the final norm where there is one, then the merger. Deepstack outputs have
 * mergers of their own. */
#pragma once

#include "vision/vision_rows.h"

/* Merges a tile's rows x [n_rows, h] and puts the tokens where their inputs want them; `slot` 0 is
 * the tower's end, then deepstack. x may be the worker's scratch->projected. */
void ommai_vision_merge(struct ommai_vision_rows *rows, struct ommai_row_tile tile, const float *x,
                        const struct ommai_vision_merger *merger, int64_t slot, int worker);

/* The end of the tower for one tile's rows of the residual: final norm and merger. */
void ommai_vision_exit(struct ommai_vision_rows *rows, struct ommai_row_tile tile, const float *residual, int worker);
