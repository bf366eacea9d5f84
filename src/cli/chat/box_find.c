#include "cli/chat/box_find.h"

#include <math.h>
#include <string.h>

#include "base/allocator.h"
#include "base/json.h"
#include "base/json_writer.h"

struct search {
  const struct ommai_box_image *images;
  size_t n_images;
  struct ommai_boxes *boxes;
};

/* Two corners of one axis, in units, as pixels inside [0, size]. False when nothing of them is
 * inside. */
static bool fit(double low, double high, double unit, int32_t size, int32_t *first, int32_t *end) {
  low *= unit;
  high *= unit;
  if (!(low < high && low < size && high > 0)) return false;
  *first = (int32_t)lround(fmax(low, 0));
  *end = (int32_t)lround(fmin(high, size));
  if (*first == size) --*first;
  if (*end <= *first) *end = *first + 1;
  return true;
}

static bool read_corners(const json_t *value, double corners[4]) {
  if (json_array_size(value) != 4) return false;
  for (size_t i = 0; i < 4; i++) {
    const json_t *corner = json_array_get(value, i);
    if (!json_is_number(corner)) return false;
    corners[i] = json_number_value(corner);
  }
  return true;
}

static bool read_image(const json_t *object, size_t n_images, size_t *image) {
  const json_t *value = json_object_get(object, "image");
  *image = 0;
  if (!json_is_integer(value)) return n_images > 0;
  json_int_t number = json_integer_value(value);
  if (number < 1 || (uint64_t)number > n_images) return false;
  *image = (size_t)number - 1;
  return true;
}

static bool read_box(const struct search *search, const json_t *object, const json_t *value, struct ommai_box *box) {
  double corners[4];
  if (!read_corners(value, corners) || !read_image(object, search->n_images, &box->image)) return false;
  const struct ommai_box_image *image = &search->images[box->image];
  if (!fit(corners[0], corners[2], image->unit_x, image->width, &box->x1, &box->x2)) return false;
  if (!fit(corners[1], corners[3], image->unit_y, image->height, &box->y1, &box->y2)) return false;
  const char *label = json_string_value(json_object_get(object, "label"));
  if (!label) label = json_string_value(json_object_get(object, "text_content"));
  box->label = label ? label : "";
  return true;
}

/* All boxes below a value. jansson bounds the depth. */
static void collect(const struct search *search, const json_t *value) {
  struct ommai_boxes *boxes = search->boxes;
  const json_t *corners = json_object_get(value, "bbox_2d");
  if (corners && boxes->count < OMMAI_MAX_BOXES) {
    bool good = read_box(search, value, corners, &boxes->items[boxes->count]);
    boxes->count += good;
    boxes->n_refused += !good;
  }
  const char *key;
  json_t *inner;
  size_t i;
  json_object_foreach((json_t *)value, key, inner) collect(search, inner);
  json_array_foreach(value, i, inner) collect(search, inner);
}

bool ommai_boxes_find(const char *text, size_t size, const struct ommai_box_image *images, size_t n_images,
                      struct ommai_boxes *boxes) {
  struct search search = {images, n_images, boxes};
  *boxes = (struct ommai_boxes){.values = json_array(),
                                .items = ommai_allocate(&ommai_default_allocator, OMMAI_MAX_BOXES, sizeof *boxes->items)};
  if (!boxes->items || !boxes->values) return false;
  const char *end = text + size, *at = text;
  while (at < end && (at = memchr(at, '{', (size_t)(end - at)))) {
    json_error_t error;
    bool no_memory;
    json_t *value = ommai_json_parse(at, (size_t)(end - at), JSON_DISABLE_EOF_CHECK, &error, &no_memory);
    if (no_memory) return false;
    if (!value) {
      /* What is nested too deep would be read again and again, from each level of it. */
      at += json_error_code(&error) == json_error_stack_overflow ? error.position : 1;
      continue;
    }
    collect(&search, value);
    at += error.position;
    if (json_array_append_new(boxes->values, value) != 0) return false;
  }
  return true;
}

void ommai_boxes_release(struct ommai_boxes *boxes) {
  ommai_release(&ommai_default_allocator, boxes->items, OMMAI_MAX_BOXES, sizeof *boxes->items);
  json_decref(boxes->values);
  *boxes = (struct ommai_boxes){0};
}

void ommai_put_boxes(struct ommai_text *out, const char *key, const struct ommai_boxes *boxes) {
  ommai_put_begin(out, key, "[");
  for (size_t i = 0; i < boxes->count; i++) {
    const struct ommai_box *box = &boxes->items[i];
    const int32_t corners[] = {box->x1, box->y1, box->x2, box->y2};
    ommai_put_begin(out, NULL, "{");
    ommai_put_integer(out, "image", (int64_t)box->image + 1);
    ommai_put_string(out, "label", box->label);
    ommai_put_begin(out, "box", "[");
    for (int c = 0; c < 4; c++) ommai_put_integer(out, NULL, corners[c]);
    ommai_put_end(out, "]}");
  }
  ommai_put_end(out, "]");
}
