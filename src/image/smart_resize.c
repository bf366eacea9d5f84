#include "image/smart_resize.h"

#include <math.h>

#include "base/error.h"

/* Half to even, as Python rounds; in the default rounding mode rint does. The quotient of a tie is exact. */
static double nearest_multiple(double side, double factor) { return rint(side / factor) * factor; }

enum omma_status ommai_smart_resize(int32_t height, int32_t width, int32_t factor, int64_t min_pixels, int64_t max_pixels,
                                    int32_t *out_height, int32_t *out_width, struct omma_error *error) {
  if (height < 1 || width < 1 || factor < 1 || min_pixels < 1 || max_pixels < 1) {
    return ommai_fail(error, OMMA_ERROR_ARGUMENT,
                      "picture size: %d x %d pixels, factor %d, %lld to %lld pixels: all must be at least 1", width, height,
                      factor, (long long)min_pixels, (long long)max_pixels);
  }
  double h = height, w = width;
  double aspect = fmax(h, w) / fmin(h, w);
  if (aspect > OMMAI_SMART_RESIZE_MAX_ASPECT) {
    return ommai_fail_field(error, OMMA_ERROR_LIMIT, "image",
                            "image is too narrow: %d x %d pixels have an aspect ratio of %.1f, at most %d is allowed", width,
                            height, aspect, OMMAI_SMART_RESIZE_MAX_ASPECT);
  }
  double new_h = nearest_multiple(h, factor), new_w = nearest_multiple(w, factor);
  if (new_h * new_w > (double)max_pixels) {
    double shrink = sqrt(h * w / (double)max_pixels);
    new_h = fmax(factor, floor(h / shrink / factor) * factor);
    new_w = fmax(factor, floor(w / shrink / factor) * factor);
  } else if (new_h * new_w < (double)min_pixels) {
    double grow = sqrt((double)min_pixels / (h * w));
    new_h = ceil(h * grow / factor) * factor;
    new_w = ceil(w * grow / factor) * factor;
  }
  if (new_h > INT32_MAX || new_w > INT32_MAX) {
    return ommai_fail_field(error, OMMA_ERROR_LIMIT, "image", "picture size: %.0f x %.0f pixels are too many", new_w, new_h);
  }
  *out_height = (int32_t)new_h;
  *out_width = (int32_t)new_w;
  return OMMA_OK;
}
