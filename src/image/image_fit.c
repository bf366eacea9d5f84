#include "image/image_fit.h"

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
    case OMMAI_SIZING_PATCHES:
      return ommai_fit_patches(width, height, limits->patch_size, limits->merge_size,
                               ommai_max_i64(limits->max_pixels / patch_area, 1), size, error);
  }
  return ommai_fail(error, OMMA_ERROR_INTERNAL, "image: no rule %d for its size", (int)limits->sizing);
}
