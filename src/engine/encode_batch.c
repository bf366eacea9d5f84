#include "engine/encode_batch.h"

#include "base/allocator.h"
#include "base/error.h"
#include "engine/encode_job.h"

enum omma_status ommai_encode_batch_init(struct ommai_encode_batch *batch, struct ommai_encoder_cache *cache, int64_t capacity,
                                         const struct omma_allocator *allocator, struct omma_error *error) {
  size_t n = (size_t)capacity;
  *batch = (struct ommai_encode_batch){.allocator = *allocator, .cache = cache, .capacity = capacity};
  batch->inputs = ommai_allocate(allocator, n, sizeof *batch->inputs);
  batch->encoded = ommai_allocate(allocator, n, sizeof *batch->encoded);
  batch->pictures = ommai_allocate(allocator, n, sizeof *batch->pictures);
  if (batch->inputs && batch->encoded && batch->pictures) return OMMA_OK;
  return ommai_fail_memory(error, "pictures to encode", n * sizeof *batch->inputs);
}

void ommai_encode_batch_free(struct ommai_encode_batch *batch) {
  for (int64_t i = 0; i < batch->n; i++) {
    ommai_encoder_cache_give_back(batch->cache, batch->encoded[i]);
    ommai_prepared_picture_free(&batch->pictures[i]);
  }
  if (!batch->cache) return;
  size_t n = (size_t)batch->capacity;
  ommai_release(&batch->allocator, batch->inputs, n, sizeof *batch->inputs);
  ommai_release(&batch->allocator, batch->encoded, n, sizeof *batch->encoded);
  ommai_release(&batch->allocator, batch->pictures, n, sizeof *batch->pictures);
  *batch = (struct ommai_encode_batch){0};
}

void ommai_encode_batch_add(struct ommai_encode_batch *batch, const struct ommai_prepared_picture *picture,
                            struct ommai_encoded_picture *encoded) {
  const struct omma_image_plan *plan = &picture->plan;
  for (int64_t i = 0; i < batch->n; i++) {
    if (batch->encoded[i] == encoded) return;
  }
  if (batch->n == batch->capacity) return;
  encoded->n_users++;
  batch->encoded[batch->n] = encoded;
  batch->pictures[batch->n] = ommai_prepared_picture_share(picture);
  batch->inputs[batch->n] = (struct ommai_vision_input){.pixels = picture->pixels,
                                                        .n_frames = picture->n_frames,
                                                        .grid_rows = plan->grid_thw[1],
                                                        .grid_columns = plan->grid_thw[2],
                                                        .output = encoded->values};
  batch->n_patches += plan->n_patches;
  batch->n++;
}

static bool has_room(const struct ommai_encode_batch *batch, int64_t patch_budget) {
  return batch->n < batch->capacity && batch->n_patches < patch_budget;
}

bool ommai_encode_batch_invite(struct ommai_encode_batch *batch, const struct omma_request *request, int64_t patch_budget) {
  for (size_t i = 0; i < request->n_pictures && has_room(batch, patch_budget); i++) {
    const struct ommai_prepared_picture *picture = &request->pictures[i];
    size_t n_values = (size_t)ommai_encode_output_size(request->model, picture->plan.n_tokens);
    struct ommai_encoded_picture *encoded;
    if (batch->n_patches + picture->plan.n_patches > patch_budget) continue;
    if (ommai_encoder_cache_find(batch->cache, &request->keys[i]) || !ommai_encoder_cache_has_room(batch->cache, n_values)) {
      continue;
    }
    /* Without memory the picture is encoded when its own request runs. */
    if (ommai_encoder_cache_add(batch->cache, &request->keys[i], n_values, &encoded, NULL) != OMMA_OK) return false;
    encoded->ahead = true;
    ommai_encode_batch_add(batch, picture, encoded);
    ommai_encoder_cache_give_back(batch->cache, encoded);
  }
  return has_room(batch, patch_budget);
}

void ommai_encode_batch_finish(struct ommai_encode_batch *batch) {
  for (int64_t i = 0; i < batch->n; i++) batch->encoded[i]->complete = true;
}
