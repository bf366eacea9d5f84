#include "engine/page_pool.h"

#include <string.h>

#include "base/allocator.h"
#include "base/assert.h"
#include "base/error.h"

enum { NONE = -1 };

struct page {
  struct omma_kv_page_key key; /* of a published page */
  int32_t n_users;
  bool published;
  int32_t next_in_bucket;
  int32_t older, newer; /* of published pages without users */
};

struct ommai_page_pool {
  struct omma_allocator allocator;
  int64_t n_pages, n_free, n_kept, n_published, n_evictions;
  struct omma_kv_events events; /* without functions: none */
  struct page *pages;           /* [n_pages] */
  int32_t *free_pages;          /* stack [n_pages] */
  int32_t *buckets;             /* [n_pages], first page of each chain */
  int32_t oldest, newest;
};

size_t ommai_page_pool_bytes(int64_t n_pages) {
  return sizeof(struct ommai_page_pool) + (size_t)n_pages * (sizeof(struct page) + 2 * sizeof(int32_t));
}

static void free_all(struct ommai_page_pool *pool) {
  for (int64_t i = 0; i < pool->n_pages; i++) {
    /* the lowest on top, so that a short run touches little memory */
    pool->free_pages[i] = (int32_t)(pool->n_pages - 1 - i);
    pool->buckets[i] = NONE;
    pool->pages[i].published = false;
  }
  pool->n_free = pool->n_pages;
  pool->n_kept = pool->n_published = 0;
  pool->oldest = pool->newest = NONE;
}

enum omma_status ommai_page_pool_create(int64_t n_pages, const struct omma_allocator *allocator, struct ommai_page_pool **out,
                                        struct omma_error *error) {
  struct ommai_page_pool *pool = ommai_allocate(allocator, 1, sizeof *pool);
  if (!pool) return ommai_fail_memory(error, "page pool", sizeof *pool);
  *pool = (struct ommai_page_pool){.allocator = *allocator, .n_pages = n_pages};
  pool->pages = ommai_allocate(allocator, (size_t)n_pages, sizeof *pool->pages);
  pool->free_pages = ommai_allocate(allocator, (size_t)n_pages, sizeof *pool->free_pages);
  pool->buckets = ommai_allocate(allocator, (size_t)n_pages, sizeof *pool->buckets);
  if (!pool->pages || !pool->free_pages || !pool->buckets) {
    ommai_page_pool_destroy(pool);
    return ommai_fail_memory(error, "page pool", ommai_page_pool_bytes(n_pages));
  }
  free_all(pool);
  *out = pool;
  return OMMA_OK;
}

void ommai_page_pool_destroy(struct ommai_page_pool *pool) {
  if (!pool) return;
  struct omma_allocator allocator = pool->allocator;
  size_t n = (size_t)pool->n_pages;
  ommai_release(&allocator, pool->pages, n, sizeof *pool->pages);
  ommai_release(&allocator, pool->free_pages, n, sizeof *pool->free_pages);
  ommai_release(&allocator, pool->buckets, n, sizeof *pool->buckets);
  ommai_release(&allocator, pool, 1, sizeof *pool);
}

void ommai_page_pool_set_events(struct ommai_page_pool *pool, const struct omma_kv_events *events) {
  if (events) pool->events = *events;
}

struct ommai_page_counts ommai_page_pool_counts(const struct ommai_page_pool *pool) {
  return (struct ommai_page_counts){.n_pages = pool->n_pages,
                                    .n_used = pool->n_pages - pool->n_free - pool->n_kept,
                                    .n_kept = pool->n_kept,
                                    .n_published = pool->n_published,
                                    .n_evictions = pool->n_evictions};
}

int64_t ommai_page_pool_available(const struct ommai_page_pool *pool) { return pool->n_free + pool->n_kept; }

/* ---- keys ---- */

static int32_t *bucket_of(const struct ommai_page_pool *pool, const struct omma_kv_page_key *key) {
  uint64_t hash;
  memcpy(&hash, key->bytes, sizeof hash);
  return &pool->buckets[hash % (uint64_t)pool->n_pages];
}

static int32_t find(const struct ommai_page_pool *pool, const struct omma_kv_page_key *key) {
  int32_t page = *bucket_of(pool, key);
  while (page != NONE && memcmp(&pool->pages[page].key, key, sizeof *key) != 0) page = pool->pages[page].next_in_bucket;
  return page;
}

