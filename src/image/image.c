#include "image/image.h"

#include <stdio.h>
#include <string.h>

#include "base/allocator.h"
#include "base/checked.h"
#include "base/error.h"
#include "image/codec.h"
#include "image/orientation.h"

const struct ommai_image_limits ommai_image_default_limits = {OMMAI_IMAGE_MAX_BYTES, OMMAI_IMAGE_MAX_SIDE,
                                                              OMMAI_IMAGE_MAX_PIXELS};

struct signature {
  enum ommai_image_format format;
  uint8_t offset, size;
  char bytes[12];
};

static const struct signature signatures[] = {
    {OMMAI_IMAGE_JPEG, 0, 3, "\xff\xd8\xff"},
    {OMMAI_IMAGE_PNG, 0, 8, "\x89PNG\r\n\x1a\n"},
    {OMMAI_IMAGE_WEBP, 8, 4, "WEBP"},
    {OMMAI_IMAGE_GIF, 0, 6, "GIF87a"},
    {OMMAI_IMAGE_GIF, 0, 6, "GIF89a"},
    {OMMAI_IMAGE_TIFF, 0, 4, "II*\0"},
    {OMMAI_IMAGE_TIFF, 0, 4, "MM\0*"},
    {OMMAI_IMAGE_HEIF, 4, 8, "ftypavif"},
    {OMMAI_IMAGE_HEIF, 4, 8, "ftypheic"},
    {OMMAI_IMAGE_HEIF, 4, 8, "ftypmif1"},
    {OMMAI_IMAGE_JPEG2000, 0, 8, "\0\0\0\x0cjP  "},
    {OMMAI_IMAGE_BMP, 0, 2, "BM"},
};

/* A format that can be read, and how. */
struct codec {
  enum ommai_image_format format;
  ommai_image_size_reader read_size;
  ommai_image_decoder decode;
  int (*orientation)(const uint8_t *bytes, size_t size); /* NULL: the format has none */
};

static const struct codec codecs[] = {
    {OMMAI_IMAGE_JPEG, ommai_jpeg_read_size, ommai_jpeg_decode, ommai_jpeg_orientation},
    {OMMAI_IMAGE_PNG, ommai_png_read_size, ommai_png_decode, ommai_png_orientation},
    {OMMAI_IMAGE_WEBP, ommai_webp_read_size, ommai_webp_decode, ommai_webp_orientation},
    {OMMAI_IMAGE_GIF, ommai_gif_read_size, ommai_gif_decode, NULL},
    {OMMAI_IMAGE_BMP, ommai_bmp_read_size, ommai_bmp_decode, NULL},
};

const char *ommai_image_format_name(enum ommai_image_format format) {
  switch (format) {
    case OMMAI_IMAGE_UNKNOWN: return "unknown";
    case OMMAI_IMAGE_JPEG: return "JPEG";
    case OMMAI_IMAGE_PNG: return "PNG";
    case OMMAI_IMAGE_WEBP: return "WebP";
    case OMMAI_IMAGE_GIF: return "GIF";
    case OMMAI_IMAGE_BMP: return "BMP";
    case OMMAI_IMAGE_TIFF: return "TIFF";
    case OMMAI_IMAGE_HEIF: return "HEIF/AVIF";
    case OMMAI_IMAGE_JPEG2000: return "JPEG 2000";
  }
  return "unknown";
}

enum ommai_image_format ommai_image_sniff(const void *bytes, size_t size) {
  for (size_t i = 0; i < sizeof signatures / sizeof *signatures; i++) {
    const struct signature *s = &signatures[i];
    if (size >= (size_t)s->offset + s->size && memcmp((const uint8_t *)bytes + s->offset, s->bytes, s->size) == 0) {
      return s->format;
    }
  }
  return OMMAI_IMAGE_UNKNOWN;
}

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
    return ommai_fail(error, OMMA_ERROR_LIMIT, "image is too large: %lld x %lld pixels, at most %lld in all are allowed",
                      (long long)width, (long long)height, (long long)limits->max_pixels);
  }
  return OMMA_OK;
}

enum omma_status ommai_image_fail_truncated(struct omma_error *error, const char *name, size_t size) {
  return ommai_fail(error, OMMA_ERROR_FORMAT, "image file is truncated: the %s data breaks off after %zu bytes", name, size);
}

enum omma_status ommai_image_take_pixels(struct ommai_image *image, int32_t width, int32_t height, struct omma_error *error) {
  size_t n_pixels = (size_t)width * (size_t)height;
  image->pixels = ommai_allocate(&image->allocator, n_pixels, 3);
  if (!image->pixels) return ommai_fail_memory(error, "a picture", n_pixels * 3);
  image->width = width;
  image->height = height;
  return OMMA_OK;
}

