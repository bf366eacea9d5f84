/* What this build computes with on this machine: CPU level, kernels, self-test. */
#include <omma/omma.h>
#include <stdio.h>
#include <string.h>

#include "base/allocator.h"
#include "base/error.h"
#include "kernels/attention_kernels.h"
#include "kernels/cpu.h"
#include "kernels/dtype.h"
#include "kernels/row_ops.h"
#include "linear/linear.h"
#include "linear/linear_self_test.h"

static void report_fact(omma_report report, void *context, bool ok, const char *what, const char *details) {
  if (report) report(context, ok, what, details);
}

static enum omma_status open_context(enum ommai_cpu_level level, struct omma_attention_context **attention,
                                     struct omma_error *error) {
  const struct omma_attention_options options = {.isa = ommai_cpu_level_name(level)};
  return omma_attention_context_create(&options, attention, error);
}

/* A mode and type: neighbouring head dimensions with the same kernel in one line. */
static void describe_dims(const struct omma_attention_context *attention, enum omma_attention_mode mode, enum omma_dtype type,
                          omma_report report, void *context) {
  static const char *const modes[] = {"encoder", "causal", "decode"};
  int32_t max_dim = mode == OMMA_ATTENTION_DECODE ? OMMA_ATTENTION_MAX_DECODE_HEAD_DIM : OMMA_ATTENTION_MAX_HEAD_DIM, first = 1;
  const char *kernel = omma_attention_kernel_name(attention, mode, type, first, first);
  for (int32_t dim = first; dim <= max_dim; dim++) {
    char what[80];
    const char *next = dim == max_dim ? NULL : omma_attention_kernel_name(attention, mode, type, dim + 1, dim + 1);
    if (next == kernel) continue;
    snprintf(what, sizeof what, "attention %s %s, D %d-%d", modes[mode], ommai_dtype_name(type), first, dim);
    if (kernel) report_fact(report, context, true, what, kernel);
    kernel = next;
    first = dim + 1;
  }
}

static void describe_attention(const struct omma_attention_context *attention, omma_report report, void *context) {
  char details[120];
  bool tiles = strcmp(omma_attention_context_isa(attention), ommai_cpu_level_name(OMMAI_CPU_AMX)) == 0;
  for (int mode = OMMA_ATTENTION_ENCODER; mode <= OMMA_ATTENTION_DECODE; mode++) {
    for (int type = OMMA_F32; type <= OMMA_F16; type++) describe_dims(attention, mode, type, report, context);
  }
  snprintf(details, sizeof details,
           "multiples of %d fill the tiles of encoder and causal%s, others are padded inside to the next",
           OMMAI_ATTENTION_DIM_STEP, tiles ? " (bf16: of 32)" : "");
  report_fact(report, context, true, "attention head dimensions D", details);
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
    report_fact(report, context, true, what, kernel->name);
  }
}

/* The causal and decode modes over pages of another type than the queries', of any head
 * dimension. */
static void describe_mixed(enum ommai_cpu_level level, omma_report report, void *context) {
  static const struct ommai_attention_types all[] = {{OMMA_F32, OMMA_BF16}, {OMMA_F32, OMMA_INT8}, {OMMA_BF16, OMMA_INT8}};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    char what[80];
    const char *q = ommai_dtype_name(all[i].q), *kv = ommai_dtype_name(all[i].kv);
    snprintf(what, sizeof what, "attention causal %s, %s KV", q, kv);
    report_fact(report, context, true, what, ommai_attention_tile_kernel_find(level, all[i])->name);
    snprintf(what, sizeof what, "attention decode %s, %s KV", q, kv);
    report_fact(report, context, true, what, ommai_attention_decode_kernel_find(level, all[i])->name);
  }
}

enum omma_status omma_describe_kernels(const char *isa, omma_report report, void *context, struct omma_error *error) {
  enum ommai_cpu_level level;
  struct omma_attention_context *attention = NULL;
  struct ommai_linear_context *linear = NULL;
  char description[320], reason[160];
  enum omma_status status;
  OMMAI_TRY(ommai_cpu_select(isa, &level, error));
  OMMAI_TRY_GOTO(open_context(level, &attention, error), done);
  OMMAI_TRY_GOTO(ommai_linear_context_create(level, 1, &ommai_default_allocator, &linear, error), done);
  report_fact(report, context, true, "cpu level", ommai_cpu_level_name(level));
  report_fact(report, context, true, "cpu level, why", ommai_cpu_reason(isa, level, reason, sizeof reason));
  describe_attention(attention, report, context);
  describe_mixed(level, report, context);
  describe_windows(level, report, context);
  report_fact(report, context, true, "row operations", ommai_cpu_level_name(ommai_row_ops(level)->level));
  ommai_linear_context_describe(linear, description, sizeof description);
  report_fact(report, context, true, "linear layers", description);
done:
  ommai_linear_context_destroy(linear);
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
  char agree[160];
  const char *caveat = ommai_cpu_caveat(level);
  snprintf(agree, sizeof agree, "attention and linear kernels agree with the reference%s%s", caveat ? "; " : "", caveat ? caveat : "");
  report_fact(report, context, status == OMMA_OK, ommai_cpu_level_name(level),
              status == OMMA_OK ? agree
              : error           ? error->message
                                : "");
  return status;
}

const char *omma_cpu_note(const char *isa, char *out, size_t size) {
  enum ommai_cpu_level level;
  struct omma_error ignored;
  return ommai_cpu_select(isa, &level, &ignored) == OMMA_OK ? ommai_cpu_note(isa, level, out, size) : NULL;
}
