#include "reading/document_page.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/allocator.h"
#include "base/error.h"
#include "image_out/image_part.h"
#include "image/resize.h"

static const struct ommai_block_kind *kind_of(const json_t *block) {
  return ommai_block_kind_find(json_string_value(json_object_get(block, "type")));
}

static enum omma_status make_image(int32_t width, int32_t height, struct ommai_image **image, struct omma_error *error) {
  const struct omma_allocator *allocator = &ommai_default_allocator;
  size_t size = (size_t)width * (size_t)height * 3;
  struct ommai_image *made = ommai_allocate(allocator, 1, sizeof *made);
  uint8_t *pixels = made ? ommai_allocate_uninitialised(allocator, size, 1) : NULL;
  if (!pixels) {
    ommai_release(allocator, made, 1, sizeof *made);
    return ommai_fail_memory(error, "a page's image", size);
  }
  *made = (struct ommai_image){width, height, pixels, OMMAI_IMAGE_UNKNOWN, *allocator};
  *image = made;
  return OMMA_OK;
}

/* As Pillow resizes. */
static enum omma_status resize(const struct ommai_image *source, int32_t width, int32_t height, struct ommai_image **out,
                               struct omma_error *error) {
  const enum ommai_resize_rule rule = OMMAI_RESIZE_PRECISE22;
  size_t size = 0;
  OMMAI_TRY(ommai_resize_workspace(rule, source->width, source->height, width, height, &size, error));
  OMMAI_TRY(make_image(width, height, out, error));
  void *workspace = ommai_allocate_uninitialised(&ommai_default_allocator, size, 1);
  enum omma_status status = workspace || !size
                                ? ommai_resize_bicubic(rule, source->pixels, source->width, source->height, (*out)->pixels,
                                                       width, height, workspace, size, NULL, error)
                                : ommai_fail_memory(error, "a resize", size);
  ommai_release(&ommai_default_allocator, workspace, size, 1);
  if (status == OMMA_OK) return status;
  ommai_image_destroy(*out);
  *out = NULL;
  return status;
}

/* Cuts a box out and turns it by `angle` degrees, against the clock. */
static enum omma_status cut(const struct ommai_image *page, const int32_t box[4], int angle, struct ommai_image **out,
                            struct omma_error *error) {
  int32_t width = box[2] - box[0], height = box[3] - box[1];
  bool across = angle == 90 || angle == 270;
  OMMAI_TRY(make_image(across ? height : width, across ? width : height, out, error));
  for (int32_t y = 0; y < height; y++) {
    for (int32_t x = 0; x < width; x++) {
      const uint8_t *from = page->pixels + 3 * ((size_t)(box[1] + y) * (size_t)page->width + (size_t)(box[0] + x));
      int32_t to_x = angle == 90 ? y : angle == 180 ? width - 1 - x : angle == 270 ? height - 1 - y : x;
      int32_t to_y = angle == 90 ? width - 1 - x : angle == 180 ? height - 1 - y : angle == 270 ? x : y;
      memcpy((*out)->pixels + 3 * ((size_t)to_y * (size_t)(*out)->width + (size_t)to_x), from, 3);
    }
  }
  return OMMA_OK;
}

/* Puts a long image onto a white one of at most the ratio. */
static enum omma_status widen(struct ommai_image **image, int32_t max_ratio, struct omma_error *error) {
  const struct ommai_image *source = *image;
  int32_t width = source->width, height = source->height;
  if (width > height * max_ratio) height = (width + max_ratio - 1) / max_ratio;
  if (source->height > source->width * max_ratio) width = (source->height + max_ratio - 1) / max_ratio;
  if (width == source->width && height == source->height) return OMMA_OK;
  struct ommai_image *wide;
  OMMAI_TRY(make_image(width, height, &wide, error));
  memset(wide->pixels, 255, (size_t)width * (size_t)height * 3);
  int32_t left = (width - source->width) / 2, top = (height - source->height) / 2;
  for (int32_t y = 0; y < source->height; y++) {
    memcpy(wide->pixels + 3 * ((size_t)(top + y) * (size_t)width + (size_t)left),
           source->pixels + 3 * (size_t)y * (size_t)source->width, (size_t)source->width * 3);
  }
  ommai_image_destroy(*image);
  *image = wide;
  return OMMA_OK;
}

