/* What the file formats of this folder have in common: one pair of functions each, and the checks
 * around them. */
#pragma once

#include <stdbool.h>

#include "image/decoded_image.h"

/* The bytes of one image file. */
struct ommai_image_source {
  const uint8_t *bytes;
  size_t size;
  const struct ommai_image_limits *limits;
  int64_t deadline_ns; /* of ommai_clock_thread_ns; 0: none */
};

/* What the headers give about the pixels as stored, before orientation. */
struct ommai_stored_header {
  int32_t width, height;
  /* that decoding takes at most at one time besides the RGB pixels, as the size of the image
   * grows */
  int64_t scratch_bytes;
};

/* Reads the headers. The size is checked against the limits. */
typedef enum omma_status (*ommai_image_header_reader)(const struct ommai_image_source *source,
                                                      struct ommai_stored_header *header, struct omma_error *error);
/* Decodes into `image`, as stored, before orientation: takes the pixels with
 * ommai_image_take_pixels and fills them. What it took is released by the caller, also on
 * failure. */
typedef enum omma_status (*ommai_image_decoder)(const struct ommai_image_source *source, struct ommai_image *image,
                                                struct omma_error *error);

enum omma_status ommai_jpeg_read_header(const struct ommai_image_source *source, struct ommai_stored_header *header,
                                        struct omma_error *error);
enum omma_status ommai_jpeg_decode(const struct ommai_image_source *source, struct ommai_image *image,
                                   struct omma_error *error);

enum omma_status ommai_png_read_header(const struct ommai_image_source *source, struct ommai_stored_header *header,
                                       struct omma_error *error);
enum omma_status ommai_png_decode(const struct ommai_image_source *source, struct ommai_image *image, struct omma_error *error);

enum omma_status ommai_webp_read_header(const struct ommai_image_source *source, struct ommai_stored_header *header,
                                        struct omma_error *error);
enum omma_status ommai_webp_decode(const struct ommai_image_source *source, struct ommai_image *image,
                                   struct omma_error *error);

enum omma_status ommai_gif_read_header(const struct ommai_image_source *source, struct ommai_stored_header *header,
                                       struct omma_error *error);
enum omma_status ommai_gif_decode(const struct ommai_image_source *source, struct ommai_image *image, struct omma_error *error);

enum omma_status ommai_bmp_read_header(const struct ommai_image_source *source, struct ommai_stored_header *header,
                                       struct omma_error *error);
enum omma_status ommai_bmp_decode(const struct ommai_image_source *source, struct ommai_image *image, struct omma_error *error);

/* HEIC and AVIF, and TIFF, by libraries that are loaded when they are wanted: false where the build
 * or the machine lacks them. */
bool ommai_heif_available(void);
enum omma_status ommai_heif_read_header(const struct ommai_image_source *source, struct ommai_stored_header *header,
                                        struct omma_error *error);
enum omma_status ommai_heif_decode(const struct ommai_image_source *source, struct ommai_image *image,
                                   struct omma_error *error);

bool ommai_tiff_available(void);
enum omma_status ommai_tiff_read_header(const struct ommai_image_source *source, struct ommai_stored_header *header,
                                        struct omma_error *error);
enum omma_status ommai_tiff_decode(const struct ommai_image_source *source, struct ommai_image *image,
                                   struct omma_error *error);

/* FORMAT for an empty image, LIMIT for one over the limits. `name` is the format's. */
enum omma_status ommai_image_check_size(const struct ommai_image_limits *limits, const char *name, int64_t width,
                                        int64_t height, struct omma_error *error);

/* LIMIT once the decoding thread has used the processor time that the limits allow. Called every
 * row or so. `name` is the format's. */
enum omma_status ommai_image_check_time(const struct ommai_image_source *source, const char *name, struct omma_error *error);

/* Sets width, height and pixels of an image that has none. Errors: MEMORY. */
enum omma_status ommai_image_take_pixels(struct ommai_image *image, int32_t width, int32_t height, struct omma_error *error);

/* The message for a file that ends too early, as clients of other servers know it. */
enum omma_status ommai_image_fail_truncated(struct omma_error *error, const char *name, size_t size);

/* Paints n RGBA pixels over white into n RGB pixels. */
void ommai_image_paint_on_white(const uint8_t *rgba, uint8_t *rgb, int64_t n);

/* The same where the colours are multiplied with alpha already: c + 255 - alpha. */
void ommai_image_add_white(const uint8_t *rgba, uint8_t *rgb, int64_t n);
