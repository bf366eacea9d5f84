#include "image/image_fit.h"

#include <math.h>

#include "base/checked.h"
#include "base/error.h"
#include "image/smart_resize.h"

enum omma_status ommai_frame_fit(const struct ommai_fit_limits *limits, int32_t width, int32_t height, int64_t n_frames,
                                 struct ommai_fitted_size *size, struct omma_error *error) {
  int32_t factor = limits->patch_size * limits->merge_size;
  if (n_frames > 0) {
    OMMAI_TRY(ommai_smart_resize_frames(n_frames, limits->temporal_patch_size, height, width, factor, limits->min_pixels,
                                        limits->max_pixels, &size->height, &size->width, error));
  } else {
    OMMAI_TRY(ommai_smart_resize(height, width, factor, limits->min_pixels, limits->max_pixels,
                                 limits->sizing == OMMAI_SIZING_WHOLE_BLOCKS, &size->height, &size->width, error));
  }
  size->padded_width = size->width;
  size->padded_height = size->height;
  return OMMA_OK;
}

/* Source: get_resize_output_image_size of the official processor, in double. */
static enum omma_status fit_edge(const struct ommai_fit_limits *limits, int32_t width, int32_t height,
                                 struct ommai_fitted_size *size, struct omma_error *error) {
  int64_t block = (int64_t)limits->patch_size * limits->merge_size;
  double edge = floor(sqrt((double)limits->max_pixels)), ratio = fmax(height / edge, width / edge);
  int64_t fitted_width = width, fitted_height = height;
  if (ratio > 1) {
    fitted_width = (int64_t)floor(width / ratio);
    fitted_height = (int64_t)floor(height / ratio);
  }
  if (fitted_width < 1 || fitted_height < 1) {
    return ommai_fail_field(error, OMMA_ERROR_LIMIT, "image",
                            "image is too narrow: %d x %d pixels in sides of at most %.0f: nothing is left of one", width,
                            height, edge);
  }
  size->width = size->padded_width = (int32_t)ommai_round_up(fitted_width, block);
  size->height = size->padded_height = (int32_t)ommai_round_up(fitted_height, block);
  return OMMA_OK;
}

enum omma_status ommai_image_fit(const struct ommai_fit_limits *limits, int32_t width, int32_t height,
                                 struct ommai_fitted_size *size, struct omma_error *error) {
  int64_t patch_area = (int64_t)limits->patch_size * limits->patch_size;
  switch (limits->sizing) {
    case OMMAI_SIZING_SIDES_AND_AREA:
      OMMAI_TRY(ommai_enlarge_sides(limits->patch_size * limits->merge_size, &width, &height, error));
      return ommai_frame_fit(limits, width, height, 0, size, error);
    case OMMAI_SIZING_FRAMES: return ommai_frame_fit(limits, width, height, limits->temporal_patch_size, size, error);
    case OMMAI_SIZING_AREA:
    case OMMAI_SIZING_WHOLE_BLOCKS: return ommai_frame_fit(limits, width, height, 0, size, error);
    case OMMAI_SIZING_EDGE: return fit_edge(limits, width, height, size, error);
    case OMMAI_SIZING_PATCHES:
      return ommai_fit_patches(width, height, limits->patch_size, limits->merge_size,
                               ommai_max_i64(limits->max_pixels / patch_area, 1), size, error);
  }
  return ommai_fail(error, OMMA_ERROR_INTERNAL, "image: no rule %d for its size", (int)limits->sizing);
}
