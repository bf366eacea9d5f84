#include "model/target_size.h"

#include "base/error.h"
#include "image/image_fit.h"
#include "model/area_limits.h"

static struct ommai_fit_limits fit_limits(const struct omma_model *model) {
  const struct ommai_patch_spec *patches = &model->config.image.patches;
  return (struct ommai_fit_limits){.sizing = model->config.image.sizing,
                                   .patch_size = patches->patch_size,
                                   .merge_size = patches->merge_size,
                                   .temporal_patch_size = patches->temporal};
}

enum omma_status ommai_choose_image_size(const struct omma_model *model, int32_t width, int32_t height,
                                         const struct omma_image_options *options, struct ommai_fitted_size *size,
                                         struct omma_error *error) {
  const struct ommai_image_config *image = &model->config.image;
  struct ommai_fit_limits limits = fit_limits(model);
  OMMAI_TRY(ommai_area_limits(options, image->min_pixels, image->max_pixels, image->sizing == OMMAI_SIZING_AREA,
                              &limits.min_pixels, &limits.max_pixels, error));
  return ommai_image_fit(&limits, width, height, size, error);
}

enum omma_status ommai_choose_frame_size(const struct omma_model *model, int32_t width, int32_t height, int64_t n_frames,
                                         const struct omma_image_options *options, struct ommai_fitted_size *size,
                                         struct omma_error *error) {
  const struct ommai_video_config *video = &model->config.video;
  struct ommai_fit_limits limits = fit_limits(model);
  OMMAI_TRY(
      ommai_area_limits(options, video->min_pixels, video->max_pixels, true, &limits.min_pixels, &limits.max_pixels, error));
  return ommai_frame_fit(&limits, width, height, video->area_of_all_frames ? n_frames : 0, size, error);
}
