/* A tile of patches from one attention to the next: the steps of a pass that are local to rows. */
#pragma once

#include "vision/vision_rows.h"

/* Pixels -> patches -> residual -> q, k, v of block 0, for one tile. */
void ommai_vision_enter_tile(struct ommai_vision_rows *rows, int64_t tile, int worker);

/* Attended rows -> residual through the rest of `block` -> q, k, v of the next block, or tokens
 * after the last, for one tile. */
void ommai_vision_leave_tile(struct ommai_vision_rows *rows, int64_t block, int64_t tile, int worker);
