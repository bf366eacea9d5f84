/* Outputs of the tower for callers: those of omma_encode, and those of requests that are only
 * encoded, which stay in the cache. */
#include <string.h>

#include "base/allocator.h"
#include "base/error.h"
#include "base/half.h"
#include "engine/embeddings.h"
#include "engine/engine.h"
#include "model/image_prepare.h"

struct omma_embeddings {
  struct omma_allocator allocator;
  size_t n_images, n_values;
  struct ommai_prepared_image *prepared; /* [n_images] */
  struct ommai_vision_input *inputs;     /* [n_images] */
  struct omma_image_embeddings *images;  /* [n_images] */
  const float **deepstack;               /* [n_images, n_deepstack] */
  size_t n_deepstack;
  float *values;
  /* of which these are users; NULL: the values are their own */
  struct ommai_encoder_cache *cache;
  struct ommai_encoded_image **shared; /* [n_images] */
  struct omma_encode_timings timings;
};

void omma_embeddings_destroy(struct omma_embeddings *embeddings) {
  if (!embeddings) return;
  struct omma_allocator allocator = embeddings->allocator;
  size_t n = embeddings->n_images;
  for (size_t i = 0; embeddings->prepared && i < n; i++) ommai_prepared_image_free(&embeddings->prepared[i]);
  for (size_t i = 0; embeddings->cache && embeddings->shared && i < n; i++) {
    if (embeddings->shared[i]) ommai_encoder_cache_give_back(embeddings->cache, embeddings->shared[i]);
  }
  ommai_release(&allocator, embeddings->shared, n, sizeof *embeddings->shared);
  ommai_release(&allocator, embeddings->prepared, n, sizeof *embeddings->prepared);
  ommai_release(&allocator, embeddings->inputs, n, sizeof *embeddings->inputs);
  ommai_release(&allocator, embeddings->images, n, sizeof *embeddings->images);
  ommai_release(&allocator, embeddings->deepstack, n * embeddings->n_deepstack, sizeof *embeddings->deepstack);
  ommai_release(&allocator, embeddings->values, embeddings->n_values, sizeof *embeddings->values);
  ommai_release(&allocator, embeddings, 1, sizeof *embeddings);
}

void omma_embeddings_get(const struct omma_embeddings *embeddings, size_t index, struct omma_image_embeddings *out) {
  *out = embeddings->images[index];
}

static void copy_row(const float *values, size_t n, enum omma_dtype type, void *rows, size_t at) {
  if (type == OMMA_F32) {
    memcpy((float *)rows + at, values, n * sizeof *values);
    return;
  }
  for (size_t i = 0; i < n; i++) ((uint16_t *)rows)[at + i] = ommai_bf16_from_f32(values[i]);
}

void omma_embeddings_copy_rows(const struct omma_embeddings *embeddings, size_t index, enum omma_dtype type, void *rows) {
  const struct omma_image_embeddings *image = &embeddings->images[index];
  size_t width = (size_t)image->width, n_tensors = 1 + (size_t)image->n_deepstack;
  for (size_t i = 0; i < (size_t)image->n_tokens; i++) {
    for (size_t j = 0; j < n_tensors; j++) {
      const float *values = j ? image->deepstack[j - 1] : image->merged;
      copy_row(values + i * width, width, type, rows, (i * n_tensors + j) * width);
    }
  }
}

void omma_embeddings_get_timings(const struct omma_embeddings *embeddings, struct omma_encode_timings *timings) {
  *timings = embeddings->timings;
}

