/* Whether a model takes a video. */
#pragma once

#include <omma/omma.h>

#include "model/model.h"

/* Whether the model takes videos, and of n_frames. Errors: UNSUPPORTED, ARGUMENT, LIMIT. */
enum omma_status ommai_check_frames(const struct omma_model *model, size_t n_frames, struct omma_error *error);

/* Whether the model takes the video: its number of frames, their sizes, its rate. Errors:
 * UNSUPPORTED, ARGUMENT, LIMIT. */
enum omma_status ommai_check_video(const struct omma_model *model, const struct omma_video *video, struct omma_error *error);
