/* Who uses which KV page, and what the pages of finished prompts hold.
 *
 * A page is free, or has users. A page that prefill has filled wholly may be published under a key:
 * later prompts that begin alike take it as another user. A published page without users stays
 * until its space is needed; the least recently used is evicted first, and the end of a prompt
 * before its beginning. Nothing writes into a published page. One thread. */
#pragma once

#include <omma/host.h>
#include <omma/kv_events.h>
#include <omma/status.h>
#include <stdbool.h>
#include <stdint.h>

struct ommai_page_pool;

struct ommai_page_counts {
  int64_t n_pages, n_used; /* used: with users */
  int64_t n_kept;          /* published, without users */
  int64_t n_published;     /* in all */
  int64_t n_evictions;
};

/* Bytes that a pool of n_pages takes. */
size_t ommai_page_pool_bytes(int64_t n_pages);
/* All pages free. n_pages 1 .. INT32_MAX / 2. Errors: MEMORY. */
enum omma_status ommai_page_pool_create(int64_t n_pages, const struct omma_allocator *allocator, struct ommai_page_pool **pool,
                                        struct omma_error *error);
/* NULL is allowed. */
void ommai_page_pool_destroy(struct ommai_page_pool *pool);

/* Who gets the events of published pages whose place is taken; copied. NULL: nobody. */
void ommai_page_pool_set_events(struct ommai_page_pool *pool, const struct omma_kv_events *events);

struct ommai_page_counts ommai_page_pool_counts(const struct ommai_page_pool *pool);

/* Pages that could be taken now: free ones, and published ones without users. */
int64_t ommai_page_pool_available(const struct ommai_page_pool *pool);

/* How many of the n keys, from the first on, name published pages; *n_kept: how many of these have
 * no users. */
int64_t ommai_page_pool_find(const struct ommai_page_pool *pool, const struct omma_kv_page_key *keys, int64_t n,
                             int64_t *n_kept);

/* The same pages with a user more each, into pages[]; returns how many. */
int64_t ommai_page_pool_match(struct ommai_page_pool *pool, const struct omma_kv_page_key *keys, int64_t n, int32_t *pages);

/* Takes n pages with unknown content, one user each, into pages[0 .. n), or none: false when fewer
 * are available. */
bool ommai_page_pool_take(struct ommai_page_pool *pool, int64_t n, int32_t *pages);

/* Names a page in use, not to be written any more. Where another page has the key already, or the
 * page has one, nothing happens: false. */
bool ommai_page_pool_publish(struct ommai_page_pool *pool, int32_t page, const struct omma_kv_page_key *key);

/* Forgets what a page without users holds that has the key; nothing happens where none has. */
void ommai_page_pool_drop(struct ommai_page_pool *pool, const struct omma_kv_page_key *key);

/* Forgets all, as if new, without events. No page has users. */
void ommai_page_pool_clear(struct ommai_page_pool *pool);

/* One user less of each; in the order of the sequence. */
void ommai_page_pool_give_back(struct ommai_page_pool *pool, int64_t n, const int32_t *pages);
