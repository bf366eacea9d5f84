#include "fake_sleep.h"

#include <omma/omma.h>
#include <stdatomic.h>
#include <time.h>

static atomic_bool asleep; /* a process has one engine */

bool fake_is_asleep(void) { return atomic_load(&asleep); }

enum omma_status omma_engine_sleep(struct omma_engine *engine, struct omma_error *error) {
  struct omma_engine_stats stats;
  (void)error;
  atomic_store(&asleep, true);
  do {
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    omma_engine_get_stats(engine, &stats);
  } while (stats.n_running);
  return OMMA_OK;
}

void omma_engine_wake(struct omma_engine *engine) {
  (void)engine;
  atomic_store(&asleep, false);
}
