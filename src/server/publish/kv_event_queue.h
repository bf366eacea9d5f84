/* Events of KV caches between the engines' threads, which make them, and the publisher, which takes
 * them.
 *
 * What does not fit is lost, and with it all that waits: the publisher then publishes that nothing
 * of before counts, so that whoever listens may know less than the cache has and never more.
 * Putting takes no longer than a copy; no thread waits for another. */
#pragma once

#include <omma/omma.h>
#include <pthread.h>

/* Of all events that wait, next to the number that the queue is made for. */
#define OMMAI_KV_EVENT_QUEUE_BYTES ((size_t)64 << 20)

struct ommai_kv_event {
  struct ommai_kv_event *next;
  size_t size; /* of this, with what is after it */
  int rank;    /* the engine's, from 0 */
  bool stored, has_parent, has_salt;
  struct omma_kv_page_key key, parent;
  /* this and all below only of a page that was stored */
  int32_t tokens[OMMA_ATTENTION_PAGE_TOKENS];
  int64_t n_images;
  struct omma_kv_page_image images[]; /* [n_images], then the salt */
};

struct ommai_kv_event_queue {
  struct omma_allocator allocator;
  pthread_mutex_t lock;
  struct ommai_kv_event *first, **last;
  int64_t n_events, max_events, n_lost;
  size_t bytes;
  bool cleared; /* nothing that was sent before counts */
};

/* In the beginning nothing counts. max_events: at least 1. */
void ommai_kv_event_queue_init(struct ommai_kv_event_queue *queue, int64_t max_events, const struct omma_allocator *allocator);
void ommai_kv_event_queue_free(struct ommai_kv_event_queue *queue);

/* Both return true where the queue was empty: the publisher is to be woken. */
bool ommai_kv_event_queue_store(struct ommai_kv_event_queue *queue, int rank, const struct omma_kv_page *page);
bool ommai_kv_event_queue_remove(struct ommai_kv_event_queue *queue, int rank, const struct omma_kv_page_key *key);

/* Nothing that was put or sent before counts, of any rank; the publisher is to be woken. */
void ommai_kv_event_queue_clear(struct ommai_kv_event_queue *queue);

/* The oldest events of one rank, n at most, in order; NULL: none. *cleared: they follow on the news
 * that nothing sent before counts. The caller frees them. */
struct ommai_kv_event *ommai_kv_event_queue_take(struct ommai_kv_event_queue *queue, int64_t n, bool *cleared);
void ommai_kv_events_free(const struct ommai_kv_event_queue *queue, struct ommai_kv_event *events);

/* Events that were taken could not be sent. */
void ommai_kv_event_queue_lose(struct ommai_kv_event_queue *queue, const struct ommai_kv_event *events);

/* Events that no subscriber got. Thread-safe. */
int64_t ommai_kv_event_queue_lost(const struct ommai_kv_event_queue *queue);

/* The salt of a stored page that has one. */
const char *ommai_kv_event_salt(const struct ommai_kv_event *event);
