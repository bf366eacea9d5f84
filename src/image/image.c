#include "image/image.h"

#include <stdio.h>
#include <string.h>

#include "base/allocator.h"
#include "base/checked.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/plural.h"
#include "image/codec.h"
#include "image/orientation.h"

const struct ommai_image_limits ommai_image_default_limits = {.max_bytes = OMMAI_IMAGE_MAX_BYTES,
                                                              .max_side = OMMAI_IMAGE_MAX_SIDE,
                                                              .max_pixels = OMMAI_IMAGE_MAX_PIXELS,
                                                              .max_cpu_ms = OMMAI_IMAGE_MAX_CPU_MS};

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
    {OMMAI_IMAGE_HEIF, 4, 8, "ftypavis"},
    {OMMAI_IMAGE_HEIF, 4, 8, "ftypheic"},
    {OMMAI_IMAGE_HEIF, 4, 8, "ftypheix"},
    {OMMAI_IMAGE_HEIF, 4, 8, "ftyphevc"},
    {OMMAI_IMAGE_HEIF, 4, 8, "ftypmif1"},
    {OMMAI_IMAGE_HEIF, 4, 8, "ftypmsf1"},
    {OMMAI_IMAGE_JPEG2000, 0, 8, "\0\0\0\x0cjP  "},
    {OMMAI_IMAGE_BMP, 0, 2, "BM"},
};

/* A format that can be read, and how. */
struct codec {
  enum ommai_image_format format;
  ommai_image_header_reader read_header;
  ommai_image_decoder decode;
  /* NULL: the format has none, or its library applies it */
  int (*orientation)(const uint8_t *bytes, size_t size);
  bool (*available)(void); /* NULL: always */
};

static const struct codec codecs[] = {
    {OMMAI_IMAGE_JPEG, ommai_jpeg_read_header, ommai_jpeg_decode, ommai_jpeg_orientation, NULL},
    {OMMAI_IMAGE_PNG, ommai_png_read_header, ommai_png_decode, ommai_png_orientation, NULL},
    {OMMAI_IMAGE_WEBP, ommai_webp_read_header, ommai_webp_decode, ommai_webp_orientation, NULL},
    {OMMAI_IMAGE_GIF, ommai_gif_read_header, ommai_gif_decode, NULL, NULL},
    {OMMAI_IMAGE_BMP, ommai_bmp_read_header, ommai_bmp_decode, NULL, NULL},
    {OMMAI_IMAGE_TIFF, ommai_tiff_read_header, ommai_tiff_decode, ommai_tiff_orientation, ommai_tiff_available},
    {OMMAI_IMAGE_HEIF, ommai_heif_read_header, ommai_heif_decode, NULL, ommai_heif_available},
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

static bool is_available(const struct codec *codec) { return !codec->available || codec->available(); }

/* "JPEG, PNG, ..., BMP": what can be read here. */
static const char *list_formats(char *list, size_t size) {
  list[0] = '\0';
  for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++) {
    if (is_available(&codecs[i])) ommai_list_entry(list, size, "%s", ommai_image_format_name(codecs[i].format));
  }
  return list;
}

/* Recognises the format and finds its codec, or reports why there is none. */
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
    return ommai_fail(error, OMMA_ERROR_FORMAT, "cannot identify image: its %zu bytes are in no known format (%s)",
                      source->size, list_formats(known, sizeof known));
  }
  for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++) {
    if (codecs[i].format != format || !is_available(&codecs[i])) continue;
    *codec = &codecs[i];
    return OMMA_OK;
  }
  return ommai_fail(error, OMMA_ERROR_UNSUPPORTED, "%s images are not supported: expected one of %s",
                    ommai_image_format_name(format), list_formats(known, sizeof known));
}

static int stored_orientation(const struct codec *codec, const struct ommai_image_source *source) {
  return codec->orientation ? codec->orientation(source->bytes, source->size) : 1;
}

/* Decoding holds the pixels and the scratch memory; turning them upright, the pixels twice. */
static int64_t max_bytes(const struct ommai_stored_header *stored, int orientation) {
  int64_t pixels = (int64_t)stored->width * stored->height * 3;
  int64_t second = orientation == 1 ? 0 : pixels;
  return pixels + ommai_max_i64(stored->scratch_bytes, second);
}

enum omma_status ommai_image_probe(const void *bytes, size_t size, const struct ommai_image_limits *limits,
                                   struct ommai_image_header *header, struct omma_error *error) {
  struct ommai_image_source source = {.bytes = bytes, .size = size, .limits = limits ? limits : &ommai_image_default_limits};
  const struct codec *codec;
  struct ommai_stored_header stored = {0};
  OMMAI_TRY(find_codec(&source, &codec, error));
  OMMAI_TRY(codec->read_header(&source, &stored, error));
  int orientation = stored_orientation(codec, &source);
  bool turned = ommai_orientation_swaps_sides(orientation);
  *header = (struct ommai_image_header){.format = codec->format,
                                        .width = turned ? stored.height : stored.width,
                                        .height = turned ? stored.width : stored.height,
                                        .decode_bytes = max_bytes(&stored, orientation)};
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
  struct ommai_image_source source = {.bytes = bytes, .size = size, .limits = limits ? limits : &ommai_image_default_limits};
  const struct codec *codec;
  OMMAI_TRY(find_codec(&source, &codec, error));
  source.deadline_ns = ommai_clock_thread_ns() + source.limits->max_cpu_ms * 1000000;
  struct ommai_image *image = ommai_allocate(allocator, 1, sizeof *image);
  if (!image) return ommai_fail_memory(error, "an image", sizeof *image);
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
