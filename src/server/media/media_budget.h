/* The memory that images may take while they are decoded, of all requests together. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "server/core/api_error.h"
#include "server/media/media_fetch.h"

struct ommai_media_waiter;

/* Requests get their share in order of arrival, each all it needs at once, so that none waits while
 * it holds a part. */
struct ommai_media_budget {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  int64_t limit, used;                /* bytes */
  struct ommai_media_waiter *waiting; /* first come, first in the list */
};

void ommai_media_budget_init(struct ommai_media_budget *budget, int64_t limit);
void ommai_media_budget_destroy(struct ommai_media_budget *budget);

/* Takes `bytes`, waiting until they are free. False with *error filled: status 400 when the request
 * could never get that many, 503 when stop->deadline_ns passes first; also when stop->ask asks for
 * it that the client is gone. Any thread. */
bool ommai_media_budget_take(struct ommai_media_budget *budget, int64_t bytes, const struct ommai_stop *stop,
                             struct ommai_api_error *error);
void ommai_media_budget_give_back(struct ommai_media_budget *budget, int64_t bytes);
