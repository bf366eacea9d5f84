#include "cli/model/scale_model.h"

#include <math.h>
#include <omma/omma.h>

#include "base/clock.h"
#include "base/growing.h"
#include "base/team.h"
#include "cli/core/diagnostics.h"
#include "cli/model/bench_times.h"

static double seconds_between(int64_t start, int64_t end) { return (double)(end - start) * 1e-9; }

/* ---- recording ------------------------------------------------------------------------------- */

void ommai_scale_trace_release(struct ommai_scale_trace *trace) {
  ommai_release(&ommai_default_allocator, trace->runs, trace->run_capacity, sizeof *trace->runs);
  ommai_release(&ommai_default_allocator, trace->tasks, trace->task_capacity, sizeof *trace->tasks);
  *trace = (struct ommai_scale_trace){0};
}

double ommai_scale_trace_seconds(const struct ommai_scale_trace *trace) {
  double seconds = 0;
  for (size_t i = 0; i < trace->n_runs; i++) seconds += trace->runs[i].gap;
  for (size_t i = 0; i < trace->n_tasks; i++) seconds += trace->tasks[i];
  return seconds;
}

static double task_seconds(const struct ommai_scale_trace *trace, const struct ommai_scale_run *run) {
  double seconds = 0;
  for (size_t i = 0; i < run->n_tasks; i++) seconds += trace->tasks[run->first_task + i];
  return seconds;
}

double ommai_scale_trace_waiting_gbps(const struct ommai_scale_trace *trace) {
  double seconds = 0, gigabytes = 0;
  for (size_t i = 0; i < trace->n_runs; i++) {
    double of_run = task_seconds(trace, &trace->runs[i]);
    seconds += of_run;
    gigabytes += of_run * trace->runs[i].waiting_gbps;
  }
  return seconds > 0 ? gigabytes / seconds : 0;
}

/* Room for a run of n tasks. */
static bool make_room(struct ommai_scale_trace *trace, size_t n) {
  void *runs = trace->runs, *tasks = trace->tasks;
  bool made = ommai_grow(&runs, &trace->run_capacity, trace->n_runs, 1, sizeof *trace->runs, &ommai_default_allocator) &&
              ommai_grow(&tasks, &trace->task_capacity, trace->n_tasks, n, sizeof *trace->tasks, &ommai_default_allocator);
  trace->runs = runs;
  trace->tasks = tasks;
  return made;
}

/* Whether n runs from first on are those of `other` from its beginning. */
static bool has_runs(const struct ommai_scale_trace *trace, size_t first, const struct ommai_scale_trace *other, size_t n) {
  if (first + n > trace->n_runs || n > other->n_runs) return false;
  for (size_t i = 0; i < n; i++) {
    if (trace->runs[first + i].n_tasks != other->runs[i].n_tasks) return false;
  }
  return true;
}

/* Runs of a step, all of them where steps differ. */
static size_t runs_of_step(const struct ommai_scale_pass *pass) {
  const struct ommai_scale_trace *trace = &pass->trace;
  size_t steps = (size_t)pass->n_steps, n = steps ? trace->n_runs / steps : 0;
  if (n * steps != trace->n_runs) return trace->n_runs;
  for (size_t step = 1; step < steps; step++) {
    if (!has_runs(trace, step * n, trace, n)) return trace->n_runs;
  }
  return n;
}

/* A step of a pass, and whose values are looked at. */
struct sample {
  const struct ommai_scale_trace *trace;
  size_t first_run;
};

/* The steps that are like the last pass's first one; list NULL: only how many. */
static size_t list_samples(const struct ommai_scale_pass *passes, size_t n, size_t n_runs, struct sample *list) {
  size_t count = 0;
  for (size_t i = 0; i < n; i++) {
    if (runs_of_step(&passes[i]) != n_runs) continue;
    for (size_t run = 0; run < passes[i].trace.n_runs; run += n_runs) {
      if (!has_runs(&passes[i].trace, run, &passes[n - 1].trace, n_runs)) continue;
      if (list) list[count] = (struct sample){&passes[i].trace, run};
      count++;
    }
  }
  return count;
}

/* The lower one. */
static double quartile(double *values, size_t n) {
  ommai_times_sort(values, n);
  return values[(n - 1) / 4];
}

/* Of steps whose tasks take the lower quartile. */
static double upper_quartile(double *values, size_t n) {
  ommai_times_sort(values, n);
  return values[n - 1 - (n - 1) / 4];
}

