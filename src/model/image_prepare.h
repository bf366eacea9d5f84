/* Resizes images for a model, or recalls them from its store of resized ones. */
#pragma once

#include <omma/omma.h>

#include "model/model.h"
#include "model/prepared_image.h"

/* Resizes an image whose sizes `prepared` has, on the model's image threads where they are free; an
 * image from a file is kept for omma_image_recall, one that came from there is as it was kept. The
 * caller frees it, also after an error. Thread-safe. */
enum omma_status ommai_prepare_image(const struct omma_model *model, const struct omma_image *image,
                                     struct ommai_prepared_image *prepared, struct omma_error *error);
/* The same for a video that was checked. */
enum omma_status ommai_prepare_video(const struct omma_model *model, const struct omma_video *video,
                                     struct ommai_prepared_image *prepared, struct omma_error *error);
