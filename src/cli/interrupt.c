#include "cli/interrupt.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "cli/diagnostics.h"

/* A signal handler can be told nothing except through globals. */
static atomic_bool deferred;
static atomic_int arrived; /* the signal, or 0 */
static int wake = -1;      /* an eventfd */

void ommai_interrupt_wake(void) {
  uint64_t one = 1;
  ssize_t written = write(wake, &one, sizeof one);
  (void)written;
}

static void handle(int number) {
  int saved = errno;
  if (!atomic_load(&deferred) || atomic_exchange(&arrived, number)) {
    static const char message[] = "\nomma: interrupted\n";
    ssize_t written = write(STDERR_FILENO, message, sizeof message - 1);
    (void)written;
    _exit(OMMAI_EXIT_FAILED);
  }
  ommai_interrupt_wake();
  errno = saved;
}

bool ommai_interrupt_install(void) {
  struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
  sigemptyset(&action.sa_mask);
  wake = eventfd(0, EFD_CLOEXEC);
  return wake >= 0 && sigaction(SIGINT, &action, NULL) == 0 && sigaction(SIGTERM, &action, NULL) == 0;
}

void ommai_interrupt_defer(void) {
  atomic_store(&arrived, 0);
  atomic_store(&deferred, true);
}

void ommai_interrupt_resume(void) { atomic_store(&deferred, false); }

bool ommai_interrupted(void) { return atomic_load(&arrived) != 0; }

bool ommai_interrupt_terminates(void) { return atomic_load(&arrived) == SIGTERM; }

void ommai_interrupt_wait(void) {
  uint64_t count;
  ssize_t got = read(wake, &count, sizeof count);
  (void)got;
}

int ommai_interrupt_descriptor(void) { return wake; }
