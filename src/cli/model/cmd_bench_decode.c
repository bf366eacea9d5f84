/* omma bench decode: prompts of random tokens through a model's language part and tokens after
 * them: the prompt compared with the peak of the same threads, the tokens compared with what the
 * same threads read from memory, both measured in the same run. */
#include <math.h>
#include <omma/omma.h>
#include <stdio.h>
#include <string.h>

#include "base/allocator.h"
#include "base/checked.h"
#include "base/clock.h"
#include "base/plural.h"
#include "cli/core/commands.h"
#include "cli/core/diagnostics.h"
#include "cli/core/format.h"
#include "cli/core/json_out.h"
#include "cli/core/progress.h"
#include "cli/model/bench_inputs.h"
#include "cli/model/bench_times.h"
#include "cli/model/model_options.h"
#include "cli/model/sampling_options.h"

#define MAX_CONTEXTS 64
#define MAX_CONTEXT (1 << 24)
#define MAX_TOKENS (1 << 20)
#define MAX_BATCH 1024
#define ENTRY_TEXT 32

struct values {
  struct ommai_bench_runs runs;
  const char *contexts;
  int64_t tokens, batch;
  double temperature, top_p;
};

/* One length of prompt, and the tokens after it. */
struct context {
  int64_t n_tokens;
  struct omma_request *request; /* `batch` times at once */
  double flops;                 /* of the prompt */
  double step_bytes;            /* of the step in the middle of the answers */
  /* seconds of the prompt, and of a token; sorted in the end */
  double prefill[OMMAI_MAX_RUNS], step[OMMAI_MAX_RUNS];
  double fastest; /* seconds of the fastest step of all runs */
};

/* What one run of the command owns. */
struct bench {
  const struct values *values;
  struct context *contexts; /* [MAX_CONTEXTS] */
  size_t n_contexts;
  int64_t longest;
  int32_t *tokens; /* [longest]; every prompt is the beginning of it */
  struct omma_model *model;
  struct omma_model_info info;
  struct omma_engine *engine;
  struct ommai_readings peaks, reads; /* before and after: GFLOP/s and GB/s */
  struct ommai_progress progress; /* of all runs: counts generated tokens */
  int64_t n_runs, n_done;         /* of the contexts; begun, and tokens of all */
};

static bool in_bf16(const struct bench *bench) { return strcmp(bench->info.weights, "bf16") == 0; }

/* ---- inputs ---------------------------------------------------------------------------------- */

/* The lengths of the command line, into `contexts`. */
static int parse_contexts(struct bench *bench) {
  for (const char *text = bench->values->contexts;; text++) {
    char entry[ENTRY_TEXT];
    size_t length = strcspn(text, ",");
    int64_t n_tokens;
    snprintf(entry, sizeof entry, "%.*s", (int)(length < sizeof entry ? length : sizeof entry), text);
    if (length >= sizeof entry || !ommai_parse_integer(entry, false, &n_tokens) || n_tokens < 1 || n_tokens > MAX_CONTEXT) {
      return ommai_usage_error("bench decode: --context: '%s' is not a length: expected 1 to %d", entry, MAX_CONTEXT);
    }
    bench->contexts[bench->n_contexts++].n_tokens = n_tokens;
    bench->longest = ommai_max_i64(bench->longest, n_tokens);
    text += length;
    if (!*text) return OMMAI_EXIT_DONE;
    if (bench->n_contexts == MAX_CONTEXTS) {
      return ommai_usage_error("bench decode: --context: more than %d lengths", MAX_CONTEXTS);
    }
  }
}

/* Whether the longest prompt and its answer fit into the checkpoint's context, before its weights
 * are read. */
static int check_longest(const struct bench *bench) {
  struct ommai_common common = bench->values->runs.common;
  struct omma_model_info info;
  common.max_model_len = 0;
  OMMAI_TRY_CODE(ommai_read_model_info(&common, &info));
  int64_t length = bench->longest + bench->values->tokens;
  if (length <= info.max_model_len) return OMMAI_EXIT_DONE;
  return ommai_failed("bench decode: a context of %lld and %lld more tokens are %lld, this checkpoint's limit is %lld",
                      (long long)bench->longest, (long long)bench->values->tokens, (long long)length,
                      (long long)info.max_model_len);
}