/* Where the output of an image lies whose values begin at `output`. */
static void lay_out_image(const struct omma_model *model, struct omma_embeddings *embeddings, size_t index,
                          const struct omma_image_sizes *sizes, const float *output) {
  const float **deepstack = embeddings->deepstack + index * embeddings->n_deepstack;
  int64_t width = model->config.vision.out_hidden_size;
  embeddings->images[index] = (struct omma_image_embeddings){.n_tokens = sizes->n_tokens,
                                                             .width = width,
                                                             .merged = output,
                                                             .n_deepstack = (int64_t)embeddings->n_deepstack,
                                                             .deepstack = deepstack};
  memcpy(embeddings->images[index].grid_thw, sizes->grid_thw, sizeof sizes->grid_thw);
  for (size_t j = 0; j < embeddings->n_deepstack; j++) deepstack[j] = output + (1 + (int64_t)j) * sizes->n_tokens * width;
}

static void lay_out(const struct omma_model *model, struct omma_embeddings *embeddings) {
  float *output = embeddings->values;
  for (size_t i = 0; i < embeddings->n_images; i++) {
    const struct omma_image_sizes *sizes = &embeddings->prepared[i].sizes;
    embeddings->inputs[i] = (struct ommai_vision_input){.pixels = embeddings->prepared[i].pixels,
                                                        .n_frames = embeddings->prepared[i].n_frames,
                                                        .grid_rows = sizes->grid_thw[1],
                                                        .grid_columns = sizes->grid_thw[2],
                                                        .output = output};
    lay_out_image(model, embeddings, i, sizes, output);
    output += ommai_vision_output_size(&model->config.vision, sizes->n_tokens);
  }
}

static enum omma_status allocate_views(const struct omma_model *model, struct omma_embeddings *embeddings,
                                       struct omma_error *error) {
  size_t n = embeddings->n_images;
  embeddings->n_deepstack = (size_t)model->config.vision.n_deepstack;
  embeddings->images = ommai_allocate(&embeddings->allocator, n, sizeof *embeddings->images);
  embeddings->deepstack = ommai_allocate(&embeddings->allocator, n * embeddings->n_deepstack, sizeof *embeddings->deepstack);
  if (embeddings->images && embeddings->deepstack) return OMMA_OK;
  return ommai_fail_memory(error, "embeddings", n * sizeof *embeddings->images);
}

enum omma_status ommai_embeddings_share(const struct omma_request *request, struct ommai_encoder_cache *cache,
                                        struct ommai_encoded_image *const *encoded, struct omma_embeddings **out,
                                        struct omma_error *error) {
  const struct omma_model *model = request->model;
  struct omma_embeddings *embeddings = ommai_allocate(&model->allocator, 1, sizeof *embeddings);
  if (!embeddings) return ommai_fail_memory(error, "embeddings", sizeof *embeddings);
  embeddings->allocator = model->allocator;
  embeddings->n_images = request->n_images;
  embeddings->cache = cache;
  embeddings->shared = ommai_allocate(&model->allocator, request->n_images, sizeof *embeddings->shared);
  enum omma_status status = embeddings->shared
                                ? allocate_views(model, embeddings, error)
                                : ommai_fail_memory(error, "embeddings", request->n_images * sizeof *embeddings->shared);
  if (status != OMMA_OK) {
    omma_embeddings_destroy(embeddings);
    return status;
  }
  for (size_t i = 0; i < request->n_images; i++) {
    ommai_encoder_cache_share(cache, encoded[i]);
    embeddings->shared[i] = encoded[i];
    lay_out_image(model, embeddings, i, &request->images[i].sizes, encoded[i]->values);
  }
  *out = embeddings;
  return OMMA_OK;
}

