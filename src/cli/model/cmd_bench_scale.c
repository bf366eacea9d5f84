/* omma bench scale: what teams of more workers than this machine has would take for images, a
 * prompt and decode steps. The work runs on one thread with each task timed, cut as for a team of
 * each size; the times are then handed out as the team hands out tasks. The check is the same work
 * on this machine's threads: as they do it, and predicted from their tasks one at a time, while
 * those who wait read memory as fast as the work does. Steps of both alternate: the memory's rate
 * and the way between the cores of a virtual machine may change at any time. */
#include <math.h>
#include <omma/omma.h>
#include <stdio.h>
#include <string.h>

#include "base/allocator.h"
#include "base/cpu_room.h"
#include "base/plural.h"
#include "base/team.h"
#include "cli/core/commands.h"
#include "cli/core/diagnostics.h"
#include "cli/core/format.h"
#include "cli/core/json_out.h"
#include "cli/model/bench_inputs.h"
#include "cli/model/bench_times.h"
#include "cli/model/model_options.h"
#include "cli/model/scale_works.h"

enum { MAX_CONTEXT = 1 << 16, MAX_TOKENS = 4096 };

static const char *const work_names[OMMAI_SCALE_WORKS] = {"tower", "prefill", "decode, 1 row", "decode, 16 rows"};
static const int team_sizes[] = {1, 2, 4, 8, 16, 32, 64, 96, 192};
enum { N_SIZES = sizeof team_sizes / sizeof *team_sizes, HERE = N_SIZES, N_RECORDS };

struct values {
  struct ommai_bench_runs runs;
  const char *image_size;
  int64_t images, context, tokens;
  double memory_gbps;
};

/* The passes of a work, the last MAX_PASSES of them, and what was made of them. */
enum { MAX_PASSES = 32 };
struct record {
  struct ommai_scale_pass passes[MAX_PASSES];
  size_t n_passes;
  struct ommai_scale_trace trace;
  int64_t n_steps; /* that `trace` has; 0: nothing yet */
};

struct work {
  bool there;   /* the model has it */
  bool cut;     /* by the size of the team */
  double bytes; /* that it, or a step, reads from memory; 0: none that counts */
  /* On one thread, task by task, cut as for each of team_sizes and for this machine's threads; only
   * the first where the cut is the same. */
  struct record alone[N_RECORDS];
  /* On this machine's threads: in turn, task by task; and together, run by run. */
  struct record in_turn, together;
  double shown;    /* of slower reading, 0 to 1: what a worker computes meanwhile hides the rest */
  bool shown_here; /* as measured; else half, because no thread here slows another's reading */
};

struct bench {
  struct values *values;
  struct omma_model_info info;
  int n_threads; /* of this machine */
  struct ommai_scale_runner runner;
  size_t n_token_ids;
  struct ommai_scale_reading reading;
  struct ommai_scale_barrier barrier;
  double core_gbps, read_gbps, least_gbps; /* of one thread, of all here at best and at worst */
  double roof_gbps;                        /* what is predicted with */
  struct work works[OMMAI_SCALE_WORKS];
};

/* ---- runs ------------------------------------------------------------------------------------ */

static double seconds_of(const struct record *record) {
  return ommai_scale_trace_seconds(&record->trace) / (double)record->n_steps;
}

/* What was noted in a mode; record NULL: forget it. */
static int keep(struct bench *bench, enum ommai_scale_mode mode, struct record *record) {
  struct ommai_scale_pass *noted = &bench->runner.recorder.passes[mode], forgotten = {0},
                          *pass = record ? &record->passes[record->n_passes++ % MAX_PASSES] : &forgotten;
  if (noted->trace.out_of_memory) return ommai_failed("bench scale: out of memory");
  ommai_scale_trace_release(&pass->trace);
  *pass = *noted;
  *noted = (struct ommai_scale_pass){0};
  ommai_scale_trace_release(&forgotten.trace);
  return OMMAI_EXIT_DONE;
}

static int fold(struct record *record) {
  struct ommai_scale_pass folded;
  size_t n = record->n_passes < MAX_PASSES ? record->n_passes : MAX_PASSES;
  if (!n) return OMMAI_EXIT_DONE;
  bool good = ommai_scale_passes_fold(record->passes, n, &folded);
  record->trace = folded.trace;
  record->n_steps = folded.n_steps;
  return good ? OMMAI_EXIT_DONE : ommai_failed("bench scale: out of memory");
}