static int open_model(struct bench *bench) {
  struct ommai_common common = bench->values->runs.common;
  OMMAI_TRY_CODE(check_longest(bench));
  common.max_model_len = bench->longest + bench->values->tokens;
  common.no_chat = true;
  int code = ommai_open_model(&common, false, &bench->model);
  if (code == OMMAI_EXIT_DONE) omma_model_get_info(bench->model, &bench->info);
  return code;
}

/* The request of a length and its work. The first token comes from the prompt; the steps of the
 * others see from one token more than the prompt to all but the last of the answer. */
static int make_context(const struct bench *bench, struct context *context) {
  struct omma_error error;
  struct omma_text_cost prompt, middle;
  int64_t n_tokens = context->n_tokens;
  const struct omma_request_options options = {.sampling = {.max_tokens = bench->values->tokens,
                                                            .ignore_eos = true,
                                                            .temperature = bench->values->temperature,
                                                            .top_p = bench->values->top_p}};
  if (omma_request_create_tokens(bench->model, bench->tokens, (size_t)n_tokens, &options, &context->request, &error) !=
          OMMA_OK ||
      omma_model_text_cost(bench->model, n_tokens, &prompt, &error) != OMMA_OK ||
      omma_model_text_cost(bench->model, n_tokens + bench->values->tokens / 2, &middle, &error) != OMMA_OK) {
    return ommai_failed_call(&error);
  }
  context->flops = prompt.prompt_flops;
  context->step_bytes = (double)(middle.step_weight_bytes + bench->values->batch * middle.step_kv_bytes);
  return OMMAI_EXIT_DONE;
}

static int make_contexts(struct bench *bench) {
  size_t longest = (size_t)bench->longest;
  bench->tokens = ommai_allocate(&ommai_default_allocator, longest, sizeof *bench->tokens);
  if (!bench->tokens) return ommai_failed("bench decode: out of memory: %zu tokens", longest);
  int code = ommai_random_tokens(bench->model, (uint64_t)bench->values->runs.seed, bench->tokens, longest);
  for (size_t i = 0; i < bench->n_contexts && code == OMMAI_EXIT_DONE; i++) code = make_context(bench, &bench->contexts[i]);
  return code;
}

/* With room for keys and values of the longest prompt and its answer, however large, and for what
 * does not grow with them, of which an engine keeps some copies. */
static int create_engine(struct bench *bench) {
  enum { COPIES = 16 };
  struct omma_error error;
  struct omma_text_cost one, two;
  struct omma_engine_options options = {
      .max_sequences = bench->values->batch, .no_prefix_cache = bench->values->batch == 1, .slice_percent = 90};
  if (omma_model_text_cost(bench->model, 1, &one, &error) != OMMA_OK ||
      omma_model_text_cost(bench->model, 2, &two, &error) != OMMA_OK) {
    return ommai_failed_call(&error);
  }
  int64_t token = two.step_kv_bytes - one.step_kv_bytes, kept = one.step_kv_bytes - token;
  int64_t positions = ommai_round_up(bench->info.max_model_len, OMMA_ATTENTION_PAGE_TOKENS);
  options.kv_cache_bytes = bench->values->batch * (token * positions + kept * COPIES);
  if (omma_engine_create(bench->model, &options, &bench->engine, &error) != OMMA_OK) return ommai_failed_call(&error);
  return OMMAI_EXIT_DONE;
}

/* ---- runs ------------------------------------------------------------------------------------ */

