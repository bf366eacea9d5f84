/* Outputs of the tower, found by a hash of its input: an image that comes again is not encoded
 * again.
 *
 * It has a byte budget and evicts the least recently used entry first, never one in use. One thread
 * takes entries and gives them back. Others may look up, add outputs that they have from elsewhere,
 * and give back complete images that were shared with them. */
#pragma once

#include <omma/host.h>
#include <omma/status.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "model/prepared_image.h"
#include "runner/image_rows.h"

/* One image's output. */
struct ommai_encoded_image {
  struct ommai_image_key key;
  struct ommai_image_rows *rows;
  bool complete;   /* the rows are there */
  int64_t n_users; /* changed under the lock, of an incomplete image by the one thread alone */
  bool kept;       /* by the cache; else it goes with its last user */
  TAILQ_ENTRY(ommai_encoded_image) by_use;
};

struct ommai_encoder_cache_counts {
  int64_t bytes; /* of all kept rows */
  int64_t n_hits, n_misses, n_evictions;
};

struct ommai_encoder_cache {
  struct omma_allocator allocator;
  struct ommai_image_shape shape;
  int64_t budget;
  pthread_mutex_t lock; /* of all below */
  struct ommai_encoder_cache_counts counts;
  TAILQ_HEAD(ommai_images_by_use, ommai_encoded_image) by_use; /* the latest first */
};

/* budget 0: nothing is kept. */
void ommai_encoder_cache_init(struct ommai_encoder_cache *cache, const struct ommai_image_shape *shape, int64_t budget,
                              const struct omma_allocator *allocator);
/* No image may have users. */
void ommai_encoder_cache_free(struct ommai_encoder_cache *cache);

/* The kept image with this key, complete or not, with one user more; NULL where there is none.
 * Counted as a hit or a miss. */
struct ommai_encoded_image *ommai_encoder_cache_take(struct ommai_encoder_cache *cache, const struct ommai_image_key *key);

/* A new image, incomplete, with one user; older ones without users make room for it. Where it has
 * no room it is not kept. Errors: MEMORY. */
enum omma_status ommai_encoder_cache_add(struct ommai_encoder_cache *cache, const struct ommai_image_key *key, int64_t n_tokens,
                                         struct ommai_encoded_image **image, struct omma_error *error);

/* One user more of an image that has users. */
void ommai_encoder_cache_share(struct ommai_encoder_cache *cache, struct ommai_encoded_image *image);

/* Whether there is an image with this key, complete or not. Any thread. */
bool ommai_encoder_cache_has(struct ommai_encoder_cache *cache, const struct ommai_image_key *key);

/* Keeps a complete image from elsewhere, where it has room and there is none with its key; without
 * users, like one that the last user gave back. Takes the rows over. Any thread. */
void ommai_encoder_cache_put(struct ommai_encoder_cache *cache, const struct ommai_image_key *key,
                             struct ommai_image_rows *rows);

/* Keeps none any more: those in use go with their last users. Any thread. */
void ommai_encoder_cache_clear(struct ommai_encoder_cache *cache);

/* Any thread. */
struct ommai_encoder_cache_counts ommai_encoder_cache_counts(struct ommai_encoder_cache *cache);

/* One user less. The last user's incomplete image is forgotten. Any thread, of a complete image. */
void ommai_encoder_cache_give_back(struct ommai_encoder_cache *cache, struct ommai_encoded_image *image);