static void unpublish(struct ommai_page_pool *pool, int32_t page) {
  int32_t *link = bucket_of(pool, &pool->pages[page].key);
  while (*link != page) link = &pool->pages[*link].next_in_bucket;
  *link = pool->pages[page].next_in_bucket;
  pool->pages[page].published = false;
  pool->n_published--;
  if (pool->events.removed) pool->events.removed(pool->events.context, &pool->pages[page].key);
}

bool ommai_page_pool_publish(struct ommai_page_pool *pool, int32_t page, const struct omma_kv_page_key *key) {
  OMMAI_ASSERT(page >= 0 && page < pool->n_pages && pool->pages[page].n_users > 0);
  if (pool->pages[page].published || find(pool, key) != NONE) return false;
  int32_t *bucket = bucket_of(pool, key);
  pool->pages[page].key = *key;
  pool->pages[page].published = true;
  pool->pages[page].next_in_bucket = *bucket;
  *bucket = page;
  pool->n_published++;
  return true;
}

/* ---- published pages without users, by age ---- */

static void keep(struct ommai_page_pool *pool, int32_t page) {
  OMMAI_ASSERT(pool->pages[page].published && pool->pages[page].n_users == 0);
  pool->pages[page].older = pool->newest;
  pool->pages[page].newer = NONE;
  *(pool->newest == NONE ? &pool->oldest : &pool->pages[pool->newest].newer) = page;
  pool->newest = page;
  pool->n_kept++;
}

static void unkeep(struct ommai_page_pool *pool, int32_t page) {
  const struct page *at = &pool->pages[page];
  OMMAI_ASSERT(pool->n_kept > 0 && at->published);
  *(at->older == NONE ? &pool->oldest : &pool->pages[at->older].newer) = at->newer;
  *(at->newer == NONE ? &pool->newest : &pool->pages[at->newer].older) = at->older;
  pool->n_kept--;
}

/* ---- users ---- */

int64_t ommai_page_pool_find(const struct ommai_page_pool *pool, const struct omma_kv_page_key *keys, int64_t n,
                             int64_t *n_kept) {
  int64_t found = 0;
  *n_kept = 0;
  for (; found < n; found++) {
    int32_t page = find(pool, &keys[found]);
    if (page == NONE) break;
    *n_kept += pool->pages[page].n_users == 0;
  }
  return found;
}

int64_t ommai_page_pool_match(struct ommai_page_pool *pool, const struct omma_kv_page_key *keys, int64_t n, int32_t *pages) {
  int64_t found = 0;
  for (; found < n; found++) {
    int32_t page = find(pool, &keys[found]);
    if (page == NONE) break;
    if (pool->pages[page].n_users++ == 0) unkeep(pool, page);
    pages[found] = page;
  }
  return found;
}

static int32_t take_one(struct ommai_page_pool *pool) {
  if (pool->n_free) return pool->free_pages[--pool->n_free];
  int32_t page = pool->oldest;
  OMMAI_ASSERT(page != NONE && pool->pages[page].n_users == 0);
  unkeep(pool, page);
  unpublish(pool, page);
  pool->n_evictions++;
  return page;
}

bool ommai_page_pool_take(struct ommai_page_pool *pool, int64_t n, int32_t *pages) {
  if (n > ommai_page_pool_available(pool)) return false;
  for (int64_t i = 0; i < n; i++) {
    pages[i] = take_one(pool);
    pool->pages[pages[i]].n_users = 1;
  }
  return true;
}

void ommai_page_pool_drop(struct ommai_page_pool *pool, const struct omma_kv_page_key *key) {
  int32_t page = find(pool, key);
  if (page == NONE || pool->pages[page].n_users > 0) return;
  unkeep(pool, page);
  unpublish(pool, page);
  pool->n_evictions++;
  pool->free_pages[pool->n_free++] = page;
}

void ommai_page_pool_clear(struct ommai_page_pool *pool) {
  OMMAI_ASSERT(ommai_page_pool_available(pool) == pool->n_pages);
  free_all(pool);
}

void ommai_page_pool_give_back(struct ommai_page_pool *pool, int64_t n, const int32_t *pages) {
  /* From the end, so that of one prompt the end is older than the beginning. */
  for (int64_t i = n - 1; i >= 0; i--) {
    struct page *page = &pool->pages[pages[i]];
    OMMAI_ASSERT(page->n_users > 0);
    if (--page->n_users > 0) continue;
    if (page->published) {
      keep(pool, pages[i]);
    } else {
      OMMAI_ASSERT(pool->n_free + pool->n_kept < pool->n_pages);
      pool->free_pages[pool->n_free++] = pages[i];
    }
  }
}
