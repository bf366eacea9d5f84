/* Predictions of teams of any size: task times that add up by hand, and traces of real teams'
 * runs. */
#include "cli/model/scale_model.h"

#include <stdatomic.h>

#include "base/allocator.h"
#include "base/team.h"
#include "support/test.h"

static double parallel_of(double *tasks, size_t n, int n_workers, double step) {
  struct ommai_scale_run run = {.gap = 0.5, .n_tasks = n};
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
  const struct ommai_scale_trace *trace = &recorder.passes[OMMAI_SCALE_ALONE].trace;
  int n = 0;
  ommai_scale_recorder_init(&recorder, NULL, NULL);
  recorder.team.run(recorder.team.context, 3, count_task, &n);
  ommai_scale_recorder_begin(&recorder);
  recorder.team.run(recorder.team.context, 3, count_task, &n);
  recorder.team.run(recorder.team.context, 40, count_task, &n);
  ommai_scale_recorder_end(&recorder);
  assert_true(n == 46 && trace->n_runs == 2 && trace->n_tasks == 43 && !trace->out_of_memory);
  assert_true(trace->runs[0].gap == 0 && trace->runs[1].gap >= 0 && trace->runs[1].first_task == 3);
  assert_true(recorder.passes[OMMAI_SCALE_ALONE].n_steps == 1);
  double sum = trace->runs[1].gap;
  for (int i = 0; i < 43; i++) sum += trace->tasks[i];
  assert_true(sum > 0 && sum == ommai_scale_trace_seconds(trace));
  ommai_scale_recorder_release(&recorder);
}

/* Which worker each task was last run by, how often, and how many ran at the same time at most. */
enum { N_NOTED = 11 };
struct noted {
  int worker[N_NOTED], count[N_NOTED];
  atomic_int n_inside, most;
};

static void note_task(void *context, int64_t task, int worker) {
  struct noted *noted = context;
  int inside = atomic_fetch_add(&noted->n_inside, 1) + 1;
  if (inside > atomic_load(&noted->most)) atomic_store(&noted->most, inside);
  noted->worker[task] = worker;
  noted->count[task]++;
  atomic_fetch_sub(&noted->n_inside, 1);
}

static void workers_take_turns(void **state) {
  (void)state;
  enum { N_WORKERS = 4 };
  struct ommai_scale_reading reading = {0};
  struct ommai_team *team;
  struct omma_error error;
  double seconds[N_NOTED];
  assert_int_equal(ommai_team_create(N_WORKERS, false, &ommai_default_allocator, &team, &error), OMMA_OK);
  assert_int_equal(ommai_scale_reading_create(&reading), 0);
  for (int read = 0; read < 2; read++) {
    struct noted noted = {0};
    reading.gbps = read;
    for (int i = 0; i < N_NOTED; i++) seconds[i] = -1;
    struct ommai_scale_waiting waiting =
        ommai_scale_run_in_turn(ommai_team_interface(team), N_NOTED, note_task, &noted, &reading, seconds);
    assert_true(waiting.seconds > 0 && (waiting.bytes > 0) == (read > 0));
    assert_int_equal(noted.most, 1);
    for (int i = 0; i < N_NOTED; i++) {
      assert_int_equal(noted.worker[i], i % N_WORKERS);
      assert_true(noted.count[i] == 1 && seconds[i] >= 0);
    }
  }
  /* fewer tasks than workers */
  struct noted noted = {0};
  ommai_scale_run_in_turn(ommai_team_interface(team), 1, note_task, &noted, &reading, seconds);
  assert_true(noted.count[0] == 1 && noted.worker[0] == 0);
  ommai_scale_reading_release(&reading);
  assert_null(reading.memory);
  ommai_team_destroy(team);
}