/* What the answers of a run do, on the engine's thread. */
struct follower {
  struct bench *bench;
  int64_t n_first; /* answers that have begun */
  int64_t n_batch, n_tokens;
  int64_t decode_start,
      /* when the last answer had its first token, and the first answer its last one; 0: not yet */
      decode_end;
  int64_t step_start; /* when the step in progress began, while steps are timed */
  double fastest;     /* seconds of a step; 0: none yet */
  double prefill;     /* seconds of the prompts; one after the other */
};

static int64_t count_runs(const struct bench *bench) {
  return (bench->values->runs.warmup + bench->values->runs.repeat) * (int64_t)bench->n_contexts;
}

static void show_progress(struct bench *bench) {
  ommai_progress_update(&bench->progress, bench->n_done, count_runs(bench) * bench->values->batch * bench->values->tokens);
}

/* A token of a timed step; the step ends with that of the last answer. */
static void note_step(struct follower *follower) {
  if (++follower->n_tokens % follower->n_batch != 0) return;
  int64_t now = ommai_clock_ns();
  double seconds = (double)(now - follower->step_start) * 1e-9;
  if (follower->fastest == 0 || seconds < follower->fastest) follower->fastest = seconds;
  follower->step_start = now;
}

/* Notes the time from when all answers have begun until the first one ends: then each step has a
 * row of each answer. */
static bool on_token(void *context, const struct omma_token_event *event) {
  struct follower *follower = context;
  if (follower->decode_start && !follower->decode_end) note_step(follower);
  if (event->index == 0 && ++follower->n_first == follower->n_batch) {
    follower->decode_start = follower->step_start = ommai_clock_ns();
  }
  if (event->last && !follower->decode_end) follower->decode_end = ommai_clock_ns();
  follower->bench->n_done++;
  show_progress(follower->bench);
  return true;
}

static void on_progress(void *context, enum omma_stage stage, int64_t done, int64_t total) {
  struct follower *follower = context;
  (void)stage, (void)done, (void)total;
  show_progress(follower->bench);
}

static void on_finish(void *context, const struct omma_result *result) {
  struct follower *follower = context;
  follower->prefill += result->timings.prefill;
}

/* Runs a length; rounds from 0 on are noted. */
static int run_once(struct bench *bench, struct context *context, int64_t round) {
  int64_t batch = bench->values->batch;
  struct follower follower = {.bench = bench, .n_batch = batch};
  const struct omma_callbacks callbacks = {
      .context = &follower, .on_progress = on_progress, .on_token = on_token, .on_finish = on_finish};
  struct omma_error error;
  bench->n_runs++;
  snprintf(bench->progress.details, sizeof bench->progress.details, "run %lld of %lld, prompt of %lld",
           (long long)bench->n_runs, (long long)count_runs(bench), (long long)context->n_tokens);
  show_progress(bench);
  enum omma_status status = ommai_ask_together(bench->engine, context->request, batch, &callbacks, &error);
  if (status != OMMA_OK) return ommai_failed_call(&error);
  if (round < 0) return OMMAI_EXIT_DONE;
  if (follower.n_tokens == 0) {
    return ommai_failed("bench decode: the first answer ended before the last one began: give more --tokens");
  }
  /* Answers go in order, so the first one's end is the first token of its step. */
  int64_t n_steps = (follower.n_tokens - 1) / batch + 1;
  context->prefill[round] = follower.prefill;
  if (context->fastest == 0 || (follower.fastest > 0 && follower.fastest < context->fastest))
    context->fastest = follower.fastest;
  context->step[round] = (double)(follower.decode_end - follower.decode_start) * 1e-9 / (double)n_steps;
  return OMMAI_EXIT_DONE;
}

/* One round: every length once. */
static int run_round(struct bench *bench, int64_t round) {
  int code = OMMAI_EXIT_DONE;
  for (size_t i = 0; i < bench->n_contexts && code == OMMAI_EXIT_DONE; i++) {
    code = run_once(bench, &bench->contexts[i], round);
  }
  return code;
}

