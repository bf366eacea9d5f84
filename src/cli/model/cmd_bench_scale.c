/* omma bench scale: what teams of more workers than this machine has would take for images, a
 * prompt and decode steps. The work runs on one thread with each task timed, cut as for a team of
 * each size; the times are then handed out as the team hands out tasks. The check is the same work
 * on this machine's threads: as they do it, and predicted from their tasks one at a time, while
 * those who wait read memory as fast as the work does. Steps of both alternate: the memory's rate
 * and the way between the cores of a virtual machine may change at any time. */
#include <math.h>
#include <omma/omma.h>
#include <stdio.h>

#include "base/allocator.h"
#include "base/checked.h"
#include "base/cpu_room.h"
#include "base/plural.h"
#include "base/team.h"
#include "cli/core/commands.h"
#include "cli/core/diagnostics.h"
#include "cli/core/interrupt.h"
#include "cli/model/bench_inputs.h"
#include "cli/model/bench_times.h"
#include "cli/model/model_options.h"
#include "cli/model/scale_report.h"

enum { MAX_CONTEXT = 1 << 16, MAX_TOKENS = 4096 };

/* What --work asks for. */
enum chosen { CHOSEN_ALL, CHOSEN_TOWER, CHOSEN_PREFILL, CHOSEN_DECODE };
static const char *const chosen_names[] = {"all", "tower", "prefill", "decode", NULL};

struct values {
  struct ommai_bench_runs runs;
  const char *image_size;
  int work; /* enum chosen */
  int64_t images, context, tokens;
  double memory_gbps;
  bool check_only;
};

struct bench {
  struct values *values;
  struct ommai_scale_report report;
  struct ommai_scale_runner runner;
  size_t n_token_ids;
  struct ommai_scale_reading reading;
};

static bool is_chosen(const struct bench *bench, enum chosen work) {
  return bench->values->work == CHOSEN_ALL || bench->values->work == (int)work;
}

/* ---- runs ------------------------------------------------------------------------------------ */

/* What was noted in a mode; record NULL: forget it. */
static int keep(struct bench *bench, enum ommai_scale_mode mode, struct ommai_scale_record *record) {
  struct ommai_scale_pass *noted = &bench->runner.recorder.passes[mode], forgotten = {0},
                          *pass = record ? &record->passes[record->n_passes++ % OMMAI_SCALE_MAX_PASSES] : &forgotten;
  if (noted->trace.out_of_memory) return ommai_failed("bench scale: out of memory");
  ommai_scale_trace_release(&pass->trace);
  *pass = *noted;
  *noted = (struct ommai_scale_pass){0};
  ommai_scale_trace_release(&forgotten.trace);
  return OMMAI_EXIT_DONE;
}

static int fold(struct ommai_scale_record *record) {
  struct ommai_scale_pass folded;
  size_t n = record->n_passes < OMMAI_SCALE_MAX_PASSES ? record->n_passes : OMMAI_SCALE_MAX_PASSES;
  if (!n) return OMMAI_EXIT_DONE;
  bool good = ommai_scale_passes_fold(record->passes, n, &folded);
  record->trace = folded.trace;
  record->n_steps = folded.n_steps;
  return good ? OMMAI_EXIT_DONE : ommai_failed("bench scale: out of memory");
}

static void release_record(struct ommai_scale_record *record) {
  for (int i = 0; i < OMMAI_SCALE_MAX_PASSES; i++) ommai_scale_trace_release(&record->passes[i].trace);
  ommai_scale_trace_release(&record->trace);
}

/* What a run costs: the least of all measurements, since another program only ever adds to one. */
static int measure_barrier(struct bench *bench) {
  struct ommai_scale_barrier barrier, *best = &bench->report.barrier;
  int code = ommai_scale_barrier_measure(&barrier);
  if (code == OMMAI_EXIT_DONE && (best->alone <= 0 || barrier.step < best->step)) *best = barrier;
  return code;
}