/* Steps of a team alternate: in turn a run is its tasks, together it is one. */
static void a_recorder_alternates(void **state) {
  (void)state;
  const struct ommai_scale_reading reading = {0};
  struct ommai_scale_recorder recorder;
  struct ommai_team *team;
  struct omma_error error;
  struct noted noted = {0};
  assert_int_equal(ommai_team_create(2, false, &ommai_default_allocator, &team, &error), OMMA_OK);
  ommai_scale_recorder_init(&recorder, ommai_team_interface(team), &reading);
  const struct ommai_scale_trace *in_turn = &recorder.passes[OMMAI_SCALE_IN_TURN].trace,
                                 *together = &recorder.passes[OMMAI_SCALE_TOGETHER].trace;
  assert_int_equal(recorder.team.n_workers, 2);
  recorder.team.run(recorder.team.context, 5, note_task, &noted);
  assert_true(in_turn->n_runs == 0 && together->n_runs == 0);
  ommai_scale_recorder_begin(&recorder);
  for (int step = 0; step < 3; step++) {
    if (step) ommai_scale_recorder_step(&recorder);
    recorder.team.run(recorder.team.context, N_NOTED, note_task, &noted);
    recorder.team.run(recorder.team.context, 7, note_task, &noted);
  }
  ommai_scale_recorder_end(&recorder);
  recorder.team.run(recorder.team.context, 5, note_task, &noted);
  assert_true(noted.count[0] == 8 && noted.count[10] == 3);
  assert_true(recorder.passes[OMMAI_SCALE_IN_TURN].n_steps == 2 && recorder.passes[OMMAI_SCALE_TOGETHER].n_steps == 1);
  assert_true(in_turn->n_runs == 4 && in_turn->n_tasks == 2 * (N_NOTED + 7) && in_turn->runs[3].first_task == 2 * N_NOTED + 7);
  assert_true(together->n_runs == 2 && together->n_tasks == 2);
  assert_true(ommai_scale_trace_seconds(in_turn) > 0 && ommai_scale_trace_seconds(together) > 0);
  ommai_scale_recorder_release(&recorder);
  ommai_team_destroy(team);
}

/* Steps of two runs, of two tasks and one. */
static struct ommai_scale_pass pass_of(struct ommai_scale_run *runs, double *tasks, size_t n_steps) {
  for (size_t step = 0; step < n_steps; step++) {
    runs[2 * step] = (struct ommai_scale_run){(double)step, 3 * step, 2, (double)step};
    runs[2 * step + 1] = (struct ommai_scale_run){10 + (double)step, 3 * step + 2, 1, 2};
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
  /* of 0 1 2 0 1 the second largest, for 7 of 9 seconds; for the others 2 */
  assert_true(folded.trace.runs[0].waiting_gbps == 1 && folded.trace.runs[1].waiting_gbps == 2);
  assert_float_equal(ommai_scale_trace_waiting_gbps(&folded.trace), (7 * 1 + 2 * 2) / 9.0, 1e-6);
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

static void who_reads_less_gets_as_much(void **state) {
  (void)state;
  assert_true(ommai_scale_sharing(30, 20, 2) == 1.2); /* 25 each */
  assert_true(ommai_scale_sharing(40, 20, 4) == 1.6); /* 25 each */
  assert_true(ommai_scale_sharing(20, 30, 2) == 1);
  assert_true(ommai_scale_sharing(0, 0, 2) == 1 && ommai_scale_sharing(30, 0, 1) == 1);
}

static void slower_reading_shows_in_part(void **state) {
  (void)state;
  /* 80 ms of reading on a core; two together read at 50 GB/s instead of 80 */
  const struct ommai_scale_reads reads = {3.2e9, 40};
  struct ommai_scale_bounds bounds = ommai_scale_bounds(&reads, 0.060, 2, 50);
  assert_float_equal(bounds.memory, 0.064, 1e-9);
  assert_float_equal(bounds.hidden, 0.064, 1e-9);
  assert_float_equal(bounds.plain, 0.060 + 0.024, 1e-9);
  assert_float_equal(ommai_scale_shown(&bounds, 0.069), 0.25, 1e-9);
  assert_true(ommai_scale_shown(&bounds, 0.05) == 0 && ommai_scale_shown(&bounds, 0.09) == 1);
  /* as fast as two alone, or nothing read: nothing to tell apart */
  bounds = ommai_scale_bounds(&reads, 0.060, 2, 80);
  assert_true(bounds.hidden == 0.060 && bounds.plain == 0.060 && ommai_scale_shown(&bounds, 0.07) == -1);
  bounds = ommai_scale_bounds(&reads, 0.060, 2, 0);
  assert_true(bounds.hidden == 0.060 && bounds.plain == 0.060 && bounds.memory == 0);
  const struct ommai_scale_reads nothing = {0, 40};
  bounds = ommai_scale_bounds(&nothing, 0.060, 2, 50);
  assert_true(bounds.hidden == 0.060 && bounds.plain == 0.060 && bounds.memory == 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tasks_go_to_who_is_free),     cmocka_unit_test(groups_share_as_the_team_does),
      cmocka_unit_test(a_recorder_notes_runs),       cmocka_unit_test(workers_take_turns),
      cmocka_unit_test(a_recorder_alternates),       cmocka_unit_test(steps_are_folded),
      cmocka_unit_test(who_reads_less_gets_as_much), cmocka_unit_test(slower_reading_shows_in_part),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
