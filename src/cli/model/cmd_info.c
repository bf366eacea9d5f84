/* omma info: the machine, the kernels chosen for it, and a model's shape. */
#include <math.h>
#include <omma/attention.h>
#include <omma/omma.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/allocator.h"
#include "base/cpu_room.h"
#include "base/plural.h"
#include "base/team.h"
#include "cli/core/commands.h"
#include "cli/core/diagnostics.h"
#include "cli/core/format.h"
#include "cli/core/json_out.h"
#include "cli/core/report_lines.h"
#include "cli/model/model_options.h"

struct values {
  struct ommai_common common;
};

#define MAX_LEVELS 16

struct facts {
  char cpu[128];
  struct ommai_cpu_room room;
  int64_t memory_bytes;
  const char *levels[MAX_LEVELS]; /* that this machine can run */
  size_t n_levels;
  struct omma_machine machine;
  struct ommai_report_lines kernels;
  bool has_model;
  struct omma_model_info model;
  struct omma_memory_estimate memory;
};

static void find_cpu_name(char *out, size_t size) {
  char line[512];
  snprintf(out, size, "unknown");
  FILE *file = fopen("/proc/cpuinfo", "r");
  if (!file) return;
  while (fgets(line, sizeof line, file)) {
    const char *colon = strchr(line, ':');
    if (strncmp(line, "model name", 10) != 0 || !colon) continue;
    colon += 1 + strspn(colon + 1, " \t");
    snprintf(out, size, "%.*s", (int)strcspn(colon, "\n"), colon);
    break;
  }
  fclose(file);
}

/* A level is there when the operator accepts it. */
static bool has_level(const char *name) {
  struct omma_attention_options options = {.isa = name};
  struct omma_attention_context *context;
  if (omma_attention_context_create(&options, &context, NULL) != OMMA_OK) return false;
  omma_attention_context_destroy(context);
  return true;
}

static int find_machine(const struct values *values, struct facts *facts) {
  struct omma_error error;
  const char *isa = ommai_common_isa(&values->common);
  find_cpu_name(facts->cpu, sizeof facts->cpu);
  ommai_cpu_room_here(&facts->room);
  facts->memory_bytes = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
  for (size_t i = 0; ommai_isa_names[i] && facts->n_levels < MAX_LEVELS; i++) {
    if (has_level(ommai_isa_names[i])) facts->levels[facts->n_levels++] = ommai_isa_names[i];
  }
  if (omma_describe_kernels(isa, ommai_report_lines_add, &facts->kernels, &error) != OMMA_OK) return ommai_failed_call(&error);
  if (omma_measure_machine(isa, ommai_common_threads(&values->common), &facts->machine, &error) != OMMA_OK) {
    return ommai_failed_call(&error);
  }
  return OMMAI_EXIT_DONE;
}

static int find_model(const struct values *values, const struct omma_model *model, struct facts *facts) {
  struct omma_error error;
  struct omma_engine_options options = {.kv_cache_bytes = values->common.kv_cache_bytes};
  facts->has_model = true;
  omma_model_get_info(model, &facts->model);
  if (omma_estimate_memory(model, &options, 0, &facts->memory, &error) != OMMA_OK) return ommai_failed_call(&error);
  return OMMAI_EXIT_DONE;
}

static void put_kernels(struct ommai_text *out, const struct ommai_report_lines *kernels) {
  struct ommai_report_line line;
  ommai_put_begin(out, "kernels", "[");
  for (size_t at = 0; ommai_report_lines_next(kernels, &at, &line);) {
    ommai_put_begin(out, NULL, "{");
    OMMAI_PUT_STRINGS(out, {"operation", line.what}, {"kernel", line.details});
    ommai_put_end(out, "}");
  }
  ommai_put_end(out, "]");
  out->failed |= kernels->records.failed;
}

