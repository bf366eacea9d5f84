/* Images: bytes in a file format to 8-bit RGB pixels, upright.
 *
 * The format is recognised by content, never by a name or media type. Sizes are checked against the
 * limits from the header, before any pixel is decoded. Colours follow Pillow's conversion to RGB
 * (the loader that the official processors document), with two exceptions, made on purpose:
 *   - transparency (alpha channel or tRNS) is painted over white: round(c * a / 255 + 255 * (1 - a
 *   / 255));
 *   - 16-bit samples give their high byte, for gray as for colour (of TIFF, rounded by libtiff).
 * ICC profiles and gamma are ignored. The EXIF orientation is applied: width and height are those
 * of the upright image. */
#pragma once

#include <omma/host.h>
#include <omma/status.h>
#include <stddef.h>
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
};

/* The four constants above. */
extern const struct ommai_image_limits ommai_image_default_limits;

/* A decoded image: pixels is [height][width][3], red first, rows without padding. Immutable once
 * made; any thread may read it and destroy it. */
struct ommai_image {
  int32_t width, height;
  uint8_t *pixels;
  enum ommai_image_format format; /* what it was decoded from */
  struct omma_allocator allocator;
};

/* "JPEG", "PNG", ...: a constant string. */
const char *ommai_image_format_name(enum ommai_image_format format);

/* Recognises the format by the first bytes. */
enum ommai_image_format ommai_image_sniff(const void *bytes, size_t size);

/* Decodes an image; of several frames, the first. limits NULL: the defaults. The image is made with
 * `allocator` (the codec libraries' own scratch memory is malloc's) and owned by the caller.
 * Thread-safe. Errors: FORMAT ("cannot identify image", "image file is truncated", broken data),
 * UNSUPPORTED (a known format that cannot be read), LIMIT, MEMORY. */
enum omma_status ommai_image_decode(const void *bytes, size_t size, const struct ommai_image_limits *limits,
                                    const struct omma_allocator *allocator, struct ommai_image **image,
                                    struct omma_error *error);
/* NULL is allowed. */
void ommai_image_destroy(struct ommai_image *image);

/* What decoding would give and take. */
struct ommai_image_header {
  enum ommai_image_format format;
  int32_t width, height; /* of the upright image */
  /* memory at the worst moment of decoding: the pixels, and what grows with them in the codec
   * library */
  int64_t decode_bytes;
};

/* The same from the headers alone; allocates no more than headers need. Errors as for decoding, as
 * far as the headers show them. */
enum omma_status ommai_image_probe(const void *bytes, size_t size, const struct ommai_image_limits *limits,
                                   struct ommai_image_header *header, struct omma_error *error);
