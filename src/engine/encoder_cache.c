#include "engine/encoder_cache.h"

#include <string.h>

#include "base/allocator.h"
#include "base/error.h"

static int64_t bytes_of(size_t n_values) { return (int64_t)(n_values * sizeof(float)); }

void ommai_encoder_cache_init(struct ommai_encoder_cache *cache, int64_t budget, const struct omma_allocator *allocator) {
  *cache = (struct ommai_encoder_cache){.allocator = *allocator, .budget = budget};
  pthread_mutex_init(&cache->lock, NULL);
}

static void destroy(struct ommai_encoder_cache *cache, struct ommai_encoded_picture *picture) {
  ommai_release(&cache->allocator, picture->values, picture->n_values, sizeof *picture->values);
  ommai_release(&cache->allocator, picture, 1, sizeof *picture);
}

static void unlink_picture(struct ommai_encoder_cache *cache, struct ommai_encoded_picture *picture) {
  *(picture->older ? &picture->older->newer : &cache->oldest) = picture->newer;
  *(picture->newer ? &picture->newer->older : &cache->newest) = picture->older;
  picture->older = picture->newer = NULL;
}

static void link_newest(struct ommai_encoder_cache *cache, struct ommai_encoded_picture *picture) {
  picture->older = cache->newest;
  *(cache->newest ? &cache->newest->newer : &cache->oldest) = picture;
  cache->newest = picture;
}

/* Takes a picture without users out of the cache. */
static void forget(struct ommai_encoder_cache *cache, struct ommai_encoded_picture *picture) {
  unlink_picture(cache, picture);
  cache->counts.bytes -= bytes_of(picture->n_values);
  destroy(cache, picture);
}

void ommai_encoder_cache_free(struct ommai_encoder_cache *cache) {
  while (cache->oldest) forget(cache, cache->oldest);
  pthread_mutex_destroy(&cache->lock);
}

static struct ommai_encoded_picture *find(const struct ommai_encoder_cache *cache, const struct ommai_picture_key *key) {
  struct ommai_encoded_picture *picture = cache->newest;
  while (picture && memcmp(&picture->key, key, sizeof *key) != 0) picture = picture->older;
  return picture;
}

struct ommai_encoded_picture *ommai_encoder_cache_take(struct ommai_encoder_cache *cache, const struct ommai_picture_key *key) {
  pthread_mutex_lock(&cache->lock);
  struct ommai_encoded_picture *picture = find(cache, key);
  if (picture) {
    cache->counts.n_hits++;
    picture->n_users++;
    unlink_picture(cache, picture);
    link_newest(cache, picture);
  } else {
    cache->counts.n_misses++;
  }
  pthread_mutex_unlock(&cache->lock);
  return picture;
}

void ommai_encoder_cache_share(struct ommai_encoder_cache *cache, struct ommai_encoded_picture *picture) {
  pthread_mutex_lock(&cache->lock);
  picture->n_users++;
  pthread_mutex_unlock(&cache->lock);
}

bool ommai_encoder_cache_has(struct ommai_encoder_cache *cache, const struct ommai_picture_key *key) {
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

/* Whether values of this size fit beside what is in use. */
static bool has_room(const struct ommai_encoder_cache *cache, size_t n_values) {
  int64_t in_use = 0;
  for (const struct ommai_encoded_picture *picture = cache->oldest; picture; picture = picture->newer) {
    if (picture->n_users) in_use += bytes_of(picture->n_values);
  }
  return bytes_of(n_values) <= cache->budget - in_use;
}

static void make_room(struct ommai_encoder_cache *cache, size_t n_values) {
  struct ommai_encoded_picture *picture = cache->oldest;
  while (picture && cache->counts.bytes + bytes_of(n_values) > cache->budget) {
    struct ommai_encoded_picture *newer = picture->newer;
    if (picture->n_users == 0) {
      forget(cache, picture);
      cache->counts.n_evictions++;
    }
    picture = newer;
  }
}

/* Under the lock, as all down to the next comment. A picture that is not linked in yet, of which the values may be given. */
static struct ommai_encoded_picture *make(struct ommai_encoder_cache *cache, const struct ommai_picture_key *key, float *values,
                                          size_t n_values) {
  struct ommai_encoded_picture *picture = ommai_allocate(&cache->allocator, 1, sizeof *picture);
  if (!picture) return NULL;
  *picture = (struct ommai_encoded_picture){.key = *key, .values = values, .n_values = n_values};
  if (!values) picture->values = ommai_allocate_uninitialised(&cache->allocator, n_values, sizeof *picture->values);
  if (picture->values) return picture;
  destroy(cache, picture);
  return NULL;
}

static void keep(struct ommai_encoder_cache *cache, struct ommai_encoded_picture *picture) {
  picture->kept = true;
  link_newest(cache, picture);
  cache->counts.bytes += bytes_of(picture->n_values);
}

static struct ommai_encoded_picture *add_new(struct ommai_encoder_cache *cache, const struct ommai_picture_key *key,
                                             size_t n_values) {
  bool fits = has_room(cache, n_values);
  if (fits) make_room(cache, n_values);
  struct ommai_encoded_picture *picture = make(cache, key, NULL, n_values);
  if (!picture) return NULL;
  picture->n_users = 1;
  if (fits) keep(cache, picture);
  return picture;
}

/* Takes the values over, or says that it does not. */
static bool put_new(struct ommai_encoder_cache *cache, const struct ommai_picture_key *key, float *values, size_t n_values) {
  if (find(cache, key) || !has_room(cache, n_values)) return false;
  make_room(cache, n_values);
  struct ommai_encoded_picture *picture = make(cache, key, values, n_values);
  if (!picture) return false;
  picture->complete = true;
  keep(cache, picture);
  return true;
}

/* The calls that take the lock. */

enum omma_status ommai_encoder_cache_add(struct ommai_encoder_cache *cache, const struct ommai_picture_key *key,
                                         size_t n_values, struct ommai_encoded_picture **picture, struct omma_error *error) {
  pthread_mutex_lock(&cache->lock);
  struct ommai_encoded_picture *made = add_new(cache, key, n_values);
  pthread_mutex_unlock(&cache->lock);
  if (!made) return ommai_fail_memory(error, "encoded picture", sizeof *made + n_values * sizeof(float));
  *picture = made;
  return OMMA_OK;
}

void ommai_encoder_cache_put(struct ommai_encoder_cache *cache, const struct ommai_picture_key *key, float *values,
                             size_t n_values) {
  pthread_mutex_lock(&cache->lock);
  bool taken = put_new(cache, key, values, n_values);
  pthread_mutex_unlock(&cache->lock);
  if (!taken) ommai_release(&cache->allocator, values, n_values, sizeof *values);
}

void ommai_encoder_cache_give_back(struct ommai_encoder_cache *cache, struct ommai_encoded_picture *picture) {
  pthread_mutex_lock(&cache->lock);
  bool last = --picture->n_users == 0, kept = picture->kept;
  if (last && kept && !picture->complete) forget(cache, picture);
  pthread_mutex_unlock(&cache->lock);
  if (last && !kept) destroy(cache, picture);
}
