#include "engine/sim_shrink.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_SECONDS = 20 };

void sim_run_apart(const struct sim_case *run, int seconds, struct sim_outcome *outcome) {
  struct sim_outcome *seen = mmap(NULL, sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    int nowhere = open("/dev/null", O_WRONLY);
    if (seconds) dup2(nowhere, 2);
    alarm((unsigned)seconds);
    sim_run(run, seen);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  *outcome = *seen;
  bool hangs = WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM;
  if (!WIFEXITED(status) || WEXITSTATUS(status)) snprintf(outcome->rule, sizeof outcome->rule, hangs ? "hangs" : "crash");
  munmap(seen, sizeof *seen);
}

struct shrink {
  struct sim_case *best;
  struct sim_outcome *outcome;
  int n_tries, max_tries;
};

/* Whether the candidate breaks the same rule; it is the best one then. */
static bool accept(struct shrink *shrink, const struct sim_case *candidate) {
  struct sim_outcome outcome;
  if (shrink->n_tries == shrink->max_tries) return false;
  shrink->n_tries++;
  sim_run_apart(candidate, MAX_SECONDS, &outcome);
  if (strcmp(outcome.rule, shrink->outcome->rule) != 0) return false;
  *shrink->best = *candidate;
  *shrink->outcome = outcome;
  return true;
}

static bool drop_requests(struct shrink *shrink) {
  static struct sim_case candidate;
  bool changed = false;
  for (int64_t size = shrink->best->n_requests / 2; size >= 1; size /= 2) {
    for (int64_t at = shrink->best->n_requests - size; at >= 0; at -= size) {
      candidate = *shrink->best;
      candidate.n_requests -= size;
      memmove(&candidate.requests[at], &candidate.requests[at + size],
              (size_t)(candidate.n_requests - at) * sizeof *candidate.requests);
      if (candidate.n_requests >= 1) changed = accept(shrink, &candidate) || changed;
    }
  }
  return changed;
}

static bool drop_failures(struct shrink *shrink) {
  static struct sim_case candidate;
  bool changed = false;
  for (int64_t at = shrink->best->n_failures - 1; at >= 0; at--) {
    candidate = *shrink->best;
    candidate.failures[at] = candidate.failures[--candidate.n_failures];
    changed = accept(shrink, &candidate) || changed;
  }
  return changed;
}

/* All events from turn `from` on come `by` turns earlier. */
static void hasten(struct sim_case *hastened, int64_t from, int64_t by) {
  for (int64_t i = 0; i < hastened->n_requests; i++) {
    struct sim_request *request = &hastened->requests[i];
    if (request->at >= from) request->at -= by;
    if (request->cancel >= from) request->cancel -= by;
  }
  if (hastened->engine.end >= from) hastened->engine.end -= by;
}

/* The first event of a request from turn `from` on; -1: there is none. */
static int64_t next_event(const struct sim_case *run, int64_t from) {
  int64_t next = -1;
  for (int64_t i = 0; i < run->n_requests; i++) {
    const int64_t times[] = {run->requests[i].at, run->requests[i].cancel};
    for (int j = 0; j < 2; j++) {
      if (times[j] >= from && (next < 0 || times[j] < next)) next = times[j];
    }
  }
  return next;
}

/* Turns in which nothing happens are left out, all of a pause, or half of it. */
static bool drop_pauses(struct shrink *shrink) {
  static struct sim_case candidate;
  bool changed = false;
  int64_t at = 0, next;
  while ((next = next_event(shrink->best, at)) >= 0) {
    for (int64_t by = next - at; by >= 1; by /= 2) {
      candidate = *shrink->best;
      hasten(&candidate, next, by);
      if (!accept(shrink, &candidate)) continue;
      changed = true;
      next -= by;
      break;
    }
    at = next + 1;
  }
  return changed;
}

/* Brings one number to its simplest, or by bisection to where the rule just breaks. */
static bool simplify(struct shrink *shrink, size_t offset, int64_t simplest) {
  static struct sim_case candidate;
  const int64_t first = *(const int64_t *)(const void *)((const char *)shrink->best + offset);
  int64_t breaks = first, holds = simplest, tried = simplest;
  while (breaks != holds) {
    candidate = *shrink->best;
    *(int64_t *)(void *)((char *)&candidate + offset) = tried;
    *(accept(shrink, &candidate) ? &breaks : &holds) = tried;
    if (breaks - holds == 1 || holds - breaks == 1) break;
    tried = holds + (breaks - holds) / 2;
  }
  return breaks != first;
}

static bool simplify_all(struct shrink *shrink) {
  bool changed = false;
  for (int i = 0; i < sim_n_engine_fields; i++) {
    size_t offset = offsetof(struct sim_case, engine) + (size_t)i * sizeof(int64_t);
    changed = simplify(shrink, offset, sim_engine_fields[i].simplest) || changed;
  }
  for (int64_t r = 0; r < shrink->best->n_requests; r++) {
    for (int i = 0; i < sim_n_request_fields; i++) {
      size_t offset =
          offsetof(struct sim_case, requests) + (size_t)r * sizeof(struct sim_request) + (size_t)i * sizeof(int64_t);
      changed = simplify(shrink, offset, sim_request_fields[i].simplest) || changed;
    }
  }
  for (int64_t f = 0; f < shrink->best->n_failures; f++) {
    size_t offset = offsetof(struct sim_case, failures) + (size_t)f * sizeof(struct sim_failure);
    changed = simplify(shrink, offset + offsetof(struct sim_failure, nth), 0) || changed;
  }
  return changed;
}

int sim_shrink(struct sim_case *shrunk, struct sim_outcome *outcome, int max_tries) {
  struct shrink shrink = {shrunk, outcome, 0, max_tries};
  bool changed = true;
  while (changed && shrink.n_tries < max_tries) {
    changed = drop_requests(&shrink);
    changed = drop_failures(&shrink) || changed;
    changed = drop_pauses(&shrink) || changed;
    changed = simplify_all(&shrink) || changed;
  }
  return shrink.n_tries;
}
