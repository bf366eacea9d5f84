#include "cli/core/interrupt.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "cli/core/diagnostics.h"

/* A signal handler can be passed nothing except through globals. */
static atomic_bool deferred;
static atomic_int arrived; /* the signal, or 0 */
static atomic_bool resumed;
static _Atomic(const char *) last_words;
static int wake = -1; /* an eventfd */

void ommai_interrupt_wake(void) {
  uint64_t one = 1;
  ssize_t written = write(wake, &one, sizeof one);
  (void)written;
}

static void put(const char *words) {
  ssize_t written = write(STDERR_FILENO, words, strlen(words));
  (void)written;
}

static void handle(int number) {
  int saved = errno;
  if (!atomic_load(&deferred) || atomic_exchange(&arrived, number)) {
    const char *words = atomic_load(&last_words);
    put("\nomma: interrupted");
    if (words) put(": "), put(words);
    put("\n");
    _exit(OMMAI_EXIT_SIGNAL + number);
  }
  ommai_interrupt_wake();
  errno = saved;
}

bool ommai_interrupt_install(void) {
  struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
  sigemptyset(&action.sa_mask);
  signal(SIGXFSZ, SIG_IGN);
  wake = eventfd(0, EFD_CLOEXEC);
  return wake >= 0 && sigaction(SIGINT, &action, NULL) == 0 && sigaction(SIGTERM, &action, NULL) == 0;
}

void ommai_interrupt_defer(void) {
  atomic_store(&arrived, 0);
  atomic_store(&deferred, true);
}

void ommai_interrupt_say(const char *words) { atomic_store(&last_words, words); }

void ommai_interrupt_resume(void) { atomic_store(&deferred, false); }

bool ommai_interrupted(void) { return atomic_load(&arrived) != 0; }

int ommai_interrupt_status(void) { return OMMAI_EXIT_SIGNAL + atomic_load(&arrived); }

bool ommai_interrupt_terminates(void) { return atomic_load(&arrived) == SIGTERM; }

void ommai_interrupt_wait(void) {
  uint64_t count;
  ssize_t got = read(wake, &count, sizeof count);
  (void)got;
}

void ommai_interrupt_wait_or_read(int descriptor) {
  struct pollfd sources[] = {{.fd = descriptor, .events = POLLIN}, {.fd = wake, .events = POLLIN}};
  if (poll(sources, 2, -1) > 0 && sources[1].revents) ommai_interrupt_wait();
}

enum ommai_wait ommai_interrupt_wait_for(int descriptor) {
  struct pollfd sources[] = {{.fd = descriptor, .events = POLLIN}, {.fd = wake, .events = POLLIN}};
  while (!ommai_interrupted()) {
    if (poll(sources, 2, -1) < 0) continue;
    if (sources[1].revents) ommai_interrupt_wait();
    if (atomic_exchange(&resumed, false)) return OMMAI_WAIT_RESUMED;
    if (sources[0].revents && !ommai_interrupted()) return OMMAI_WAIT_READY;
  }
  return OMMAI_WAIT_INTERRUPTED;
}

static void handle_resume(int number) {
  int saved = errno;
  (void)number;
  atomic_store(&resumed, true);
  ommai_interrupt_wake();
  errno = saved;
}

bool ommai_interrupt_watch_resume(void) {
  struct sigaction action = {.sa_handler = handle_resume, .sa_flags = SA_RESTART};
  sigemptyset(&action.sa_mask);
  return sigaction(SIGCONT, &action, NULL) == 0;
}

int ommai_interrupt_descriptor(void) { return wake; }
