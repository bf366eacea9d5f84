#include "image/fit_patches.h"

#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"

enum omma_status ommai_fit_patches(int32_t width, int32_t height, int32_t patch_size, int32_t merge_size, int64_t max_patches,
                                   struct ommai_fitted_size *size, struct omma_error *error) {
  int64_t n_patches = (int64_t)(width / patch_size) * (height / patch_size), block = (int64_t)patch_size * merge_size;
  struct ommai_fitted_size fitted = {.width = width, .height = height};
  if (n_patches > max_patches) {
    double scale = sqrt((double)max_patches / (double)n_patches);
    fitted.width = (int32_t)(width * scale);
    fitted.height = (int32_t)(height * scale);
  }
  int64_t padded_width = ommai_round_up(fitted.width, block), padded_height = ommai_round_up(fitted.height, block);
  if (fitted.width < 1 || fitted.height < 1 ||
      ommai_max_i64(padded_width, padded_height) / patch_size >= OMMAI_FIT_MAX_SIDE_PATCHES) {
    return ommai_fail_field(error, OMMA_ERROR_LIMIT, "image",
                            "image is too large: %d x %d pixels make %lld x %lld patches, expected less than %d a side", width,
                            height, (long long)(padded_width / patch_size), (long long)(padded_height / patch_size),
                            OMMAI_FIT_MAX_SIDE_PATCHES);
  }
  fitted.padded_width = (int32_t)padded_width;
  fitted.padded_height = (int32_t)padded_height;
  *size = fitted;
  return OMMA_OK;
}

void ommai_pad_in_place(const struct ommai_fitted_size *size, uint8_t *pixels) {
  size_t row = (size_t)size->width * 3, padded = (size_t)size->padded_width * 3, height = (size_t)size->height;
  /* From the last row on: a row's new place begins at or after its old one. */
  for (size_t y = height; y-- > 0;) {
    memmove(pixels + y * padded, pixels + y * row, row);
    memset(pixels + y * padded + row, 0, padded - row);
  }
  memset(pixels + height * padded, 0, ((size_t)size->padded_height - height) * padded);
}
