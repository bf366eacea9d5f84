/* 100,000 random requests over the fake runner: engines of all sizes, prompts that begin alike,
 * images that come again, drafts, priorities, cancellations, clients that leave, calls and
 * allocations that fail, engines that go down. What must hold is listed in sim_world.h. When it
 * does not, the case is shrunk and printed as a script, which --replay runs again. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/sim_shrink.h"
#include "support/test.h"

static const char usage[] =
    "usage: test_scheduler_random [--requests N] [--seed N] [--replay FILE [--log]] [--print SEED]\n"
    "\n"
    "  --requests N   how many requests are to end (default 100000, fewer in sanitizer builds)\n"
    "  --seed N       the first case's (default 1)\n"
    "  --replay FILE  runs a script, as a failure prints it; --log: with the engine's lines\n"
    "  --print SEED   prints the script of a seed\n";

enum { MAX_TRIES = 2000, N_WORKERS = 2, CASE_SECONDS = 120 };

static int64_t default_requests(void) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return test_small() ? 2000 : 20000;
#else
  return test_small() ? 10000 : 100000;
#endif
}

/* What a worker has seen, shared with its parent. */
struct progress {
  uint64_t seed; /* of the case that runs */
  int64_t n_cases;
  struct sim_outcome total, last;
};

static void add(struct sim_outcome *total, const struct sim_outcome *outcome) {
  total->n_turns += outcome->n_turns;
  total->n_ended += outcome->n_ended;
  total->n_cancelled += outcome->n_cancelled;
  total->n_failed += outcome->n_failed;
  total->n_tokens += outcome->n_tokens;
  total->n_preemptions += outcome->n_preemptions;
  total->n_cached_tokens += outcome->n_cached_tokens;
  total->n_drafts_right += outcome->n_drafts_right;
  total->n_chunks += outcome->n_chunks;
  total->n_pieces += outcome->n_pieces;
  total->worst_wait = fmax(total->worst_wait, outcome->worst_wait);
  total->worst_gap = fmax(total->worst_gap, outcome->worst_gap);
}

/* Every N_WORKERS-th seed, until enough requests have ended. */
static int work(struct progress *progress, uint64_t first, int64_t n_requests) {
  static struct sim_case run;
  for (progress->seed = first; progress->total.n_ended < n_requests; progress->seed += N_WORKERS) {
    sim_case_make(&run, progress->seed);
    alarm(CASE_SECONDS);
    sim_run(&run, &progress->last);
    progress->n_cases++;
    if (progress->last.rule[0]) return 1;
    add(&progress->total, &progress->last);
  }
  return 0;
}

static int report(const struct sim_case *run, const struct sim_outcome *outcome) {
  printf("%s: %s\n", outcome->rule, outcome->details);
  sim_case_print(run, stdout);
  return 1;
}

/* A worker has ended badly. */
static int explain(const struct progress *worker) {
  static struct sim_case run;
  struct sim_outcome outcome;
  printf("seed %llu breaks a rule: %s: %s\n", (unsigned long long)worker->seed, worker->last.rule, worker->last.details);
  sim_case_make(&run, worker->seed);
  sim_run_apart(&run, CASE_SECONDS, &outcome);
  if (!outcome.rule[0]) {
    printf("and none where the case runs alone\n");
    return 1;
  }
  int n_tries = sim_shrink(&run, &outcome, MAX_TRIES);
  printf("shrunk in %d runs; as a script for --replay FILE:\n# ", n_tries);
  return report(&run, &outcome);
}

static int run_random(uint64_t seed, int64_t n_requests) {
  struct progress *workers = mmap(NULL, N_WORKERS * sizeof *workers, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  struct progress sum = {0};
  pid_t children[N_WORKERS];
  int status, failed = -1;
  for (int i = 0; i < N_WORKERS; i++) {
    fflush(NULL);
    children[i] = fork();
    if (children[i] == 0) _exit(work(&workers[i], seed + (uint64_t)i, n_requests / N_WORKERS));
  }
  for (int i = 0; i < N_WORKERS; i++) {
    waitpid(children[i], &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status)) failed = i;
    add(&sum.total, &workers[i].total);
    sum.n_cases += workers[i].n_cases;
  }
  const struct sim_outcome *total = &sum.total;
  printf(
      "%lld requests in %lld cases and %lld turns: %lld tokens, %lld preemptions, %lld cancelled, %lld failed, %lld tokens "
      "from the prefix cache, %lld drafts right, %lld pieces of prompts in %lld chunks; the longest wait is %.2f of its "
      "bound, the longest gap %.2f\n",
      (long long)total->n_ended, (long long)sum.n_cases, (long long)total->n_turns, (long long)total->n_tokens,
      (long long)total->n_preemptions, (long long)total->n_cancelled, (long long)total->n_failed,
      (long long)total->n_cached_tokens, (long long)total->n_drafts_right, (long long)total->n_pieces,
      (long long)total->n_chunks, total->worst_wait, total->worst_gap);
  return failed >= 0 ? explain(&workers[failed]) : 0;
}

static void print_line(void *context, enum omma_log_level level, const char *line) {
  (void)context;
  (void)level;
  printf("  %s\n", line);
}

static int replay(const char *path, bool with_log) {
  static struct sim_case run;
  struct sim_outcome outcome;
  const struct omma_log log = {.line = print_line};
  FILE *file = fopen(path, "r");
  if (!file || !sim_case_read(&run, file)) {
    fprintf(stderr, "%s: no script\n", path);
    return 2;
  }
  fclose(file);
  if (with_log) sim_set_log(&log);
  sim_run_apart(&run, 0, &outcome);
  if (outcome.rule[0]) return report(&run, &outcome);
  printf("every rule holds: %lld requests, %lld tokens, %lld preemptions\n", (long long)outcome.n_ended,
         (long long)outcome.n_tokens, (long long)outcome.n_preemptions);
  printf("in simulated time: %.1f ms in all, %.1f until an end in the mean, at most %.1f between two tokens\n",
         (double)outcome.total_ns * 1e-6,
         (double)outcome.completion_ns * 1e-6 / (double)(outcome.n_ended ? outcome.n_ended : 1),
         (double)outcome.longest_gap_ns * 1e-6);
  return 0;
}

static int print_seed(uint64_t seed) {
  static struct sim_case run;
  sim_case_make(&run, seed);
  sim_case_print(&run, stdout);
  return 0;
}

int main(int n_arguments, char **arguments) {
  int64_t n_requests = default_requests();
  uint64_t seed = 1;
  const char *script = NULL;
  bool with_log = false;
  sim_set_up();
  for (int i = 1; i < n_arguments; i++) {
    const char *name = arguments[i], *value = i + 1 < n_arguments ? arguments[i + 1] : "";
    if (strcmp(name, "--log") == 0) {
      with_log = true;
      continue;
    }
    i++;
    if (strcmp(name, "--requests") == 0) {
      n_requests = strtoll(value, NULL, 10);
    } else if (strcmp(name, "--seed") == 0) {
      seed = strtoull(value, NULL, 10);
    } else if (strcmp(name, "--replay") == 0) {
      script = value;
    } else if (strcmp(name, "--print") == 0) {
      return print_seed(strtoull(value, NULL, 10));
    } else {
      fputs(usage, stderr);
      return 2;
    }
  }
  int status = script ? replay(script, with_log) : run_random(seed, n_requests);
  sim_tear_down();
  return status;
}
