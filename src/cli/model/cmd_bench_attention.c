/* omma bench attention: the attention operator alone, compared with the peak of the same threads in
 * the same run. */
#include <omma/attention.h>
#include <omma/omma.h>
#include <stdio.h>
#include <string.h>

#include "base/allocator.h"
#include "base/checked.h"
#include "base/clock.h"
#include "base/plural.h"
#include "base/team.h"
#include "cli/core/commands.h"
#include "cli/core/diagnostics.h"
#include "cli/core/format.h"
#include "cli/core/json_out.h"
#include "cli/model/bench_inputs.h"
#include "cli/model/bench_times.h"
#include "cli/model/model_options.h"

#define MAX_RUNS 10000
#define MIN_RUNS 5

struct values {
  struct ommai_common common;
  int64_t head_dim, heads, kv_heads;
  const char *segments;
  int dtype;
  bool causal;
  int64_t window;
  double seconds;
  int64_t seed;
};

static const char *const dtype_names[] = {"f32", "bf16", "f16", NULL};
static const enum omma_dtype dtypes[] = {OMMA_F32, OMMA_BF16, OMMA_F16};

/* What one run of the command owns. */
struct bench {
  const struct values *values;
  int n_threads;
  struct ommai_segments segments;
  struct omma_attention_context *context;
  struct omma_attention_plan *plan;
  struct omma_attention_plan_info info;
  struct ommai_team *team;
  struct ommai_attention_inputs inputs;
  void *workspace;
  size_t workspace_bytes;
  double plan_seconds;
  double peak_gflops;
  double *times; /* [MAX_RUNS], sorted in the end */
  size_t n_times;
};

static int make_plan(struct bench *bench) {
  const struct values *values = bench->values;
  struct omma_attention_options options = {.isa = ommai_common_isa(&values->common)};
  struct omma_attention_spec spec = {
      .mode = values->causal ? OMMA_ATTENTION_CAUSAL : OMMA_ATTENTION_ENCODER,
      .dtype = dtypes[values->dtype],
      .n_heads = (int32_t)values->heads,
      .n_kv_heads = (int32_t)values->kv_heads,
      .head_dim = (int32_t)values->head_dim,
      .n_tokens = bench->segments.borders[bench->segments.count],
      .index_type = OMMA_INDEX_INT64,
      .n_segments = (int64_t)bench->segments.count,
      .cu_seqlens = bench->segments.borders,
      .window = values->window,
  };
  struct omma_error error;
  if (omma_attention_context_create(&options, &bench->context, &error) != OMMA_OK) return ommai_failed_call(&error);
  double start = ommai_clock_seconds();
  if (omma_attention_plan_create(bench->context, &spec, &bench->plan, &error) != OMMA_OK) return ommai_failed_call(&error);
  bench->plan_seconds = ommai_clock_seconds() - start;
  omma_attention_plan_get_info(bench->plan, &bench->info);
  return OMMAI_EXIT_DONE;
}

static int allocate(struct bench *bench) {
  const struct values *values = bench->values;
  struct omma_error error;
  if (ommai_team_create(bench->n_threads, true, &ommai_default_allocator, &bench->team, &error) != OMMA_OK) {
    return ommai_failed_call(&error);
  }
  int64_t kv_heads = values->kv_heads ? values->kv_heads : values->heads;
  OMMAI_TRY_CODE(ommai_attention_inputs_create(bench->segments.borders[bench->segments.count], values->heads, kv_heads,
                                           values->head_dim, dtypes[values->dtype], (uint64_t)values->seed, &bench->inputs));
  bench->workspace_bytes = omma_attention_plan_workspace_size(bench->plan, bench->n_threads);
  bench->workspace = ommai_allocate(&ommai_default_allocator, bench->workspace_bytes, 1);
  bench->times = ommai_allocate(&ommai_default_allocator, MAX_RUNS, sizeof *bench->times);
  if (bench->workspace && bench->times) return OMMAI_EXIT_DONE;
  return ommai_failed("bench attention: out of memory: a workspace of %zu bytes", bench->workspace_bytes);
}

