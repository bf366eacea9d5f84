#include "engine/encoder_cache.h"

#include <string.h>

#include "base/allocator.h"
#include "base/error.h"

static int64_t bytes_of(size_t n_values) { return (int64_t)(n_values * sizeof(float)); }

void ommai_encoder_cache_init(struct ommai_encoder_cache *cache, int64_t budget, const struct omma_allocator *allocator) {
  *cache = (struct ommai_encoder_cache){.allocator = *allocator, .budget = budget};
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
  cache->bytes -= bytes_of(picture->n_values);
  destroy(cache, picture);
}

void ommai_encoder_cache_free(struct ommai_encoder_cache *cache) {
  while (cache->oldest) forget(cache, cache->oldest);
}

static struct ommai_encoded_picture *find(const struct ommai_encoder_cache *cache, const struct ommai_picture_key *key) {
  struct ommai_encoded_picture *picture = cache->newest;
  while (picture && memcmp(&picture->key, key, sizeof *key) != 0) picture = picture->older;
  return picture;
}

struct ommai_encoded_picture *ommai_encoder_cache_take(struct ommai_encoder_cache *cache, const struct ommai_picture_key *key) {
  struct ommai_encoded_picture *picture = find(cache, key);
  if (!picture) {
    cache->n_misses++;
    return NULL;
  }
  cache->n_hits++;
  picture->n_users++;
  unlink_picture(cache, picture);
  link_newest(cache, picture);
  return picture;
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
  while (picture && cache->bytes + bytes_of(n_values) > cache->budget) {
    struct ommai_encoded_picture *newer = picture->newer;
    if (picture->n_users == 0) {
      forget(cache, picture);
      cache->n_evictions++;
    }
    picture = newer;
  }
}

enum omma_status ommai_encoder_cache_add(struct ommai_encoder_cache *cache, const struct ommai_picture_key *key,
                                         size_t n_values, struct ommai_encoded_picture **out, struct omma_error *error) {
  bool keep = has_room(cache, n_values);
  if (keep) make_room(cache, n_values);
  struct ommai_encoded_picture *picture = ommai_allocate(&cache->allocator, 1, sizeof *picture);
  if (!picture) return ommai_fail_memory(error, "encoded picture", sizeof *picture);
  *picture = (struct ommai_encoded_picture){.key = *key, .n_values = n_values, .n_users = 1, .kept = keep};
  picture->values = ommai_allocate_uninitialised(&cache->allocator, n_values, sizeof *picture->values);
  if (!picture->values) {
    destroy(cache, picture);
    return ommai_fail_memory(error, "encoded picture", n_values * sizeof(float));
  }
  if (keep) {
    link_newest(cache, picture);
    cache->bytes += bytes_of(n_values);
  }
  *out = picture;
  return OMMA_OK;
}

void ommai_encoder_cache_give_back(struct ommai_encoder_cache *cache, struct ommai_encoded_picture *picture) {
  if (--picture->n_users > 0) return;
  if (!picture->kept) {
    destroy(cache, picture);
  } else if (!picture->complete) {
    forget(cache, picture);
  }
}