static enum omma_status prepare(const struct omma_model *model, const struct omma_image *const *images,
                                const struct omma_image_options *options, struct omma_embeddings *embeddings,
                                struct omma_error *error) {
  size_t n = embeddings->n_images;
  OMMAI_TRY(allocate_views(model, embeddings, error));
  embeddings->prepared = ommai_allocate(&embeddings->allocator, n, sizeof *embeddings->prepared);
  embeddings->inputs = ommai_allocate(&embeddings->allocator, n, sizeof *embeddings->inputs);
  if (!embeddings->prepared || !embeddings->inputs) {
    return ommai_fail_memory(error, "embeddings", n * sizeof *embeddings->images);
  }
  for (size_t i = 0; i < n; i++) {
    enum omma_status status = ommai_prepare_image(model, images[i], options, &embeddings->prepared[i], error);
    if (status != OMMA_OK) {
      ommai_error_prefix(error, "image %zu", i);
      return status;
    }
    embeddings->n_values += (size_t)ommai_vision_output_size(&model->config.vision, embeddings->prepared[i].sizes.n_tokens);
  }
  embeddings->values = ommai_allocate_uninitialised(&embeddings->allocator, embeddings->n_values, sizeof *embeddings->values);
  if (!embeddings->values) return ommai_fail_memory(error, "embeddings", embeddings->n_values * sizeof *embeddings->values);
  lay_out(model, embeddings);
  return OMMA_OK;
}

/* `resized` seconds were over before the tower began. */
static struct omma_encode_timings read_profiles(const struct ommai_encode_call *call, int n_workers, double resized,
                                                double total) {
  const struct ommai_vision_profile *profiles = call->profiles;
  struct omma_encode_timings timings = {
      .total = total,
      .preprocess = resized + ommai_vision_profile_seconds(profiles, n_workers, OMMAI_VISION_CUT),
      .patch_embed = ommai_vision_profile_seconds(profiles, n_workers, OMMAI_VISION_EMBED),
      .attention = ommai_vision_profile_seconds(profiles, n_workers, OMMAI_VISION_ATTENTION),
      .linear = ommai_vision_profile_seconds(profiles, n_workers, OMMAI_VISION_LINEAR),
      .longest_slice = (double)call->longest_slice_ns * 1e-9,
      .n_slices = call->n_slices,
  };
  timings.rest = total - timings.preprocess - timings.patch_embed - timings.attention - timings.linear;
  return timings;
}

/* Through the tower, with a profile for each of its threads. */
static enum omma_status encode(struct omma_engine *engine, struct ommai_encode_call *call, double start,
                               struct omma_embeddings *embeddings, struct omma_error *error) {
  size_t n_workers = (size_t)engine->model->network.n_threads;
  double resized = ommai_clock_seconds() - start;
  call->inputs = embeddings->inputs;
  call->profiles = ommai_allocate(&embeddings->allocator, n_workers, sizeof *call->profiles);
  if (!call->profiles) return ommai_fail_memory(error, "embeddings' profiles", n_workers * sizeof *call->profiles);
  enum omma_status status = ommai_engine_encode(engine, call, error);
  embeddings->timings = read_profiles(call, (int)n_workers, resized, ommai_clock_seconds() - start);
  ommai_release(&embeddings->allocator, call->profiles, n_workers, sizeof *call->profiles);
  return status;
}

enum omma_status omma_encode(struct omma_engine *engine, const struct omma_image *const *images, size_t n_images,
                             const struct omma_image_options *options, bool together, omma_progress progress,
                             void *progress_context, struct omma_embeddings **out, struct omma_error *error) {
  const struct omma_model *model = engine->model;
  double start = ommai_clock_seconds();
  if (n_images == 0) return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "image", "encode: expected at least one image");
  struct omma_embeddings *embeddings = ommai_allocate(&model->allocator, 1, sizeof *embeddings);
  if (!embeddings) return ommai_fail_memory(error, "embeddings", sizeof *embeddings);
  embeddings->allocator = model->allocator;
  embeddings->n_images = n_images;
  struct ommai_encode_call call = {
      .n_inputs = (int64_t)n_images, .separate = !together, .progress = progress, .progress_context = progress_context};
  enum omma_status status = prepare(model, images, options, embeddings, error);
  if (status == OMMA_OK) status = encode(engine, &call, start, embeddings, error);
  if (status != OMMA_OK) {
    omma_embeddings_destroy(embeddings);
    return status;
  }
  *out = embeddings;
  return OMMA_OK;
}
