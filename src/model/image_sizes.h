/* What an image or video will take: sizes, patches, tokens and work. The function for images
 * is public. */
#ifndef OMMAI_MODEL_IMAGE_SIZES_H
#define OMMAI_MODEL_IMAGE_SIZES_H

#include <omma/omma.h>

/* omma_model_video_sizes for a video that was checked. */
enum omma_status ommai_video_sizes(const struct omma_model *model, const struct omma_video *video,
                                   const struct omma_image_options *options, struct omma_image_sizes *sizes,
                                   struct omma_error *error);

#endif
