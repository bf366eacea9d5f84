#include "image/codec.h"

#include "base/allocator.h"
#include "base/checked.h"
#include "base/clock.h"
#include "base/error.h"

enum omma_status ommai_image_check_size(const struct ommai_image_limits *limits, const char *name, int64_t width,
                                        int64_t height, struct omma_error *error) {
  if (width < 1 || height < 1) {
    return ommai_fail(error, OMMA_ERROR_FORMAT, "broken %s: %lld x %lld pixels", name, (long long)width, (long long)height);
  }
  if (width > limits->max_side || height > limits->max_side) {
    return ommai_fail(error, OMMA_ERROR_LIMIT, "image is too large: %lld x %lld pixels, at most %lld a side are allowed",
                      (long long)width, (long long)height, (long long)limits->max_side);
  }
  if (height > limits->max_pixels / width) {
    const char *setting = limits->pixels_setting;
    return ommai_fail(error, OMMA_ERROR_LIMIT, "image is too large: %lld x %lld pixels, at most %lld in all are allowed%s%s%s",
                      (long long)width, (long long)height, (long long)limits->max_pixels, setting ? " (" : "",
                      setting ? setting : "", setting ? ")" : "");
  }
  return OMMA_OK;
}

enum omma_status ommai_image_fail_truncated(struct omma_error *error, const char *name, size_t size) {
  return ommai_fail(error, OMMA_ERROR_FORMAT, "image file is truncated: the %s data breaks off after %zu bytes", name, size);
}

enum omma_status ommai_image_check_time(const struct ommai_image_source *source, const char *name, struct omma_error *error) {
  if (!source->deadline_ns || ommai_clock_thread_ns() < source->deadline_ns) return OMMA_OK;
  return ommai_fail(error, OMMA_ERROR_LIMIT, "%s takes too long to decode: at most %lld ms of processor time are allowed", name,
                    (long long)source->limits->max_cpu_ms);
}

enum omma_status ommai_image_take_pixels(struct ommai_image *image, int32_t width, int32_t height, struct omma_error *error) {
  size_t n_pixels = (size_t)width * (size_t)height;
  image->pixels = ommai_allocate(&image->allocator, n_pixels, 3);
  if (!image->pixels) return ommai_fail_memory(error, "an image", n_pixels * 3);
  image->width = width;
  image->height = height;
  return OMMA_OK;
}

void ommai_image_paint_on_white(const uint8_t *rgba, uint8_t *rgb, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    uint32_t alpha = rgba[4 * i + 3];
    /* 255 is odd, so there are no ties: adding 127 rounds to nearest */
    uint32_t white = 255 * (255 - alpha) + 127;
    for (int c = 0; c < 3; c++) rgb[3 * i + c] = (uint8_t)((rgba[4 * i + c] * alpha + white) / 255);
  }
}

void ommai_image_add_white(const uint8_t *rgba, uint8_t *rgb, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    int white = 255 - rgba[4 * i + 3];
    for (int c = 0; c < 3; c++) rgb[3 * i + c] = (uint8_t)ommai_min_i64(rgba[4 * i + c] + white, 255);
  }
}
