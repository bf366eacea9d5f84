/* omma bench scale: what teams of more workers than this machine has would take for an image, a
 * prompt and decode steps. The work runs on one thread with each task timed, cut as for a team of
 * each size; the times are then handed out as the team hands out tasks. The same work on this
 * machine's threads is the check. */
#include <math.h>
#include <omma/omma.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/allocator.h"
#include "base/plural.h"
#include "base/team.h"
#include "cli/core/commands.h"
#include "cli/core/diagnostics.h"
#include "cli/core/format.h"
#include "cli/core/json_out.h"
#include "cli/model/bench_inputs.h"
#include "cli/model/bench_times.h"
#include "cli/model/model_options.h"
#include "cli/model/scale_model.h"

enum {
  TOWER,
  PREFILL,
  DECODE,
  DECODE_MANY,
  N_WORKS,
  MANY_ROWS = 16,
  STEP_PROMPT = 64,
  MAX_CONTEXT = 1 << 16,
  MAX_TOKENS = 4096
};

static const char *const work_names[N_WORKS] = {"tower", "prefill", "decode, 1 row", "decode, 16 rows"};
static const int team_sizes[] = {1, 2, 4, 8, 16, 32, 64, 96, 192};
enum { N_SIZES = sizeof team_sizes / sizeof *team_sizes, HERE = N_SIZES, N_RECORDS };

struct values {
  struct ommai_bench_runs runs;
  const char *image_size;
  int64_t context, tokens;
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
  struct record here; /* on this machine's threads, run by run */
};

struct bench {
  struct values *values;
  struct omma_model *model;
  struct omma_model_info info;
  int n_threads; /* of this machine */
  struct omma_engine *engine;
  struct omma_image *image;
  int32_t *tokens; /* [n_token_ids] */
  size_t n_token_ids, next_prompt;
  struct ommai_scale_recorder recorder;
  int64_t n_steps; /* of what it has recorded; 1 where that is none */
  struct ommai_scale_barrier barrier;
  double core_gbps, read_gbps, roof_gbps; /* of one thread, of all here; what is predicted with */
  struct work works[N_WORKS];
};

/* ---- runs ------------------------------------------------------------------------------------ */

/* Answers of one work on the engine's thread. */
struct answers {
  struct ommai_scale_recorder *recorder;
  int64_t n, n_begun, n_tokens; /* tokens of recorded steps */
  bool steps, over;             /* steps are recorded, not the prompt; the recording is over */
};

/* Steps are recorded from when all answers have begun until one ends; a prompt until its token. */
static bool on_token(void *context, const struct omma_token_event *event) {
  struct answers *answers = context;
  answers->n_tokens += answers->n_begun == answers->n && !answers->over;
  if (event->index == 0 && ++answers->n_begun == answers->n) {
    if (answers->steps) {
      ommai_scale_recorder_begin(answers->recorder);
    } else {
      ommai_scale_recorder_end(answers->recorder);
    }
  } else if (event->last && answers->steps && !answers->over) {
    ommai_scale_recorder_end(answers->recorder);
    answers->over = true;
  }
  return true;
}

/* A prompt that the engine has not seen, and n answers to it. */
static int run_text(struct bench *bench, int64_t n_prompt, int64_t n_tokens, int64_t n) {
  struct omma_error error;
  struct omma_request *request;
  const struct omma_request_options options = {.sampling = {.max_tokens = n_tokens, .ignore_eos = true}};
  struct answers answers = {.recorder = &bench->recorder, .n = n, .steps = n_tokens > 1};
  const int32_t *tokens = bench->tokens + bench->next_prompt++;
  if (omma_request_create_tokens(bench->model, tokens, (size_t)n_prompt, &options, &request, &error) != OMMA_OK) {
    return ommai_failed_call(&error);
  }
  const struct omma_callbacks callbacks = {.context = &answers, .on_token = on_token};
  if (!answers.steps) ommai_scale_recorder_begin(&bench->recorder);
  enum omma_status status = ommai_ask_together(bench->engine, request, n, &callbacks, &error);
  omma_request_destroy(request);
  if (status != OMMA_OK) return ommai_failed_call(&error);
  /* Answers go in order, so the first one's end is the first token of its step. */
  bench->n_steps = answers.steps ? (answers.n_tokens + n - 1) / n : 1;
  if (bench->n_steps < 1)
    return ommai_failed("bench scale: the first answer ended before the last one began: give more --tokens");
  return OMMAI_EXIT_DONE;
}

