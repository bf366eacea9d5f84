#include "engine/encoder_cache.h"

#include <string.h>

#include "base/allocator.h"
#include "base/assert.h"
#include "base/error.h"

static int64_t bytes_of(const struct ommai_encoded_image *image) { return (int64_t)ommai_image_rows_size(image->rows); }

void ommai_encoder_cache_init(struct ommai_encoder_cache *cache, const struct ommai_image_shape *shape, int64_t budget,
                              const struct omma_allocator *allocator) {
  *cache = (struct ommai_encoder_cache){.allocator = *allocator, .shape = *shape, .budget = budget};
  TAILQ_INIT(&cache->by_use);
  pthread_mutex_init(&cache->lock, NULL);
}

static void destroy(struct ommai_encoder_cache *cache, struct ommai_encoded_image *image) {
  ommai_image_rows_free(image->rows);
  ommai_release(&cache->allocator, image, 1, sizeof *image);
}

static void unkeep(struct ommai_encoder_cache *cache, struct ommai_encoded_image *image) {
  OMMAI_ASSERT(image->kept && cache->counts.bytes >= bytes_of(image));
  TAILQ_REMOVE(&cache->by_use, image, by_use);
  cache->counts.bytes -= bytes_of(image);
  image->kept = false;
}

/* Takes an image without users out of the cache. */
static void forget(struct ommai_encoder_cache *cache, struct ommai_encoded_image *image) {
  OMMAI_ASSERT(image->n_users == 0);
  unkeep(cache, image);
  destroy(cache, image);
}

void ommai_encoder_cache_free(struct ommai_encoder_cache *cache) {
  while (!TAILQ_EMPTY(&cache->by_use)) forget(cache, TAILQ_FIRST(&cache->by_use));
  pthread_mutex_destroy(&cache->lock);
}

static struct ommai_encoded_image *find(const struct ommai_encoder_cache *cache, const struct ommai_image_key *key) {
  struct ommai_encoded_image *image = TAILQ_FIRST(&cache->by_use);
  while (image && memcmp(&image->key, key, sizeof *key) != 0) image = TAILQ_NEXT(image, by_use);
  return image;
}

struct ommai_encoded_image *ommai_encoder_cache_take(struct ommai_encoder_cache *cache, const struct ommai_image_key *key) {
  pthread_mutex_lock(&cache->lock);
  struct ommai_encoded_image *image = find(cache, key);
  if (image) {
    cache->counts.n_hits++;
    image->n_users++;
    TAILQ_REMOVE(&cache->by_use, image, by_use);
    TAILQ_INSERT_HEAD(&cache->by_use, image, by_use);
  } else {
    cache->counts.n_misses++;
  }
  pthread_mutex_unlock(&cache->lock);
  return image;
}

void ommai_encoder_cache_share(struct ommai_encoder_cache *cache, struct ommai_encoded_image *image) {
  pthread_mutex_lock(&cache->lock);
  OMMAI_ASSERT(image->n_users > 0);
  image->n_users++;
  pthread_mutex_unlock(&cache->lock);
}

bool ommai_encoder_cache_has(struct ommai_encoder_cache *cache, const struct ommai_image_key *key) {
  pthread_mutex_lock(&cache->lock);
  bool found = find(cache, key) != NULL;
  pthread_mutex_unlock(&cache->lock);
  return found;
}

struct ommai_encoder_cache_counts ommai_encoder_cache_counts(struct ommai_encoder_cache *cache) {
  pthread_mutex_lock(&cache->lock);
  struct ommai_encoder_cache_counts counts = cache->counts;
  pthread_mutex_unlock(&cache->lock);
  return counts;
}

/* Whether rows of this size fit besides what is in use. */
static bool has_room(const struct ommai_encoder_cache *cache, int64_t bytes) {
  int64_t in_use = 0;
  const struct ommai_encoded_image *image;
  TAILQ_FOREACH(image, &cache->by_use, by_use) {
    if (image->n_users) in_use += bytes_of(image);
  }
  return bytes <= cache->budget - in_use;
}

