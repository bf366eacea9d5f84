#include "model/area_limits.h"

#include "base/error.h"
#include "image/image.h"

static enum omma_status check_limit(const char *limit, int64_t min, int64_t found, struct omma_error *error) {
  if (found >= min && found <= OMMAI_IMAGE_MAX_PIXELS) return OMMA_OK;
  return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, limit, "%s: expected %lld to %lld pixels, found %lld", limit,
                          (long long)min, (long long)OMMAI_IMAGE_MAX_PIXELS, (long long)found);
}

enum omma_status ommai_area_limits(const struct omma_image_options *options, int64_t min_pixels, int64_t max_pixels,
                                   bool enlarges, int64_t *low, int64_t *high, struct omma_error *error) {
  *low = options && options->min_pixels ? options->min_pixels : min_pixels;
  *high = options && options->max_pixels ? options->max_pixels : max_pixels;
  if (!enlarges && *low > 0) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "min_pixels", "min_pixels: this model never enlarges images");
  }
  /* One limit alone moves the other along; the one that was given is the one to complain of. */
  bool high_alone = options && options->max_pixels && !options->min_pixels;
  if (options && options->min_pixels && !options->max_pixels && *high < *low) *high = *low;
  if (high_alone && *low > *high) *low = *high;
  if (high_alone) OMMAI_TRY(check_limit("max_pixels", 1, *high, error));
  OMMAI_TRY(check_limit("min_pixels", enlarges, *low, error));
  OMMAI_TRY(check_limit("max_pixels", 1, *high, error));
  if (*low <= *high) return OMMA_OK;
  return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "min_pixels",
                          "min_pixels: expected at most max_pixels, which is %lld, found %lld", (long long)*high,
                          (long long)*low);
}
