/* Predictions of teams of any size: task times that add up by hand, and a trace of a real team's
 * runs. */
#include "cli/model/scale_model.h"

#include "support/test.h"

static double parallel_of(double *tasks, size_t n, int n_workers, double step) {
  struct ommai_scale_run run = {0.5, 0, n};
  const struct ommai_scale_trace trace = {.runs = &run, .tasks = tasks, .n_runs = 1, .n_tasks = n};
  const struct ommai_scale_barrier barrier = {0.25, step};
  struct ommai_scale_time time = ommai_scale_predict(&trace, n_workers, &barrier);
  assert_true(time.serial == 0.5);
  return time.parallel;
}

static void tasks_go_to_who_is_free(void **state) {
  (void)state;
  double tasks[] = {4, 1, 1, 1, 1, 3};
  assert_true(parallel_of(tasks, 6, 1, 1) == 11);
  assert_true(parallel_of(tasks, 6, 2, 1) == 7 + 0.25 + 1); /* 4 3 | 1 1 1 1 */
  assert_true(parallel_of(tasks, 6, 4, 1) == 4 + 0.25 + 2); /* 4 | 1 1 | 1 3 | 1 */
  assert_true(parallel_of(tasks, 1, 64, 1) == 4);           /* one task has no barrier */
}

static void groups_share_as_the_team_does(void **state) {
  (void)state;
  double tasks[64];
  for (int i = 0; i < 64; i++) tasks[i] = 1;
  assert_true(parallel_of(tasks, 64, 64, 0) == 1.25);
  assert_true(parallel_of(tasks, 64, 32, 0) == 2.25);
  assert_true(parallel_of(tasks, 16, 64, 0) == 1.25);
  assert_true(parallel_of(tasks, 9, 192, 0) == 1.25);
  /* the first group has the even tasks, all long, and the other one takes its last ones */
  for (int i = 0; i < 32; i++) tasks[i] = i % 2 ? 1 : 3;
  assert_true(parallel_of(tasks, 32, 16, 0) == 5.25);
}

static void count_task(void *context, int64_t task, int worker) {
  (void)task, (void)worker;
  ++*(int *)context;
}

static void a_recorder_notes_runs(void **state) {
  (void)state;
  struct ommai_scale_recorder recorder;
  int n = 0;
  ommai_scale_recorder_init(&recorder, NULL);
  recorder.team.run(recorder.team.context, 3, count_task, &n);
  ommai_scale_recorder_begin(&recorder);
  recorder.team.run(recorder.team.context, 3, count_task, &n);
  recorder.team.run(recorder.team.context, 40, count_task, &n);
  ommai_scale_recorder_end(&recorder);
  assert_true(n == 46 && recorder.trace.n_runs == 2 && recorder.trace.n_tasks == 43 && !recorder.trace.out_of_memory);
  assert_true(recorder.trace.runs[0].gap == 0 && recorder.trace.runs[1].gap >= 0 && recorder.trace.runs[1].first_task == 3);
  double sum = recorder.trace.runs[1].gap;
  for (int i = 0; i < 43; i++) sum += recorder.trace.tasks[i];
  assert_true(sum > 0 && sum == ommai_scale_trace_seconds(&recorder.trace));
  ommai_scale_trace_release(&recorder.trace);
  /* on another team a run is one task */
  struct ommai_scale_recorder outer;
  ommai_scale_recorder_init(&outer, &recorder.team);
  ommai_scale_recorder_begin(&outer);
  outer.team.run(outer.team.context, 7, count_task, &n);
  ommai_scale_recorder_end(&outer);
  assert_true(n == 53 && outer.trace.n_runs == 1 && outer.trace.n_tasks == 1);
  ommai_scale_trace_release(&outer.trace);
}

/* Steps of two runs, of two tasks and one. */
static struct ommai_scale_pass pass_of(struct ommai_scale_run *runs, double *tasks, size_t n_steps) {
  for (size_t step = 0; step < n_steps; step++) {
    runs[2 * step] = (struct ommai_scale_run){(double)step, 3 * step, 2};
    runs[2 * step + 1] = (struct ommai_scale_run){10 + (double)step, 3 * step + 2, 1};
  }
  const struct ommai_scale_trace trace = {.runs = runs, .tasks = tasks, .n_runs = 2 * n_steps, .n_tasks = 3 * n_steps};
  return (struct ommai_scale_pass){trace, (int64_t)n_steps};
}

static void steps_are_folded(void **state) {
  (void)state;
  struct ommai_scale_run runs[3][8];
  double tasks[3][12] = {{1, 2, 3, 9, 2, 3, 5, 90, 4}, {7, 8, 2, 6, 8, 2}, {0}};
  struct ommai_scale_pass passes[3] = {pass_of(runs[0], tasks[0], 3), pass_of(runs[1], tasks[1], 2)}, folded;
  assert_true(ommai_scale_passes_fold(passes, 2, &folded));
  /* of 1 9 5 7 6, of 2 2 90 8 8 and of 3 3 4 2 2 the second smallest */
  assert_true(folded.n_steps == 1 && folded.trace.n_runs == 2 && folded.trace.n_tasks == 3);
  assert_true(folded.trace.tasks[0] == 5 && folded.trace.tasks[1] == 2 && folded.trace.tasks[2] == 2);
  assert_true(folded.trace.runs[0].gap == 0 && folded.trace.runs[1].gap == 10 && folded.trace.runs[1].first_task == 2);
  ommai_scale_trace_release(&folded.trace);
  /* a pass whose steps differ stays as it is, and those before it are not looked at */
  passes[2] = pass_of(runs[2], tasks[2], 2);
  passes[2].trace.n_runs = 3;
  passes[2].trace.n_tasks = 5;
  assert_true(ommai_scale_passes_fold(passes, 3, &folded));
  assert_true(folded.n_steps == 2 && folded.trace.n_runs == 3 && folded.trace.n_tasks == 5);
  assert_true(ommai_scale_trace_seconds(&folded.trace) == 0 + 10 + 1);
  ommai_scale_trace_release(&folded.trace);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tasks_go_to_who_is_free),
      cmocka_unit_test(groups_share_as_the_team_does),
      cmocka_unit_test(a_recorder_notes_runs),
      cmocka_unit_test(steps_are_folded),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