static int measure_machine(struct bench *bench) {
  double gflops = 0, gbps = 0;
  int code = ommai_measure_peak(bench->info.isa, bench->info.n_threads, in_bf16(bench), &gflops);
  if (code == OMMAI_EXIT_DONE) code = ommai_measure_read(bench->info.n_threads, &gbps);
  ommai_readings_add(&bench->peaks, gflops);
  ommai_readings_add(&bench->reads, gbps);
  return code;
}

/* The machine before and after, the better of the two, so that a clock that rose meanwhile does not
 * flatter the model. */
static int measure(struct bench *bench) {
  int code = measure_machine(bench);
  ommai_progress_begin_long(&bench->progress, "prompts and tokens");
  for (int64_t round = -bench->values->runs.warmup; round < bench->values->runs.repeat && code == OMMAI_EXIT_DONE; round++) {
    code = run_round(bench, round);
  }
  ommai_progress_end(&bench->progress);
  if (code == OMMAI_EXIT_DONE) code = measure_machine(bench);
  for (size_t i = 0; i < bench->n_contexts; i++) {
    ommai_times_sort(bench->contexts[i].prefill, (size_t)bench->values->runs.repeat);
    ommai_times_sort(bench->contexts[i].step, (size_t)bench->values->runs.repeat);
  }
  return code;
}

/* ---- output ---------------------------------------------------------------------------------- */

static double median(const struct bench *bench, const double *times) {
  return ommai_times_median(times, (size_t)bench->values->runs.repeat);
}

static double times_peak(const struct bench *bench, const struct context *context) {
  return context->prefill[0] * bench->peaks.best * 1e9 / context->flops;
}

static double step_gbps(const struct context *context) { return context->step_bytes / context->step[0] * 1e-9; }

static double fraction_of_bandwidth(const struct bench *bench, const struct context *context) {
  return bench->reads.best > 0 ? step_gbps(context) / bench->reads.best : 0;
}

/* The read rate is the best of short pieces too. */
static double fastest_fraction(const struct bench *bench, const struct context *context) {
  if (context->fastest <= 0) return fraction_of_bandwidth(bench, context);
  return fraction_of_bandwidth(bench, context) * context->step[0] / context->fastest;
}

static double step_rate(const struct bench *bench, const struct context *context) {
  return (double)bench->values->batch / context->step[0];
}

/* Answers to one prompt share it, so that only one alone gives its time. */
static void put_prefill(struct ommai_text *out, const struct bench *bench, const struct context *context) {
  if (bench->values->batch > 1) return;
  OMMAI_PUT_REALS(
      out, {"prefill_ms_min", context->prefill[0] * 1e3}, {"prefill_ms_median", median(bench, context->prefill) * 1e3},
      {"prefill_flops", context->flops}, {"prefill_tokens_per_s", (double)context->n_tokens / context->prefill[0]},
      {"prefill_times_peak", times_peak(bench, context)}, {"prefill_fraction_of_peak", 1 / times_peak(bench, context)});
}

/* Of the time of all decode steps, what was not the network's. */
static double other_share(const struct bench *bench) {
  struct omma_engine_stats stats;
  omma_engine_get_stats(bench->engine, &stats);
  return stats.decode_seconds > 0 ? 1 - stats.decode_model_seconds / stats.decode_seconds : 0;
}

static void put_context(struct ommai_text *out, const struct bench *bench, const struct context *context) {
  ommai_put_begin(out, NULL, "{");
  ommai_put_integer(out, "context", context->n_tokens);
  OMMAI_PUT_REALS(out, {"decode_ms_fastest", context->fastest * 1e3},
                  {"fastest_fraction_of_bandwidth", fastest_fraction(bench, context)},
                  {"decode_ms_min", context->step[0] * 1e3}, {"decode_ms_median", median(bench, context->step) * 1e3},
                  {"decode_tokens_per_s", step_rate(bench, context)});
  ommai_put_integer(out, "bytes_per_step", (int64_t)context->step_bytes);
  OMMAI_PUT_REALS(out, {"decode_gbps", step_gbps(context)}, {"fraction_of_bandwidth", fraction_of_bandwidth(bench, context)});
  put_prefill(out, bench, context);
  ommai_put_end(out, "}");
}

