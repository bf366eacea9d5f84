#include "server/publish/kv_event_queue.h"

#include <string.h>

#include "base/allocator.h"

void ommai_kv_event_queue_init(struct ommai_kv_event_queue *queue, int64_t max_events, const struct omma_allocator *allocator) {
  *queue = (struct ommai_kv_event_queue){.allocator = *allocator, .max_events = max_events, .cleared = true};
  queue->last = &queue->first;
  pthread_mutex_init(&queue->lock, NULL);
}

void ommai_kv_events_free(const struct ommai_kv_event_queue *queue, struct ommai_kv_event *events) {
  while (events) {
    struct ommai_kv_event *next = events->next;
    ommai_release(&queue->allocator, events, events->size, 1);
    events = next;
  }
}

void ommai_kv_event_queue_free(struct ommai_kv_event_queue *queue) {
  ommai_kv_events_free(queue, queue->first);
  pthread_mutex_destroy(&queue->lock);
}

const char *ommai_kv_event_salt(const struct ommai_kv_event *event) { return (const char *)&event->images[event->n_images]; }

/* ---- the engines' side ---- */

/* Empties the queue; lost: for a reason that loses what waits, and n more. */
static void empty(struct ommai_kv_event_queue *queue, bool lost, int64_t n) {
  pthread_mutex_lock(&queue->lock);
  struct ommai_kv_event *events = queue->first;
  if (lost) queue->n_lost += queue->n_events + n;
  queue->n_events = 0;
  queue->bytes = 0;
  queue->first = NULL;
  queue->last = &queue->first;
  queue->cleared = true;
  pthread_mutex_unlock(&queue->lock);
  ommai_kv_events_free(queue, events);
}

static struct ommai_kv_event *make(struct ommai_kv_event_queue *queue, int rank, const struct omma_kv_page_key *key,
                                   int64_t n_images, size_t salt_size) {
  size_t size = sizeof(struct ommai_kv_event) + (size_t)n_images * sizeof(struct omma_kv_page_image) + salt_size;
  struct ommai_kv_event *event =
      size <= OMMAI_KV_EVENT_QUEUE_BYTES ? ommai_allocate_uninitialised(&queue->allocator, size, 1) : NULL;
  if (!event) return NULL;
  *event = (struct ommai_kv_event){.size = size, .rank = rank, .n_images = n_images, .key = *key};
  return event;
}

static bool put(struct ommai_kv_event_queue *queue, struct ommai_kv_event *event) {
  pthread_mutex_lock(&queue->lock);
  bool fits = event && queue->n_events < queue->max_events && event->size <= OMMAI_KV_EVENT_QUEUE_BYTES - queue->bytes,
       was_empty = false;
  if (fits) {
    was_empty = !queue->first;
    *queue->last = event;
    queue->last = &event->next;
    queue->n_events++;
    queue->bytes += event->size;
  }
  pthread_mutex_unlock(&queue->lock);
  if (fits) return was_empty;
  ommai_kv_events_free(queue, event);
  empty(queue, true, 1);
  return true;
}

bool ommai_kv_event_queue_store(struct ommai_kv_event_queue *queue, int rank, const struct omma_kv_page *page) {
  size_t salt_size = page->cache_salt ? strlen(page->cache_salt) + 1 : 0;
  struct ommai_kv_event *event = make(queue, rank, &page->key, page->n_images, salt_size);
  if (event) {
    event->stored = true;
    event->has_parent = page->parent != NULL;
    event->has_salt = page->cache_salt != NULL;
    if (page->parent) event->parent = *page->parent;
    memcpy(event->tokens, page->tokens, sizeof event->tokens);
    if (page->n_images) memcpy(event->images, page->images, (size_t)page->n_images * sizeof *page->images);
    if (salt_size) memcpy(&event->images[page->n_images], page->cache_salt, salt_size);
  }
  return put(queue, event);
}

bool ommai_kv_event_queue_remove(struct ommai_kv_event_queue *queue, int rank, const struct omma_kv_page_key *key) {
  return put(queue, make(queue, rank, key, 0, 0));
}

void ommai_kv_event_queue_clear(struct ommai_kv_event_queue *queue) { empty(queue, false, 0); }

/* ---- the publisher's side ---- */

struct ommai_kv_event *ommai_kv_event_queue_take(struct ommai_kv_event_queue *queue, int64_t n, bool *cleared) {
  struct ommai_kv_event *first, **end = &first;
  pthread_mutex_lock(&queue->lock);
  *cleared = queue->cleared;
  queue->cleared = false;
  first = queue->first;
  for (; n > 0 && *end && (*end)->rank == first->rank; n--) {
    queue->n_events--;
    queue->bytes -= (*end)->size;
    end = &(*end)->next;
  }
  queue->first = *end;
  if (!queue->first) queue->last = &queue->first;
  *end = NULL;
  pthread_mutex_unlock(&queue->lock);
  return first;
}

void ommai_kv_event_queue_lose(struct ommai_kv_event_queue *queue, const struct ommai_kv_event *events) {
  int64_t n = 0;
  for (; events; events = events->next) n++;
  empty(queue, true, n);
}

int64_t ommai_kv_event_queue_lost(const struct ommai_kv_event_queue *queue) {
  struct ommai_kv_event_queue *shared = (struct ommai_kv_event_queue *)(uintptr_t)queue;
  pthread_mutex_lock(&shared->lock);
  int64_t n = shared->n_lost;
  pthread_mutex_unlock(&shared->lock);
  return n;
}
