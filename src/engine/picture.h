/* Pictures on their way from pixels to the tower. */
#ifndef OMMAI_ENGINE_PICTURE_H
#define OMMAI_ENGINE_PICTURE_H

#include <omma/omma.h>

#include "engine/model.h"
#include "image/image.h"

struct omma_image {
  struct ommai_image *decoded;
};

/* A picture after the resize: 8-bit RGB [resized_height, resized_width, 3] and its plan. */
struct ommai_prepared_picture {
  struct omma_image_plan plan;
  uint8_t *pixels;
  size_t size;
  struct omma_allocator allocator; /* of the pixels */
};

/* Plans and resizes, on the model's picture threads where they are free. Thread-safe. The caller frees the picture. */
enum omma_status ommai_prepare_picture(const struct omma_model *model, const struct omma_image *image,
                                       const struct omma_image_options *options, struct ommai_prepared_picture *picture,
                                       struct omma_error *error);
/* A zeroed picture is allowed. */
void ommai_prepared_picture_free(struct ommai_prepared_picture *picture);

#endif
