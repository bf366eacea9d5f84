/* Pixels to image files in memory. */
#pragma once

#include <omma/status.h>
#include <stddef.h>
#include <stdint.h>

/* An image file in memory of the C library (libjpeg's and libpng's own). */
struct ommai_image_bytes {
  unsigned char *data;
  size_t size;
};
void ommai_image_bytes_release(struct ommai_image_bytes *bytes);

/* pixels: [height][width][3], red first. JPEG with libjpeg's defaults: quality 75, colour at half
 * resolution. Errors: LIMIT (a side over 65,500), MEMORY, INTERNAL. */
enum omma_status ommai_image_write_jpeg(const uint8_t *pixels, int32_t width, int32_t height, struct ommai_image_bytes *bytes,
                                        struct omma_error *error);
enum omma_status ommai_image_write_png(const uint8_t *pixels, int32_t width, int32_t height, struct ommai_image_bytes *bytes,
                                       struct omma_error *error);
