#include "model/image_sizes.h"

#include "base/checked.h"
#include "base/error.h"
#include "image/image.h"
#include "image/image_fit.h"
#include "image/resize.h"
#include "model/image_object.h"
#include "model/model.h"
#include "vision/vision_layout.h"

static enum omma_status check_limit(const char *limit, int64_t min, int64_t found, struct omma_error *error) {
  if (found >= min && found <= OMMAI_IMAGE_MAX_PIXELS) return OMMA_OK;
  return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, limit, "%s: expected %lld to %lld pixels, found %lld", limit,
                          (long long)min, (long long)OMMAI_IMAGE_MAX_PIXELS, (long long)found);
}

/* The limits of the options (may be NULL), or where there are none the model's: min_pixels and
 * max_pixels. `enlarges`: the model makes small images larger; else the lower limit must be 0.
 * Errors: ARGUMENT ("min_pixels", "max_pixels"). */
static enum omma_status area_limits(const struct omma_image_options *options, int64_t min_pixels, int64_t max_pixels,
                                    bool enlarges, int64_t *low, int64_t *high, struct omma_error *error) {
  *low = options && options->min_pixels ? options->min_pixels : min_pixels;
  *high = options && options->max_pixels ? options->max_pixels : max_pixels;
  if (!enlarges && *low > 0) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "min_pixels", "min_pixels: this model never enlarges images");
  }
  /* One limit alone moves the other along; the one that was given is the one to complain of. */
  bool high_alone = options && options->max_pixels && !options->min_pixels;
  if (options && options->min_pixels && !options->max_pixels && *high < *low) *high = *low;
  if (high_alone && *low > *high) *low = *high;
  if (high_alone) OMMAI_TRY(check_limit("max_pixels", 1, *high, error));
  OMMAI_TRY(check_limit("min_pixels", enlarges, *low, error));
  OMMAI_TRY(check_limit("max_pixels", 1, *high, error));
  if (*low <= *high) return OMMA_OK;
  return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "min_pixels",
                          "min_pixels: expected at most max_pixels, which is %lld, found %lld", (long long)*high,
                          (long long)*low);
}

static struct ommai_fit_limits fit_limits(const struct omma_model *model) {
  const struct ommai_patch_spec *patches = &model->config.image.patches;
  return (struct ommai_fit_limits){.sizing = model->config.image.sizing,
                                   .patch_size = patches->patch_size,
                                   .merge_size = patches->merge_size,
                                   .temporal_patch_size = patches->temporal};
}

/* The size of the image's content and of the canvas that is cut into patches. Errors: ARGUMENT
 * (limits, or sides of which the model takes none), LIMIT. */
static enum omma_status choose_image_size(const struct omma_model *model, int32_t width, int32_t height,
                                          const struct omma_image_options *options, struct ommai_fitted_size *size,
                                          struct omma_error *error) {
  const struct ommai_image_config *image = &model->config.image;
  struct ommai_fit_limits limits = fit_limits(model);
  OMMAI_TRY(area_limits(options, image->min_pixels, image->max_pixels, image->min_pixels > 0, &limits.min_pixels,
                        &limits.max_pixels, error));
  return ommai_image_fit(&limits, width, height, size, error);
}

/* The same for the frames of a video of n_frames. */
static enum omma_status choose_frame_size(const struct omma_model *model, int32_t width, int32_t height, int64_t n_frames,
                                          const struct omma_image_options *options, struct ommai_fitted_size *size,
                                          struct omma_error *error) {
  const struct ommai_video_config *video = &model->config.video;
  struct ommai_fit_limits limits = fit_limits(model);
  int64_t max_pixels = video->max_pixels;
  if (video->shared_pixels) { /* some room is left above the minimum */
    max_pixels = ommai_min_i64(max_pixels, video->shared_pixels / ommai_max_i64(n_frames, 1));
    max_pixels = ommai_max_i64(max_pixels, video->min_pixels + video->min_pixels / 20);
  }
  OMMAI_TRY(area_limits(options, video->min_pixels, max_pixels, true, &limits.min_pixels, &limits.max_pixels, error));
  return ommai_frame_fit(&limits, width, height, video->area_of_all_frames ? n_frames : 0, size, error);
}

