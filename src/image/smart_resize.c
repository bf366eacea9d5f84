#include "image/smart_resize.h"

#include <math.h>

#include "base/error.h"

/* Half to even, as Python rounds; in the default rounding mode rint does. The quotient of a tie is
 * exact. */
static double nearest_multiple(double side, double factor) { return rint(side / factor) * factor; }

/* The range that the area of all frames is brought into, and what a side is at least before. */
struct range {
  double min_pixels, max_pixels, least;
};

static enum omma_status check(int32_t height, int32_t width, int32_t factor, int64_t min_pixels, int64_t max_pixels,
                              struct omma_error *error) {
  if (height >= 1 && width >= 1 && factor >= 1 && min_pixels >= 1 && max_pixels >= 1) return OMMA_OK;
  return ommai_fail(error, OMMA_ERROR_ARGUMENT,
                    "image size: %d x %d pixels, factor %d, %lld to %lld pixels: all must be at least 1", width, height, factor,
                    (long long)min_pixels, (long long)max_pixels);
}

static enum omma_status check_aspect(double h, double w, struct omma_error *error) {
  double aspect = fmax(h, w) / fmin(h, w);
  if (aspect <= OMMAI_SMART_RESIZE_MAX_ASPECT) return OMMA_OK;
  return ommai_fail_field(error, OMMA_ERROR_LIMIT, "image",
                          "image is too narrow: %.0f x %.0f pixels have an aspect ratio of %.1f, at most %d is allowed", w, h,
                          aspect, OMMAI_SMART_RESIZE_MAX_ASPECT);
}

/* `frames` frames of h x w, of which `counted` count for the range. */
static enum omma_status fit(double frames, double counted, double h, double w, double factor, struct range range,
                            int32_t *out_height, int32_t *out_width, struct omma_error *error) {
  OMMAI_TRY(check_aspect(h, w, error));
  double new_h = fmax(range.least, nearest_multiple(h, factor)), new_w = fmax(range.least, nearest_multiple(w, factor));
  if (counted * new_h * new_w > range.max_pixels) {
    double shrink = sqrt(frames * h * w / range.max_pixels);
    new_h = fmax(factor, floor(h / shrink / factor) * factor);
    new_w = fmax(factor, floor(w / shrink / factor) * factor);
  } else if (counted * new_h * new_w < range.min_pixels) {
    double grow = sqrt(range.min_pixels / (frames * h * w));
    new_h = ceil(h * grow / factor) * factor;
    new_w = ceil(w * grow / factor) * factor;
  }
  if (new_h > INT32_MAX || new_w > INT32_MAX) {
    return ommai_fail_field(error, OMMA_ERROR_LIMIT, "image", "image size: %.0f x %.0f pixels are too many", new_w, new_h);
  }
  *out_height = (int32_t)new_h;
  *out_width = (int32_t)new_w;
  return OMMA_OK;
}

enum omma_status ommai_enlarge_sides(int32_t factor, int32_t *width, int32_t *height, struct omma_error *error) {
  double h = *height, w = *width;
  if (h < factor) {
    w = rint(w * factor / h);
    h = factor;
  }
  if (w < factor) {
    h = rint(h * factor / w);
    w = factor;
  }
  OMMAI_TRY(check_aspect(h, w, error));
  if (h > INT32_MAX || w > INT32_MAX) return ommai_fail_field(error, OMMA_ERROR_LIMIT, "image", "image sides: too long");
  *height = (int32_t)h;
  *width = (int32_t)w;
  return OMMA_OK;
}

enum omma_status ommai_smart_resize(int32_t height, int32_t width, int32_t factor, int64_t min_pixels, int64_t max_pixels,
                                    bool whole, int32_t *out_height, int32_t *out_width, struct omma_error *error) {
  OMMAI_TRY(check(height, width, factor, min_pixels, max_pixels, error));
  struct range range = {(double)min_pixels, (double)max_pixels, whole ? factor : 0};
  return fit(1, 1, height, width, factor, range, out_height, out_width, error);
}

enum omma_status ommai_smart_resize_frames(int64_t n_frames, int32_t temporal_patch_size, int32_t height, int32_t width,
                                           int32_t factor, int64_t min_pixels, int64_t max_pixels, int32_t *out_height,
                                           int32_t *out_width, struct omma_error *error) {
  OMMAI_TRY(check(height, width, factor, min_pixels, max_pixels, error));
  if (temporal_patch_size < 1 || n_frames < temporal_patch_size) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "video", "at least %d frames make a video, found %lld",
                            temporal_patch_size, (long long)n_frames);
  }
  struct range range = {(double)min_pixels, (double)max_pixels, 0};
  double h = height, w = width, enlarge = fmax(factor / h, factor / w);
  if (enlarge > 1) {
    h = trunc(h * enlarge);
    w = trunc(w * enlarge);
  }
  return fit((double)n_frames, nearest_multiple((double)n_frames, temporal_patch_size), h, w, factor, range, out_height,
             out_width, error);
}
