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
};

/* Plans and resizes; the pixels belong to `allocator`. */
enum omma_status ommai_prepare_picture(const struct omma_model *model, const struct omma_image *image,
                                       const struct omma_image_options *options, const struct omma_allocator *allocator,
                                       struct ommai_prepared_picture *picture, struct omma_error *error);
void ommai_prepared_picture_free(const struct omma_allocator *allocator, struct ommai_prepared_picture *picture);

#endif
