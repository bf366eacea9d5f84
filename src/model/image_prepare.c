#include "model/image_prepare.h"

#include <string.h>

#include "base/allocator.h"
#include "base/error.h"
#include "image/image_fit.h"
#include "image/resize.h"
#include "model/image_object.h"
#include "model/image_sizes.h"
#include "model/target_size.h"

static enum omma_status resize(const struct omma_model *model, const struct ommai_image *source,
                               const struct ommai_fitted_size *fitted, uint8_t *pixels, struct omma_error *error) {
  const struct omma_allocator *allocator = &model->network.large_allocator;
  enum ommai_resize_rule rule = model->config.image.resize_rule;
  size_t workspace_size;
  OMMAI_TRY(ommai_resize_workspace(rule, source->width, source->height, fitted->width, fitted->height, &workspace_size, error));
  void *workspace = ommai_allocate_uninitialised(allocator, workspace_size, 1);
  if (!workspace) return ommai_fail_memory(error, "resize", workspace_size);
  const struct omma_team *team = ommai_image_team_borrow(model->image_team);
  enum omma_status status =
      ommai_resize_bicubic_at(model->network.level, rule, source->pixels, source->width, source->height, pixels, fitted->width,
                              fitted->height, workspace, workspace_size, team, error);
  ommai_image_team_return(model->image_team, team);
  ommai_release(allocator, workspace, workspace_size, 1);
  if (status == OMMA_OK) ommai_pad_in_place(fitted, pixels);
  return status;
}

/* Kept images give way to what is wanted now. */
static enum omma_status take_budget(const struct omma_model *model, size_t size, struct omma_error *error) {
  enum omma_status status;
  do {
    status = ommai_pixel_budget_take(model->pixel_budget, size, error);
  } while (status == OMMA_ERROR_MEMORY && ommai_image_store_evict_oldest(model->image_store));
  return status;
}

/* Resizes frames of the sizes's size to `fitted`. */
static enum omma_status prepare(const struct omma_model *model, const struct omma_image *const *frames, int64_t n_frames,
                                const struct omma_image_sizes *sizes, const struct ommai_fitted_size *fitted,
                                struct ommai_prepared_image *out, struct omma_error *error) {
  struct ommai_prepared_image prepared;
  OMMAI_TRY(take_budget(model, ommai_prepared_image_cost(sizes, n_frames), error));
  OMMAI_TRY(
      ommai_prepared_image_create(sizes, n_frames, &model->network.large_allocator, model->pixel_budget, &prepared, error));
  enum omma_status status = OMMA_OK;
  for (int64_t i = 0; i < n_frames && status == OMMA_OK; i++) {
    status = resize(model, frames[i]->decoded, fitted, prepared.pixels + (size_t)i * ommai_frame_bytes(sizes), error);
  }
  if (status != OMMA_OK) {
    ommai_prepared_image_free(&prepared);
    return status;
  }
  ommai_image_digest(prepared.pixels, ommai_prepared_image_bytes(&prepared), prepared.digest);
  *out = prepared;
  return OMMA_OK;
}

static struct ommai_image_name name_of(const uint8_t *digest, const struct ommai_fitted_size *size) {
  struct ommai_image_name name = {.size = *size};
  memcpy(name.digest, digest, sizeof name.digest);
  return name;
}

enum omma_status omma_image_recall(const struct omma_model *model, const void *bytes, size_t size,
                                   const struct omma_image_limits *limits, const struct omma_image_options *options,
                                   struct omma_image **out, struct omma_error *error) {
  struct omma_image_header header;
  struct omma_image_sizes sizes;
  struct ommai_fitted_size fitted;
  uint8_t digest[32];
  *out = NULL;
  OMMAI_TRY(omma_image_probe(bytes, size, limits, &header, error));
  OMMAI_TRY(omma_model_image_sizes(model, header.width, header.height, options, &sizes, error));
  OMMAI_TRY(ommai_choose_image_size(model, header.width, header.height, options, &fitted, error));
  ommai_image_digest(bytes, size, digest);
  struct ommai_image_name name = name_of(digest, &fitted);
  struct ommai_prepared_image known;
  if (!ommai_image_store_find(model->image_store, &name, &known)) return OMMA_OK;
  struct omma_image *image = ommai_allocate(&ommai_default_allocator, 1, sizeof *image);
  if (!image) {
    ommai_prepared_image_free(&known);
    return ommai_fail_memory(error, "image", sizeof *image);
  }
  *image = (struct omma_image){.width = header.width, .height = header.height, .known = known, .model = model, .size = fitted};
  *out = image;
  return OMMA_OK;
}

/* An image without pixels is what it was recalled as. */
static enum omma_status share_known(const struct omma_model *model, const struct omma_image *image,
                                    const struct ommai_fitted_size *size, struct ommai_prepared_image *prepared,
                                    struct omma_error *error) {
  if (image->model != model || !ommai_fitted_size_equals(&image->size, size)) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "image",
                            "image: it was recalled for another model or other options; decode it for these");
  }
  *prepared = ommai_prepared_image_share(&image->known);
  return OMMA_OK;
}

enum omma_status ommai_prepare_image(const struct omma_model *model, const struct omma_image *image,
                                     const struct omma_image_options *options, struct ommai_prepared_image *prepared,
                                     struct omma_error *error) {
  struct omma_image_sizes sizes;
  struct ommai_fitted_size fitted;
  int32_t width = image->width, height = image->height;
  OMMAI_TRY(omma_model_image_sizes(model, width, height, options, &sizes, error));
  OMMAI_TRY(ommai_choose_image_size(model, width, height, options, &fitted, error));
  if (!image->decoded) return share_known(model, image, &fitted, prepared, error);
  OMMAI_TRY(prepare(model, &image, 1, &sizes, &fitted, prepared, error));
  if (image->has_digest) {
    struct ommai_image_name name = name_of(image->digest, &fitted);
    ommai_image_store_keep(model->image_store, &name, prepared);
  }
  return OMMA_OK;
}

enum omma_status ommai_prepare_video(const struct omma_model *model, const struct omma_video *video,
                                     const struct omma_image_options *options, struct ommai_prepared_image *prepared,
                                     struct omma_error *error) {
  struct omma_image_sizes sizes;
  OMMAI_TRY(ommai_video_sizes(model, video, options, &sizes, error));
  const struct ommai_fitted_size fitted = {sizes.resized_width, sizes.resized_height, sizes.resized_width,
                                           sizes.resized_height};
  return prepare(model, video->frames, (int64_t)video->n_frames, &sizes, &fitted, prepared, error);
}
