#include "model/image_sizes.h"

#include "base/checked.h"
#include "base/error.h"
#include "image/image.h"
#include "image/resize.h"
#include "model/target_size.h"
#include "model/video_check.h"
#include "vision/vision_layout.h"

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
  OMMAI_TRY(ommai_choose_image_size(model, width, height, options, &image->fitted, error));
  image->n_frames = 1;
  return compute_sizes(model, width, height, image, error);
}

enum omma_status ommai_size_video(const struct omma_model *model, int32_t width, int32_t height, size_t n_frames,
                                  const struct omma_image_options *options, struct ommai_prepared_image *image,
                                  struct omma_error *error) {
  OMMAI_TRY(ommai_check_frames(model, n_frames, error));
  OMMAI_TRY(check_size(width, height, error));
  OMMAI_TRY(ommai_choose_frame_size(model, width, height, (int64_t)n_frames, options, &image->fitted, error));
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
