/* What omma bench scale has measured of each work, and the times on other teams that it predicts
 * from that. */
#pragma once

#include "cli/model/bench_times.h"
#include "cli/model/scale_works.h"

/* Sizes of the teams that times are predicted for; and indices of records, the last of them of this
 * machine's own threads. */
enum { OMMAI_SCALE_SIZES = 9, OMMAI_SCALE_HERE = OMMAI_SCALE_SIZES, OMMAI_SCALE_RECORDS };
extern const int ommai_scale_sizes[OMMAI_SCALE_SIZES];

/* The passes of a work, the last OMMAI_SCALE_MAX_PASSES of them, and what was made of them. */
enum { OMMAI_SCALE_MAX_PASSES = 32 };
struct ommai_scale_record {
  struct ommai_scale_pass passes[OMMAI_SCALE_MAX_PASSES];
  size_t n_passes;
  struct ommai_scale_trace trace;
  int64_t n_steps; /* that `trace` has; 0: nothing yet */
};

struct ommai_scale_measured {
  bool there;   /* it was run */
  bool cut;     /* by the size of the team */
  double bytes; /* that it, or a step, reads from memory; 0: none that counts */
  /* On one thread, task by task, cut as for each of ommai_scale_sizes and for this machine's
   * threads; only the first where the cut is the same. */
  struct ommai_scale_record alone[OMMAI_SCALE_RECORDS];
  /* On this machine's threads: in turn, task by task; and together, run by run. */
  struct ommai_scale_record in_turn, together;
  double shown;    /* of slower reading, 0 to 1: what a worker computes meanwhile hides the rest */
  bool shown_here; /* as measured; else half, because no thread here slows another's reading */
};

struct ommai_scale_report {
  struct omma_model_info info;
  int n_threads; /* of this machine */
  int64_t images;
  bool check_only; /* of this machine's threads: nothing else is predicted */
  struct ommai_scale_barrier barrier;
  struct ommai_readings reads; /* GB/s of all threads here */
  double core_gbps, roof_gbps; /* of one thread at best; what is predicted with */
  struct ommai_scale_measured works[OMMAI_SCALE_WORKS];
};

/* The workers of the team that a record is of. */
int ommai_scale_size_at(const struct ommai_scale_report *report, int index);

/* Of a step. */
double ommai_scale_record_seconds(const struct ommai_scale_record *record);

/* When all has been measured: finds `shown` of each work, where it is needed. */
void ommai_scale_report_finish(struct ommai_scale_report *report);

/* Returns an exit code. */
int ommai_scale_report_print(const struct ommai_scale_report *report, bool json);
