#include "engine/encoder_cache.h"

#include <string.h>

#include "base/allocator.h"
#include "base/assert.h"
#include "base/error.h"

static int64_t bytes_of(size_t n_values) { return (int64_t)(n_values * sizeof(float)); }

void ommai_encoder_cache_init(struct ommai_encoder_cache *cache, int64_t budget, const struct omma_allocator *allocator) {
  *cache = (struct ommai_encoder_cache){.allocator = *allocator, .budget = budget};
  TAILQ_INIT(&cache->by_use);
  pthread_mutex_init(&cache->lock, NULL);
}

static void destroy(struct ommai_encoder_cache *cache, struct ommai_encoded_image *image) {
  ommai_release(&cache->allocator, image->values, image->n_values, sizeof *image->values);
  ommai_release(&cache->allocator, image, 1, sizeof *image);
}

/* Takes an image without users out of the cache. */
static void forget(struct ommai_encoder_cache *cache, struct ommai_encoded_image *image) {
  OMMAI_ASSERT(image->n_users == 0 && image->kept && cache->counts.bytes >= bytes_of(image->n_values));
  TAILQ_REMOVE(&cache->by_use, image, by_use);
  cache->counts.bytes -= bytes_of(image->n_values);
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

/* Whether values of this size fit besides what is in use. */
static bool has_room(const struct ommai_encoder_cache *cache, size_t n_values) {
  int64_t in_use = 0;
  const struct ommai_encoded_image *image;
  TAILQ_FOREACH(image, &cache->by_use, by_use) {
    if (image->n_users) in_use += bytes_of(image->n_values);
  }
  return bytes_of(n_values) <= cache->budget - in_use;
}

static void make_room(struct ommai_encoder_cache *cache, size_t n_values) {
  struct ommai_encoded_image *image = TAILQ_LAST(&cache->by_use, ommai_images_by_use);
  while (image && cache->counts.bytes + bytes_of(n_values) > cache->budget) {
    struct ommai_encoded_image *newer = TAILQ_PREV(image, ommai_images_by_use, by_use);
    if (image->n_users == 0) {
      forget(cache, image);
      cache->counts.n_evictions++;
    }
    image = newer;
  }
}

/* Under the lock, as all down to the next comment. An image that is not linked in yet, of which the
 * values may be given. */
static struct ommai_encoded_image *make(struct ommai_encoder_cache *cache, const struct ommai_image_key *key, float *values,
                                        size_t n_values) {
  struct ommai_encoded_image *image = ommai_allocate(&cache->allocator, 1, sizeof *image);
  if (!image) return NULL;
  *image = (struct ommai_encoded_image){.key = *key, .values = values, .n_values = n_values};
  if (!values) image->values = ommai_allocate_uninitialised(&cache->allocator, n_values, sizeof *image->values);
  if (image->values) return image;
  destroy(cache, image);
  return NULL;
}

static void keep(struct ommai_encoder_cache *cache, struct ommai_encoded_image *image) {
  OMMAI_ASSERT_LOCKED(&cache->lock);
  image->kept = true;
  TAILQ_INSERT_HEAD(&cache->by_use, image, by_use);
  cache->counts.bytes += bytes_of(image->n_values);
}

static struct ommai_encoded_image *add_new(struct ommai_encoder_cache *cache, const struct ommai_image_key *key,
                                           size_t n_values) {
  bool fits = has_room(cache, n_values);
  if (fits) make_room(cache, n_values);
  struct ommai_encoded_image *image = make(cache, key, NULL, n_values);
  if (!image) return NULL;
  image->n_users = 1;
  if (fits) keep(cache, image);
  return image;
}

/* Takes the values over; false when it does not. */
static bool put_new(struct ommai_encoder_cache *cache, const struct ommai_image_key *key, float *values, size_t n_values) {
  if (find(cache, key) || !has_room(cache, n_values)) return false;
  make_room(cache, n_values);
  struct ommai_encoded_image *image = make(cache, key, values, n_values);
  if (!image) return false;
  image->complete = true;
  keep(cache, image);
  return true;
}

/* The calls that take the lock. */

enum omma_status ommai_encoder_cache_add(struct ommai_encoder_cache *cache, const struct ommai_image_key *key, size_t n_values,
                                         struct ommai_encoded_image **image, struct omma_error *error) {
  pthread_mutex_lock(&cache->lock);
  struct ommai_encoded_image *made = add_new(cache, key, n_values);
  pthread_mutex_unlock(&cache->lock);
  if (!made) return ommai_fail_memory(error, "encoded image", sizeof *made + n_values * sizeof(float));
  *image = made;
  return OMMA_OK;
}

void ommai_encoder_cache_put(struct ommai_encoder_cache *cache, const struct ommai_image_key *key, float *values,
                             size_t n_values) {
  pthread_mutex_lock(&cache->lock);
  bool taken = put_new(cache, key, values, n_values);
  pthread_mutex_unlock(&cache->lock);
  if (!taken) ommai_release(&cache->allocator, values, n_values, sizeof *values);
}

void ommai_encoder_cache_give_back(struct ommai_encoder_cache *cache, struct ommai_encoded_image *image) {
  pthread_mutex_lock(&cache->lock);
  OMMAI_ASSERT(image->n_users > 0);
  bool last = --image->n_users == 0, kept = image->kept;
  if (last && kept && !image->complete) forget(cache, image);
  pthread_mutex_unlock(&cache->lock);
  if (last && !kept) destroy(cache, image);
}