static void release_record(struct record *record) {
  for (int i = 0; i < MAX_PASSES; i++) ommai_scale_trace_release(&record->passes[i].trace);
  ommai_scale_trace_release(&record->trace);
}

static int size_at(const struct bench *bench, int index) { return index == HERE ? bench->n_threads : team_sizes[index]; }

/* What a run costs: the least of all measurements, since another program only ever adds to one. */
static int measure_barrier(struct bench *bench) {
  struct ommai_scale_barrier barrier, *best = &bench->barrier;
  int code = ommai_scale_barrier_measure(&barrier);
  if (code == OMMAI_EXIT_DONE && (best->alone <= 0 || barrier.step < best->step)) *best = barrier;
  return code;
}

/* What a team of this machine's threads reads, and one: the best and the worst of all readings. */
static int read_memory(struct bench *bench) {
  double gbps = 0, alone = 0;
  int code = ommai_measure_read(bench->n_threads, &gbps);
  if (code == OMMAI_EXIT_DONE) code = ommai_measure_read(1, &alone);
  bench->least_gbps = bench->read_gbps > 0 ? fmin(bench->least_gbps, gbps) : gbps;
  bench->read_gbps = fmax(bench->read_gbps, gbps);
  bench->core_gbps = fmax(bench->core_gbps, alone);
  return code;
}

/* Works one after the other on one thread with each task timed: all of them, or those that are cut
 * anew for a team of that size. */
static int run_alone(struct bench *bench, int size) {
  ommai_scale_recorder_init(&bench->runner.recorder, NULL, NULL);
  bench->runner.recorder.team.n_workers = size_at(bench, size);
  int code = ommai_scale_runner_open(&bench->runner);
  for (int64_t round = size ? 0 : -bench->values->runs.warmup; round < bench->values->runs.repeat; round++) {
    for (int i = 0; i < OMMAI_SCALE_WORKS && code == OMMAI_EXIT_DONE; i++) {
      struct work *work = &bench->works[i];
      if (!work->there || (size && !work->cut)) continue;
      code = ommai_scale_runner_run(&bench->runner, i);
      if (code == OMMAI_EXIT_DONE) code = keep(bench, OMMAI_SCALE_ALONE, round < 0 ? NULL : &work->alone[size]);
    }
  }
  ommai_scale_runner_close(&bench->runner);
  for (int i = 0; i < OMMAI_SCALE_WORKS && code == OMMAI_EXIT_DONE; i++) code = fold(&bench->works[i].alone[size]);
  return code;
}

/* Works one after the other on this machine's threads, in turn and together. Those in turn read as
 * fast as one worker does for the work. */
static int run_rounds(struct bench *bench) {
  int code = ommai_scale_runner_open(&bench->runner);
  for (int64_t round = -bench->values->runs.warmup; round < bench->values->runs.repeat; round++) {
    if (code == OMMAI_EXIT_DONE) code = measure_barrier(bench);
    if (code == OMMAI_EXIT_DONE) code = read_memory(bench);
    for (int i = 0; i < OMMAI_SCALE_WORKS && code == OMMAI_EXIT_DONE; i++) {
      struct work *work = &bench->works[i];
      if (!work->there) continue;
      bench->reading.gbps = work->bytes / seconds_of(&work->alone[0]) * 1e-9;
      code = ommai_scale_runner_run(&bench->runner, i);
      if (code == OMMAI_EXIT_DONE) code = keep(bench, OMMAI_SCALE_IN_TURN, round < 0 ? NULL : &work->in_turn);
      if (code == OMMAI_EXIT_DONE) code = keep(bench, OMMAI_SCALE_TOGETHER, round < 0 ? NULL : &work->together);
    }
  }
  ommai_scale_runner_close(&bench->runner);
  return code == OMMAI_EXIT_DONE ? read_memory(bench) : code;
}