static int print_json(const struct facts *facts) {
  struct ommai_text out = ommai_json_begin();
  OMMAI_PUT_STRINGS(&out, {"version", omma_version()}, {"cpu", facts->cpu});
  OMMAI_PUT_INTEGERS(&out, {"cpus", facts->room.cpus}, {"cpu_cores", facts->room.cores},
                     {"cpu_fast_cores", facts->room.fast_cores}, {"cpu_nodes", facts->room.nodes});
  ommai_put_real(&out, "cpu_quota", facts->room.quota > 0 ? facts->room.quota : NAN);
  ommai_put_integer(&out, "cpu_threads", facts->room.threads);
  ommai_put_string(&out, "cpu_threads_limit", ommai_cpu_limit_name(facts->room.limit));
  ommai_put_integer(&out, "memory_bytes", facts->memory_bytes);
  ommai_put_begin(&out, "levels", "[");
  for (size_t i = 0; i < facts->n_levels; i++) ommai_put_string(&out, NULL, facts->levels[i]);
  ommai_put_end(&out, "]");
  ommai_put_integer(&out, "threads", facts->machine.n_threads);
  OMMAI_PUT_REALS(&out, {"f32_gflops", facts->machine.f32_gflops}, {"bf16_gflops", facts->machine.bf16_gflops});
  put_kernels(&out, &facts->kernels);
  if (facts->has_model) {
    ommai_put_model(&out, &facts->model);
    ommai_put_memory_estimate(&out, &facts->memory);
    ommai_put_end(&out, "}");
  }
  return ommai_json_end(&out);
}

static void print_machine(const struct facts *facts) {
  char text[32], cpus[OMMAI_CPU_ROOM_TEXT];
  printf("omma %s\nMachine\n", omma_version());
  ommai_print_fact(stdout, "processor", "%s", facts->cpu);
  ommai_cpu_room_describe(&facts->room, cpus, sizeof cpus);
  ommai_print_fact(stdout, "CPUs of this process", "%s", cpus);
  ommai_print_fact(stdout, "memory", "%s", ommai_format_bytes(facts->memory_bytes, text, sizeof text));
  printf("  %-26s", "CPU levels");
  for (size_t i = 0; i < facts->n_levels; i++) printf(" %s", facts->levels[i]);
  putchar('\n');
  ommai_print_fact(stdout, "f32, measured", "%.0f GFLOP/s on %d thread%s", facts->machine.f32_gflops, facts->machine.n_threads,
                   ommai_plural(facts->machine.n_threads));
  if (facts->machine.bf16_gflops > 0) ommai_print_fact(stdout, "bf16, measured", "%.0f GFLOP/s", facts->machine.bf16_gflops);
  puts("Kernels");
  ommai_report_lines_print(&facts->kernels, false);
}

static int run_info(const void *given, const struct ommai_strings *arguments) {
  struct values values = *(const struct values *)given;
  struct omma_model *model = NULL;
  struct facts facts = {.kernels.records = ommai_text_of(&ommai_default_allocator)};
  int code = ommai_common_take_model("info", arguments, &values.common);
  if (code == OMMAI_EXIT_DONE && values.common.model) code = ommai_open_model(&values.common, true, &model);
  if (code == OMMAI_EXIT_DONE && model) code = find_model(&values, model, &facts);
  if (code == OMMAI_EXIT_DONE) code = find_machine(&values, &facts);
  if (code == OMMAI_EXIT_DONE && values.common.json) {
    code = print_json(&facts);
  } else if (code == OMMAI_EXIT_DONE) {
    print_machine(&facts);
    if (facts.has_model) {
      ommai_print_model(stdout, &facts.model);
      ommai_print_memory_estimate(stdout, &facts.memory);
    }
    code = ommai_finish_output();
  }
  omma_model_close(model);
  ommai_text_free(&facts.kernels.records);
  return code;
}

#define OMMAI_VALUES struct values

static const struct ommai_option table[] = {
    OMMAI_STRING("model", common.model, "DIR", "also print the shape of this model and the memory it takes", .letter = 'm'),
    OMMAI_MMPROJ_OPTION(common.mmproj),
};
static const struct ommai_option_group options = OMMAI_OPTION_GROUP("Model", table);

const struct ommai_command ommai_command_info = {
    .name = "info",
    .summary = "this machine and its kernels; with DIR a model's shape and memory",
    .arguments = "[DIR]",
    .details =
        "Prints which CPU levels this machine has, which one is used and why, which kernel serves each operation, type and "
        "head dimension D (that of the highest level up to the one used), the machine's peak (multiply-adds from registers, "
        "measured on the spot), and with DIR (or --model DIR) the model's shape and the memory that an engine would take. "
        "Without it no model is opened. Needs no weights.",
    .examples = {"omma info models/my-model"},
    .groups = {&options, &ommai_weight_options, &ommai_engine_options, &ommai_output_options, &ommai_machine_options},
    .values_size = sizeof(struct values),
    .max_arguments = 1,
    .run = run_info,
};