static void fold_run(const struct sample *samples, size_t n, size_t index, double *values, struct ommai_scale_trace *out) {
  const struct ommai_scale_run *first = &samples[0].trace->runs[samples[0].first_run + index];
  for (size_t i = 0; i < n; i++) values[i] = samples[i].trace->runs[samples[i].first_run + index].gap;
  struct ommai_scale_run *run = &out->runs[out->n_runs++];
  *run = (struct ommai_scale_run){quartile(values, n), out->n_tasks, first->n_tasks, 0};
  for (size_t i = 0; i < n; i++) values[i] = samples[i].trace->runs[samples[i].first_run + index].waiting_gbps;
  run->waiting_gbps = upper_quartile(values, n);
  for (size_t task = 0; task < first->n_tasks; task++) {
    for (size_t i = 0; i < n; i++) {
      const struct ommai_scale_trace *trace = samples[i].trace;
      values[i] = trace->tasks[trace->runs[samples[i].first_run + index].first_task + task];
    }
    out->tasks[out->n_tasks++] = quartile(values, n);
  }
}

bool ommai_scale_passes_fold(const struct ommai_scale_pass *passes, size_t n, struct ommai_scale_pass *folded) {
  const struct ommai_scale_pass *last = &passes[n - 1];
  size_t n_runs = runs_of_step(last), n_samples = list_samples(passes, n, n_runs, NULL);
  struct sample *samples = ommai_allocate(&ommai_default_allocator, n_samples, sizeof *samples);
  double *values = ommai_allocate(&ommai_default_allocator, n_samples, sizeof *values);
  bool good = samples && values;
  *folded = (struct ommai_scale_pass){.n_steps = n_runs == last->trace.n_runs ? last->n_steps : 1};
  if (good) list_samples(passes, n, n_runs, samples);
  for (size_t run = 0; run < n_runs && good; run++) {
    good = make_room(&folded->trace, last->trace.runs[run].n_tasks);
    if (good) fold_run(samples, n_samples, run, values, &folded->trace);
  }
  ommai_release(&ommai_default_allocator, samples, n_samples, sizeof *samples);
  ommai_release(&ommai_default_allocator, values, n_samples, sizeof *values);
  return good;
}

/* Where the seconds of a new run's n tasks go. NULL: none is recorded. */
static double *note_run(struct ommai_scale_recorder *recorder, size_t n, int64_t now) {
  struct ommai_scale_trace *trace = &recorder->passes[recorder->mode].trace;
  if (!recorder->recording) return NULL;
  if (!make_room(trace, n)) {
    trace->out_of_memory = true;
    return NULL;
  }
  double gap = recorder->end ? seconds_between(recorder->end, now) : 0, *tasks = trace->tasks + trace->n_tasks;
  trace->runs[trace->n_runs++] = (struct ommai_scale_run){gap, trace->n_tasks, n, 0};
  trace->n_tasks += n;
  return tasks;
}

static void run_alone(int64_t n_tasks, omma_task task, void *context, double *seconds) {
  int64_t before = ommai_clock_ns();
  for (int64_t i = 0; i < n_tasks; i++) {
    task(context, i, 0);
    int64_t now = ommai_clock_ns();
    seconds[i] = seconds_between(before, now);
    before = now;
  }
}

static void run(void *context, int64_t n_tasks, omma_task task, void *task_context) {
  struct ommai_scale_recorder *recorder = context;
  const struct omma_team *inner = recorder->inner ? recorder->inner : &ommai_serial_team;
  bool together = recorder->mode == OMMAI_SCALE_TOGETHER;
  int64_t start = ommai_clock_ns();
  double *seconds = note_run(recorder, together ? 1 : (size_t)n_tasks, start);
  if (!seconds || together) {
    inner->run(inner->context, n_tasks, task, task_context);
  } else if (recorder->mode == OMMAI_SCALE_ALONE) {
    run_alone(n_tasks, task, task_context, seconds);
  } else {
    struct ommai_scale_trace *trace = &recorder->passes[recorder->mode].trace;
    struct ommai_scale_waiting waiting =
        ommai_scale_run_in_turn(inner, n_tasks, task, task_context, recorder->reading, seconds);
    if (waiting.seconds > 0) trace->runs[trace->n_runs - 1].waiting_gbps = waiting.bytes / waiting.seconds * 1e-9;
  }
  recorder->end = ommai_clock_ns();
  if (seconds && together) *seconds = seconds_between(start, recorder->end);
}

void ommai_scale_recorder_init(struct ommai_scale_recorder *recorder, const struct omma_team *inner,
                               const struct ommai_scale_reading *reading) {
  *recorder = (struct ommai_scale_recorder){.team = {recorder, inner ? inner->n_workers : 1, run},
                                            .inner = inner,
                                            .reading = reading,
                                            .mode = inner ? OMMAI_SCALE_IN_TURN : OMMAI_SCALE_ALONE};
}

void ommai_scale_recorder_begin(struct ommai_scale_recorder *recorder) {
  recorder->end = 0;
  recorder->recording = true;
  recorder->passes[recorder->mode].n_steps++;
}

void ommai_scale_recorder_step(struct ommai_scale_recorder *recorder) {
  if (recorder->inner) recorder->mode = OMMAI_SCALE_IN_TURN + OMMAI_SCALE_TOGETHER - recorder->mode;
  recorder->passes[recorder->mode].n_steps++;
}

