/* The first error of tasks that run at the same time, for whoever waits for all of them. */
#pragma once

#include <omma/status.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/error.h"

struct ommai_first_error {
  atomic_bool taken;
  struct omma_error error; /* of the task that took it; to be read once all tasks have ended */
};

static inline void ommai_first_error_init(struct ommai_first_error *first) { atomic_init(&first->taken, false); }

/* Keeps a task's error unless another one was first. Thread-safe. */
static inline void ommai_first_error_keep(struct ommai_first_error *first, const struct omma_error *error) {
  if (!atomic_exchange(&first->taken, true)) first->error = *error;
}

/* After the tasks: OK, or the error that was kept, with `where` before its message. */
static inline enum omma_status ommai_first_error_result(const struct ommai_first_error *first, const char *where,
                                                        struct omma_error *error) {
  if (!atomic_load(&first->taken)) return OMMA_OK;
  return ommai_fail_field(error, first->error.status, first->error.field, "%s: %s", where, first->error.message);
}
