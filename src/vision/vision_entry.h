/* The tower's entry: patches are cut from the pixels, or given by the caller, then embedded.
 * Learned positions are added where the tower has them. */
#pragma once

#include "vision/vision_rows.h"

/* Pixels -> patches -> residual, for one tile: what block 0 takes in. */
void ommai_vision_entry(struct ommai_vision_rows *rows, struct ommai_row_tile tile, int worker);
