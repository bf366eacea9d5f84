#include "model/video_check.h"

#include "base/error.h"
#include "model/image_object.h"

enum omma_status ommai_check_frames(const struct omma_model *model, size_t n_frames, struct omma_error *error) {
  if (model->chat.marks->video == OMMAI_VIDEO_NONE) {
    return ommai_fail_field(error, OMMA_ERROR_UNSUPPORTED, "video", "%s models take no videos", model->config.model_type);
  }
  if (model->config.video.token < 0) {
    return ommai_fail_field(error, OMMA_ERROR_UNSUPPORTED, "video",
                            "this checkpoint takes no videos: its config.json has no video_token_id");
  }
  if (n_frames == 0) return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "video", "a video has frames, found none");
  if (n_frames <= OMMA_MAX_VIDEO_FRAMES) return OMMA_OK;
  return ommai_fail_field(error, OMMA_ERROR_LIMIT, "video", "at most %d frames make a video, found %zu", OMMA_MAX_VIDEO_FRAMES,
                          n_frames);
}

enum omma_status ommai_check_video(const struct omma_model *model, const struct omma_video *video, struct omma_error *error) {
  OMMAI_TRY(ommai_check_frames(model, video->n_frames, error));
  if (video->fps != 0 && !(video->fps >= OMMA_MIN_VIDEO_FPS && video->fps <= OMMA_MAX_VIDEO_FPS)) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "fps", "fps: expected %g to %g, found %g", OMMA_MIN_VIDEO_FPS,
                            OMMA_MAX_VIDEO_FPS, video->fps);
  }
  int32_t width = omma_image_width(video->frames[0]), height = omma_image_height(video->frames[0]);
  for (size_t i = 0; i < video->n_frames; i++) {
    if (!video->frames[i]->decoded) {
      return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "video", "frame %zu: it was recalled and has no pixels: decode it",
                              i);
    }
    int32_t w = omma_image_width(video->frames[i]), h = omma_image_height(video->frames[i]);
    if (w == width && h == height) continue;
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "video", "frame %zu: expected %d x %d pixels as frame 0, found %d x %d",
                            i, width, height, w, h);
  }
  return OMMA_OK;
}
