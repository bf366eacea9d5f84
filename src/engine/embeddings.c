/* Outputs of the tower for callers: those of omma_encode, and those of requests that are only
 * encoded, which stay in the cache. */
#include <string.h>

#include "base/allocator.h"
#include "base/error.h"
#include "engine/embeddings.h"
#include "model/image_prepare.h"
#include "model/image_sizes.h"

struct omma_embeddings {
  struct omma_allocator allocator;
  size_t n_images;
  struct omma_image_embeddings *images;  /* [n_images] */
  struct ommai_prepared_image *prepared; /* [n_images] */
  struct ommai_image_rows **rows;        /* [n_images] its own; or */
  struct ommai_encoded_image **shared;   /* [n_images] of `cache`, a user of each */
  struct ommai_encoder_cache *cache;
  struct omma_encode_timings timings;
};

void omma_embeddings_destroy(struct omma_embeddings *embeddings) {
  if (!embeddings) return;
  struct omma_allocator allocator = embeddings->allocator;
  size_t n = embeddings->n_images;
  for (size_t i = 0; embeddings->prepared && i < n; i++) ommai_prepared_image_free(&embeddings->prepared[i]);
  for (size_t i = 0; embeddings->rows && i < n; i++) ommai_image_rows_free(embeddings->rows[i]);
  for (size_t i = 0; embeddings->shared && i < n; i++) {
    if (embeddings->shared[i]) ommai_encoder_cache_give_back(embeddings->cache, embeddings->shared[i]);
  }
  ommai_release(&allocator, embeddings->shared, n, sizeof *embeddings->shared);
  ommai_release(&allocator, embeddings->rows, n, sizeof *embeddings->rows);
  ommai_release(&allocator, embeddings->prepared, n, sizeof *embeddings->prepared);
  ommai_release(&allocator, embeddings->images, n, sizeof *embeddings->images);
  ommai_release(&allocator, embeddings, 1, sizeof *embeddings);
}

void omma_embeddings_get(const struct omma_embeddings *embeddings, size_t index, struct omma_image_embeddings *out) {
  *out = embeddings->images[index];
}

void omma_embeddings_copy_rows(const struct omma_embeddings *embeddings, size_t index, enum omma_dtype type, void *rows) {
  ommai_image_view_copy(&embeddings->images[index], type, rows);
}

void omma_embeddings_get_timings(const struct omma_embeddings *embeddings, struct omma_encode_timings *timings) {
  *timings = embeddings->timings;
}

static void view(struct omma_embeddings *embeddings, size_t index, const struct ommai_image_rows *rows,
                 const struct omma_image_sizes *sizes) {
  ommai_image_rows_view(rows, &embeddings->images[index]);
  memcpy(embeddings->images[index].grid_thw, sizes->grid_thw, sizeof sizes->grid_thw);
}

static enum omma_status create(const struct omma_model *model, size_t n_images, struct omma_embeddings **out,
                               struct omma_error *error) {
  struct omma_embeddings *embeddings = ommai_allocate(&model->allocator, 1, sizeof *embeddings);
  if (!embeddings) return ommai_fail_memory(error, "embeddings", sizeof *embeddings);
  embeddings->allocator = model->allocator;
  embeddings->n_images = n_images;
  embeddings->images = ommai_allocate(&model->allocator, n_images, sizeof *embeddings->images);
  *out = embeddings;
  return embeddings->images ? OMMA_OK : ommai_fail_memory(error, "embeddings", n_images * sizeof *embeddings->images);
}

enum omma_status ommai_embeddings_share(const struct omma_request *request, struct ommai_encoder_cache *cache,
                                        struct ommai_encoded_image *const *encoded, struct omma_embeddings **out,
                                        struct omma_error *error) {
  const struct omma_model *model = request->model;
  struct omma_embeddings *embeddings = NULL;
  enum omma_status status = create(model, request->n_images, &embeddings, error);
  if (status == OMMA_OK) {
    embeddings->cache = cache;
    embeddings->shared = ommai_allocate(&model->allocator, request->n_images, sizeof *embeddings->shared);
    if (!embeddings->shared) status = ommai_fail_memory(error, "embeddings", request->n_images * sizeof *embeddings->shared);
  }
  if (status != OMMA_OK) {
    omma_embeddings_destroy(embeddings);
    return status;
  }
  for (size_t i = 0; i < request->n_images; i++) {
    ommai_encoder_cache_share(cache, encoded[i]);
    embeddings->shared[i] = encoded[i];
    view(embeddings, i, encoded[i]->rows, &request->images[i].sizes);
  }
  *out = embeddings;
  return OMMA_OK;
}

static enum omma_status prepare(const struct omma_model *model, const struct ommai_image_shape *shape,
                                const struct omma_image *const *images, const struct omma_image_options *options,
                                struct omma_embeddings *embeddings, struct omma_error *error) {
  const struct omma_allocator *allocator = &embeddings->allocator;
  size_t n = embeddings->n_images;
  embeddings->prepared = ommai_allocate(allocator, n, sizeof *embeddings->prepared);
  embeddings->rows = ommai_allocate(allocator, n, sizeof *embeddings->rows);
  if (!embeddings->prepared || !embeddings->rows) {
    return ommai_fail_memory(error, "embeddings", n * sizeof *embeddings->prepared);
  }
  for (size_t i = 0; i < n; i++) {
    struct ommai_prepared_image *image = &embeddings->prepared[i];
    enum omma_status status =
        ommai_size_image(model, omma_image_width(images[i]), omma_image_height(images[i]), options, image, error);
    if (status == OMMA_OK) status = ommai_prepare_image(model, images[i], image, error);
    if (status != OMMA_OK) {
      ommai_error_prefix(error, "image %zu", i);
      return status;
    }
    OMMAI_TRY(ommai_image_rows_create(shape, image->sizes.n_tokens, allocator, &embeddings->rows[i], error));
    view(embeddings, i, embeddings->rows[i], &image->sizes);
  }
  return OMMA_OK;
}

enum omma_status ommai_embeddings_prepare(const struct omma_model *model, const struct ommai_image_shape *shape,
                                          const struct omma_image *const *images, size_t n_images,
                                          const struct omma_image_options *options, struct ommai_encode_call *call,
                                          struct omma_embeddings **out, struct omma_error *error) {
  struct omma_embeddings *embeddings = NULL;
  enum omma_status status = create(model, n_images, &embeddings, error);
  if (status == OMMA_OK) status = prepare(model, shape, images, options, embeddings, error);
  if (status != OMMA_OK) {
    omma_embeddings_destroy(embeddings);
    return status;
  }
  call->images = embeddings->prepared;
  call->rows = embeddings->rows;
  call->n_images = (int64_t)n_images;
  *out = embeddings;
  return OMMA_OK;
}

void ommai_embeddings_set_timings(struct omma_embeddings *embeddings, const struct omma_encode_timings *timings) {
  embeddings->timings = *timings;
}
