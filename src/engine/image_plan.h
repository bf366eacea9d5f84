/* What an image or video will take: sizes, patches, tokens and work. An image's plan is
 * public. */
#ifndef OMMAI_ENGINE_IMAGE_PLAN_H
#define OMMAI_ENGINE_IMAGE_PLAN_H

#include <omma/omma.h>

/* omma_model_plan_video for a video that was checked. */
enum omma_status ommai_plan_video(const struct omma_model *model, const struct omma_video *video,
                                  const struct omma_image_options *options, struct omma_image_plan *plan,
                                  struct omma_error *error);

#endif