static int run_here(struct bench *bench) {
  struct omma_error error;
  struct ommai_team *team;
  if (ommai_team_create(bench->n_threads, true, &ommai_default_allocator, &team, &error) != OMMA_OK) {
    return ommai_failed_call(&error);
  }
  ommai_scale_recorder_init(&bench->runner.recorder, ommai_team_interface(team), &bench->reading);
  int code = ommai_scale_reading_create(&bench->reading);
  if (code == OMMAI_EXIT_DONE) code = run_rounds(bench);
  ommai_scale_reading_release(&bench->reading);
  ommai_team_destroy(team);
  for (int i = 0; i < OMMAI_SCALE_WORKS && code == OMMAI_EXIT_DONE; i++) {
    code = fold(&bench->works[i].in_turn);
    if (code == OMMAI_EXIT_DONE) code = fold(&bench->works[i].together);
  }
  return code;
}

/* ---- works ----------------------------------------------------------------------------------- */

static int make_tower(struct bench *bench) {
  struct omma_image_sizes sizes;
  if (!ommai_parse_image_size(bench->values->image_size, &sizes.width, &sizes.height) || sizes.width < 1 || sizes.height < 1) {
    return ommai_usage_error("bench scale: --image-size: '%s' is not a size: expected WIDTHxHEIGHT", bench->values->image_size);
  }
  if (bench->info.vision_depth == 0) return OMMAI_EXIT_DONE;
  bench->works[OMMAI_SCALE_TOWER] = (struct work){.there = true, .cut = true};
  return ommai_noise_image(sizes.width, sizes.height, (uint64_t)bench->values->runs.seed, &bench->runner.image);
}

/* What has to come from memory: nothing of what the last cache holds. */
static double from_memory(double bytes) {
  struct ommai_cpu_room room;
  ommai_cpu_room_here(&room);
  return bytes > (double)room.last_cache_bytes ? bytes : 0;
}

/* Of the weights, and of keys and values in the middle of the answers. */
static int make_text(struct bench *bench) {
  struct omma_error error;
  struct omma_text_cost prompt, middle;
  int64_t n_runs = bench->values->runs.repeat + bench->values->runs.warmup;
  if (omma_model_text_cost(bench->runner.model, bench->values->context, &prompt, &error) != OMMA_OK ||
      omma_model_text_cost(bench->runner.model, OMMAI_SCALE_STEP_PROMPT + bench->values->tokens / 2, &middle, &error) !=
          OMMA_OK) {
    return ommai_failed_call(&error);
  }
  bench->works[OMMAI_SCALE_PREFILL] =
      (struct work){.there = true, .cut = true, .bytes = from_memory((double)prompt.step_weight_bytes)};
  for (int work = OMMAI_SCALE_DECODE; work <= OMMAI_SCALE_DECODE_MANY; work++) {
    double rows = work == OMMAI_SCALE_DECODE ? 1 : OMMAI_SCALE_MANY_ROWS,
           bytes = (double)middle.step_weight_bytes + rows * (double)middle.step_kv_bytes;
    bench->works[work] = (struct work){.there = true, .bytes = from_memory(bytes)};
  }
  bench->n_token_ids =
      (size_t)(bench->values->context + OMMAI_SCALE_STEP_PROMPT + (2 * OMMAI_SCALE_WORKS + N_RECORDS) * n_runs);
  bench->runner.tokens = ommai_allocate(&ommai_default_allocator, bench->n_token_ids, sizeof *bench->runner.tokens);
  if (!bench->runner.tokens) return ommai_failed("bench scale: out of memory: %zu tokens", bench->n_token_ids);
  return ommai_random_tokens(bench->runner.model, (uint64_t)bench->values->runs.seed, bench->runner.tokens, bench->n_token_ids);
}

/* ---- predictions ----------------------------------------------------------------------------- */

/* The tasks for a team of n workers. */
static const struct record *record_for(const struct bench *bench, const struct work *work, int n_workers) {
  for (int i = 0; i < N_RECORDS; i++) {
    if (size_at(bench, i) == n_workers && work->alone[i].n_steps) return &work->alone[i];
  }
  return &work->alone[0];
}

static struct ommai_scale_bounds bounds_of(const struct bench *bench, const struct work *work, double parallel, int n_workers,
                                           double gbps) {
  const struct ommai_scale_reads reads = {work->bytes, bench->core_gbps};
  return ommai_scale_bounds(&reads, parallel, n_workers, gbps);
}

/* Seconds of the work, or of a step, on n workers at a memory rate; `bound`: the memory sets
 * them. */
