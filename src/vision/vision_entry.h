/* How patches come into the tower: cut from the pixels or brought along, embedded, with learned
 * positions where the tower has them. */
#ifndef OMMAI_VISION_VISION_ENTRY_H
#define OMMAI_VISION_VISION_ENTRY_H

#include "vision/vision_rows.h"

/* Pixels -> patches -> residual, for one tile: what block 0 takes in. */
void ommai_vision_entry(struct ommai_vision_rows *rows, struct ommai_row_tile tile, int worker);

#endif