/* Whether the model takes videos, and of n_frames. Errors: UNSUPPORTED, ARGUMENT, LIMIT. */
static enum omma_status check_frames(const struct omma_model *model, size_t n_frames, struct omma_error *error) {
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
  OMMAI_TRY(check_frames(model, video->n_frames, error));
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

static enum omma_status check_size(int32_t width, int32_t height, struct omma_error *error) {
  if (width < 1 || height < 1) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "image", "image: expected sides of at least 1 pixel, found %d x %d",
                            width, height);
  }
  if (width > OMMAI_IMAGE_MAX_SIDE || height > OMMAI_IMAGE_MAX_SIDE || (int64_t)width * height > OMMAI_IMAGE_MAX_PIXELS) {
    return ommai_fail_field(error, OMMA_ERROR_LIMIT, "image",
                            "image is too large: %d x %d pixels, at most %lld a side and %lld in all", width, height,
                            (long long)OMMAI_IMAGE_MAX_SIDE, (long long)OMMAI_IMAGE_MAX_PIXELS);
  }
  return OMMA_OK;
}

/* From the fitted size and the number of frames. */
static enum omma_status compute_sizes(const struct omma_model *model, int32_t width, int32_t height,
                                      struct ommai_prepared_image *image, struct omma_error *error) {
  const struct ommai_vision_config *vision = &model->config.vision;
  const struct ommai_fitted_size *size = &image->fitted;
  size_t resize_bytes;
  OMMAI_TRY(
      ommai_resize_workspace(model->config.image.resize_rule, width, height, size->width, size->height, &resize_bytes, error));
  int64_t n_temporal_patches = ommai_div_up(image->n_frames, vision->temporal_patch_size);
  int64_t rows = size->padded_height / vision->patch_size, columns = size->padded_width / vision->patch_size;
  int64_t n_patches = n_temporal_patches * rows * columns;
  image->sizes = (struct omma_image_sizes){.width = width,
                                           .height = height,
                                           .resized_width = size->padded_width,
                                           .resized_height = size->padded_height,
                                           .grid_thw = {n_temporal_patches, rows, columns},
                                           .n_patches = n_patches,
                                           .n_tokens = n_patches / ommai_vision_joined_patches(vision),
                                           .n_segments = n_temporal_patches,
                                           .n_windows = n_temporal_patches * ommai_vision_grid_windows(vision, rows, columns),
                                           .flops = (double)n_temporal_patches * ommai_vision_flops(vision, rows, columns),
                                           .resize_bytes = (int64_t)resize_bytes};
  return OMMA_OK;
}

enum omma_status ommai_size_image(const struct omma_model *model, int32_t width, int32_t height,
                                  const struct omma_image_options *options, struct ommai_prepared_image *image,
                                  struct omma_error *error) {
  OMMAI_TRY(check_size(width, height, error));
  OMMAI_TRY(choose_image_size(model, width, height, options, &image->fitted, error));
  image->n_frames = 1;
  return compute_sizes(model, width, height, image, error);
}

enum omma_status ommai_size_video(const struct omma_model *model, int32_t width, int32_t height, size_t n_frames,
                                  const struct omma_image_options *options, struct ommai_prepared_image *image,
                                  struct omma_error *error) {
  OMMAI_TRY(check_frames(model, n_frames, error));
  OMMAI_TRY(check_size(width, height, error));
  OMMAI_TRY(choose_frame_size(model, width, height, (int64_t)n_frames, options, &image->fitted, error));
  image->n_frames = (int64_t)n_frames;
  return compute_sizes(model, width, height, image, error);
}

enum omma_status omma_model_image_sizes(const struct omma_model *model, int32_t width, int32_t height,
                                        const struct omma_image_options *options, struct omma_image_sizes *sizes,
                                        struct omma_error *error) {
  struct ommai_prepared_image image;
  OMMAI_TRY(ommai_size_image(model, width, height, options, &image, error));
  *sizes = image.sizes;
  return OMMA_OK;
}

enum omma_status omma_model_video_sizes(const struct omma_model *model, int32_t width, int32_t height, size_t n_frames,
                                        const struct omma_image_options *options, struct omma_image_sizes *sizes,
                                        struct omma_error *error) {
  struct ommai_prepared_image video;
  OMMAI_TRY(ommai_size_video(model, width, height, n_frames, options, &video, error));
  *sizes = video.sizes;
  return OMMA_OK;
}