/* What a team of this machine's threads reads, and one. */
static int read_memory(struct bench *bench) {
  double gbps = 0, alone = 0;
  int code = ommai_measure_read(bench->report.n_threads, &gbps);
  if (code == OMMAI_EXIT_DONE) code = ommai_measure_read(1, &alone);
  ommai_readings_add(&bench->report.reads, gbps);
  bench->report.core_gbps = fmax(bench->report.core_gbps, alone);
  return code;
}

/* Whether the tasks are timed that are cut for that size of team: up to a group of workers the cut
 * is the same. The check needs one worker's rate alone. */
static bool is_timed(const struct bench *bench, int size) {
  return size == 0 || (!bench->report.check_only && ommai_scale_size_at(&bench->report, size) > OMMAI_TEAM_GROUP);
}

static bool is_timed_of(const struct bench *bench, int size, int work) {
  return bench->report.works[work].there && (size == 0 || bench->report.works[work].cut);
}

/* All passes of the command, those of two teams in turn as one. */
static int64_t count_passes(const struct bench *bench) {
  int64_t n = 0;
  for (int work = 0; work < OMMAI_SCALE_WORKS; work++) {
    int64_t warmup = bench->values->runs.warmup, repeat = bench->values->runs.repeat;
    if (bench->report.works[work].there) n += warmup + repeat;
    for (int size = 0; size < OMMAI_SCALE_RECORDS; size++) {
      if (is_timed(bench, size) && is_timed_of(bench, size, work)) n += repeat + (size ? 0 : warmup);
    }
  }
  return n;
}

/* One pass of a work; rounds below 0 are not measured. */
static int run_pass(struct bench *bench, int work, const char *where, int64_t round, int64_t first) {
  struct ommai_progress *progress = &bench->runner.progress;
  snprintf(progress->details, sizeof progress->details, "%s, %s, round %lld of %lld", ommai_scale_work_names[work], where,
           (long long)(round - first + 1), (long long)(bench->values->runs.repeat - first));
  return ommai_scale_runner_run(&bench->runner, (enum ommai_scale_work)work);
}

/* Works one after the other on one thread with each task timed: all of them, or those that are cut
 * anew for a team of that size. */
static int run_alone(struct bench *bench, int size) {
  ommai_scale_recorder_init(&bench->runner.recorder, NULL, NULL);
  bench->runner.recorder.team.n_workers = ommai_scale_size_at(&bench->report, size);
  char where[40];
  snprintf(where, sizeof where, "tasks for %d worker%s", ommai_scale_size_at(&bench->report, size),
           ommai_plural(ommai_scale_size_at(&bench->report, size)));
  int64_t first = size ? 0 : -bench->values->runs.warmup;
  int code = ommai_scale_runner_open(&bench->runner);
  for (int64_t round = first; round < bench->values->runs.repeat; round++) {
    for (int i = 0; i < OMMAI_SCALE_WORKS && code == OMMAI_EXIT_DONE; i++) {
      struct ommai_scale_measured *work = &bench->report.works[i];
      if (!is_timed_of(bench, size, i)) continue;
      code = run_pass(bench, i, where, round, first);
      if (code == OMMAI_EXIT_DONE) code = keep(bench, OMMAI_SCALE_ALONE, round < 0 ? NULL : &work->alone[size]);
    }
  }
  ommai_scale_runner_close(&bench->runner);
  for (int i = 0; i < OMMAI_SCALE_WORKS && code == OMMAI_EXIT_DONE; i++) code = fold(&bench->report.works[i].alone[size]);
  return code;
}

/* Works one after the other on this machine's threads, in turn and together. Those in turn read as
 * fast as one worker does for the work. */
