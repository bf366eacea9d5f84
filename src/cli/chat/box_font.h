/* A bitmap font for the labels of drawn boxes: our own drawing of ASCII in 5 x 7 points. */
#pragma once

#include <stdint.h>

#define OMMAI_FONT_WIDTH 5
#define OMMAI_FONT_HEIGHT 7

/* The rows of a character, top first; bit OMMAI_FONT_WIDTH - 1 is the leftmost point. What is not
 * printable ASCII has a question mark's. */
const uint8_t *ommai_font_rows(char character);