static int print_json(const struct bench *bench) {
  struct ommai_text out = ommai_json_begin();
  ommai_put_begin(&out, "contexts", "[");
  for (size_t i = 0; i < bench->n_contexts; i++) put_context(&out, bench, &bench->contexts[i]);
  ommai_put_end(&out, "]");
  ommai_put_real(&out, "draw_and_schedule_share", other_share(bench));
  OMMAI_PUT_INTEGERS(&out, {"batch", bench->values->batch}, {"tokens", bench->values->tokens});
  ommai_put_real(&out, "peak_gflops", bench->peaks.best);
  ommai_put_reals(&out, "peaks", bench->peaks.values, bench->peaks.n);
  ommai_put_real(&out, "read_gbps", bench->reads.best);
  ommai_put_reals(&out, "reads", bench->reads.values, bench->reads.n);
  ommai_put_integer(&out, "threads", bench->info.n_threads);
  OMMAI_PUT_STRINGS(&out, {"isa", bench->info.isa}, {"weights", bench->info.weights},
                    {"kept_weights", bench->info.kept_weights}, {"kv_cache", bench->info.kv_cache});
  OMMAI_PUT_INTEGERS(&out, {"runs", bench->values->runs.repeat}, {"weight_bytes", bench->info.weight_bytes});
  return ommai_json_end(&out);
}

static void print_context(const struct bench *bench, const struct context *context) {
  char prompt[40];
  int64_t batch = bench->values->batch;
  snprintf(prompt, sizeof prompt, "prompt of %lld", (long long)context->n_tokens);
  if (batch == 1) {
    ommai_print_fact(stdout, prompt, "%.1f ms at best, %.1f ms median, %.1f tokens a second", context->prefill[0] * 1e3,
                     median(bench, context->prefill) * 1e3, (double)context->n_tokens / context->prefill[0]);
    ommai_print_fact(stdout, "  against the peak", "%.2f times the time of %.4g GFLOP at the peak, a share of %.2f",
                     times_peak(bench, context), context->flops * 1e-9, 1 / times_peak(bench, context));
  } else {
    ommai_print_fact(stdout, prompt, "%lld answers at once", (long long)batch);
  }
  ommai_print_fact(stdout, batch == 1 ? "  a token after it" : "  a token of each",
                   "%.2f ms in the best run, %.2f ms median, %.1f tokens a second; %.2f ms the fastest step",
                   context->step[0] * 1e3, median(bench, context->step) * 1e3, step_rate(bench, context),
                   context->fastest * 1e3);
  ommai_print_fact(stdout, "  against the memory", "%.4g MB read, %.1f GB/s, a share of %.2f; the fastest step's %.2f",
                   context->step_bytes * 1e-6, step_gbps(context), fraction_of_bandwidth(bench, context),
                   fastest_fraction(bench, context));
}

/* One figure of the machine, or two where it was not steady. */
static void print_machine(const char *name, const struct ommai_readings *readings, const char *unit) {
  const char *doubt = ommai_readings_doubt(readings);
  if (doubt) {
    ommai_print_fact(stdout, name, "%.1f %s; %.1f before, %.1f after: %s", readings->best, unit, readings->values[0],
                     readings->values[1], doubt);
  } else {
    ommai_print_fact(stdout, name, "%.1f %s", readings->best, unit);
  }
}

static int print_table(const struct bench *bench) {
  ommai_print_fact(stdout, "language model", "%s in %s over %s weights, keys and values in %s, on %d thread%s, %s",
                   bench->info.model_type, bench->info.weights, bench->info.kept_weights, bench->info.kv_cache,
                   bench->info.n_threads, ommai_plural(bench->info.n_threads), bench->info.isa);
  ommai_print_fact(stdout, "work", "%lld run%s, %lld tokens after each prompt", (long long)bench->values->runs.repeat,
                   ommai_plural(bench->values->runs.repeat), (long long)bench->values->tokens);
  print_machine("peak", &bench->peaks, "GFLOP/s");
  print_machine("memory, read", &bench->reads, "GB/s");
  for (size_t i = 0; i < bench->n_contexts; i++) print_context(bench, &bench->contexts[i]);
  ommai_print_fact(stdout, "drawing and scheduling", "%.2f %% of the steps' time", 100 * other_share(bench));
  return ommai_finish_output();
}

