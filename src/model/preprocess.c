/* Pixels as the patches that the tower multiplies, for callers who compare or compute elsewhere. */
#include <omma/omma.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/team.h"
#include "image/patches.h"
#include "model/image_object.h"
#include "model/image_prepare.h"
#include "model/image_sizes.h"
#include "model/model_open.h"
#include "vision/vision_tower.h"

/* Patches of a prepared image in f32, cut by a team: a task is a run of patches. */
enum { PATCHES_PER_TASK = 256 };

struct cutting {
  struct ommai_patch_spec spec;
  const struct ommai_prepared_image *prepared;
  float *values;
};

static void cut_task(void *context, int64_t task, int worker) {
  (void)worker;
  const struct cutting *cutting = context;
  const struct omma_image_sizes *sizes = &cutting->prepared->sizes;
  int64_t length = ommai_patch_length(&cutting->spec), first = task * PATCHES_PER_TASK;
  int64_t count = ommai_min_i64(PATCHES_PER_TASK, sizes->n_patches - first);
  /* Cannot fail: the size is a sizes's and the range lies inside it. */
  (void)ommai_patches_from_pixels(&cutting->spec, cutting->prepared->pixels, sizes->resized_width, sizes->resized_height, first,
                                  count, cutting->values + first * length, length, OMMA_F32, NULL);
}

enum omma_status omma_preprocess(const struct omma_model *model, const struct omma_image *image,
                                 const struct omma_image_options *options, float *pixel_values, size_t capacity,
                                 struct omma_error *error) {
  struct ommai_prepared_image prepared = {0};
  OMMAI_TRY(ommai_model_require_processor(model, error));
  OMMAI_TRY(ommai_size_image(model, image->width, image->height, options, &prepared, error));
  OMMAI_TRY(ommai_prepare_image(model, image, &prepared, error));
  int64_t n_values = prepared.sizes.n_patches * ommai_vision_patch_dim(&model->config.vision);
  enum omma_status status = OMMA_OK;
  if ((size_t)n_values > capacity) {
    status = ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "capacity", "pixel_values: expected room for %lld values, found %zu",
                              (long long)n_values, capacity);
  } else {
    struct cutting cutting = {.spec = model->config.image.patches, .prepared = &prepared, .values = pixel_values};
    if (model->config.image.raster_patches) cutting.spec.merge_size = 1;
    const struct omma_team *team = ommai_image_team_borrow(model->image_team);
    ommai_team_run(team, ommai_div_up(prepared.sizes.n_patches, PATCHES_PER_TASK), cut_task, &cutting);
    ommai_image_team_return(model->image_team, team);
  }
  ommai_prepared_image_free(&prepared);
  return status;
}
