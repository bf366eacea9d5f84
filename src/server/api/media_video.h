/* Videos in requests, as the images that are their frames: data:video/jpeg;base64,FRAME,FRAME,...
 * (the form of vLLM's clients). */
#pragma once

#include <omma/omma.h>
#include <stdbool.h>
#include <stddef.h>

#include "server/api/media.h"
#include "server/core/api_error.h"

struct ommai_server;

/* Frames that are not read yet; the text is borrowed. */
struct ommai_video_frames {
  const char *at, *end;
  size_t n_left;
};

/* The first max_frames frames of the URL, all of them with 0. False with *error filled: not such a
 * URL, or more than OMMA_MAX_VIDEO_FRAMES. `url` need not end in NUL. */
bool ommai_video_frames_open(const char *url, size_t url_size, size_t max_frames, struct ommai_video_frames *frames,
                             struct ommai_api_error *error);

/* Reads the next frame's file, of which there must be one; its format is recognised by its content.
 * False with *error filled. The file is to be freed in any case. */
bool ommai_video_frames_next(const struct ommai_server *server, struct ommai_video_frames *frames,
                             struct ommai_media_file *file, struct ommai_api_error *error);
