#include "base/pace.h"

#include "base/checked.h"

/* Rounds in one slice, regardless of the clock. */
enum { MAX_ROUNDS = 1 << 20 };

int64_t ommai_pace_tasks(const struct ommai_pace *pace, int64_t ns, int64_t n_workers) {
  double rounds = pace->round_ns > 0 ? (double)ns / pace->round_ns : 1;
  int64_t n_rounds = rounds < MAX_ROUNDS ? (int64_t)rounds : MAX_ROUNDS;
  return ommai_max_i64(n_rounds, 1) * n_workers;
}

void ommai_pace_record(struct ommai_pace *pace, int64_t ns, int64_t n_tasks, int64_t n_workers) {
  double seen = (double)ns / (double)ommai_div_up(n_tasks, n_workers), kept = 0.9 * pace->round_ns;
  pace->round_ns = seen > kept ? seen : kept;
}