/* ---- command --------------------------------------------------------------------------------- */

static void release(struct bench *bench) {
  omma_engine_destroy(bench->engine);
  for (size_t i = 0; i < bench->n_contexts; i++) omma_request_destroy(bench->contexts[i].request);
  omma_model_close(bench->model);
  ommai_release(&ommai_default_allocator, bench->tokens, (size_t)bench->longest, sizeof *bench->tokens);
  ommai_release(&ommai_default_allocator, bench->contexts, MAX_CONTEXTS, sizeof *bench->contexts);
}

static int run_bench_decode(const void *given, const struct ommai_strings *arguments) {
  struct values values = *(const struct values *)given;
  struct bench bench = {.values = &values};
  if (ommai_common_take_model("bench decode", arguments, &values.runs.common) != OMMAI_EXIT_DONE) return OMMAI_EXIT_USAGE;
  bench.contexts = ommai_allocate(&ommai_default_allocator, MAX_CONTEXTS, sizeof *bench.contexts);
  if (!bench.contexts) return ommai_failed("bench decode: out of memory");
  int code = parse_contexts(&bench);
  if (code == OMMAI_EXIT_DONE) code = open_model(&bench);
  if (code == OMMAI_EXIT_DONE) code = make_contexts(&bench);
  if (code == OMMAI_EXIT_DONE) code = create_engine(&bench);
  if (code == OMMAI_EXIT_DONE) code = measure(&bench);
  if (code == OMMAI_EXIT_DONE) code = values.runs.common.json ? print_json(&bench) : print_table(&bench);
  ommai_common_note_cpu(&values.runs.common);
  release(&bench);
  return code;
}

#define OMMAI_VALUES struct values

static const struct ommai_option table[] = {
    OMMAI_STRING("context", contexts, "N,...", "prompt lengths in tokens", .initial = "128,1024"),
    OMMAI_INTEGER("tokens", tokens, "M", 2, MAX_TOKENS,
                  "tokens after each prompt; the first comes from prefill, the others are timed", .initial = "16"),
    OMMAI_INTEGER("batch", batch, "N", 1, MAX_BATCH,
                  "batch size: answers at the same time, one token of each per step; timed while all are being generated",
                  .initial = "1"),
    OMMAI_TEMPERATURE_OPTION(temperature, 2, .initial = "0", .elsewhere = "--temp"),
    OMMAI_TOP_P_OPTION(top_p, .above_minimum = true, .initial = "1"),
};
static const struct ommai_option_group options = OMMAI_OPTION_GROUP("Work", table);

const struct ommai_command ommai_command_bench_decode = {
    .name = "bench decode",
    .summary = "speed of prefill and decode compared with this machine's peak and memory",
    .arguments = "[DIR] [--context N,...] [--tokens M] [--batch N]",
    .details =
        "Runs the prefill of prompts of random tokens and decodes tokens after them, past any end-of-sequence token. Compares "
        "the best time of a prefill with that of its floating-point operations at the machine's peak, which the same threads "
        "reach from registers, and what the decode of a token reads (weights, keys and values) with the rate at which the same "
        "threads read memory, both measured in the same run: the mean of a run's tokens, and the fastest step, since the "
        "memory's rate is the best of pieces of some milliseconds.",
    .examples = {"omma bench decode models/my-model --context 100,1024"},
    .groups = {&options, &ommai_bench_run_options, &ommai_output_options, &ommai_model_options, &ommai_weight_options,
               &ommai_machine_options},
    .values_size = sizeof(struct values),
    .max_arguments = 1,
    .run = run_bench_decode,
};
