/* The EXIF orientation of an image file, and turning pixels upright. Thread-safe, no allocation.
 * Source: the Exif 2.3 standard, tag 0x0112; TIFF 6.0 for the directory; the same turns as Pillow's
 * ImageOps.exif_transpose. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The orientation (1 to 8) that a file's metadata states; 1 where there is none or it is broken.
 * Any bytes are allowed. */
int ommai_jpeg_orientation(const uint8_t *bytes, size_t size);
int ommai_png_orientation(const uint8_t *bytes, size_t size);
int ommai_webp_orientation(const uint8_t *bytes, size_t size);
/* The same for a bare TIFF structure ("II*" or "MM*" first), such as the payload of an EXIF
 * block. */
int ommai_tiff_orientation(const uint8_t *bytes, size_t size);

/* Whether an upright image of this orientation has the stored one's height as its width. */
bool ommai_orientation_swaps_sides(int orientation);

/* Copies the stored pixels, [height][width][3], upright to `out`, [height][width][3] or, where the
 * sides are swapped, [width][height][3]. The two must not overlap. */
void ommai_orientation_apply(int orientation, const uint8_t *pixels, int32_t width, int32_t height, uint8_t *out);