static int run_rounds(struct bench *bench) {
  char where[40];
  snprintf(where, sizeof where, "%d thread%s here", bench->report.n_threads, ommai_plural(bench->report.n_threads));
  const int64_t first = -bench->values->runs.warmup;
  int code = ommai_scale_runner_open(&bench->runner);
  for (int64_t round = first; round < bench->values->runs.repeat; round++) {
    if (code == OMMAI_EXIT_DONE) code = measure_barrier(bench);
    if (code == OMMAI_EXIT_DONE) code = read_memory(bench);
    for (int i = 0; i < OMMAI_SCALE_WORKS && code == OMMAI_EXIT_DONE; i++) {
      struct ommai_scale_measured *work = &bench->report.works[i];
      if (!work->there) continue;
      bench->reading.gbps = work->bytes / ommai_scale_record_seconds(&work->alone[0]) * 1e-9;
      code = run_pass(bench, i, where, round, first);
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
  if (ommai_team_create(bench->report.n_threads, true, &ommai_default_allocator, &team, &error) != OMMA_OK) {
    return ommai_failed_call(&error);
  }
  ommai_scale_recorder_init(&bench->runner.recorder, ommai_team_interface(team), &bench->reading);
  int code = ommai_scale_reading_create(&bench->reading);
  if (code == OMMAI_EXIT_DONE) code = run_rounds(bench);
  ommai_scale_reading_release(&bench->reading);
  ommai_team_destroy(team);
  for (int i = 0; i < OMMAI_SCALE_WORKS && code == OMMAI_EXIT_DONE; i++) {
    code = fold(&bench->report.works[i].in_turn);
    if (code == OMMAI_EXIT_DONE) code = fold(&bench->report.works[i].together);
  }
  return code;
}

/* ---- works ----------------------------------------------------------------------------------- */

static int make_tower(struct bench *bench) {
  struct omma_image_sizes sizes;
  if (!ommai_parse_image_size(bench->values->image_size, &sizes.width, &sizes.height) || sizes.width < 1 || sizes.height < 1) {
    return ommai_usage_error("bench scale: --image-size: '%s' is not a size: expected WIDTHxHEIGHT", bench->values->image_size);
  }
  if (!is_chosen(bench, CHOSEN_TOWER)) return OMMAI_EXIT_DONE;
  if (bench->report.info.vision_depth == 0) {
    return bench->values->work == CHOSEN_ALL ? OMMAI_EXIT_DONE : ommai_failed("bench scale: --work tower: this model has none");
  }
  bench->report.works[OMMAI_SCALE_TOWER] = (struct ommai_scale_measured){.there = true, .cut = true};
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
  if (bench->values->work == CHOSEN_TOWER) return OMMAI_EXIT_DONE;
  const int64_t n_prompt = is_chosen(bench, CHOSEN_PREFILL) ? bench->values->context : 1;
  if (omma_model_text_cost(bench->runner.model, n_prompt, &prompt, &error) != OMMA_OK ||
      omma_model_text_cost(bench->runner.model, OMMAI_SCALE_STEP_PROMPT + bench->values->tokens / 2, &middle, &error) !=
          OMMA_OK) {
    return ommai_failed_call(&error);
  }
  bench->report.works[OMMAI_SCALE_PREFILL] = (struct ommai_scale_measured){
      .there = is_chosen(bench, CHOSEN_PREFILL), .cut = true, .bytes = from_memory((double)prompt.step_weight_bytes)};
  for (int work = OMMAI_SCALE_DECODE; work <= OMMAI_SCALE_DECODE_MANY; work++) {
    double rows = work == OMMAI_SCALE_DECODE ? 1 : OMMAI_SCALE_MANY_ROWS,
           bytes = (double)middle.step_weight_bytes + rows * (double)middle.step_kv_bytes;
    bench->report.works[work] =
        (struct ommai_scale_measured){.there = is_chosen(bench, CHOSEN_DECODE), .bytes = from_memory(bytes)};
  }
  bench->n_token_ids =
      (size_t)(bench->values->context + OMMAI_SCALE_STEP_PROMPT + (2 * OMMAI_SCALE_WORKS + OMMAI_SCALE_RECORDS) * n_runs);
  bench->runner.tokens = ommai_allocate(&ommai_default_allocator, bench->n_token_ids, sizeof *bench->runner.tokens);
  if (!bench->runner.tokens) return ommai_failed("bench scale: out of memory: %zu tokens", bench->n_token_ids);
  return ommai_random_tokens(bench->runner.model, (uint64_t)bench->values->runs.seed, bench->runner.tokens, bench->n_token_ids);
}

/* ---- command --------------------------------------------------------------------------------- */

static int measure(struct bench *bench) {
  bench->runner.n_passes = count_passes(bench);
  ommai_progress_begin_long(&bench->runner.progress, "bench scale");
  ommai_interrupt_say("bench scale: no work was measured completely"); /* rounds run them in turn */
  int code = measure_barrier(bench);
  for (int size = 0; size < OMMAI_SCALE_RECORDS && code == OMMAI_EXIT_DONE; size++) {
    if (is_timed(bench, size)) code = run_alone(bench, size);
  }
  if (code == OMMAI_EXIT_DONE) code = run_here(bench);
  ommai_interrupt_say(NULL);
  ommai_progress_end(&bench->runner.progress);
  if (code == OMMAI_EXIT_DONE) ommai_scale_report_finish(&bench->report);
  bench->report.roof_gbps = bench->values->memory_gbps > 0 ? bench->values->memory_gbps : bench->report.reads.best;
  return code;
}

/* The context that the works need, which the checkpoint must hold: known before its weights are
 * read. */
static int find_longest(struct bench *bench) {
  struct ommai_common common = bench->values->runs.common;
  struct omma_model_info info;
  common.max_model_len = 0;
  OMMAI_TRY_CODE(ommai_read_model_info(&common, &info));
  const int64_t prompt = is_chosen(bench, CHOSEN_PREFILL) ? bench->values->context + 1 : 0;
  const int64_t further = OMMAI_SCALE_STEP_PROMPT + OMMAI_SCALE_AHEAD;
  const int64_t answer = is_chosen(bench, CHOSEN_DECODE) ? bench->values->tokens + further : 0;
  if (prompt > info.max_model_len) {
    return ommai_failed("bench scale: --context: %lld tokens and one more, this checkpoint's limit is %lld",
                        (long long)bench->values->context, (long long)info.max_model_len);
  }
  if (answer > info.max_model_len) {
    return ommai_failed(
        "bench scale: --tokens: %lld after prompts of %d, and up to %d before the last of %d answers begins, this checkpoint's "
        "limit is %lld",
        (long long)bench->values->tokens, OMMAI_SCALE_STEP_PROMPT, OMMAI_SCALE_AHEAD, OMMAI_SCALE_MANY_ROWS,
        (long long)info.max_model_len);
  }
  bench->values->runs.common.max_model_len = ommai_max_i64(prompt, answer);
  return OMMAI_EXIT_DONE;
}

static int open_model(struct bench *bench) {
  const int largest = bench->values->check_only ? 1 : ommai_scale_sizes[OMMAI_SCALE_SIZES - 1];
  struct ommai_common *common = &bench->values->runs.common;
  common->no_chat = true;
  common->encoder_only = bench->values->work == CHOSEN_TOWER;
  bench->report.n_threads = ommai_common_threads(common);
  bench->report.images = bench->values->images;
  bench->report.check_only = bench->values->check_only;
  if (!common->encoder_only) {
    OMMAI_TRY_CODE(find_longest(bench));
  }
  /* the largest team, of which one worker works */
  common->threads = bench->report.n_threads > largest ? bench->report.n_threads : largest;
  int code = ommai_open_model(common, false, &bench->runner.model);
  if (code == OMMAI_EXIT_DONE) omma_model_get_info(bench->runner.model, &bench->report.info);
  return code;
}

static int run_bench_scale(const void *given, const struct ommai_strings *arguments) {
  struct values values = *(const struct values *)given;
  struct bench bench = {
      .values = &values,
      .runner = {
          .common = &values.runs.common, .n_images = values.images, .context = values.context, .n_tokens = values.tokens}};
  if (ommai_common_take_model("bench scale", arguments, &values.runs.common) != OMMAI_EXIT_DONE) return OMMAI_EXIT_USAGE;
  if (values.check_only && values.memory_gbps > 0) {
    return ommai_usage_error("bench scale: --memory-gbps is of other machines, and --check-only predicts none");
  }
  if (values.runs.repeat == 1) {
    ommai_warn(
        "bench scale: --repeat 1: one pass cannot show what other programs took of it, nor whether the machine is steady");
  }
  int code = open_model(&bench);
  if (code == OMMAI_EXIT_DONE) code = make_tower(&bench);
  if (code == OMMAI_EXIT_DONE) code = make_text(&bench);
  if (code == OMMAI_EXIT_DONE) code = measure(&bench);
  if (code == OMMAI_EXIT_DONE) code = ommai_scale_report_print(&bench.report, values.runs.common.json);
  ommai_common_note_cpu(&values.runs.common);
  for (int work = 0; work < OMMAI_SCALE_WORKS; work++) {
    for (int i = 0; i < OMMAI_SCALE_RECORDS; i++) release_record(&bench.report.works[work].alone[i]);
    release_record(&bench.report.works[work].in_turn);
    release_record(&bench.report.works[work].together);
  }
  ommai_release(&ommai_default_allocator, bench.runner.tokens, bench.n_token_ids, sizeof *bench.runner.tokens);
  omma_image_destroy(bench.runner.image);
  omma_model_close(bench.runner.model);
  return code;
}

#define OMMAI_VALUES struct values

static const struct ommai_option table[] = {
    OMMAI_CHOICE("work", work, "WORK", chosen_names,
                 "what is run: images through the tower, a prompt, or decode steps of 1 and 16 rows", .initial = "all"),
    OMMAI_STRING("image-size", image_size, "WxH", "size of the images", .initial = "512x512"),
    OMMAI_INTEGER("images", images, "N", 1, OMMAI_SCALE_MAX_IMAGES, "images in a pass of the tower", .initial = "1"),
    OMMAI_INTEGER("context", context, "N", 2, MAX_CONTEXT, "tokens of the prompt", .initial = "512"),
    OMMAI_INTEGER("tokens", tokens, "M", 3, MAX_TOKENS, "tokens of each answer; all but the first are steps", .initial = "33"),
    OMMAI_NUMBER("memory-gbps", memory_gbps, "RATE", 0, 1e6, "what the machine to predict for reads from memory, in GB/s",
                 .otherwise = "what this one reads"),
    OMMAI_FLAG("check-only", check_only,
               "compare this machine's threads with what is predicted for them, and predict no other team"),
};
static const struct ommai_option_group options = OMMAI_OPTION_GROUP("Work", table);

const struct ommai_command ommai_command_bench_scale = {
    .name = "bench scale",
    .summary = "what more cores than this machine has would give, predicted from one",
    .arguments = "[DIR] [--work WORK] [--check-only] [--images N] [--context N] [--memory-gbps RATE]",
    .details =
        "Runs images through the tower, a prompt, and decode steps of 1 and 16 rows on one thread with every task timed, cut "
        "as for a team of each size, and hands the tasks out to teams of 1 to 192 workers as the thread pool does. Added are "
        "what a run costs (measured on one and two threads, growing with the logarithm of the workers), and what reading "
        "weights, keys and values at --memory-gbps takes longer than with one core alone, less what is computed meanwhile. The "
        "check is the same work on --threads threads, in alternating steps: all at the same time, and one at a time, each with "
        "the tasks that would be its own, while the others read memory as fast as the work does; the prediction is made from "
        "these. What reading shows of its being slower is measured so too; half of it is taken where no thread slows "
        "another's. "
        "Not in it: caches that several cores share, clocks that fall with the load, memory of another node. "
        "How long it takes: each of --warmup and --repeat rounds runs the work on one thread, in turn and together, and each "
        "of "
        "--repeat the tower and the prompt once more for each of five larger teams. With two cores of a Zen 4 that is 3 "
        "seconds "
        "for the demo model, and for one of 2B parameters in bf16 8 minutes, 5 with --check-only, and a quarter of these with "
        "--repeat 1 --warmup 0; --work decode takes half.",
    .examples = {"omma bench scale models/my-model --memory-gbps 300"},
    .groups = {&options, &ommai_bench_run_options, &ommai_output_options, &ommai_model_options, &ommai_weight_options,
               &ommai_machine_options},
    .values_size = sizeof(struct values),
    .max_arguments = 1,
    .run = run_bench_scale,
};
