/* The size of an image under a limit of patches: shrunk when it has too many, never enlarged, then
 * filled up with black at the right and bottom to whole merge blocks.
 * Source: the image processor of the released checkpoints whose limit is in_token_limit
 * (docs/models/), in double. */
#pragma once

#include <omma/status.h>
#include <stdbool.h>
#include <stdint.h>

/* Patches of a side must stay below this; the official processor refuses more. */
#define OMMAI_FIT_MAX_SIDE_PATCHES 512

struct ommai_fitted_size {
  int32_t width, height; /* of the image in it */
  /* multiples of patch_size * merge_size; may exceed the limit of patches */
  int32_t padded_width, padded_height;
};

static inline bool ommai_fitted_size_equals(const struct ommai_fitted_size *a, const struct ommai_fitted_size *b) {
  return a->width == b->width && a->height == b->height && a->padded_width == b->padded_width &&
         a->padded_height == b->padded_height;
}

/* Limits: all arguments at least 1. Errors: LIMIT (a side has too many patches, or nothing is left
 * of one). */
enum omma_status ommai_fit_patches(int32_t width, int32_t height, int32_t patch_size, int32_t merge_size, int64_t max_patches,
                                   struct ommai_fitted_size *size, struct omma_error *error);

/* Moves the rows of an image [height][width][3] that lies at the beginning of `pixels` to rows of
 * padded_width, and fills the rest of [padded_height][padded_width][3] with black. */
void ommai_pad_in_place(const struct ommai_fitted_size *size, uint8_t *pixels);
