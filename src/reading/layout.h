/* Blocks of a page: a JSON array of objects in reading order,
 *
 *   {"type": ..., "bbox": [x1, y1, x2, y2], "angle": null | 0 | 90 | 180 | 270, "content": null}
 *
 * and "merge_prev" of texts: they continue an earlier one. Boxes are fractions of the page's sides.
 *
 * Source of the rules: mineru-vl-utils 2.0.7. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

/* Reads a layout answer: lines of box, type and direction. What is broken is left out, and so are
 * blocks twice there and texts and formulas inside a table. NULL when memory is out. */
json_t *ommai_layout_read(const char *answer);

/* Removes captions that lie in a figure. */
void ommai_layout_drop_inner_captions(json_t *blocks);

/* The share of a block's area that lies inside another. */
double ommai_layout_cover(const json_t *inner, const json_t *outer);

/* Whether a block's type is this one. */
bool ommai_block_is(const json_t *block, const char *type);

/* A coordinate of a block's box, 0 to 3. */
double ommai_block_side(const json_t *block, size_t side);
