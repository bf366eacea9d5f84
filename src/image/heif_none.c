/* In a build without libheif. */
#include "image/codec.h"

bool ommai_heif_available(void) { return false; }

enum omma_status ommai_heif_read_header(const struct ommai_image_source *source, struct ommai_stored_header *header,
                                        struct omma_error *error) {
  (void)source, (void)header, (void)error;
  return OMMA_ERROR_UNSUPPORTED;
}

enum omma_status ommai_heif_decode(const struct ommai_image_source *source, struct ommai_image *image,
                                   struct omma_error *error) {
  (void)source, (void)image, (void)error;
  return OMMA_ERROR_UNSUPPORTED;
}
