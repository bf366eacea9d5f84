/* The size that an image is brought to before it is cut into patches, by the rule of its family. A
 * new rule is an entry of the enum and a case in image_fit.c. */
#pragma once

#include "image/fit_patches.h"

/* How an image's size is chosen. */
enum ommai_image_sizing {
  /* sides to whole merge blocks, the area into min_pixels .. max_pixels: smart_resize.h */
  OMMAI_SIZING_AREA,
  /* the same, where no side counts as less than a merge block */
  OMMAI_SIZING_WHOLE_BLOCKS,
  /* the same after a side shorter than a merge block is brought to it, the height first */
  OMMAI_SIZING_SIDES_AND_AREA,
  /* smart_resize.h, where the image counts as the frames of one temporal patch */
  OMMAI_SIZING_FRAMES,
  /* the longer side shrunk to the root of max_pixels, then both up to whole merge blocks */
  OMMAI_SIZING_EDGE,
  /* shrunk to max_pixels' worth of patches, then padded to whole merge blocks: fit_patches.h */
  OMMAI_SIZING_PATCHES
};

/* What a rule goes by. min_pixels is not used by OMMAI_SIZING_EDGE and OMMAI_SIZING_PATCHES, which
 * do not enlarge. */
struct ommai_fit_limits {
  enum ommai_image_sizing sizing;
  int32_t patch_size, merge_size, temporal_patch_size;
  int64_t min_pixels, max_pixels;
};

/* The size of a width x height image's content, and of the canvas that is cut into patches. Limits:
 * all arguments at least 1. Errors: ARGUMENT, LIMIT (aspect ratio, size). */
enum omma_status ommai_image_fit(const struct ommai_fit_limits *limits, int32_t width, int32_t height,
                                 struct ommai_fitted_size *size, struct omma_error *error);

/* The same for a video's frames, by the area, whatever rule images have. n_frames frames share it;
 * 0: each has it. */
enum omma_status ommai_frame_fit(const struct ommai_fit_limits *limits, int32_t width, int32_t height, int64_t n_frames,
                                 struct ommai_fitted_size *size, struct omma_error *error);
