#include "cli/model/scale_report.h"

#include <math.h>
#include <stdio.h>

#include "base/plural.h"
#include "cli/core/diagnostics.h"
#include "cli/core/format.h"
#include "cli/core/json_out.h"

/* A prediction for this machine that is off by more than this part of what was measured says so. */
#define GOOD_PREDICTION 0.10
#define BAD_PREDICTION "off by more than a tenth: memory, clocks or other programs changed meanwhile"

const int ommai_scale_sizes[OMMAI_SCALE_SIZES] = {1, 2, 4, 8, 16, 32, 64, 96, 192};

int ommai_scale_size_at(const struct ommai_scale_report *report, int index) {
  return index == OMMAI_SCALE_HERE ? report->n_threads : ommai_scale_sizes[index];
}

double ommai_scale_record_seconds(const struct ommai_scale_record *record) {
  return ommai_scale_trace_seconds(&record->trace) / (double)record->n_steps;
}

/* ---- predictions ----------------------------------------------------------------------------- */

/* The tasks for a team of n workers. */
static const struct ommai_scale_record *record_for(const struct ommai_scale_report *report,
                                                   const struct ommai_scale_measured *work, int n_workers) {
  for (int i = 0; i < OMMAI_SCALE_RECORDS; i++) {
    if (ommai_scale_size_at(report, i) == n_workers && work->alone[i].n_steps) return &work->alone[i];
  }
  return &work->alone[0];
}

static struct ommai_scale_bounds bounds_of(const struct ommai_scale_report *report, const struct ommai_scale_measured *work,
                                           double parallel, int n_workers, double gbps) {
  const struct ommai_scale_reads reads = {work->bytes, report->core_gbps};
  return ommai_scale_bounds(&reads, parallel, n_workers, gbps);
}

/* Seconds of the work, or of a step, on n workers at a memory rate; `bound`: the memory sets
 * them. */
static double predict(const struct ommai_scale_report *report, const struct ommai_scale_measured *work, int n_workers,
                      double gbps, bool *bound) {
  const struct ommai_scale_record *record = record_for(report, work, n_workers);
  struct ommai_scale_time time = ommai_scale_predict(&record->trace, n_workers, &report->barrier);
  double steps = (double)record->n_steps, parallel = time.parallel / steps;
  struct ommai_scale_bounds bounds = bounds_of(report, work, parallel, n_workers, gbps);
  *bound = bounds.memory > parallel;
  return time.serial / steps + bounds.hidden + work->shown * (bounds.plain - bounds.hidden);
}

/* What in-turn tasks of this machine's threads take at the same time, without what is between runs.
 * The kernels of a work keep more requests under way than one that waits, so that they get more of
 * the memory's rate than it; together all get the same. */
static double parallel_here(const struct ommai_scale_report *report, const struct ommai_scale_measured *work) {
  const struct ommai_scale_record *in_turn = &work->in_turn;
  struct ommai_scale_time time = ommai_scale_predict(&in_turn->trace, report->n_threads, &report->barrier);
  double alone = ommai_scale_predict(&in_turn->trace, 1, &report->barrier).parallel, steps = (double)in_turn->n_steps;
  double sharing = ommai_scale_sharing(work->bytes * steps / alone * 1e-9, ommai_scale_trace_waiting_gbps(&in_turn->trace),
                                       report->n_threads);
  return sharing * time.parallel / steps;
}

/* From tasks in turn: they ran while the others read, so their times have what shows of it. */
static void measure_shown(const struct ommai_scale_report *report, struct ommai_scale_measured *work) {
  const struct ommai_scale_record *alone = record_for(report, work, report->n_threads);
  struct ommai_scale_time time = ommai_scale_predict(&alone->trace, report->n_threads, &report->barrier);
  struct ommai_scale_bounds bounds =
      bounds_of(report, work, time.parallel / (double)alone->n_steps, report->n_threads, report->reads.best);
  work->shown = ommai_scale_shown(&bounds, parallel_here(report, work));
  work->shown_here = work->shown >= 0;
  if (!work->shown_here) work->shown = 0.5;
}