static double predict(const struct bench *bench, const struct work *work, int n_workers, double gbps, bool *bound) {
  const struct record *record = record_for(bench, work, n_workers);
  struct ommai_scale_time time = ommai_scale_predict(&record->trace, n_workers, &bench->barrier);
  double steps = (double)record->n_steps, parallel = time.parallel / steps;
  struct ommai_scale_bounds bounds = bounds_of(bench, work, parallel, n_workers, gbps);
  *bound = bounds.memory > parallel;
  return time.serial / steps + bounds.hidden + work->shown * (bounds.plain - bounds.hidden);
}

/* From tasks in turn: they ran while the others read, so their times have what shows of it. */
static void measure_shown(const struct bench *bench, struct work *work) {
  const struct record *alone = record_for(bench, work, bench->n_threads), *in_turn = &work->in_turn;
  double seconds[2];
  for (int i = 0; i < 2; i++) {
    const struct record *record = i ? in_turn : alone;
    struct ommai_scale_time time = ommai_scale_predict(&record->trace, bench->n_threads, &bench->barrier);
    seconds[i] = time.parallel / (double)record->n_steps;
  }
  struct ommai_scale_bounds bounds = bounds_of(bench, work, seconds[0], bench->n_threads, bench->read_gbps);
  work->shown = ommai_scale_shown(&bounds, seconds[1]);
  work->shown_here = work->shown >= 0;
  if (!work->shown_here) work->shown = 0.5;
}

/* Seconds on one thread, and those of them between runs. */
static double alone(const struct bench *bench, const struct work *work) {
  bool ignored;
  return predict(bench, work, 1, 0, &ignored);
}

static double serial(const struct bench *bench, const struct work *work) {
  return ommai_scale_predict(&work->alone[0].trace, 1, &bench->barrier).serial / (double)work->alone[0].n_steps;
}

static double efficiency(const struct bench *bench, const struct work *work, int n_workers) {
  bool ignored;
  return alone(bench, work) / (n_workers * predict(bench, work, n_workers, bench->roof_gbps, &ignored));
}

static double share_of_roof(const struct bench *bench, const struct work *work, int n_workers) {
  bool ignored;
  return work->bytes / bench->roof_gbps * 1e-9 / predict(bench, work, n_workers, bench->roof_gbps, &ignored);
}

/* On this machine's threads. */
static double predict_here(const struct bench *bench, const struct work *work) {
  struct ommai_scale_time time = ommai_scale_predict(&work->in_turn.trace, bench->n_threads, &bench->barrier);
  return (time.serial + time.parallel) / (double)work->in_turn.n_steps;
}

/* ---- output ---------------------------------------------------------------------------------- */

static void put_work(struct ommai_text *out, const struct bench *bench, int index) {
  const struct work *work = &bench->works[index];
  ommai_put_begin(out, NULL, "{");
  ommai_put_string(out, "work", work_names[index]);
  OMMAI_PUT_INTEGERS(out, {"runs", (int64_t)work->alone[0].trace.n_runs}, {"tasks", (int64_t)work->alone[0].trace.n_tasks},
                     {"steps", (int64_t)work->alone[0].n_steps});
  OMMAI_PUT_REALS(out, {"serial_ms", serial(bench, work) * 1e3}, {"alone_ms", alone(bench, work) * 1e3},
                  {"bytes", work->bytes});
  ommai_put_begin(out, "predicted", "[");
  for (int i = 0; i < N_SIZES; i++) {
    bool bound;
    double seconds = predict(bench, work, team_sizes[i], bench->roof_gbps, &bound);
    ommai_put_begin(out, NULL, "{");
    ommai_put_integer(out, "workers", team_sizes[i]);
    OMMAI_PUT_REALS(out, {"ms", seconds * 1e3}, {"efficiency", efficiency(bench, work, team_sizes[i])},
                    {"share_of_roof", share_of_roof(bench, work, team_sizes[i])});
    ommai_put_boolean(out, "memory_bound", bound);
    ommai_put_end(out, "}");
  }
  ommai_put_end(out, "]");
  OMMAI_PUT_REALS(out, {"measured_ms", seconds_of(&work->together) * 1e3},
                  {"predicted_here_ms", predict_here(bench, work) * 1e3}, {"slower_reading_shown", work->shown});
  ommai_put_boolean(out, "slower_reading_measured", work->shown_here);
  ommai_put_end(out, "}");
}

