/* An image file: the header's promise and the decoded image agree, and a refusal gives the
 * reason. */
#include <string.h>

#include "base/allocator.h"
#include "fuzz_input.h"
#include "image/image.h"

/* Keeps the reads. */
static volatile uint8_t sink;

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  static const struct ommai_image_limits limits = {
      .max_bytes = 1 << 20, .max_side = 4000, .max_pixels = 1 << 18, .max_cpu_ms = 10000};
  struct omma_error error = {.status = OMMA_OK};
  struct ommai_image *image = NULL;
  struct ommai_image_header header = {.width = 0};
  enum omma_status probed = ommai_image_probe(bytes, size, &limits, &header, &error);
  FUZZ_CHECK(probed == OMMA_OK || (error.status == probed && error.message[0]));
  enum omma_status status = ommai_image_decode(bytes, size, &limits, &ommai_default_allocator, &image, &error);
  if (status == OMMA_OK) {
    FUZZ_CHECK(probed == OMMA_OK && image->width == header.width && image->height == header.height &&
               image->format == header.format);
    int64_t n_pixels = (int64_t)header.width * header.height;
    FUZZ_CHECK(n_pixels <= limits.max_pixels && header.width > 0 && header.height > 0 && header.decode_bytes >= 3 * n_pixels);
    for (int64_t i = 0; i < 3 * n_pixels; i++) sink ^= image->pixels[i];
  } else {
    FUZZ_CHECK(!image && error.status == status && error.message[0] && memchr(error.message, 0, sizeof error.message));
  }
  ommai_image_destroy(image);
  return 0;
}
