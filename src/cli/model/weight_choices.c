#include "cli/model/weight_choices.h"

#include <string.h>

#include "base/checked.h"
#include "cli/core/diagnostics.h"
#include "cli/core/format.h"
#include "cli/core/json_out.h"

/* Part of the measured read rate at which generated tokens read weights, keys and values:
 * docs/performance.md. */
#define ASSUMED_SHARE 0.8
#define CONTEXT 1024

/* Bytes of a bf16 checkpoint packed in a second, in those that the same threads read from memory:
 * most of it goes into pages that the system clears, and into the search for int4's scales. */
#define DENSE_PACKING_SHARE 0.03

struct kind {
  const char *name, *dtype;
  int quantization; /* index */
  double packing_share;
};

/* The types as they are, or after f32 what a quantised checkpoint is; then each format by its usual
 * word. Returns how many. */
static size_t list_kinds(struct kind kinds[OMMAI_WEIGHT_CHOICES]) {
  struct omma_quantization_method method;
  size_t count = 2;
  kinds[0] = (struct kind){"f32", "f32", 0, DENSE_PACKING_SHARE};
  kinds[1] = (struct kind){"bf16", "bf16", 0, DENSE_PACKING_SHARE};
  for (int i = 0; omma_quantization_method(i, &method) && count < OMMAI_WEIGHT_CHOICES; i++) {
    if (!method.format || strcmp(method.format, method.name) != 0) continue;
    kinds[count++] = (struct kind){method.name, "auto", i, method.packing_share};
  }
  return count;
}

/* Adds a choice, and finds out what the checkpoint is. */
static int make(const struct ommai_common *wanted, const struct omma_engine_options *options, int64_t largest,
                const struct kind *kind, struct ommai_weight_choices *choices) {
  struct ommai_common common = *wanted;
  struct ommai_weight_choice *choice = &choices->items[choices->count++];
  struct omma_memory_estimate memory;
  struct omma_text_cost work;
  struct omma_model_info info;
  struct omma_model *model;
  struct omma_error error;
  common.verbose = false;
  common.dtype = ommai_common_dtype(kind->dtype);
  common.quantization = kind->quantization;
  /* f32 goes with some choices alone */
  if (!ommai_common_int8_kv_cache(wanted)) common.kv_cache_dtype = 0;
  int code = ommai_open_model(&common, true, &model);
  if (code != OMMAI_EXIT_DONE) return code;
  omma_model_get_info(model, &info);
  choices->as_stored = info.quantization != NULL;
  choices->context = ommai_min_i64(CONTEXT, info.max_model_len);
  if (omma_estimate_memory(model, options, largest, &memory, &error) != OMMA_OK ||
      omma_model_text_cost(model, choices->context, &work, &error) != OMMA_OK) {
    code = ommai_failed_call(&error);
  }
  omma_model_close(model);
  if (code != OMMAI_EXIT_DONE) return code;
  double step_bytes = (double)(work.step_weight_bytes + work.step_kv_bytes), rate = choices->read_gbps * 1e9;
  choice->name = kind->name;
  choice->weight_bytes = memory.weight_bytes;
  choice->other_bytes = memory.total_bytes - memory.weight_bytes - memory.kv_cache_bytes;
  choice->start_seconds = (double)choices->items[0].weight_bytes / (rate * kind->packing_share);
  choice->tokens_per_second = rate * ASSUMED_SHARE / step_bytes;
  return OMMAI_EXIT_DONE;
}

int ommai_weight_choices_make(const struct ommai_common *common, const struct omma_engine_options *options, double read_gbps,
                              int64_t largest, struct ommai_weight_choices *choices) {
  static const struct kind as_stored = {"as stored", "auto", 0, DENSE_PACKING_SHARE};
  struct kind kinds[OMMAI_WEIGHT_CHOICES];
  choices->read_gbps = read_gbps;
  choices->as_stored = false;
  choices->count = 0;
  const size_t n_kinds = list_kinds(kinds);
  for (size_t i = 0; i < n_kinds && !(choices->as_stored && i == 2); i++) {
    OMMAI_TRY_CODE(make(common, options, largest, choices->as_stored ? &as_stored : &kinds[i], choices));
  }
  return OMMAI_EXIT_DONE;
}

void ommai_weight_choices_print(const struct ommai_weight_choices *choices) {
  printf("Choices\n  %-26s %10s %10s %10s %10s\n", "", "weights", "other", "start", "tokens/s");
  for (size_t i = 0; i < choices->count; i++) {
    const struct ommai_weight_choice *choice = &choices->items[i];
    char weights[32], other[32], start[32];
    printf("  %-26s %10s %10s %10s %10.1f\n", choice->name, ommai_format_bytes(choice->weight_bytes, weights, sizeof weights),
           ommai_format_bytes(choice->other_bytes, other, sizeof other),
           ommai_format_seconds(choice->start_seconds, start, sizeof start), choice->tokens_per_second);
  }
  printf(
      "  %s;\n  other is all memory but weights, keys and values.\n"
      "  The start (from the page cache) and the tokens/s of one answer (after %lld tokens) are estimates\n"
      "  from the %.1f GB/s at which this machine just read memory.\n",
      choices->as_stored ? "f32 is --dtype" : "f32 and bf16 are --dtype, all others are --quantization",
      (long long)choices->context, choices->read_gbps);
}

void ommai_put_weight_choices(struct ommai_text *out, const struct ommai_weight_choices *choices) {
  ommai_put_begin(out, "choices", "[");
  for (size_t i = 0; i < choices->count; i++) {
    const struct ommai_weight_choice *choice = &choices->items[i];
    ommai_put_begin(out, NULL, "{");
    ommai_put_string(out, "name", choice->name);
    OMMAI_PUT_INTEGERS(out, {"weight_bytes", choice->weight_bytes}, {"other_bytes", choice->other_bytes});
    OMMAI_PUT_REALS(out, {"expected_start_seconds", choice->start_seconds},
                    {"expected_tokens_per_s", choice->tokens_per_second});
    ommai_put_end(out, "}");
  }
  ommai_put_end(out, "]");
}
