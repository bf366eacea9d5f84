/* An image after the resize, on its way to the tower: pixels with several owners. */
#pragma once

#include <omma/omma.h>

#include "image/fit_patches.h"
#include "model/pixel_budget.h"

/* What an image's output depends on besides the model: a hash of the grid, of the pixels after the
 * resize and of the client's name for it, or of the name alone where that is trusted. */
struct ommai_image_key {
  uint8_t bytes[32];
};

/* Pixels with several owners. */
struct ommai_shared_pixels;

/* An image or video, 8-bit RGB [n_frames, resized_height, resized_width, 3]: first its sizes alone
 * are known (ommai_size_image), which are then handed on; after the resize it has pixels. */
struct ommai_prepared_image {
  struct omma_image_sizes sizes;
  struct ommai_fitted_size fitted;
  int64_t n_frames; /* 1 for an image */
  uint8_t *pixels;
  struct ommai_shared_pixels *shared; /* what `pixels` lies in */
  uint8_t digest[32];                 /* of the pixels */
};

/* A hash of the bytes, 32 of them. */
void ommai_image_digest(const void *bytes, size_t size, uint8_t *digest);

/* Bytes of one frame of the sizes. Cannot overflow: a sizes's areas and frames are bounded. */
size_t ommai_frame_bytes(const struct omma_image_sizes *sizes);

/* Bytes that the pixels and their owners' count take of a budget. */
size_t ommai_prepared_image_cost(const struct ommai_prepared_image *image);

/* Memory for the pixels of an image whose sizes are known, with one owner. The cost was taken from
 * `budget`, which gets it back with the last owner, or at once on failure. Errors: MEMORY. */
enum omma_status ommai_prepared_image_create(struct ommai_prepared_image *image, const struct omma_allocator *allocator,
                                             struct ommai_pixel_budget *budget, struct omma_error *error);

/* Another owner of the same pixels. Thread-safe while the image has an owner. */
struct ommai_prepared_image ommai_prepared_image_share(const struct ommai_prepared_image *prepared);

/* Of its pixels. */
size_t ommai_prepared_image_bytes(const struct ommai_prepared_image *prepared);

/* What stands for the image in the encoder's cache: a hash of its grid, its number of frames, its
 * name (may be NULL), and of its pixels unless the name suffices. */
struct ommai_image_key ommai_prepared_image_key(const struct ommai_prepared_image *prepared, const char *name,
                                                bool name_suffices);

/* One owner less; the last frees the pixels. A zeroed image is allowed. */
void ommai_prepared_image_free(struct ommai_prepared_image *prepared);