void ommai_image_paint_on_white(const uint8_t *rgba, uint8_t *rgb, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    uint32_t alpha = rgba[4 * i + 3];
    uint32_t white = 255 * (255 - alpha) + 127; /* 255 is odd, so there are no ties: adding 127 rounds to nearest */
    for (int c = 0; c < 3; c++) rgb[3 * i + c] = (uint8_t)((rgba[4 * i + c] * alpha + white) / 255);
  }
}

/* "JPEG, PNG, ... or BMP". */
static const char *list_formats(char *list, size_t size) {
  const size_t n = sizeof codecs / sizeof *codecs;
  size_t used = 0;
  for (size_t i = 0; i < n && used < size; i++) {
    const char *before = i == 0 ? "" : i + 1 == n ? " or " : ", ";
    used += (size_t)snprintf(list + used, size - used, "%s%s", before, ommai_image_format_name(codecs[i].format));
  }
  return list;
}

/* Recognises the format and finds its codec, or says why there is none. */
static enum omma_status find_codec(const struct ommai_image_source *source, const struct codec **codec,
                                   struct omma_error *error) {
  if (source->size == 0) return ommai_fail(error, OMMA_ERROR_FORMAT, "cannot identify image: it has 0 bytes");
  if (source->size > (uint64_t)source->limits->max_bytes) {
    return ommai_fail(error, OMMA_ERROR_LIMIT, "image file is too large: %zu bytes, at most %lld are allowed", source->size,
                      (long long)source->limits->max_bytes);
  }
  enum ommai_image_format format = ommai_image_sniff(source->bytes, source->size);
  char known[128];
  if (format == OMMAI_IMAGE_UNKNOWN) {
    return ommai_fail(error, OMMA_ERROR_FORMAT, "cannot identify image: its %zu bytes are not %s", source->size,
                      list_formats(known, sizeof known));
  }
  for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++) {
    if (codecs[i].format != format) continue;
    *codec = &codecs[i];
    return OMMA_OK;
  }
  return ommai_fail(error, OMMA_ERROR_UNSUPPORTED, "%s images are not supported: expected %s", ommai_image_format_name(format),
                    list_formats(known, sizeof known));
}

static int stored_orientation(const struct codec *codec, const struct ommai_image_source *source) {
  return codec->orientation ? codec->orientation(source->bytes, source->size) : 1;
}

enum omma_status ommai_image_probe(const void *bytes, size_t size, const struct ommai_image_limits *limits, int32_t *width,
                                   int32_t *height, enum ommai_image_format *format, struct omma_error *error) {
  struct ommai_image_source source = {bytes, size, limits ? limits : &ommai_image_default_limits};
  const struct codec *codec;
  OMMAI_TRY(find_codec(&source, &codec, error));
  int32_t w, h;
  OMMAI_TRY(codec->read_size(&source, &w, &h, error));
  bool turned = ommai_orientation_swaps_sides(stored_orientation(codec, &source));
  *width = turned ? h : w;
  *height = turned ? w : h;
  if (format) *format = codec->format;
  return OMMA_OK;
}

/* Replaces the pixels by the upright ones. */
static enum omma_status turn_upright(struct ommai_image *image, int orientation, struct omma_error *error) {
  if (orientation == 1) return OMMA_OK;
  struct ommai_image stored = *image;
  bool turned = ommai_orientation_swaps_sides(orientation);
  enum omma_status status =
      ommai_image_take_pixels(image, turned ? stored.height : stored.width, turned ? stored.width : stored.height, error);
  if (status == OMMA_OK) ommai_orientation_apply(orientation, stored.pixels, stored.width, stored.height, image->pixels);
  ommai_release(&stored.allocator, stored.pixels, (size_t)stored.width * (size_t)stored.height, 3);
  return status;
}

enum omma_status ommai_image_decode(const void *bytes, size_t size, const struct ommai_image_limits *limits,
                                    const struct omma_allocator *allocator, struct ommai_image **out,
                                    struct omma_error *error) {
  struct ommai_image_source source = {bytes, size, limits ? limits : &ommai_image_default_limits};
  const struct codec *codec;
  OMMAI_TRY(find_codec(&source, &codec, error));
  struct ommai_image *image = ommai_allocate(allocator, 1, sizeof *image);
  if (!image) return ommai_fail_memory(error, "a picture", sizeof *image);
  image->allocator = *allocator;
  image->format = codec->format;
  enum omma_status status;
  OMMAI_TRY_GOTO(codec->decode(&source, image, error), failed);
  OMMAI_TRY_GOTO(turn_upright(image, stored_orientation(codec, &source), error), failed);
  *out = image;
  return OMMA_OK;
failed:
  ommai_image_destroy(image);
  return status;
}

void ommai_image_destroy(struct ommai_image *image) {
  if (!image) return;
  struct omma_allocator allocator = image->allocator;
  ommai_release(&allocator, image->pixels, (size_t)image->width * (size_t)image->height, 3);
  ommai_release(&allocator, image, 1, sizeof *image);
}
