/* A picture file: the header's promise and the decoded picture agree, and a refusal says why. */
#include <string.h>

#include "base/allocator.h"
#include "fuzz_input.h"
#include "image/image.h"

/* Keeps the reads. */
static volatile uint8_t sink;

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  static const struct ommai_image_limits limits = {.max_bytes = 1 << 20, .max_side = 4000, .max_pixels = 1 << 18};
  struct omma_error error = {.status = OMMA_OK};
  struct ommai_image *image = NULL;
  int32_t width = 0, height = 0;
  enum ommai_image_format format;
  enum omma_status probed = ommai_image_probe(bytes, size, &limits, &width, &height, &format, &error);
  FUZZ_CHECK(probed == OMMA_OK || (error.status == probed && error.message[0]));
  enum omma_status status = ommai_image_decode(bytes, size, &limits, &ommai_default_allocator, &image, &error);
  if (status == OMMA_OK) {
    FUZZ_CHECK(probed == OMMA_OK && image->width == width && image->height == height && image->format == format);
    FUZZ_CHECK((int64_t)width * height <= limits.max_pixels && width > 0 && height > 0);
    for (int64_t i = 0; i < 3 * (int64_t)width * height; i++) sink ^= image->pixels[i];
  } else {
    FUZZ_CHECK(!image && error.status == status && error.message[0] && memchr(error.message, 0, sizeof error.message));
  }
  ommai_image_destroy(image);
  return 0;
}
