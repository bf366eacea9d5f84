/* The size that an image is brought to before it is cut into patches.
 * Source: smart_resize of the image processor in transformers, followed step by step in double. */
#pragma once

#include <omma/status.h>
#include <stdbool.h>
#include <stdint.h>

/* Longest side divided by shortest, at most. */
#define OMMAI_SMART_RESIZE_MAX_ASPECT 200

/* Sides that are multiples of `factor` near height x width, with an area near the range min_pixels
 * .. max_pixels (rounding may leave it). Limits: all arguments at least 1; the result fits int32.
 * whole: a side that rounds to nothing counts as one factor, so that its image is not enlarged for
 * it alone (smart_resize of the family's own preparation). Errors: ARGUMENT, LIMIT (aspect ratio,
 * size). */
enum omma_status ommai_smart_resize(int32_t height, int32_t width, int32_t factor, int64_t min_pixels, int64_t max_pixels,
                                    bool whole, int32_t *out_height, int32_t *out_width, struct omma_error *error);

/* Brings a height below `factor` to it and then a width likewise, the other side in proportion,
 * half to even. Limits: all arguments at least 1. Errors: LIMIT (aspect ratio). Source: the
 * first steps of smart_resize in the image processor that does so in transformers. */
enum omma_status ommai_enlarge_sides(int32_t factor, int32_t *width, int32_t *height, struct omma_error *error);

/* The same for a video: the area range holds for the sum over its frames, which become alike.
 * temporal_patch_size (at least 1) frames make a temporal patch; n_frames is at least that. Sides
 * below `factor` are enlarged to it first. Source: smart_resize of the video processor in
 * transformers that limits all frames together. */
enum omma_status ommai_smart_resize_frames(int64_t n_frames, int32_t temporal_patch_size, int32_t height, int32_t width,
                                           int32_t factor, int64_t min_pixels, int64_t max_pixels, int32_t *out_height,
                                           int32_t *out_width, struct omma_error *error);
