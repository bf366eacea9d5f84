#include "model/image_store.h"

#include <pthread.h>
#include <string.h>
#include <sys/queue.h>

#include "base/allocator.h"
#include "base/error.h"
#include "model/prepared_image.h"

enum { BUCKETS = 1024 };

struct entry {
  struct ommai_image_name name;
  struct ommai_prepared_image image;
  struct entry *next; /* in its bucket */
  TAILQ_ENTRY(entry) by_use;
};

struct ommai_image_store {
  struct omma_allocator allocator;
  int64_t budget;
  pthread_mutex_t lock; /* of all below */
  bool closed;
  int64_t bytes;
  struct entry *buckets[BUCKETS];
  TAILQ_HEAD(by_use, entry) by_use; /* the latest first */
};

enum omma_status ommai_image_store_create(int64_t budget, const struct omma_allocator *allocator,
                                          struct ommai_image_store **out, struct omma_error *error) {
  struct ommai_image_store *store = ommai_allocate(allocator, 1, sizeof *store);
  if (!store) return ommai_fail_memory(error, "store of images", sizeof *store);
  store->allocator = *allocator;
  store->budget = budget;
  pthread_mutex_init(&store->lock, NULL);
  TAILQ_INIT(&store->by_use);
  *out = store;
  return OMMA_OK;
}

static struct entry **bucket_of(struct ommai_image_store *store, const struct ommai_image_name *name) {
  return &store->buckets[(name->digest[0] | (size_t)name->digest[1] << 8) % BUCKETS];
}

static bool same(const struct ommai_image_name *a, const struct ommai_image_name *b) {
  return !memcmp(a->digest, b->digest, sizeof a->digest) && ommai_fitted_size_equals(&a->size, &b->size);
}

static struct entry *find(struct ommai_image_store *store, const struct ommai_image_name *name) {
  struct entry *entry = *bucket_of(store, name);
  while (entry && !same(&entry->name, name)) entry = entry->next;
  return entry;
}

static void forget(struct ommai_image_store *store, struct entry *entry) {
  struct entry **at = bucket_of(store, &entry->name);
  while (*at != entry) at = &(*at)->next;
  *at = entry->next;
  TAILQ_REMOVE(&store->by_use, entry, by_use);
  store->bytes -= (int64_t)ommai_prepared_image_bytes(&entry->image);
  ommai_prepared_image_free(&entry->image);
  ommai_release(&store->allocator, entry, 1, sizeof *entry);
}

static void forget_all(struct ommai_image_store *store) {
  while (!TAILQ_EMPTY(&store->by_use)) forget(store, TAILQ_FIRST(&store->by_use));
}

void ommai_image_store_destroy(struct ommai_image_store *store) {
  if (!store) return;
  forget_all(store);
  pthread_mutex_destroy(&store->lock);
  struct omma_allocator allocator = store->allocator;
  ommai_release(&allocator, store, 1, sizeof *store);
}

bool ommai_image_store_find(struct ommai_image_store *store, const struct ommai_image_name *name,
                            struct ommai_prepared_image *image) {
  pthread_mutex_lock(&store->lock);
  struct entry *entry = find(store, name);
  if (entry) {
    TAILQ_REMOVE(&store->by_use, entry, by_use);
    TAILQ_INSERT_HEAD(&store->by_use, entry, by_use);
    *image = ommai_prepared_image_share(&entry->image);
  }
  pthread_mutex_unlock(&store->lock);
  return entry != NULL;
}

void ommai_image_store_keep(struct ommai_image_store *store, const struct ommai_image_name *name,
                            const struct ommai_prepared_image *image) {
  int64_t bytes = (int64_t)ommai_prepared_image_bytes(image);
  if (bytes > store->budget) return;
  struct entry *entry = ommai_allocate(&store->allocator, 1, sizeof *entry);
  if (!entry) return;
  pthread_mutex_lock(&store->lock);
  bool is_new = !store->closed && !find(store, name);
  if (is_new) {
    while (store->bytes + bytes > store->budget) forget(store, TAILQ_LAST(&store->by_use, by_use));
    struct entry **bucket = bucket_of(store, name);
    *entry = (struct entry){.name = *name, .image = ommai_prepared_image_share(image), .next = *bucket};
    *bucket = entry;
    TAILQ_INSERT_HEAD(&store->by_use, entry, by_use);
    store->bytes += bytes;
  }
  pthread_mutex_unlock(&store->lock);
  if (!is_new) ommai_release(&store->allocator, entry, 1, sizeof *entry);
}

bool ommai_image_store_evict_oldest(struct ommai_image_store *store) {
  pthread_mutex_lock(&store->lock);
  bool any = !TAILQ_EMPTY(&store->by_use);
  if (any) forget(store, TAILQ_LAST(&store->by_use, by_use));
  pthread_mutex_unlock(&store->lock);
  return any;
}

void ommai_image_store_close(struct ommai_image_store *store) {
  pthread_mutex_lock(&store->lock);
  store->closed = true;
  forget_all(store);
  pthread_mutex_unlock(&store->lock);
}

void ommai_image_store_open(struct ommai_image_store *store) {
  pthread_mutex_lock(&store->lock);
  store->closed = false;
  pthread_mutex_unlock(&store->lock);
}

int64_t ommai_image_store_budget(const struct ommai_image_store *store) { return store->budget; }