void ommai_scale_recorder_end(struct ommai_scale_recorder *recorder) { recorder->recording = false; }

void ommai_scale_recorder_release(struct ommai_scale_recorder *recorder) {
  for (int i = 0; i < OMMAI_SCALE_MODES; i++) ommai_scale_trace_release(&recorder->passes[i].trace);
}

/* ---- what a run costs ------------------------------------------------------------------------ */

static void no_work(void *context, int64_t task, int worker) { (void)context, (void)task, (void)worker; }

/* Of runs of a task for each worker, one of the fast ones: what another program takes meanwhile is
 * not theirs. */
static double time_runs(const struct omma_team *team) {
  enum { RUNS = 4001 };
  static double times[RUNS];
  for (int i = 0; i < RUNS; i++) {
    int64_t start = ommai_clock_ns();
    team->run(team->context, team->n_workers, no_work, NULL);
    times[i] = seconds_between(start, ommai_clock_ns());
  }
  ommai_times_sort(times, RUNS);
  return times[RUNS / 10];
}

int ommai_scale_barrier_measure(struct ommai_scale_barrier *barrier) {
  double cost[2];
  for (int i = 0; i < 2; i++) {
    struct omma_error error;
    struct ommai_team *team;
    if (ommai_team_create(i + 1, true, &ommai_default_allocator, &team, &error) != OMMA_OK) return ommai_failed_call(&error);
    cost[i] = time_runs(ommai_team_interface(team));
    ommai_team_destroy(team);
  }
  *barrier = (struct ommai_scale_barrier){cost[0], fmax(cost[1] - cost[0], 0)};
  return OMMAI_EXIT_DONE;
}

/* ---- prediction ------------------------------------------------------------------------------ */

/* When the last of n tasks ends. */
static double last_end(const double *tasks, size_t n, int n_workers) {
  double ends[OMMAI_SCALE_MAX_WORKERS] = {0}, last = 0;
  size_t taken[OMMAI_SCALE_MAX_WORKERS] = {0};
  size_t n_groups = (n + OMMAI_TEAM_GROUP - 1) / OMMAI_TEAM_GROUP;
  size_t of_team = ((size_t)n_workers + OMMAI_TEAM_GROUP - 1) / OMMAI_TEAM_GROUP;
  if (n_groups >= of_team) n_groups = of_team;
  size_t n_used = n_groups * OMMAI_TEAM_GROUP < (size_t)n_workers ? n_groups * OMMAI_TEAM_GROUP : (size_t)n_workers;
  for (size_t i = 0; i < n; i++) {
    size_t free = 0, group;
    for (size_t worker = 1; worker < n_used; worker++) free = ends[worker] < ends[free] ? worker : free;
    for (group = free / OMMAI_TEAM_GROUP; group + taken[group] * n_groups >= n;) group = (group + 1) % n_groups;
    ends[free] += tasks[group + taken[group]++ * n_groups];
    last = fmax(last, ends[free]);
  }
  return last;
}

struct ommai_scale_time ommai_scale_predict(const struct ommai_scale_trace *trace, int n_workers,
                                            const struct ommai_scale_barrier *barrier) {
  struct ommai_scale_time time = {0};
  double cost = barrier->alone + barrier->step * log2(n_workers);
  for (size_t i = 0; i < trace->n_runs; i++) {
    const struct ommai_scale_run *run = &trace->runs[i];
    time.serial += run->gap;
    time.parallel += last_end(trace->tasks + run->first_task, run->n_tasks, n_workers);
    if (run->n_tasks > 1 && n_workers > 1) time.parallel += cost;
  }
  return time;
}

struct ommai_scale_bounds ommai_scale_bounds(const struct ommai_scale_reads *reads, double parallel, int n_workers,
                                             double gbps) {
  if (gbps <= 0) return (struct ommai_scale_bounds){parallel, parallel, 0};
  double memory = reads->bytes / gbps * 1e-9, alone = reads->bytes / (n_workers * reads->core_gbps) * 1e-9;
  double slower = fmax(memory - alone, 0);
  return (struct ommai_scale_bounds){fmax(parallel, memory), fmax(parallel + slower, memory), memory};
}

double ommai_scale_sharing(double work_gbps, double waiting_gbps, int n_workers) {
  double each = (work_gbps + (n_workers - 1) * waiting_gbps) / n_workers;
  return work_gbps > each ? work_gbps / each : 1;
}

double ommai_scale_shown(const struct ommai_scale_bounds *bounds, double seconds) {
  const double least = 0.05; /* of the time, which is not known better */
  double span = bounds->plain - bounds->hidden;
  return span < least * bounds->hidden ? -1 : fmin(fmax((seconds - bounds->hidden) / span, 0), 1);
}