static void make_room(struct ommai_encoder_cache *cache, int64_t bytes) {
  struct ommai_encoded_image *image = TAILQ_LAST(&cache->by_use, ommai_images_by_use);
  while (image && cache->counts.bytes + bytes > cache->budget) {
    struct ommai_encoded_image *newer = TAILQ_PREV(image, ommai_images_by_use, by_use);
    if (image->n_users == 0) {
      forget(cache, image);
      cache->counts.n_evictions++;
    }
    image = newer;
  }
}

/* Under the lock, as all down to the next comment. */
static void keep(struct ommai_encoder_cache *cache, struct ommai_encoded_image *image) {
  OMMAI_ASSERT_LOCKED(&cache->lock);
  image->kept = true;
  TAILQ_INSERT_HEAD(&cache->by_use, image, by_use);
  cache->counts.bytes += bytes_of(image);
}

static enum omma_status add_new(struct ommai_encoder_cache *cache, const struct ommai_image_key *key, int64_t n_tokens,
                                struct ommai_encoded_image **out, struct omma_error *error) {
  int64_t bytes = (int64_t)ommai_image_rows_bytes(&cache->shape, n_tokens);
  bool fits = has_room(cache, bytes);
  if (fits) make_room(cache, bytes);
  struct ommai_encoded_image *image = ommai_allocate(&cache->allocator, 1, sizeof *image);
  if (!image) return ommai_fail_memory(error, "encoded image", sizeof *image);
  *image = (struct ommai_encoded_image){.key = *key, .n_users = 1};
  enum omma_status status = ommai_image_rows_create(&cache->shape, n_tokens, &cache->allocator, &image->rows, error);
  if (status != OMMA_OK) {
    destroy(cache, image);
    return status;
  }
  if (fits) keep(cache, image);
  *out = image;
  return OMMA_OK;
}

/* Takes the rows over; false when it does not. */
static bool put_new(struct ommai_encoder_cache *cache, const struct ommai_image_key *key, struct ommai_image_rows *rows) {
  int64_t bytes = (int64_t)ommai_image_rows_size(rows);
  if (find(cache, key) || !has_room(cache, bytes)) return false;
  make_room(cache, bytes);
  struct ommai_encoded_image *image = ommai_allocate(&cache->allocator, 1, sizeof *image);
  if (!image) return false;
  *image = (struct ommai_encoded_image){.key = *key, .rows = rows, .complete = true};
  keep(cache, image);
  return true;
}

/* The calls that take the lock. */

enum omma_status ommai_encoder_cache_add(struct ommai_encoder_cache *cache, const struct ommai_image_key *key, int64_t n_tokens,
                                         struct ommai_encoded_image **image, struct omma_error *error) {
  pthread_mutex_lock(&cache->lock);
  enum omma_status status = add_new(cache, key, n_tokens, image, error);
  pthread_mutex_unlock(&cache->lock);
  return status;
}

void ommai_encoder_cache_put(struct ommai_encoder_cache *cache, const struct ommai_image_key *key,
                             struct ommai_image_rows *rows) {
  pthread_mutex_lock(&cache->lock);
  bool taken = put_new(cache, key, rows);
  pthread_mutex_unlock(&cache->lock);
  if (!taken) ommai_image_rows_free(rows);
}

void ommai_encoder_cache_clear(struct ommai_encoder_cache *cache) {
  struct ommai_encoded_image *image;
  pthread_mutex_lock(&cache->lock);
  while ((image = TAILQ_FIRST(&cache->by_use))) {
    unkeep(cache, image);
    if (image->n_users == 0) destroy(cache, image);
  }
  pthread_mutex_unlock(&cache->lock);
}

void ommai_encoder_cache_give_back(struct ommai_encoder_cache *cache, struct ommai_encoded_image *image) {
  pthread_mutex_lock(&cache->lock);
  OMMAI_ASSERT(image->n_users > 0);
  bool last = --image->n_users == 0, kept = image->kept;
  if (last && kept && !image->complete) forget(cache, image);
  pthread_mutex_unlock(&cache->lock);
  if (last && !kept) destroy(cache, image);
}
