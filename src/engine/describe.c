/* What this machine and build can do: CPU level, kernels, self-test, peaks. */
#include <omma/omma.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/allocator.h"
#include "base/checked.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/team.h"
#include "kernels/attention_kernels.h"
#include "kernels/cpu.h"
#include "kernels/dtype.h"
#include "kernels/peak.h"
#include "kernels/row_ops.h"
#include "linear/linear.h"
#include "linear/linear_self_test.h"

static void tell(omma_report report, void *context, bool ok, const char *what, const char *details) {
  if (report) report(context, ok, what, details);
}

static enum omma_status open_context(enum ommai_cpu_level level, struct omma_attention_context **attention,
                                     struct omma_error *error) {
  const struct omma_attention_options options = {ommai_cpu_level_name(level), NULL};
  return omma_attention_context_create(&options, attention, error);
}

/* A mode and type: neighbouring head dimensions with the same kernel in one line. */
static void describe_dims(const struct omma_attention_context *attention, enum omma_attention_mode mode, enum omma_dtype type,
                          omma_report report, void *context) {
  static const char *const modes[] = {"encoder", "causal", "decode"};
  int32_t most = mode == OMMA_ATTENTION_DECODE ? OMMA_ATTENTION_MAX_DECODE_HEAD_DIM : OMMA_ATTENTION_MAX_HEAD_DIM, first = 1;
  const char *kernel = omma_attention_kernel_name(attention, mode, type, first, first);
  for (int32_t dim = first; dim <= most; dim++) {
    char what[80];
    const char *next = dim == most ? NULL : omma_attention_kernel_name(attention, mode, type, dim + 1, dim + 1);
    if (next == kernel) continue;
    snprintf(what, sizeof what, "attention %s %s, D %d-%d", modes[mode], ommai_dtype_name(type), first, dim);
    if (kernel) tell(report, context, true, what, kernel);
    kernel = next;
    first = dim + 1;
  }
}

static void describe_attention(const struct omma_attention_context *attention, omma_report report, void *context) {
  char details[120];
  for (int mode = OMMA_ATTENTION_ENCODER; mode <= OMMA_ATTENTION_DECODE; mode++) {
    for (int type = OMMA_F32; type <= OMMA_F16; type++) describe_dims(attention, mode, type, report, context);
  }
  snprintf(details, sizeof details,
           "multiples of %d fill the tiles of encoder and causal, others are padded inside to the next",
           OMMAI_ATTENTION_DIM_STEP);
  tell(report, context, true, "attention head dimensions D", details);
}

/* Encoder segments of up to 64 keys, of any head dimension, where they have a kernel of their
 * own. */
static void describe_windows(enum ommai_cpu_level level, omma_report report, void *context) {
  for (int type = OMMA_F32; type <= OMMA_F16; type++) {
    char what[80];
    const struct ommai_attention_types types = {type, type};
    const struct ommai_attention_tile_kernel *kernel = ommai_attention_window_kernel_find(level, types);
    if (!kernel) continue;
    snprintf(what, sizeof what, "attention windows %s", ommai_dtype_name(type));
    tell(report, context, true, what, kernel->name);
  }
}

/* The causal and decode modes with f32 queries over bf16 pages, of any head dimension. */
static void describe_mixed(enum ommai_cpu_level level, omma_report report, void *context) {
  const struct ommai_attention_types types = {OMMA_F32, OMMA_BF16};
  tell(report, context, true, "attention causal f32, bf16 KV", ommai_attention_tile_kernel_find(level, types)->name);
  tell(report, context, true, "attention decode f32, bf16 KV", ommai_attention_decode_kernel_find(level, types)->name);
}

enum omma_status omma_describe_kernels(const char *isa, omma_report report, void *context, struct omma_error *error) {
  enum ommai_cpu_level level;
  struct omma_attention_context *attention = NULL;
  struct ommai_linear_engine *linear = NULL;
  char description[320], reason[96];
  enum omma_status status;
  OMMAI_TRY(ommai_cpu_select(isa, &level, error));
  OMMAI_TRY_GOTO(open_context(level, &attention, error), done);
  OMMAI_TRY_GOTO(ommai_linear_engine_create(level, 1, &ommai_default_allocator, &linear, error), done);
  tell(report, context, true, "cpu level", ommai_cpu_level_name(level));
  tell(report, context, true, "cpu level, why", ommai_cpu_reason(isa, level, reason, sizeof reason));
  describe_attention(attention, report, context);
  describe_mixed(level, report, context);
  describe_windows(level, report, context);
  tell(report, context, true, "row operations", ommai_cpu_level_name(ommai_row_ops(level)->level));
  ommai_linear_engine_describe(linear, description, sizeof description);
  tell(report, context, true, "linear layers", description);
done:
  ommai_linear_engine_destroy(linear);
  omma_attention_context_destroy(attention);
  return status;
}

