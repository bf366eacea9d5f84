/* Pixels of an image, the file formats that they come from, and what an image may be at most. */
#pragma once

#include <omma/host.h>
#include <omma/status.h>
#include <stdint.h>

enum ommai_image_format {
  OMMAI_IMAGE_UNKNOWN = 0,
  OMMAI_IMAGE_JPEG,
  OMMAI_IMAGE_PNG,
  OMMAI_IMAGE_WEBP,
  OMMAI_IMAGE_GIF,
  OMMAI_IMAGE_BMP,
  OMMAI_IMAGE_TIFF,
  OMMAI_IMAGE_HEIF,
  OMMAI_IMAGE_JPEG2000
};

/* Default limits: bytes of a file; pixels of a side (the maximum of libjpeg); pixels of an
 * image (Pillow refuses more as a decompression bomb). */
#define OMMAI_IMAGE_MAX_BYTES ((int64_t)64 << 20)
#define OMMAI_IMAGE_MAX_SIDE ((int64_t)65500)
#define OMMAI_IMAGE_MAX_PIXELS ((int64_t)178956970)
/* Default limit of the processor time that decoding one image may take, in milliseconds. */
#define OMMAI_IMAGE_MAX_CPU_MS ((int64_t)30000)

/* What an image may be at most. max_side may be at most INT32_MAX. max_cpu_ms bounds the decoding
 * thread's processor time; it is looked at between rows. libwebp decodes in one call, whose time
 * max_pixels bounds. */
struct ommai_image_limits {
  int64_t max_bytes;
  int64_t max_side;
  int64_t max_pixels;
  int64_t max_cpu_ms;
  const char *pixels_setting; /* what sets max_pixels, for the error; may be NULL */
};

/* A decoded image: pixels is [height][width][3], red first, rows without padding. Immutable once
 * made; any thread may read it and destroy it. */
struct ommai_image {
  int32_t width, height;
  uint8_t *pixels;
  enum ommai_image_format format; /* what it was decoded from */
  struct omma_allocator allocator;
};
