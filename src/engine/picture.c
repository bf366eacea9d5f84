#include "engine/picture.h"

#include <string.h>

#include "base/allocator.h"
#include "base/error.h"
#include "base/file.h"
#include "image/smart_resize.h"

static struct ommai_image_limits effective_limits(const struct omma_image_limits *limits) {
  struct ommai_image_limits effective = ommai_image_default_limits;
  if (limits && limits->max_bytes) effective.max_bytes = limits->max_bytes;
  if (limits && limits->max_side) effective.max_side = limits->max_side;
  if (limits && limits->max_pixels) effective.max_pixels = limits->max_pixels;
  return effective;
}

enum omma_status omma_image_decode(const void *bytes, size_t size, const struct omma_image_limits *limits,
                                   struct omma_image **out, struct omma_error *error) {
  struct ommai_image_limits effective = effective_limits(limits);
  struct omma_image *image = ommai_allocate(&ommai_default_allocator, 1, sizeof *image);
  if (!image) return ommai_fail_memory(error, "image", sizeof *image);
  enum omma_status status = ommai_image_decode(bytes, size, &effective, &ommai_default_allocator, &image->decoded, error);
  if (status != OMMA_OK) {
    omma_image_destroy(image);
    return status;
  }
  *out = image;
  return OMMA_OK;
}

enum omma_status omma_image_load(const char *path, const struct omma_image_limits *limits, struct omma_image **image,
                                 struct omma_error *error) {
  struct ommai_image_limits effective = effective_limits(limits);
  char *bytes;
  size_t size;
  OMMAI_TRY(ommai_file_read(path, (size_t)effective.max_bytes, &ommai_default_allocator, &bytes, &size, error));
  enum omma_status status = omma_image_decode(bytes, size, limits, image, error);
  if (status != OMMA_OK) ommai_error_prefix(error, "%s", path);
  ommai_release(&ommai_default_allocator, bytes, size + 1, 1);
  return status;
}

enum omma_status omma_image_from_rgb(int32_t width, int32_t height, const uint8_t *rgb, struct omma_image **out,
                                     struct omma_error *error) {
  if (width < 1 || height < 1 || width > OMMAI_IMAGE_MAX_SIDE || height > OMMAI_IMAGE_MAX_SIDE ||
      (int64_t)width * height > OMMAI_IMAGE_MAX_PIXELS) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "image",
                            "image: expected sides of 1 to %lld and at most %lld pixels, found %d x %d",
                            (long long)OMMAI_IMAGE_MAX_SIDE, (long long)OMMAI_IMAGE_MAX_PIXELS, width, height);
  }
  const struct omma_allocator *allocator = &ommai_default_allocator;
  size_t size = (size_t)width * (size_t)height * 3;
  struct omma_image *image = ommai_allocate(allocator, 1, sizeof *image);
  struct ommai_image *decoded = ommai_allocate(allocator, 1, sizeof *decoded);
  uint8_t *pixels = ommai_allocate_uninitialised(allocator, size, 1);
  if (!image || !decoded || !pixels) {
    ommai_release(allocator, image, 1, sizeof *image);
    ommai_release(allocator, decoded, 1, sizeof *decoded);
    ommai_release(allocator, pixels, size, 1);
    return ommai_fail_memory(error, "image", size);
  }
  memcpy(pixels, rgb, size);
  *decoded = (struct ommai_image){.width = width, .height = height, .pixels = pixels, .allocator = *allocator};
  image->decoded = decoded;
  *out = image;
  return OMMA_OK;
}

int32_t omma_image_width(const struct omma_image *image) { return image->decoded->width; }
int32_t omma_image_height(const struct omma_image *image) { return image->decoded->height; }
const uint8_t *omma_image_pixels(const struct omma_image *image) { return image->decoded->pixels; }

void omma_image_destroy(struct omma_image *image) {
  if (!image) return;
  ommai_image_destroy(image->decoded);
  ommai_release(&ommai_default_allocator, image, 1, sizeof *image);
}

static enum omma_status area_limits(const struct omma_model *model, const struct omma_image_options *options, int64_t *low,
                                    int64_t *high, struct omma_error *error) {
  *low = options && options->min_pixels ? options->min_pixels : model->config.picture.min_pixels;
  *high = options && options->max_pixels ? options->max_pixels : model->config.picture.max_pixels;
  /* One limit alone moves the other along. */
  if (options && options->min_pixels && !options->max_pixels && *high < *low) *high = *low;
  if (options && options->max_pixels && !options->min_pixels && *low > *high) *low = *high;
  if (*low < 1 || *high < *low || *high > OMMAI_IMAGE_MAX_PIXELS) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "min_pixels",
                            "min_pixels, max_pixels: expected 1 <= min <= max <= %lld, found %lld and %lld",
                            (long long)OMMAI_IMAGE_MAX_PIXELS, (long long)*low, (long long)*high);
  }
  return OMMA_OK;
}