static int print_json(const struct bench *bench) {
  struct ommai_text out;
  ommai_json_begin(&out);
  OMMAI_PUT_INTEGERS(&out, {"threads", bench->n_threads}, {"images", bench->values->images});
  OMMAI_PUT_STRINGS(&out, {"isa", bench->info.isa}, {"kept_weights", bench->info.kept_weights},
                    {"vision_weights", bench->info.vision_weights});
  OMMAI_PUT_REALS(&out, {"read_gbps", bench->read_gbps}, {"read_gbps_least", bench->least_gbps},
                  {"read_gbps_alone", bench->core_gbps}, {"memory_gbps", bench->roof_gbps},
                  {"run_us_alone", bench->barrier.alone * 1e6}, {"run_us_per_doubling", bench->barrier.step * 1e6});
  ommai_put_begin(&out, "works", "[");
  for (int work = 0; work < OMMAI_SCALE_WORKS; work++) {
    if (bench->works[work].there) put_work(&out, bench, work);
  }
  ommai_put_end(&out, "]");
  return ommai_json_end(&out);
}

static void print_work(const struct bench *bench, int index) {
  const struct work *work = &bench->works[index];
  char all[32], between[32];
  ommai_format_seconds(alone(bench, work), all, sizeof all);
  ommai_format_seconds(serial(bench, work), between, sizeof between);
  ommai_print_fact(stdout, work_names[index], "%s alone, %s of it between runs; %lld runs of %lld tasks", all, between,
                   (long long)work->alone[0].trace.n_runs / (long long)work->alone[0].n_steps,
                   (long long)work->alone[0].trace.n_tasks / (long long)work->alone[0].n_steps);
  ommai_print_fact(stdout, "  here", "%.2f ms on %d thread%s, predicted %.2f: %.2f of it", seconds_of(&work->together) * 1e3,
                   bench->n_threads, ommai_plural(bench->n_threads), predict_here(bench, work) * 1e3,
                   predict_here(bench, work) / seconds_of(&work->together));
  for (int i = 0; i < N_SIZES; i++) {
    bool bound;
    double seconds = predict(bench, work, team_sizes[i], bench->roof_gbps, &bound);
    printf("    %3d workers %12.3f ms   %.2f of %d times one", team_sizes[i], seconds * 1e3,
           efficiency(bench, work, team_sizes[i]), team_sizes[i]);
    if (work->bytes > 0)
      printf(", %.2f of the memory's rate%s", share_of_roof(bench, work, team_sizes[i]), bound ? " (bound)" : "");
    putchar('\n');
  }
}

static int print_table(const struct bench *bench) {
  ommai_print_fact(stdout, "predicted", "from tasks of one thread at %s, memory at %.0f GB/s", bench->info.isa,
                   bench->roof_gbps);
  ommai_print_fact(stdout, "a run costs", "%.2f us, and %.2f for each doubling of the workers (measured up to 2)",
                   bench->barrier.alone * 1e6, bench->barrier.step * 1e6);
  ommai_print_fact(stdout, "read here", "%.1f GB/s on one thread, %.1f to %.1f on %d", bench->core_gbps, bench->least_gbps,
                   bench->read_gbps, bench->n_threads);
  if (bench->works[OMMAI_SCALE_TOWER].there)
    ommai_print_fact(stdout, "images", "%lld in a pass of the tower", (long long)bench->values->images);
  for (int work = 0; work < OMMAI_SCALE_WORKS; work++) {
    if (bench->works[work].there) print_work(bench, work);
  }
  return ommai_finish_output();
}

/* ---- command --------------------------------------------------------------------------------- */

static int measure(struct bench *bench) {
  int code = measure_barrier(bench);
  for (int size = 0; size < N_RECORDS && code == OMMAI_EXIT_DONE; size++) {
    if (size == 0 || size_at(bench, size) > OMMAI_TEAM_GROUP) code = run_alone(bench, size);
  }
  if (code == OMMAI_EXIT_DONE) code = run_here(bench);
  for (int i = 0; i < OMMAI_SCALE_WORKS && code == OMMAI_EXIT_DONE; i++) {
    if (bench->works[i].there) measure_shown(bench, &bench->works[i]);
  }
  bench->roof_gbps = bench->values->memory_gbps > 0 ? bench->values->memory_gbps : bench->read_gbps;
  return code;
}