/* Seconds of that between runs, which all workers but one wait for. */
static double serial(const struct ommai_scale_report *report, const struct ommai_scale_measured *work, int n_workers) {
  const struct ommai_scale_record *record = record_for(report, work, n_workers);
  return ommai_scale_predict(&record->trace, n_workers, &report->barrier).serial / (double)record->n_steps;
}

/* Seconds on one thread. */
static double alone(const struct ommai_scale_report *report, const struct ommai_scale_measured *work) {
  bool ignored;
  return predict(report, work, 1, 0, &ignored);
}

static double efficiency(const struct ommai_scale_report *report, const struct ommai_scale_measured *work, int n_workers) {
  bool ignored;
  return alone(report, work) / (n_workers * predict(report, work, n_workers, report->roof_gbps, &ignored));
}

static double share_of_roof(const struct ommai_scale_report *report, const struct ommai_scale_measured *work, int n_workers) {
  bool ignored;
  return work->bytes / report->roof_gbps * 1e-9 / predict(report, work, n_workers, report->roof_gbps, &ignored);
}

/* On this machine's threads. */
static double predict_here(const struct ommai_scale_report *report, const struct ommai_scale_measured *work) {
  struct ommai_scale_time time = ommai_scale_predict(&work->in_turn.trace, report->n_threads, &report->barrier);
  return time.serial / (double)work->in_turn.n_steps + parallel_here(report, work);
}

/* Of what was measured on this machine. */
static double share_here(const struct ommai_scale_report *report, const struct ommai_scale_measured *work) {
  return predict_here(report, work) / ommai_scale_record_seconds(&work->together);
}

static const char *doubt_here(const struct ommai_scale_report *report, const struct ommai_scale_measured *work) {
  return fabs(share_here(report, work) - 1) > GOOD_PREDICTION ? BAD_PREDICTION : NULL;
}

void ommai_scale_report_finish(struct ommai_scale_report *report) {
  for (int i = 0; i < OMMAI_SCALE_WORKS; i++) {
    if (report->works[i].there && !report->check_only) measure_shown(report, &report->works[i]);
  }
}

/* ---- output ---------------------------------------------------------------------------------- */

static void put_work(struct ommai_text *out, const struct ommai_scale_report *report, int index) {
  const struct ommai_scale_measured *work = &report->works[index];
  ommai_put_begin(out, NULL, "{");
  ommai_put_string(out, "work", ommai_scale_work_names[index]);
  OMMAI_PUT_INTEGERS(out, {"runs", (int64_t)work->alone[0].trace.n_runs}, {"tasks", (int64_t)work->alone[0].trace.n_tasks},
                     {"steps", (int64_t)work->alone[0].n_steps});
  OMMAI_PUT_REALS(out, {"serial_ms", serial(report, work, 1) * 1e3}, {"alone_ms", alone(report, work) * 1e3},
                  {"bytes", work->bytes});
  ommai_put_begin(out, "predicted", "[");
  for (int i = 0; i < OMMAI_SCALE_SIZES && !report->check_only; i++) {
    bool bound;
    double seconds = predict(report, work, ommai_scale_sizes[i], report->roof_gbps, &bound);
    ommai_put_begin(out, NULL, "{");
    ommai_put_integer(out, "workers", ommai_scale_sizes[i]);
    OMMAI_PUT_REALS(out, {"ms", seconds * 1e3}, {"serial_ms", serial(report, work, ommai_scale_sizes[i]) * 1e3},
                    {"efficiency", efficiency(report, work, ommai_scale_sizes[i])},
                    {"share_of_roof", share_of_roof(report, work, ommai_scale_sizes[i])});
    ommai_put_boolean(out, "memory_bound", bound);
    ommai_put_end(out, "}");
  }
  ommai_put_end(out, "]");
  OMMAI_PUT_REALS(out, {"measured_ms", ommai_scale_record_seconds(&work->together) * 1e3},
                  {"predicted_here_ms", predict_here(report, work) * 1e3},
                  {"predicted_over_measured", share_here(report, work)});
  if (!report->check_only) {
    OMMAI_PUT_REALS(out, {"slower_reading_shown", work->shown});
    ommai_put_boolean(out, "slower_reading_measured", work->shown_here);
  }
  ommai_put_string(out, "measured_note", doubt_here(report, work));
  ommai_put_end(out, "}");
}

