#include "model/image_object.h"

#include <string.h>

#include "base/allocator.h"
#include "base/error.h"
#include "base/file.h"

static struct ommai_image_limits effective_limits(const struct omma_image_limits *limits) {
  struct ommai_image_limits effective = ommai_image_default_limits;
  if (limits && limits->max_bytes) effective.max_bytes = limits->max_bytes;
  if (limits && limits->max_side) effective.max_side = limits->max_side;
  if (limits && limits->max_pixels) effective.max_pixels = limits->max_pixels;
  if (limits && limits->max_cpu_ms) effective.max_cpu_ms = limits->max_cpu_ms;
  return effective;
}

enum omma_status omma_image_probe(const void *bytes, size_t size, const struct omma_image_limits *limits,
                                  struct omma_image_header *header, struct omma_error *error) {
  struct ommai_image_limits effective = effective_limits(limits);
  struct ommai_image_header found;
  OMMAI_TRY(ommai_image_probe(bytes, size, &effective, &found, error));
  *header = (struct omma_image_header){found.width, found.height, found.decode_bytes};
  return OMMA_OK;
}

enum omma_status omma_image_decode(const void *bytes, size_t size, const struct omma_image_limits *limits,
                                   struct omma_image **out, struct omma_error *error) {
  struct ommai_image_limits effective = effective_limits(limits);
  struct omma_image *image = ommai_allocate(&ommai_default_allocator, 1, sizeof *image);
  if (!image) return ommai_fail_memory(error, "image", sizeof *image);
  enum omma_status status = ommai_image_decode(bytes, size, &effective, &ommai_huge_page_allocator, &image->decoded, error);
  if (status != OMMA_OK) {
    omma_image_destroy(image);
    return status;
  }
  image->width = image->decoded->width;
  image->height = image->decoded->height;
  image->has_digest = true;
  ommai_image_digest(bytes, size, image->digest);
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
  const struct omma_allocator *allocator = &ommai_default_allocator, *large = &ommai_huge_page_allocator;
  size_t size = (size_t)width * (size_t)height * 3;
  struct omma_image *image = ommai_allocate(allocator, 1, sizeof *image);
  struct ommai_image *decoded = ommai_allocate(large, 1, sizeof *decoded);
  uint8_t *pixels = ommai_allocate_uninitialised(large, size, 1);
  if (!image || !decoded || !pixels) {
    ommai_release(allocator, image, 1, sizeof *image);
    ommai_release(large, decoded, 1, sizeof *decoded);
    ommai_release(large, pixels, size, 1);
    return ommai_fail_memory(error, "image", size);
  }
  memcpy(pixels, rgb, size);
  *decoded = (struct ommai_image){.width = width, .height = height, .pixels = pixels, .allocator = *large};
  image->decoded = decoded;
  image->width = width;
  image->height = height;
  *out = image;
  return OMMA_OK;
}

int32_t omma_image_width(const struct omma_image *image) { return image->width; }
int32_t omma_image_height(const struct omma_image *image) { return image->height; }
const uint8_t *omma_image_pixels(const struct omma_image *image) { return image->decoded ? image->decoded->pixels : NULL; }

void omma_image_destroy(struct omma_image *image) {
  if (!image) return;
  ommai_image_destroy(image->decoded);
  ommai_prepared_image_free(&image->known);
  ommai_release(&ommai_default_allocator, image, 1, sizeof *image);
}