static int open_model(struct bench *bench) {
  struct ommai_common *common = &bench->values->runs.common;
  int64_t longest = bench->values->context > OMMAI_SCALE_STEP_PROMPT + bench->values->tokens
                        ? bench->values->context + 1
                        : OMMAI_SCALE_STEP_PROMPT + bench->values->tokens;
  common->max_model_len = longest;
  common->no_chat = true;
  bench->n_threads = ommai_common_threads(common);
  /* the largest team, of which one worker works */
  common->threads = bench->n_threads > team_sizes[N_SIZES - 1] ? bench->n_threads : team_sizes[N_SIZES - 1];
  int code = ommai_open_model(common, false, &bench->runner.model);
  if (code == OMMAI_EXIT_DONE) omma_model_get_info(bench->runner.model, &bench->info);
  return code;
}

static int run_bench_scale(const void *given, const struct ommai_strings *arguments) {
  struct values values = *(const struct values *)given;
  struct bench bench = {
      .values = &values,
      .runner = {
          .common = &values.runs.common, .n_images = values.images, .context = values.context, .n_tokens = values.tokens}};
  if (ommai_common_take_model("bench scale", arguments, &values.runs.common) != OMMAI_EXIT_DONE) return OMMAI_EXIT_USAGE;
  int code = open_model(&bench);
  if (code == OMMAI_EXIT_DONE) code = make_tower(&bench);
  if (code == OMMAI_EXIT_DONE) code = make_text(&bench);
  if (code == OMMAI_EXIT_DONE) code = measure(&bench);
  if (code == OMMAI_EXIT_DONE) code = values.runs.common.json ? print_json(&bench) : print_table(&bench);
  ommai_common_note_cpu(&values.runs.common);
  for (int work = 0; work < OMMAI_SCALE_WORKS; work++) {
    for (int i = 0; i < N_RECORDS; i++) release_record(&bench.works[work].alone[i]);
    release_record(&bench.works[work].in_turn);
    release_record(&bench.works[work].together);
  }
  ommai_release(&ommai_default_allocator, bench.runner.tokens, bench.n_token_ids, sizeof *bench.runner.tokens);
  omma_image_destroy(bench.runner.image);
  omma_model_close(bench.runner.model);
  return code;
}

#define OMMAI_VALUES struct values

static const struct ommai_option table[] = {
    OMMAI_STRING("image-size", image_size, "WxH", "size of the images", .initial = "512x512"),
    OMMAI_INTEGER("images", images, "N", 1, OMMAI_SCALE_MAX_IMAGES, "images in a pass of the tower", .initial = "1"),
    OMMAI_INTEGER("context", context, "N", 2, MAX_CONTEXT, "tokens of the prompt", .initial = "512"),
    OMMAI_INTEGER("tokens", tokens, "M", 3, MAX_TOKENS, "tokens of each answer; all but the first are steps", .initial = "33"),
    OMMAI_NUMBER("memory-gbps", memory_gbps, "RATE", 0, 1e6, "what the machine to predict for reads from memory, in GB/s",
                 .otherwise = "what this one reads"),
};
static const struct ommai_option_group options = OMMAI_OPTION_GROUP("Work", table);

const struct ommai_command ommai_command_bench_scale = {
    .name = "bench scale",
    .summary = "what more cores than this machine has would give, predicted from one",
    .arguments = "[DIR] [--image-size WxH] [--images N] [--context N] [--memory-gbps RATE]",
    .details =
        "Runs images through the tower, a prompt, and decode steps of 1 and 16 rows on one thread with every task timed, cut "
        "as for a team of each size, and hands the tasks out to teams of 1 to 192 workers as the thread pool does. Added are "
        "what a run costs (measured on one and two threads, growing with the logarithm of the workers), and what reading "
        "weights, keys and values at --memory-gbps takes longer than with one core alone, less what is computed meanwhile. The "
        "check is the same work on --threads threads, in alternating steps: all at the same time, and one at a time, each with "
        "the tasks that would be its own, while the others read memory as fast as the work does; the prediction is made from "
        "these. What reading shows of its being slower is measured so too; half of it is taken where no thread slows "
        "another's. "
        "Not in it: caches that several cores share, clocks that fall with the load, memory of another node.",
    .examples = {"omma bench scale models/my-model --memory-gbps 300"},
    .groups = {&options, &ommai_bench_run_options, &ommai_output_options, &ommai_model_options, &ommai_weight_options,
               &ommai_machine_options},
    .values_size = sizeof(struct values),
    .max_arguments = 1,
    .run = run_bench_scale,
};