static int run_once(const struct bench *bench, double *seconds) {
  struct omma_error error;
  double start = ommai_clock_seconds();
  if (omma_attention_run(bench->plan, &bench->inputs.tensors, bench->workspace, bench->workspace_bytes,
                         ommai_team_interface(bench->team), &error) != OMMA_OK) {
    return ommai_failed_call(&error);
  }
  *seconds = ommai_clock_seconds() - start;
  return OMMAI_EXIT_DONE;
}

/* The peak for the type; f16 is widened to f32. */
static int measure_peak(struct bench *bench) {
  double peak;
  int code = ommai_measure_peak(omma_attention_context_isa(bench->context), bench->n_threads,
                                dtypes[bench->values->dtype] == OMMA_BF16, &peak);
  if (code == OMMAI_EXIT_DONE && peak > bench->peak_gflops) bench->peak_gflops = peak;
  return code;
}

/* Peak before and after, the better of the two, so that a clock that rose meanwhile does not
 * flatter the operator. */
static int measure(struct bench *bench) {
  double ignored, start;
  int code = measure_peak(bench);
  if (code == OMMAI_EXIT_DONE) code = run_once(bench, &ignored);
  start = ommai_clock_seconds();
  while (code == OMMAI_EXIT_DONE && bench->n_times < MAX_RUNS &&
         (bench->n_times < MIN_RUNS || ommai_clock_seconds() - start < bench->values->seconds)) {
    code = run_once(bench, &bench->times[bench->n_times++]);
  }
  if (code == OMMAI_EXIT_DONE) code = measure_peak(bench);
  ommai_times_sort(bench->times, bench->n_times);
  return code;
}

static int print(const struct bench *bench) {
  double min_ms = bench->times[0] * 1e3, median_ms = ommai_times_median(bench->times, bench->n_times) * 1e3;
  double gflops = bench->info.flops / bench->times[0] * 1e-9;
  double fraction = bench->peak_gflops > 0 ? gflops / bench->peak_gflops : 0;
  int64_t n_tokens = bench->segments.borders[bench->segments.count];
  if (bench->values->common.json) {
    struct ommai_text out = ommai_json_begin();
    OMMAI_PUT_REALS(&out, {"ms_min", min_ms}, {"ms_median", median_ms}, {"gflops", gflops}, {"peak_gflops", bench->peak_gflops},
                    {"fraction_of_peak", fraction});
    ommai_put_string(&out, "kernel", bench->info.kernel);
    ommai_put_integer(&out, "workspace_bytes", (int64_t)bench->workspace_bytes);
    ommai_put_real(&out, "plan_us", bench->plan_seconds * 1e6);
    ommai_put_string(&out, "isa", omma_attention_context_isa(bench->context));
    OMMAI_PUT_INTEGERS(&out, {"threads", bench->n_threads}, {"runs", (int64_t)bench->n_times}, {"n_tokens", n_tokens},
                       {"n_segments", (int64_t)bench->segments.count});
    ommai_put_real(&out, "flops", bench->info.flops);
    return ommai_json_end(&out);
  }
  char text[32];
  ommai_print_fact(stdout, "kernel", "%s on %d thread%s", bench->info.kernel, bench->n_threads, ommai_plural(bench->n_threads));
  ommai_print_fact(stdout, "work", "%lld token%s in %zu segment%s, %.3g GFLOP", (long long)n_tokens, ommai_plural(n_tokens),
                   bench->segments.count, ommai_plural((int64_t)bench->segments.count), bench->info.flops * 1e-9);
  ommai_print_fact(stdout, "time", "%.3f ms at best, %.3f ms median of %zu run%s", min_ms, median_ms, bench->n_times,
                   ommai_plural((int64_t)bench->n_times));
  ommai_print_fact(stdout, "speed", "%.1f GFLOP/s, %.1f %% of the measured %.1f", gflops, fraction * 100, bench->peak_gflops);
  ommai_print_fact(stdout, "workspace", "%s", ommai_format_bytes((int64_t)bench->workspace_bytes, text, sizeof text));
  ommai_print_fact(stdout, "making the plan", "%s", ommai_format_seconds(bench->plan_seconds, text, sizeof text));
  return ommai_finish_output();
}

