#include "model/image_prepare.h"

#include <string.h>

#include "base/allocator.h"
#include "base/error.h"
#include "image/image_fit.h"
#include "image/resize.h"
#include "model/image_object.h"
#include "model/image_sizes.h"

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

/* Resizes its frames. */
static enum omma_status prepare(const struct omma_model *model, const struct omma_image *const *frames,
                                struct ommai_prepared_image *image, struct omma_error *error) {
  enum omma_status status = OMMA_OK;
  OMMAI_TRY(take_budget(model, ommai_prepared_image_cost(image), error));
  OMMAI_TRY(ommai_prepared_image_create(image, &model->network.large_allocator, model->pixel_budget, error));
  for (int64_t i = 0; i < image->n_frames && status == OMMA_OK; i++) {
    status =
        resize(model, frames[i]->decoded, &image->fitted, image->pixels + (size_t)i * ommai_frame_bytes(&image->sizes), error);
  }
  if (status == OMMA_OK) {
    ommai_image_digest(image->pixels, ommai_prepared_image_bytes(image), image->digest);
  } else {
    ommai_prepared_image_free(image);
  }
  return status;
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
  struct ommai_prepared_image known;
  uint8_t digest[32];
  *out = NULL;
  OMMAI_TRY(omma_image_probe(bytes, size, limits, &header, error));
  OMMAI_TRY(ommai_size_image(model, header.width, header.height, options, &known, error));
  ommai_image_digest(bytes, size, digest);
  struct ommai_image_name name = name_of(digest, &known.fitted);
  if (!ommai_image_store_find(model->image_store, &name, &known)) return OMMA_OK;
  struct omma_image *image = ommai_allocate(&ommai_default_allocator, 1, sizeof *image);
  if (!image) {
    ommai_prepared_image_free(&known);
    return ommai_fail_memory(error, "image", sizeof *image);
  }
  *image = (struct omma_image){.width = header.width, .height = header.height, .known = known, .model = model};
  *out = image;
  return OMMA_OK;
}

/* An image without pixels is what it was recalled as. */
static enum omma_status share_known(const struct omma_model *model, const struct omma_image *image,
                                    struct ommai_prepared_image *prepared, struct omma_error *error) {
  if (image->model != model || !ommai_fitted_size_equals(&image->known.fitted, &prepared->fitted)) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "image",
                            "image: it was recalled for another model or other options; decode it for these");
  }
  *prepared = ommai_prepared_image_share(&image->known);
  return OMMA_OK;
}

enum omma_status ommai_prepare_image(const struct omma_model *model, const struct omma_image *image,
                                     struct ommai_prepared_image *prepared, struct omma_error *error) {
  if (!image->decoded) return share_known(model, image, prepared, error);
  OMMAI_TRY(prepare(model, &image, prepared, error));
  if (image->has_digest) {
    struct ommai_image_name name = name_of(image->digest, &prepared->fitted);
    ommai_image_store_keep(model->image_store, &name, prepared);
  }
  return OMMA_OK;
}

enum omma_status ommai_prepare_video(const struct omma_model *model, const struct omma_video *video,
                                     struct ommai_prepared_image *prepared, struct omma_error *error) {
  return prepare(model, video->frames, prepared, error);
}
