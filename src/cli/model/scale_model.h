/* What one worker did, task by task, and from that how long a team of any size would take. */
#pragma once

#include <omma/host.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One run of a team. */
struct ommai_scale_run {
  double gap; /* seconds of the caller since the run before */
  size_t first_task, n_tasks;
};

/* The runs of a piece of work and the seconds of each task. Zero-initialised: none. */
struct ommai_scale_trace {
  struct ommai_scale_run *runs;
  double *tasks;
  size_t n_runs, run_capacity, n_tasks, task_capacity;
  bool out_of_memory;
};

/* Of all tasks and gaps. */
double ommai_scale_trace_seconds(const struct ommai_scale_trace *trace);

/* What was recorded in one pass: n_steps times the same, or all as it was where steps differ. */
struct ommai_scale_pass {
  struct ommai_scale_trace trace;
  int64_t n_steps;
};

/* One step of passes: each gap and task is the lower quartile of those in its place in all steps of
 * all passes, so that what other programs took of some is left out, on one thread and on many
 * alike. Where steps differ, one pass as a whole. Passes with other runs than the last one are not
 * looked at. False: out of memory. */
bool ommai_scale_passes_fold(const struct ommai_scale_pass *passes, size_t n, struct ommai_scale_pass *folded);

void ommai_scale_trace_release(struct ommai_scale_trace *trace);

/* A team that notes what it runs: alone, task by task; or on `inner`, each run as one task. `begin`
 * and `end` are called while no run is in progress. */
struct ommai_scale_recorder {
  struct omma_team team;
  const struct omma_team *inner; /* NULL: one worker, the caller */
  struct ommai_scale_trace trace;
  bool recording;
  int64_t end; /* of the last run so far; 0: none */
};

void ommai_scale_recorder_init(struct ommai_scale_recorder *recorder, const struct omma_team *inner);
void ommai_scale_recorder_begin(struct ommai_scale_recorder *recorder);
void ommai_scale_recorder_end(struct ommai_scale_recorder *recorder);

/* What a run costs beyond its tasks: alone + step log2(workers) seconds. */
struct ommai_scale_barrier {
  double alone, step;
};

/* From runs without work on the calling thread alone and on two. Returns an exit code. */
int ommai_scale_barrier_measure(struct ommai_scale_barrier *barrier);

/* A work's time in its parts. */
struct ommai_scale_time {
  double serial;   /* of the caller between runs */
  double parallel; /* of runs, with what they cost */
};

/* On n_workers (1 or more) under the rule of base/team.h: whoever is free first takes the next task
 * of its group, or of the next group that has one. */
struct ommai_scale_time ommai_scale_predict(const struct ommai_scale_trace *trace, int n_workers,
                                            const struct ommai_scale_barrier *barrier);

/* Workers of the largest team that can be predicted. */
enum { OMMAI_SCALE_MAX_WORKERS = 1024 };
