#include "server/media/media_budget.h"

#include <inttypes.h>

#include "base/checked.h"
#include "base/clock.h"

/* How often one that waits looks whether its client is still there. */
#define LOOK_NS INT64_C(200000000)

void ommai_media_budget_init(struct ommai_media_budget *budget, int64_t limit) {
  *budget = (struct ommai_media_budget){.limit = limit};
  pthread_mutex_init(&budget->lock, NULL);
  ommai_clock_condition_init(&budget->changed);
}

void ommai_media_budget_destroy(struct ommai_media_budget *budget) {
  pthread_cond_destroy(&budget->changed);
  pthread_mutex_destroy(&budget->lock);
}

/* Under the lock, which is free meanwhile. */
static void wait_a_while(struct ommai_media_budget *budget, int64_t deadline_ns) {
  int64_t until = ommai_min_i64(ommai_clock_ns() + LOOK_NS, deadline_ns);
  const struct timespec at = ommai_clock_timespec(until);
  pthread_cond_timedwait(&budget->changed, &budget->lock, &at);
}

/* One that waits, in the list under the lock. It lies on the stack of its thread. */
struct ommai_media_waiter {
  struct ommai_media_waiter *next;
};

static void join_line(struct ommai_media_budget *budget, struct ommai_media_waiter *waiter) {
  struct ommai_media_waiter **at = &budget->waiting;
  while (*at) at = &(*at)->next;
  *at = waiter;
}

static void leave_line(struct ommai_media_budget *budget, const struct ommai_media_waiter *waiter) {
  struct ommai_media_waiter **at = &budget->waiting;
  while (*at != waiter) at = &(*at)->next;
  *at = waiter->next;
  pthread_cond_broadcast(&budget->changed);
}

static bool fail_too_large(const struct ommai_media_budget *budget, int64_t bytes, struct ommai_api_error *error) {
  return ommai_api_fail(error, 400, "image",
                        "Decoding the images of this request takes %" PRId64 " bytes of memory, but this server allows %" PRId64
                        ". Please send fewer or smaller images.",
                        bytes, budget->limit);
}

bool ommai_media_budget_take(struct ommai_media_budget *budget, int64_t bytes, const struct ommai_stop *stop,
                             struct ommai_api_error *error) {
  struct ommai_media_waiter waiter = {.next = NULL};
  bool ended = false, taken = false;
  if (bytes > budget->limit) return fail_too_large(budget, bytes, error);
  pthread_mutex_lock(&budget->lock);
  join_line(budget, &waiter);
  while (!taken && !ended) {
    taken = budget->waiting == &waiter && bytes <= budget->limit - budget->used;
    if (taken) break;
    ended = ommai_clock_ns() >= stop->deadline_ns || stop->ask(stop->context);
    if (!ended) wait_a_while(budget, stop->deadline_ns);
  }
  if (taken) budget->used += bytes;
  leave_line(budget, &waiter);
  pthread_mutex_unlock(&budget->lock);
  return taken || ommai_api_fail(error, 503, NULL, "The server is busy: it decodes as many images as its memory allows.");
}

void ommai_media_budget_give_back(struct ommai_media_budget *budget, int64_t bytes) {
  pthread_mutex_lock(&budget->lock);
  budget->used -= bytes;
  pthread_cond_broadcast(&budget->changed);
  pthread_mutex_unlock(&budget->lock);
}
