/* Which size a model resizes an image to. */
#pragma once

#include <omma/omma.h>

#include "image/fit_patches.h"
#include "model/model.h"

/* The size of the image's content and of the canvas that is cut into patches. Errors: ARGUMENT
 * (limits, or sides of which the model takes none), LIMIT. */
enum omma_status ommai_choose_image_size(const struct omma_model *model, int32_t width, int32_t height,
                                         const struct omma_image_options *options, struct ommai_fitted_size *size,
                                         struct omma_error *error);
/* The same for the frames of a video of n_frames. */
enum omma_status ommai_choose_frame_size(const struct omma_model *model, int32_t width, int32_t height, int64_t n_frames,
                                         const struct omma_image_options *options, struct ommai_fitted_size *size,
                                         struct omma_error *error);
