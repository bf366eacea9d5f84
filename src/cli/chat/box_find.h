/* Boxes in the text of an answer. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text_buffer.h"

/* More boxes than this are left out. */
#define OMMAI_MAX_BOXES 1000

/* An image that boxes may lie on, and how many of its pixels one unit of the answer's coordinates
 * is. */
struct ommai_box_image {
  int32_t width, height;
  double unit_x, unit_y;
};

/* A box in pixels of its image: columns x1 to x2 - 1 and rows y1 to y2 - 1, at least one pixel,
 * nothing outside. */
struct ommai_box {
  size_t image; /* from 0 */
  int32_t x1, y1, x2, y2;
  const char *label; /* UTF-8, as long as the list lives; "" where the answer gives none */
};

struct ommai_boxes {
  struct ommai_box *items; /* [OMMAI_MAX_BOXES] */
  size_t count;
  /* without a meaning: not four numbers, empty, outside the image, on an image that is not there */
  size_t n_refused;
  json_t *values; /* keeps the labels */
};

/* Finds objects {"bbox_2d": [x1, y1, x2, y2], "label": TEXT} anywhere in a text: alone, in lists
 * and objects, between other words, in a fence. What is no JSON is passed over, so that whole
 * objects of a list that was cut off are found. A label may also be called "text_content". A box
 * is on the first image where it has no "image", else on that one, counted from 1. Corners that
 * stick out are brought to the image's edge. False when memory is out. Release in every case. */
bool ommai_boxes_find(const char *text, size_t size, const struct ommai_box_image *images, size_t n_images,
                      struct ommai_boxes *boxes);
void ommai_boxes_release(struct ommai_boxes *boxes);

/* [{"image": 1, "label": TEXT, "box": [x1, y1, x2, y2]}, ...] */
void ommai_put_boxes(struct ommai_text *out, const char *key, const struct ommai_boxes *boxes);
