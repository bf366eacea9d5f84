/* Images as content parts: {"type": "image_url", "image_url": {"url": ...}}. */
#pragma once

#include <jansson.h>
#include <omma/host.h>
#include <omma/status.h>
#include <stdbool.h>
#include <stdint.h>

/* A part with pixels [height][width][3] as a JPEG of quality 75 with halved colour resolution,
 * which is what Pillow writes. */
enum omma_status ommai_image_part_from_pixels(const uint8_t *pixels, int32_t width, int32_t height,
                                              const struct omma_allocator *allocator, json_t **part, struct omma_error *error);

/* The same as a PNG. */
enum omma_status ommai_image_part_png(const uint8_t *pixels, int32_t width, int32_t height,
                                      const struct omma_allocator *allocator, json_t **part, struct omma_error *error);

/* A JPEG of an image file in memory, which is decoded first. */
enum omma_status ommai_image_part_from_file(const void *bytes, size_t size, const struct omma_allocator *allocator,
                                            json_t **part, struct omma_error *error);

/* A part that refers to an image: http(s)://, file:// and data:image/ are taken as they are, all
 * else is a path, which gets file:// in front. With `inline_images` a file is read, decoded and
 * sent as a PNG in a data: URL; addresses on the network are refused then. Errors: IO, FORMAT,
 * UNSUPPORTED, LIMIT, MEMORY. */
enum omma_status ommai_image_part_from_reference(const char *reference, bool inline_images,
                                                 const struct omma_allocator *allocator, json_t **part,
                                                 struct omma_error *error);
