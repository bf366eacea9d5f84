/* Boxes drawn on pixels. */
#pragma once

#include "cli/chat/box_find.h"

/* Draws a box and its label on an image, pixels [height][width][3]. `number` picks the colour;
 * eight follow each other. The lines are 2 to 4 pixels wide, as the image is large, and lie inside
 * the box; the label stands above it, or inside where there is no room. */
void ommai_box_draw(uint8_t *pixels, int32_t width, int32_t height, const struct ommai_box *box, size_t number);