static int run_tower(struct bench *bench) {
  struct omma_error error;
  struct omma_embeddings *embeddings;
  const struct omma_image *images[] = {bench->image};
  struct omma_image_options limits = ommai_common_image_options(&bench->values->runs.common);
  ommai_scale_recorder_begin(&bench->recorder);
  if (omma_encode(bench->engine, images, 1, &limits, true, NULL, NULL, &embeddings, &error) != OMMA_OK) {
    return ommai_failed_call(&error);
  }
  ommai_scale_recorder_end(&bench->recorder);
  bench->n_steps = 1;
  omma_embeddings_destroy(embeddings);
  return OMMAI_EXIT_DONE;
}

static int run_work(struct bench *bench, int work) {
  switch (work) {
    case TOWER: return run_tower(bench);
    case PREFILL: return run_text(bench, bench->values->context, 1, 1);
    default: return run_text(bench, STEP_PROMPT, bench->values->tokens, work == DECODE ? 1 : MANY_ROWS);
  }
}

static double seconds_of(const struct record *record) {
  return ommai_scale_trace_seconds(&record->trace) / (double)record->n_steps;
}

/* What the last run of a work has noted. */
static int keep(struct bench *bench, struct record *record) {
  struct ommai_scale_pass *pass = &record->passes[record->n_passes++ % MAX_PASSES];
  if (bench->recorder.trace.out_of_memory) return ommai_failed("bench scale: out of memory");
  ommai_scale_trace_release(&pass->trace);
  *pass = (struct ommai_scale_pass){bench->recorder.trace, bench->n_steps};
  bench->recorder.trace = (struct ommai_scale_trace){0};
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

/* Works in turn, on `inner`, or alone with each task timed: all of them, or those that are cut anew
 * for a team of that size. */
static int run_on(struct bench *bench, const struct omma_team *inner, int size) {
  enum { SLICE_MS = 60000 }; /* slices end where somebody waits, here nobody */
  struct omma_error error;
  int code = OMMAI_EXIT_DONE;
  ommai_scale_recorder_init(&bench->recorder, inner);
  if (!inner) bench->recorder.team.n_workers = size_at(bench, size);
  const struct omma_engine_options options = {.max_sequences = MANY_ROWS,
                                              .slice_ms = SLICE_MS,
                                              .slice_percent = 90,
                                              .encoder_cache_bytes = -1,
                                              .team = &bench->recorder.team};
  if (omma_engine_create(bench->model, &options, &bench->engine, &error) != OMMA_OK) return ommai_failed_call(&error);
  for (int64_t round = size ? 0 : -bench->values->runs.warmup; round < bench->values->runs.repeat; round++) {
    for (int i = 0; i < N_WORKS && code == OMMAI_EXIT_DONE; i++) {
      struct work *work = &bench->works[i];
      if (!work->there || (size && !work->cut)) continue;
      code = run_work(bench, i);
      if (code == OMMAI_EXIT_DONE && round >= 0) code = keep(bench, inner ? &work->here : &work->alone[size]);
    }
  }
  omma_engine_destroy(bench->engine);
  bench->engine = NULL;
  ommai_scale_trace_release(&bench->recorder.trace);
  return code;
}

static int run_together(struct bench *bench) {
  struct omma_error error;
  struct ommai_team *team;
  if (ommai_team_create(bench->n_threads, true, &ommai_default_allocator, &team, &error) != OMMA_OK) {
    return ommai_failed_call(&error);
  }
  int code = run_on(bench, ommai_team_interface(team), 0);
  ommai_team_destroy(team);
  return code;
}

/* ---- works ----------------------------------------------------------------------------------- */

static int make_tower(struct bench *bench) {
  struct omma_image_sizes sizes;
  if (!ommai_parse_image_size(bench->values->image_size, &sizes.width, &sizes.height) || sizes.width < 1 || sizes.height < 1) {
    return ommai_usage_error("bench scale: --image-size: '%s' is not a size: expected WIDTHxHEIGHT", bench->values->image_size);
  }
  if (bench->info.vision_depth == 0) return OMMAI_EXIT_DONE;
  bench->works[TOWER] = (struct work){.there = true, .cut = true};
  return ommai_noise_image(sizes.width, sizes.height, (uint64_t)bench->values->runs.seed, &bench->image);
}

/* What has to come from memory: nothing of what the last cache holds. */
static double from_memory(double bytes) { return bytes > (double)sysconf(_SC_LEVEL3_CACHE_SIZE) ? bytes : 0; }

/* Of the weights, and of keys and values in the middle of the answers. */
static int make_text(struct bench *bench) {
  struct omma_error error;
  struct omma_text_cost prompt, middle;
  int64_t n_runs = bench->values->runs.repeat + bench->values->runs.warmup;
  if (omma_model_text_cost(bench->model, bench->values->context, &prompt, &error) != OMMA_OK ||
      omma_model_text_cost(bench->model, STEP_PROMPT + bench->values->tokens / 2, &middle, &error) != OMMA_OK) {
    return ommai_failed_call(&error);
  }
  bench->works[PREFILL] = (struct work){.there = true, .cut = true, .bytes = from_memory((double)prompt.step_weight_bytes)};
  for (int work = DECODE; work <= DECODE_MANY; work++) {
    double rows = work == DECODE ? 1 : MANY_ROWS,
           bytes = (double)middle.step_weight_bytes + rows * (double)middle.step_kv_bytes;
    bench->works[work] = (struct work){.there = true, .bytes = from_memory(bytes)};
  }
  bench->n_token_ids = (size_t)(bench->values->context + STEP_PROMPT + (2 * N_WORKS + N_RECORDS) * n_runs);
  bench->tokens = ommai_allocate(&ommai_default_allocator, bench->n_token_ids, sizeof *bench->tokens);
  if (!bench->tokens) return ommai_failed("bench scale: out of memory: %zu tokens", bench->n_token_ids);
  return ommai_random_tokens(bench->model, (uint64_t)bench->values->runs.seed, bench->tokens, bench->n_token_ids);
}

/* ---- predictions ----------------------------------------------------------------------------- */

/* The tasks for a team of n workers. */
static const struct record *record_for(const struct bench *bench, const struct work *work, int n_workers) {
  for (int i = 0; i < N_RECORDS; i++) {
    if (size_at(bench, i) == n_workers && work->alone[i].n_steps) return &work->alone[i];
  }
  return &work->alone[0];
}

/* Seconds of the work, or of a step, on n workers at a memory rate; `bound`: the memory sets them.
 * A task's time is that of a core that reads alone. Where all together have less for each, a task
 * waits, and computes meanwhile: taken is the middle between all of the wait hidden and none. */
static double predict(const struct bench *bench, const struct work *work, int n_workers, double gbps, bool *bound) {
  const struct record *record = record_for(bench, work, n_workers);
  struct ommai_scale_time time = ommai_scale_predict(&record->trace, n_workers, &bench->barrier);
  double steps = (double)record->n_steps, memory = gbps > 0 ? work->bytes / gbps * 1e-9 : 0;
  double slower = gbps > 0 ? fmax(memory - work->bytes / (n_workers * bench->core_gbps) * 1e-9, 0) : 0;
  *bound = memory > time.parallel / steps;
  double hidden = fmax(time.parallel / steps, memory), plain = fmax(time.parallel / steps + slower, memory);
  return time.serial / steps + (hidden + plain) / 2;
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

/* On this machine's threads, at what they read. */
static double predict_here(const struct bench *bench, const struct work *work) {
  bool ignored;
  return predict(bench, work, bench->n_threads, bench->read_gbps, &ignored);
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
  OMMAI_PUT_REALS(out, {"measured_ms", seconds_of(&work->here) * 1e3}, {"predicted_here_ms", predict_here(bench, work) * 1e3});
  ommai_put_end(out, "}");
}

static int print_json(const struct bench *bench) {
  struct ommai_text out;
  ommai_json_begin(&out);
  ommai_put_integer(&out, "threads", bench->n_threads);
  OMMAI_PUT_STRINGS(&out, {"isa", bench->info.isa}, {"kept_weights", bench->info.kept_weights},
                    {"vision_weights", bench->info.vision_weights});
  OMMAI_PUT_REALS(&out, {"read_gbps", bench->read_gbps}, {"read_gbps_alone", bench->core_gbps},
                  {"memory_gbps", bench->roof_gbps}, {"run_us_alone", bench->barrier.alone * 1e6},
                  {"run_us_per_doubling", bench->barrier.step * 1e6});
  ommai_put_begin(&out, "works", "[");
  for (int work = 0; work < N_WORKS; work++) {
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
  ommai_print_fact(stdout, "  here", "%.2f ms on %d thread%s, predicted %.2f: %.2f of it", seconds_of(&work->here) * 1e3,
                   bench->n_threads, ommai_plural(bench->n_threads), predict_here(bench, work) * 1e3,
                   predict_here(bench, work) / seconds_of(&work->here));
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
  ommai_print_fact(stdout, "read here", "%.1f GB/s on one thread, %.1f on %d", bench->core_gbps, bench->read_gbps,
                   bench->n_threads);
  for (int work = 0; work < N_WORKS; work++) {
    if (bench->works[work].there) print_work(bench, work);
  }
  return ommai_finish_output();
}

/* ---- command --------------------------------------------------------------------------------- */

/* The best of several readings, before and after the runs that are held against it. */
static int read_memory(struct bench *bench) {
  enum { READINGS = 4 };
  int code = OMMAI_EXIT_DONE;
  for (int i = 0; i < READINGS && code == OMMAI_EXIT_DONE; i++) {
    double gbps = 0;
    code = ommai_measure_read(bench->n_threads, &gbps);
    bench->read_gbps = fmax(bench->read_gbps, gbps);
    if (code == OMMAI_EXIT_DONE) code = ommai_measure_read(1, &gbps);
    bench->core_gbps = fmax(bench->core_gbps, gbps);
  }
  return code;
}

static int measure(struct bench *bench) {
  int code = ommai_scale_barrier_measure(&bench->barrier);
  for (int size = 0; size < N_RECORDS && code == OMMAI_EXIT_DONE; size++) {
    if (size == 0 || size_at(bench, size) > OMMAI_TEAM_GROUP) code = run_on(bench, NULL, size);
  }
  if (code == OMMAI_EXIT_DONE) code = read_memory(bench);
  if (code == OMMAI_EXIT_DONE) code = run_together(bench);
  if (code == OMMAI_EXIT_DONE) code = read_memory(bench);
  for (int work = 0; work < N_WORKS; work++) {
    for (int i = 0; i < N_RECORDS && code == OMMAI_EXIT_DONE; i++) code = fold(&bench->works[work].alone[i]);
    if (code == OMMAI_EXIT_DONE) code = fold(&bench->works[work].here);
  }
  bench->roof_gbps = bench->values->memory_gbps > 0 ? bench->values->memory_gbps : bench->read_gbps;
  return code;
}

static int open_model(struct bench *bench) {
  struct ommai_common *common = &bench->values->runs.common;
  int64_t longest = bench->values->context > STEP_PROMPT + bench->values->tokens ? bench->values->context + 1
                                                                                 : STEP_PROMPT + bench->values->tokens;
  common->max_model_len = longest;
  common->no_chat = true;
  bench->n_threads = ommai_common_threads(common);
  /* the largest team, of which one worker works */
  common->threads = bench->n_threads > team_sizes[N_SIZES - 1] ? bench->n_threads : team_sizes[N_SIZES - 1];
  int code = ommai_open_model(common, false, &bench->model);
  if (code == OMMAI_EXIT_DONE) omma_model_get_info(bench->model, &bench->info);
  return code;
}

static int run_bench_scale(const void *given, const struct ommai_strings *arguments) {
  struct values values = *(const struct values *)given;
  struct bench bench = {.values = &values};
  if (ommai_common_take_model("bench scale", arguments, &values.runs.common) != OMMAI_EXIT_DONE) return OMMAI_EXIT_USAGE;
  int code = open_model(&bench);
  if (code == OMMAI_EXIT_DONE) code = make_tower(&bench);
  if (code == OMMAI_EXIT_DONE) code = make_text(&bench);
  if (code == OMMAI_EXIT_DONE) code = measure(&bench);
  if (code == OMMAI_EXIT_DONE) code = values.runs.common.json ? print_json(&bench) : print_table(&bench);
  ommai_common_note_cpu(&values.runs.common);
  for (int work = 0; work < N_WORKS; work++) {
    for (int i = 0; i < N_RECORDS; i++) release_record(&bench.works[work].alone[i]);
    release_record(&bench.works[work].here);
  }
  ommai_release(&ommai_default_allocator, bench.tokens, bench.n_token_ids, sizeof *bench.tokens);
  omma_image_destroy(bench.image);
  omma_model_close(bench.model);
  return code;
}

#define OMMAI_VALUES struct values

static const struct ommai_option table[] = {
    OMMAI_STRING("image-size", image_size, "WxH", "the image", .initial = "512x512"),
    OMMAI_INTEGER("context", context, "N", 2, MAX_CONTEXT, "tokens of the prompt", .initial = "512"),
    OMMAI_INTEGER("tokens", tokens, "M", 2, MAX_TOKENS, "tokens of each answer; all but the first are steps", .initial = "33"),
    OMMAI_NUMBER("memory-gbps", memory_gbps, "RATE", 0, 1e6, "what the machine to predict for reads from memory, in GB/s",
                 .otherwise = "what this one reads"),
};
static const struct ommai_option_group options = OMMAI_OPTION_GROUP("Work", table);

const struct ommai_command ommai_command_bench_scale = {
    .name = "bench scale",
    .summary = "what more cores than this machine has would give, predicted from one",
    .arguments = "[DIR] [--image-size WxH] [--context N] [--memory-gbps RATE]",
    .details =
        "Runs an image through the tower, a prompt, and decode steps of 1 and 16 rows on one thread with every task timed, cut "
        "as for a team of each size, and hands the tasks out to teams of 1 to 192 workers as the thread pool does. Added are "
        "what a run costs (measured on one and two threads, growing with the logarithm of the workers), and what reading "
        "weights, keys and values at --memory-gbps takes longer than with one core alone. The same work on --threads threads "
        "is measured and compared with its prediction. Not in it: caches that several cores share, clocks that fall with the "
        "load, memory of another node.",
    .examples = {"omma bench scale models/my-model --memory-gbps 300"},
    .groups = {&options, &ommai_bench_run_options, &ommai_output_options, &ommai_model_options, &ommai_weight_options,
               &ommai_machine_options},
    .values_size = sizeof(struct values),
    .max_arguments = 1,
    .run = run_bench_scale,
};