static int print_json(const struct ommai_scale_report *report) {
  struct ommai_text out = ommai_json_begin();
  OMMAI_PUT_INTEGERS(&out, {"threads", report->n_threads}, {"images", report->images});
  OMMAI_PUT_STRINGS(&out, {"isa", report->info.isa}, {"kept_weights", report->info.kept_weights},
                    {"vision_weights", report->info.vision_weights});
  OMMAI_PUT_REALS(&out, {"read_gbps", report->reads.best}, {"read_gbps_least", report->reads.lowest},
                  {"read_gbps_alone", report->core_gbps}, {"memory_gbps", report->roof_gbps},
                  {"run_us_alone", report->barrier.alone * 1e6}, {"run_us_per_doubling", report->barrier.step * 1e6});
  ommai_put_string(&out, "read_note", ommai_readings_doubt(&report->reads));
  ommai_put_begin(&out, "works", "[");
  for (int work = 0; work < OMMAI_SCALE_WORKS; work++) {
    if (report->works[work].there) put_work(&out, report, work);
  }
  ommai_put_end(&out, "]");
  return ommai_json_end(&out);
}

static void print_work(const struct ommai_scale_report *report, int index) {
  const struct ommai_scale_measured *work = &report->works[index];
  const char *doubt = doubt_here(report, work);
  char all[32], between[32];
  ommai_format_seconds(alone(report, work), all, sizeof all);
  ommai_format_seconds(serial(report, work, 1), between, sizeof between);
  ommai_print_fact(stdout, ommai_scale_work_names[index], "%s alone, %s of it between runs; %lld runs of %lld tasks", all,
                   between, (long long)work->alone[0].trace.n_runs / (long long)work->alone[0].n_steps,
                   (long long)work->alone[0].trace.n_tasks / (long long)work->alone[0].n_steps);
  ommai_print_fact(stdout, "  here", "%.2f ms on %d thread%s; predicted %.2f ms, %.2f of what was measured%s%s",
                   ommai_scale_record_seconds(&work->together) * 1e3, report->n_threads, ommai_plural(report->n_threads),
                   predict_here(report, work) * 1e3, share_here(report, work), doubt ? ": " : "", doubt ? doubt : "");
  for (int i = 0; i < OMMAI_SCALE_SIZES && !report->check_only; i++) {
    bool bound;
    double seconds = predict(report, work, ommai_scale_sizes[i], report->roof_gbps, &bound);
    printf("    %3d workers %12.3f ms   %.2f of %d times one", ommai_scale_sizes[i], seconds * 1e3,
           efficiency(report, work, ommai_scale_sizes[i]), ommai_scale_sizes[i]);
    if (work->bytes > 0)
      printf(", %.2f of the memory's rate%s", share_of_roof(report, work, ommai_scale_sizes[i]), bound ? " (bound)" : "");
    putchar('\n');
  }
}

static int print_table(const struct ommai_scale_report *report) {
  const char *doubt = ommai_readings_doubt(&report->reads);
  if (report->check_only) {
    ommai_print_fact(stdout, "checked", "at %s, from tasks one at a time", report->info.isa);
  } else {
    ommai_print_fact(stdout, "predicted", "from tasks of one thread at %s, memory at %.0f GB/s", report->info.isa,
                     report->roof_gbps);
  }
  ommai_print_fact(stdout, "a run costs", "%.2f us, and %.2f for each doubling of the workers (measured up to 2)",
                   report->barrier.alone * 1e6, report->barrier.step * 1e6);
  ommai_print_fact(stdout, "read here", "%.1f GB/s on one thread, %.1f to %.1f on %d%s%s", report->core_gbps,
                   report->reads.lowest, report->reads.best, report->n_threads, doubt ? ": " : "", doubt ? doubt : "");
  if (report->works[OMMAI_SCALE_TOWER].there)
    ommai_print_fact(stdout, "images", "%lld in a pass of the tower", (long long)report->images);
  for (int work = 0; work < OMMAI_SCALE_WORKS; work++) {
    if (report->works[work].there) print_work(report, work);
  }
  return ommai_finish_output();
}

int ommai_scale_report_print(const struct ommai_scale_report *report, bool json) {
  return json ? print_json(report) : print_table(report);
}