static enum omma_status enlarge(struct ommai_image **image, int32_t min_side, struct omma_error *error) {
  int32_t width = (*image)->width, height = (*image)->height, side = width < height ? width : height;
  if (side >= min_side) return OMMA_OK;
  double scale = (double)min_side / side;
  struct ommai_image *larger;
  OMMAI_TRY(resize(*image, (int32_t)ceil(width * scale), (int32_t)ceil(height * scale), &larger, error));
  ommai_image_destroy(*image);
  *image = larger;
  return OMMA_OK;
}

enum omma_status ommai_page_crop(const struct ommai_reading_recipe *recipe, const struct ommai_image *page, const json_t *block,
                                 bool fitted, struct ommai_image **crop, struct omma_error *error) {
  int32_t box[4], sides[2] = {page->width, page->height};
  for (size_t i = 0; i < 4; i++) box[i] = (int32_t)nearbyint(ommai_block_side(block, i) * sides[i % 2]);
  *crop = NULL;
  if (box[2] <= box[0] || box[3] <= box[1]) return OMMA_OK;
  int angle = (int)json_integer_value(json_object_get(block, "angle"));
  enum omma_status status = cut(page, box, angle, crop, error);
  if (status == OMMA_OK && fitted) status = widen(crop, recipe->max_ratio, error);
  if (status == OMMA_OK && fitted) status = enlarge(crop, recipe->min_side, error);
  if (status == OMMA_OK) return status;
  ommai_image_destroy(*crop);
  *crop = NULL;
  return status;
}

/* The body of a request about one image; takes the image. */
static enum omma_status make_body(const struct ommai_reading_recipe *recipe, const char *prompt,
                                  const struct ommai_reading_sampling *sampling, struct ommai_image *image, json_t **body,
                                  struct omma_error *error) {
  json_t *part = NULL, *messages = json_array();
  enum omma_status status =
      ommai_image_part_png(image->pixels, image->width, image->height, &ommai_default_allocator, &part, error);
  ommai_image_destroy(image);
  json_t *content = json_pack("[o]", part);
  if (recipe->system) json_array_append_new(messages, json_pack("{s:s, s:s}", "role", "system", "content", recipe->system));
  if (*prompt) json_array_append_new(content, json_pack("{s:s, s:s}", "type", "text", "text", prompt));
  json_array_append_new(messages, json_pack("{s:s, s:o}", "role", "user", "content", content));
  *body = json_pack("{s:o, s:f, s:f, s:f, s:b}", "messages", messages, "temperature", 0.0, "presence_penalty",
                    sampling->presence_penalty, "frequency_penalty", sampling->frequency_penalty, "skip_special_tokens", false);
  if (recipe->no_repeat_ngram_size) {
    json_object_set_new(*body, "no_repeat_ngram_size", json_integer(recipe->no_repeat_ngram_size));
  }
  if (status != OMMA_OK || *body) return status;
  return ommai_fail_memory(error, "a request", 0);
}

enum omma_status ommai_page_layout_request(const struct ommai_reading_recipe *recipe, const struct ommai_image *page,
                                           json_t **body, struct omma_error *error) {
  struct ommai_image *squeezed;
  OMMAI_TRY(resize(page, recipe->layout_side, recipe->layout_side, &squeezed, error));
  return make_body(recipe, recipe->layout_prompt, &recipe->layout, squeezed, body, error);
}

json_t *ommai_page_whole(void) {
  return json_pack("[{s:s, s:[f,f,f,f], s:i, s:n}]", "type", "text", "bbox", 0.0, 0.0, 1.0, 1.0, "angle", 0, "content");
}

enum omma_status ommai_page_element_request(const struct ommai_reading_recipe *recipe, const char *prompt,
                                            const struct ommai_image *page, const json_t *block, json_t **body,
                                            struct omma_error *error) {
  const struct ommai_block_kind *kind = kind_of(block);
  struct ommai_image *crop = NULL;
  *body = NULL;
  if (kind->use == OMMAI_BLOCK_FIGURE || kind->use == OMMAI_BLOCK_GROUP) return OMMA_OK;
  OMMAI_TRY(ommai_page_crop(recipe, page, block, true, &crop, error));
  if (!crop) return OMMA_OK;
  bool table = kind->use == OMMAI_BLOCK_TABLE, formula = kind->use == OMMAI_BLOCK_FORMULA;
  const char *own = table ? recipe->table_prompt : formula ? recipe->formula_prompt : recipe->text_prompt;
  const struct ommai_reading_sampling *sampling = table ? &recipe->table : formula ? &recipe->formula : &recipe->text;
  return make_body(recipe, prompt ? prompt : own, sampling, crop, body, error);
}
