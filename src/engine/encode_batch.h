/* The pictures that go through the tower together: those of a request that are not in the cache, and those of requests that wait
 * behind it. One thread. */
#ifndef OMMAI_ENGINE_ENCODE_BATCH_H
#define OMMAI_ENGINE_ENCODE_BATCH_H

#include "engine/encoder_cache.h"
#include "engine/request.h"
#include "vision/vision_run.h"

struct ommai_encode_batch {
  struct omma_allocator allocator;
  struct ommai_encoder_cache *cache;
  struct ommai_vision_input *inputs;       /* [capacity] */
  struct ommai_encoded_picture **encoded;  /* [capacity], a user of each */
  struct ommai_prepared_picture *pictures; /* [capacity], an owner of each one's pixels */
  int64_t n, capacity, n_patches;
};

/* An empty batch. A zeroed one may be freed. Errors: MEMORY. */
enum omma_status ommai_encode_batch_init(struct ommai_encode_batch *batch, struct ommai_encoder_cache *cache, int64_t capacity,
                                         const struct omma_allocator *allocator, struct omma_error *error);

/* Gives back its users and pixels. What was not finished is incomplete. */
void ommai_encode_batch_free(struct ommai_encode_batch *batch);

/* Adds an incomplete picture, where it is not in the batch already and there is room. */
void ommai_encode_batch_add(struct ommai_encode_batch *batch, const struct ommai_prepared_picture *picture,
                            struct ommai_encoded_picture *encoded);

/* Adds pictures of a request that waits, as far as the cache can keep them and the batch stays within patch_budget. False when the batch
 * is full, or memory is out. */
bool ommai_encode_batch_invite(struct ommai_encode_batch *batch, const struct omma_request *request, int64_t patch_budget);

/* All went through the tower. */
void ommai_encode_batch_finish(struct ommai_encode_batch *batch);

#endif
