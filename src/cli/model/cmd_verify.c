/* omma verify: do the kernels compute rightly here, and are a model's files whole? */
#include <omma/omma.h>
#include <stdio.h>

#include "base/allocator.h"
#include "cli/core/commands.h"
#include "cli/core/diagnostics.h"
#include "cli/core/json_out.h"
#include "cli/core/report_lines.h"
#include "cli/model/model_options.h"

struct values {
  struct ommai_common common;
};

/* A check that could not be run at all is an error; one that ran and found something is reported by
 * its findings. */
static int check_outcome(enum omma_status status, const struct ommai_report_lines *findings, const struct omma_error *error) {
  if (findings->records.failed) return ommai_failed("verify: out of memory: the list of findings");
  if (status == OMMA_OK || findings->failed) return OMMAI_EXIT_DONE;
  return ommai_failed_call(error);
}

static int check_model(const struct values *values, struct ommai_report_lines *findings) {
  struct omma_model *model;
  struct omma_error error;
  OMMAI_TRY_CODE(ommai_open_model(&values->common, true, &model));
  enum omma_status status = omma_model_verify(model, ommai_report_lines_add, findings, &error);
  omma_model_close(model);
  return check_outcome(status, findings, &error);
}

/* The same, where what cannot be checked is a finding as well; the error has been printed. */
static int check_any_model(const struct values *values, struct ommai_report_lines *findings) {
  char reason[OMMA_ERROR_MESSAGE_SIZE] = "";
  ommai_failures_to(reason, sizeof reason);
  int code = check_model(values, findings);
  ommai_failures_to(NULL, 0);
  if (code != OMMAI_EXIT_DONE) ommai_report_lines_add(findings, false, values->common.model, reason);
  return code;
}

/* checked: the exit code of check_any_model. */
static int print(const struct values *values, int checked, struct ommai_report_lines *kernels,
                 struct ommai_report_lines *files) {
  bool ok = !kernels->failed && !files->failed;
  int code;
  if (values->common.json) {
    struct ommai_text out = ommai_json_begin();
    ommai_put_boolean(&out, "ok", ok);
    ommai_report_lines_put(kernels, "kernels", &out);
    if (values->common.model) ommai_report_lines_put(files, "files", &out);
    code = ommai_json_end(&out);
  } else {
    puts("Kernels");
    ommai_report_lines_print(kernels, true);
    if (values->common.model) {
      puts("Model");
      ommai_report_lines_print(files, true);
    }
    code = ommai_finish_output();
  }
  if (code != OMMAI_EXIT_DONE || ok) return code;
  if (checked != OMMAI_EXIT_DONE) return checked;
  return ommai_failed("verify: %s: not as they should be, see the lines marked FAILED",
                      kernels->failed ? "kernels" : values->common.model);
}

static int run_verify(const void *given, const struct ommai_strings *arguments) {
  struct values values = *(const struct values *)given;
  struct ommai_report_lines kernels = {.records = ommai_text_of(&ommai_default_allocator)}, files = kernels;
  struct omma_error error;
  int checked = OMMAI_EXIT_DONE;
  int code = ommai_common_take_model("verify", arguments, &values.common);
  if (code == OMMAI_EXIT_DONE) {
    enum omma_status status = omma_self_test(ommai_common_isa(&values.common), ommai_report_lines_add, &kernels, &error);
    code = check_outcome(status, &kernels, &error);
  }
  if (code == OMMAI_EXIT_DONE && values.common.model) checked = check_any_model(&values, &files);
  if (checked != OMMAI_EXIT_DONE && !values.common.json) code = checked;
  if (code == OMMAI_EXIT_DONE) code = print(&values, checked, &kernels, &files);
  ommai_text_free(&kernels.records);
  ommai_text_free(&files.records);
  return code;
}

#define OMMAI_VALUES struct values

static const struct ommai_option table[] = {
    OMMAI_STRING("model", common.model, "DIR",
                 "also check the files of this model: names, shapes and types of all tensors, no NaN or infinity",
                 .letter = 'm'),
    OMMAI_MMPROJ_OPTION(common.mmproj),
};
static const struct ommai_option_group options = OMMAI_OPTION_GROUP("Model", table);

const struct ommai_command ommai_command_verify = {
    .name = "verify",
    .summary = "self-test of the kernels; with DIR a check of a model's files",
    .arguments = "[DIR]",
    .details =
        "Compares the kernels of this machine with the scalar reference. With DIR (or --model DIR) it also reads all weights "
        "of a model and "
        "reports every tensor that is missing, unused, of a wrong shape or type, or holds NaN or infinity.",
    .examples = {"omma verify models/my-model"},
    .groups = {&options, &ommai_output_options, &ommai_machine_options},
    .values_size = sizeof(struct values),
    .max_arguments = 1,
    .run = run_verify,
};