enum omma_status omma_self_test(const char *isa, omma_report report, void *context, struct omma_error *error) {
  enum ommai_cpu_level level;
  struct omma_attention_context *attention;
  OMMAI_TRY(ommai_cpu_select(isa, &level, error));
  OMMAI_TRY(open_context(level, &attention, error));
  enum omma_status status = omma_attention_self_test(attention, error);
  omma_attention_context_destroy(attention);
  if (status == OMMA_OK) status = ommai_linear_self_test(level, error);
  tell(report, context, status == OMMA_OK, ommai_cpu_level_name(level),
       status == OMMA_OK ? "attention and linear kernels agree with the reference"
       : error           ? error->message
                         : "");
  return status;
}

/* One task a worker: the best of several short runs. */
struct peak_run {
  ommai_peak_loop loop;
  int64_t rounds;
};

static void peak_task(void *context, int64_t task, int worker) {
  const struct peak_run *run = context;
  (void)task;
  (void)worker;
  run->loop(run->rounds);
}

static double measure(struct ommai_team *team, int n_threads, ommai_peak_loop loop) {
  enum { ROUNDS = 400000, REPEATS = 7 };
  struct peak_run run = {loop, ROUNDS};
  if (!loop) return 0;
  double best = 1e30, operations = loop(1000) / 1000 * ROUNDS * n_threads;
  for (int i = 0; i < REPEATS; i++) {
    int64_t start = ommai_clock_ns();
    ommai_team_run(ommai_team_interface(team), n_threads, peak_task, &run);
    double seconds = (double)(ommai_clock_ns() - start) * 1e-9;
    if (seconds < best) best = seconds;
  }
  return operations / best * 1e-9;
}

/* Memory that no cache holds, in slices for whoever is free. Written first: pages that never were
 * are all one page of zeroes. */
enum { SLICE_BYTES = 1 << 20, LEAST_SLICES = 256, MOST_SLICES = 4096 };

/* Where the C library knows of no last cache, or does not say, the least must do. */
static int64_t count_slices(void) {
  int64_t cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
  return ommai_min_i64(ommai_max_i64(2 * cache / SLICE_BYTES, LEAST_SLICES), MOST_SLICES);
}

static void write_slice(void *context, int64_t task, int worker) {
  (void)worker;
  memset((unsigned char *)context + task * SLICE_BYTES, 1, SLICE_BYTES);
}

static void read_slice(void *context, int64_t task, int worker) {
  (void)worker;
  int64_t n_words = SLICE_BYTES / (int64_t)sizeof(uint64_t);
  ommai_peak_read((const uint64_t *)context + task * n_words, n_words);
}

/* Read at each pass from one end to the other, so that what a cache keeps of the end is gone when
 * it comes round. */
static double measure_read(const struct omma_team *team, uint64_t *memory, int64_t n_slices) {
  enum { REPEATS = 3 };
  double best = 1e30;
  ommai_team_run(team, n_slices, write_slice, memory);
  for (int i = 0; i < REPEATS; i++) {
    int64_t start = ommai_clock_ns();
    ommai_team_run(team, n_slices, read_slice, memory);
    double seconds = (double)(ommai_clock_ns() - start) * 1e-9;
    if (seconds < best) best = seconds;
  }
  return (double)n_slices * SLICE_BYTES / best * 1e-9;
}

enum omma_status omma_measure_read(int n_threads, double *gbps, struct omma_error *error) {
  const struct omma_allocator *allocator = &ommai_huge_page_allocator;
  size_t n_slices = (size_t)count_slices();
  struct ommai_team *team;
  if (n_threads == 0) n_threads = ommai_team_cpu_count();
  OMMAI_TRY(ommai_team_create(n_threads, true, &ommai_default_allocator, &team, error));
  uint64_t *memory = ommai_allocate_uninitialised(allocator, n_slices, SLICE_BYTES);
  if (memory) *gbps = measure_read(ommai_team_interface(team), memory, (int64_t)n_slices);
  ommai_release(allocator, memory, n_slices, SLICE_BYTES);
  ommai_team_destroy(team);
  return memory ? OMMA_OK : ommai_fail_memory(error, "what is read to measure the memory", n_slices * SLICE_BYTES);
}

enum omma_status omma_measure_machine(const char *isa, int n_threads, struct omma_machine *machine, struct omma_error *error) {
  enum ommai_cpu_level level;
  struct ommai_team *team;
  if (n_threads == 0) n_threads = ommai_team_cpu_count();
  OMMAI_TRY(ommai_cpu_select(isa, &level, error));
  OMMAI_TRY(ommai_team_create(n_threads, true, &ommai_default_allocator, &team, error));
  *machine = (struct omma_machine){.n_threads = n_threads,
                                   .f32_gflops = measure(team, n_threads, ommai_peak_f32(level)),
                                   .bf16_gflops = measure(team, n_threads, ommai_peak_bf16(level))};
  ommai_team_destroy(team);
  return OMMA_OK;
}