static void release(struct bench *bench) {
  ommai_release(&ommai_default_allocator, bench->times, MAX_RUNS, sizeof *bench->times);
  ommai_release(&ommai_default_allocator, bench->workspace, bench->workspace_bytes, 1);
  ommai_attention_inputs_release(&bench->inputs);
  ommai_team_destroy(bench->team);
  omma_attention_plan_destroy(bench->plan);
  omma_attention_context_destroy(bench->context);
  ommai_segments_release(&bench->segments);
}

static int run_bench_attention(const void *given, const struct ommai_strings *arguments) {
  const struct values *values = given;
  (void)arguments;
  if (!values->head_dim) return ommai_usage_error("bench attention: --head-dim is missing");
  if (!values->heads) return ommai_usage_error("bench attention: --heads is missing");
  if (values->kv_heads && values->heads % values->kv_heads != 0) {
    return ommai_usage_error("bench attention: --kv-heads %lld: must divide --heads %lld", (long long)values->kv_heads,
                             (long long)values->heads);
  }
  if (values->window && !values->causal) return ommai_usage_error("bench attention: --window: needs --causal");
  struct bench bench = {.values = values, .n_threads = ommai_common_threads(&values->common)};
  int code = ommai_segments_parse(values->segments, &bench.segments);
  if (code == OMMAI_EXIT_DONE) code = make_plan(&bench);
  if (code == OMMAI_EXIT_DONE) code = allocate(&bench);
  if (code == OMMAI_EXIT_DONE) code = measure(&bench);
  if (code == OMMAI_EXIT_DONE) code = print(&bench);
  ommai_common_note_cpu(&values->common);
  release(&bench);
  return code;
}

#define OMMAI_VALUES struct values

static const struct ommai_option table[] = {
    OMMAI_INTEGER("head-dim", head_dim, "D", 1, OMMA_ATTENTION_MAX_HEAD_DIM, "head dimension; required"),
    OMMAI_INTEGER("heads", heads, "H", 1, OMMA_ATTENTION_MAX_HEADS, "number of query heads; required"),
    OMMAI_INTEGER("kv-heads", kv_heads, "H", 1, OMMA_ATTENTION_MAX_HEADS, "number of key and value heads",
                  .otherwise = "as --heads"),
    OMMAI_STRING(
        "segments", segments, "LIST",
        "tokens per segment: 4096 (one segment), 64x256 (256 segments of 64), 2146,2072,1332, or a file with such entries",
        .initial = "4096"),
    OMMAI_CHOICE("dtype", dtype, "TYPE", dtype_names, "data type of q, k, v and the output", .initial = "bf16"),
    OMMAI_FLAG("causal", causal, "causal attention, as in decoders: a token sees itself and those before it"),
    OMMAI_INTEGER("window", window, "W", 1, OMMA_ATTENTION_MAX_TOKENS,
                  "sliding window of causal attention: a token sees W tokens at most", .otherwise = "no window"),
    OMMAI_NUMBER("seconds", seconds, "T", 0, 3600, "how long to measure, in seconds; five runs at least", .initial = "1"),
    OMMAI_SEED_OPTION(seed),
};
static const struct ommai_option_group options = OMMAI_OPTION_GROUP("Shape", table);

const struct ommai_command ommai_command_bench_attention = {
    .name = "bench attention",
    .summary = "speed of the attention operator compared with this machine's peak",
    .arguments = "--head-dim D --heads H [--segments LIST]",
    .details =
        "Runs the packed attention operator on random inputs, v being a view into a fused q/k/v tensor, and compares its best "
        "time with the machine's peak: the multiply-adds that the same threads reach from registers in the same run. Only "
        "useful work counts: 2 * (key size + value size) operations per query head, query and key that it sees.",
    .examples = {"omma bench attention --head-dim 64 --heads 16 --segments 64x256 --dtype bf16"},
    .groups = {&options, &ommai_output_options, &ommai_machine_options},
    .values_size = sizeof(struct values),
    .run = run_bench_attention,
};
