/* What an image or video will take: sizes, patches, tokens and work. Worked out once on its way,
 * and handed on in a struct ommai_prepared_image. */
#pragma once

#include "model/prepared_image.h"

/* Sets sizes, fitted and n_frames: of an image (errors as omma_model_image_sizes), and of a video
 * (as omma_model_video_sizes). */
enum omma_status ommai_size_image(const struct omma_model *model, int32_t width, int32_t height,
                                  const struct omma_image_options *options, struct ommai_prepared_image *image,
                                  struct omma_error *error);
enum omma_status ommai_size_video(const struct omma_model *model, int32_t width, int32_t height, size_t n_frames,
                                  const struct omma_image_options *options, struct ommai_prepared_image *image,
                                  struct omma_error *error);

/* Whether the model takes the video: its number of frames, their sizes, its rate. Errors:
 * UNSUPPORTED, ARGUMENT, LIMIT. */
enum omma_status ommai_check_video(const struct omma_model *model, const struct omma_video *video, struct omma_error *error);
