/* What one worker did, task by task, and from that how long a team of any size would take. */
#pragma once

#include <omma/host.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/model/scale_turn.h"

/* One run of a team. */
struct ommai_scale_run {
  double gap; /* seconds of the caller since the run before */
  size_t first_task, n_tasks;
  double waiting_gbps; /* read by each worker that waited for its turn; 0: none did */
};

/* The runs of a piece of work and the seconds of each task. Zero-initialised: none. */
struct ommai_scale_trace {
  struct ommai_scale_run *runs;
  double *tasks;
  size_t n_runs, run_capacity, n_tasks, task_capacity;
  bool out_of_memory;
};

/* What a worker that waits for its turn reads in GB/s while others work, on average. */
double ommai_scale_trace_waiting_gbps(const struct ommai_scale_trace *trace);

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

/* How a recorder's runs are worked: by the caller alone, with each task timed; by the workers of
 * another team in turn, likewise; by that team as it does, each run as one task. */
enum ommai_scale_mode { OMMAI_SCALE_ALONE, OMMAI_SCALE_IN_TURN, OMMAI_SCALE_TOGETHER, OMMAI_SCALE_MODES };

/* A team that notes what it runs. All but the team's `run` is called while no run is in
 * progress. */
struct ommai_scale_recorder {
  struct omma_team team;
  const struct omma_team *inner;             /* NULL: alone */
  const struct ommai_scale_reading *reading; /* of workers that wait for their turn */
  enum ommai_scale_mode mode;
  struct ommai_scale_pass passes[OMMAI_SCALE_MODES]; /* what was recorded in each mode */
  bool recording;
  int64_t end; /* of the last run so far; 0: none */
};

/* inner and reading: NULL, or a team with a thread for each worker, first in turn. */
void ommai_scale_recorder_init(struct ommai_scale_recorder *recorder, const struct omma_team *inner,
                               const struct ommai_scale_reading *reading);
/* The first step; what was recorded before is kept. */
void ommai_scale_recorder_begin(struct ommai_scale_recorder *recorder);
/* The next step, of an inner team in the other mode: so that steps of both find the machine in the
 * same state. */
void ommai_scale_recorder_step(struct ommai_scale_recorder *recorder);
void ommai_scale_recorder_end(struct ommai_scale_recorder *recorder);
void ommai_scale_recorder_release(struct ommai_scale_recorder *recorder);

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

/* What a work reads from memory, and how fast a core that reads alone does. */
struct ommai_scale_reads {
  double bytes, core_gbps;
};

/* Seconds between which the parallel part of a work lies where its workers together read more
 * slowly than as many cores alone. Each task takes longer by what its reading does, and computes
 * meanwhile: all of that is hidden, or none. */
struct ommai_scale_bounds {
  double hidden, plain, memory; /* memory: of reading alone, which the others are never below */
};

/* `parallel`: without that, on n_workers; gbps 0: memory as fast as they like. */
struct ommai_scale_bounds ommai_scale_bounds(const struct ommai_scale_reads *reads, double parallel, int n_workers,
                                             double gbps);

/* How much longer it takes where n_workers all work than where one works and the others only read:
 * that one gets work_gbps and they waiting_gbps each; where all work, all get the same. At least 1:
 * one that gets less than the others is not held up by the memory. */
double ommai_scale_sharing(double work_gbps, double waiting_gbps, int n_workers);

/* How far from `hidden` to `plain` seconds are that were measured, 0 to 1; -1 where these are too
 * close to each other to tell. */
double ommai_scale_shown(const struct ommai_scale_bounds *bounds, double seconds);

/* Workers of the largest team that can be predicted. */
enum { OMMAI_SCALE_MAX_WORKERS = 1024 };
