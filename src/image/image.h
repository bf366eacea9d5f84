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

#include <stddef.h>

#include "image/decoded_image.h"

/* The four constants of decoded_image.h. */
extern const struct ommai_image_limits ommai_image_default_limits;

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
