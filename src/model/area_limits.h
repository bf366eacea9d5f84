/* The limits of a resized image's area, in pixels. */
#pragma once

#include <omma/omma.h>

/* The limits of the options (may be NULL), or where there are none the model's: min_pixels and
 * max_pixels. `enlarges`: the model makes small images larger; else the lower limit must be 0.
 * Errors: ARGUMENT ("min_pixels", "max_pixels"). */
enum omma_status ommai_area_limits(const struct omma_image_options *options, int64_t min_pixels, int64_t max_pixels,
                                   bool enlarges, int64_t *low, int64_t *high, struct omma_error *error);