enum omma_status omma_model_plan_image(const struct omma_model *model, int32_t width, int32_t height,
                                       const struct omma_image_options *options, struct omma_image_plan *plan,
                                       struct omma_error *error) {
  const struct ommai_vision_config *vision = &model->config.vision;
  int64_t low, high;
  int32_t resized_height, resized_width;
  if (width < 1 || height < 1) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "image", "image: expected sides of at least 1 pixel, found %d x %d",
                            width, height);
  }
  if (width > OMMAI_IMAGE_MAX_SIDE || height > OMMAI_IMAGE_MAX_SIDE || (int64_t)width * height > OMMAI_IMAGE_MAX_PIXELS) {
    return ommai_fail_field(error, OMMA_ERROR_LIMIT, "image",
                            "image is too large: %d x %d pixels, at most %lld a side and %lld in all", width, height,
                            (long long)OMMAI_IMAGE_MAX_SIDE, (long long)OMMAI_IMAGE_MAX_PIXELS);
  }
  OMMAI_TRY(area_limits(model, options, &low, &high, error));
  OMMAI_TRY(ommai_smart_resize(height, width, (int32_t)(vision->patch_size * vision->merge_size), low, high, &resized_height,
                               &resized_width, error));
  int64_t rows = resized_height / vision->patch_size, columns = resized_width / vision->patch_size;
  *plan = (struct omma_image_plan){.width = width,
                                   .height = height,
                                   .resized_width = resized_width,
                                   .resized_height = resized_height,
                                   .grid_thw = {1, rows, columns},
                                   .n_patches = rows * columns,
                                   .n_tokens = rows * columns / (vision->merge_size * vision->merge_size),
                                   .flops = ommai_vision_flops(vision, rows, columns)};
  return OMMA_OK;
}

static enum omma_status resize(const struct omma_model *model, const struct ommai_image *source,
                               const struct omma_allocator *allocator, struct ommai_prepared_picture *picture,
                               struct omma_error *error) {
  const struct omma_image_plan *plan = &picture->plan;
  enum ommai_resize_rule rule = model->config.picture.resize_rule;
  size_t workspace_size;
  OMMAI_TRY(ommai_resize_workspace(rule, source->width, source->height, plan->resized_width, plan->resized_height,
                                   &workspace_size, error));
  void *workspace = ommai_allocate_uninitialised(allocator, workspace_size, 1);
  if (!workspace) return ommai_fail_memory(error, "resize", workspace_size);
  enum omma_status status =
      ommai_resize_bicubic_at(model->level, rule, source->pixels, source->width, source->height, picture->pixels,
                              plan->resized_width, plan->resized_height, workspace, workspace_size, NULL, error);
  ommai_release(allocator, workspace, workspace_size, 1);
  return status;
}

enum omma_status ommai_prepare_picture(const struct omma_model *model, const struct omma_image *image,
                                       const struct omma_image_options *options, const struct omma_allocator *allocator,
                                       struct ommai_prepared_picture *picture, struct omma_error *error) {
  struct ommai_prepared_picture prepared = {0};
  OMMAI_TRY(omma_model_plan_image(model, image->decoded->width, image->decoded->height, options, &prepared.plan, error));
  prepared.size = (size_t)prepared.plan.resized_width * (size_t)prepared.plan.resized_height * 3;
  prepared.pixels = ommai_allocate_uninitialised(allocator, prepared.size, 1);
  if (!prepared.pixels) return ommai_fail_memory(error, "resized picture", prepared.size);
  enum omma_status status = resize(model, image->decoded, allocator, &prepared, error);
  if (status != OMMA_OK) {
    ommai_prepared_picture_free(allocator, &prepared);
    return status;
  }
  *picture = prepared;
  return OMMA_OK;
}

void ommai_prepared_picture_free(const struct omma_allocator *allocator, struct ommai_prepared_picture *picture) {
  ommai_release(allocator, picture->pixels, picture->size, 1);
  picture->pixels = NULL;
}

enum omma_status omma_preprocess(const struct omma_model *model, const struct omma_image *image,
                                 const struct omma_image_options *options, float *pixel_values, size_t capacity,
                                 struct omma_error *error) {
  struct ommai_prepared_picture picture = {0};
  const struct ommai_patch_spec *spec = &model->config.picture.patches;
  int64_t patch_dim = ommai_vision_patch_dim(&model->config.vision);
  OMMAI_TRY(ommai_prepare_picture(model, image, options, &model->allocator, &picture, error));
  enum omma_status status;
  if ((size_t)(picture.plan.n_patches * patch_dim) > capacity) {
    status = ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "capacity", "pixel_values: expected room for %lld values, found %zu",
                              (long long)(picture.plan.n_patches * patch_dim), capacity);
  } else {
    status = ommai_patches_from_pixels(spec, picture.pixels, picture.plan.resized_width, picture.plan.resized_height, 0,
                                       picture.plan.n_patches, pixel_values, patch_dim, OMMA_F32, error);
  }
  ommai_prepared_picture_free(&model->allocator, &picture);
  return status;
}
