/* omma batch: the requests of a file, answered into another one. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/core/commands.h"
#include "cli/core/diagnostics.h"
#include "cli/core/interrupt.h"
#include "cli/core/text_lines.h"
#include "cli/serve/batch_run.h"
#include "cli/serve/serving.h"

/* A line that begins with that many blanks counts as an empty one, for the progress alone. */
#define COUNTED_BYTES 64

struct values {
  struct ommai_serving serving;
  const char *input, *output;
  bool retry_failed;
};

static bool is_address(const char *path) {
  return strncasecmp(path, "http://", 7) == 0 || strncasecmp(path, "https://", 8) == 0;
}

static int check(const struct values *values) {
  struct stat input, output;
  const char *in = values->input, *out = values->output;
  if (!in) return ommai_usage_error("batch: --input-file is missing: a file of requests, one JSON object a line (-i in.jsonl)");
  if (!out) return ommai_usage_error("batch: --output-file is missing: the file to write (-o out.jsonl)");
  if (is_address(in))
    return ommai_usage_error("batch: --input-file: %s: only local files are read: curl -o in.jsonl %s", in, in);
  if (is_address(out)) {
    return ommai_usage_error("batch: --output-file: %s: only local files are written: curl -T out.jsonl %s sends one", out,
                             out);
  }
  if (strcmp(out, "-") == 0) {
    return values->retry_failed
               ? ommai_usage_error("batch: --retry-failed: standard output holds no failed lines: give a file with -o")
               : OMMAI_EXIT_DONE;
  }
  if (stat(in, &input) == 0 && stat(out, &output) == 0 && input.st_dev == output.st_dev && input.st_ino == output.st_ino) {
    return ommai_usage_error("batch: --output-file: %s: is the input itself: give another file", out);
  }
  return OMMAI_EXIT_DONE;
}

/* Opens the input and counts its lines where it can be read twice. */
static int open_input(const char *path, struct ommai_batch_job *job) {
  struct stat status;
  job->input_path = path;
  job->input = strcmp(path, "-") == 0 ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
  if (job->input < 0 || fstat(job->input, &status) != 0) return ommai_failed("batch: %s: %s", path, strerror(errno));
  if (S_ISDIR(status.st_mode)) return ommai_failed("batch: %s: is a directory", path);
  if (!S_ISREG(status.st_mode)) return OMMAI_EXIT_DONE;
  struct ommai_text_lines lines = {.file = job->input, .limit = COUNTED_BYTES};
  while (ommai_text_lines_next(&lines) == OMMAI_TEXT_LINE_READ) job->n_lines += !ommai_text_is_blank(lines.line, lines.size);
  ommai_text_lines_release(&lines);
  if (lseek(job->input, 0, SEEK_SET) == 0) return OMMAI_EXIT_DONE;
  return ommai_failed("batch: %s: cannot be read: %s", path, strerror(errno));
}

static void note_counts(const struct ommai_batch_output *output, const struct ommai_batch_counts *counts) {
  double rate = counts->seconds > 0 ? (double)(counts->n_answered + counts->n_failed) / counts->seconds : 0;
  ommai_note("batch: %" PRId64 " answered, %" PRId64 " failed, %" PRId64 " done before; %.1f s, %.2f requests/s; in %s",
             counts->n_answered, counts->n_failed, counts->n_earlier, counts->seconds, rate, output->path);
  if (ommai_interrupted()) {
    ommai_note("batch: interrupted: the same command continues with what is left");
  } else if (counts->n_earlier < output->n_answered + output->n_failed) {
    ommai_warn("batch: %s: %" PRId64 " of its lines come from no line of this input", output->path,
               output->n_answered + output->n_failed - counts->n_earlier);
  } else if (output->n_failed + counts->n_failed) {
    ommai_note("batch: \"error\" states why lines failed; --retry-failed runs them again");
  }
}

static int answer(void *context, struct ommai_server *server, size_t n_parallel) {
  struct ommai_batch_job *job = context;
  struct ommai_batch_counts counts;
  job->server = server;
  job->n_parallel = n_parallel;
  int code = ommai_batch_run(job, &counts);
  note_counts(job->output, &counts);
  if (code != OMMAI_EXIT_DONE) return code;
  if (ommai_interrupted()) return ommai_interrupt_status();
  return job->output->n_failed + counts.n_failed ? OMMAI_EXIT_FAILED : OMMAI_EXIT_DONE;
}

static void log_line(void *context, const char *line) {
  (void)context;
  ommai_note("batch: %s", line);
}

static int run_files(const struct values *values, const struct ommai_strings *arguments, struct ommai_batch_job *job) {
  const struct ommai_serving *serving = &values->serving;
  struct omma_server_options options = serving->server;
  job->max_line_bytes = (size_t)options.max_body_bytes;
  options.offline = true;
  options.log = log_line;
  int code = ommai_serving_read("batch", serving, &options);
  if (code == OMMAI_EXIT_DONE) code = open_input(values->input, job);
  if (code == OMMAI_EXIT_DONE) code = ommai_batch_output_open(values->output, values->retry_failed, job->output);
  return code == OMMAI_EXIT_DONE ? ommai_serving_run_offline("batch", serving, &options, arguments, answer, job) : code;
}

static int run_batch(const void *given, const struct ommai_strings *arguments) {
  const struct values *values = given;
  struct ommai_batch_output output = {.file = -1};
  struct ommai_batch_job job = {.input = -1, .output = &output};
  OMMAI_TRY_CODE(check(values));
  int code = run_files(values, arguments, &job);
  if (job.input > STDIN_FILENO) close(job.input);
  int closed = ommai_batch_output_close(&output);
  return code == OMMAI_EXIT_DONE ? closed : code;
}

#define OMMAI_VALUES struct values

static const struct ommai_option table[] = {
    OMMAI_STRING("input-file", input, "FILE",
                 "requests, one JSON object per line with custom_id, method, url and body; -: standard input; required",
                 .letter = 'i'),
    OMMAI_STRING("output-file", output, "FILE",
                 "where the answers go, one line each as they finish; requests that it already answers are not run again; -: "
                 "standard output; required",
                 .letter = 'o'),
    OMMAI_FLAG("retry-failed", retry_failed, "remove the failed lines from the output first and run them again"),
};
static const struct ommai_option_group options = OMMAI_OPTION_GROUP("Files", table);

/* Of `vllm run-batch`, next to those of its engine. */
static const struct ommai_foreign_option ignored[] = {
    {.name = "output-tmp-dir", .kind = OMMAI_FOREIGN_VALUE},
    {.name = "enable-metrics", .kind = OMMAI_FOREIGN_SWITCH},
    {.name = "host", .kind = OMMAI_FOREIGN_VALUE},
    {.name = "port", .kind = OMMAI_FOREIGN_VALUE},
    {.name = "url", .kind = OMMAI_FOREIGN_VALUE},
    {.name = NULL},
};

const struct ommai_command ommai_command_batch = {
    .name = "batch",
    .alias = "run-batch",
    .summary = "answer a file of requests in OpenAI's batch format",
    .arguments = "[DIR] -i IN.jsonl -o OUT.jsonl",
    .details =
        "Answers requests of a file, lines of OpenAI's batch format for /v1/chat/completions, /v1/completions and "
        "/v1/responses, or with a model of vectors or scores for /v1/embeddings, /score and /rerank, and writes a line for "
        "each, in the order in which they end. The same command continues a batch that "
        "was stopped: lines whose custom_id is in the output are skipped. A bad line or a failed request gives a line with an "
        "error, and exit code 1 at the end. DIR is the model, as --model. Flags of `vllm run-batch` are accepted or ignored.",
    .examples = {"omma batch models/my-model -i in.jsonl -o out.jsonl"},
    .groups = {&options, &ommai_config_options, OMMAI_SERVING_GROUPS, &ommai_machine_options},
    .ignored = ommai_vllm_flags,
    .also_ignored = ignored,
    .ignored_of = "vLLM",
    .values_size = sizeof(struct values),
    .begin = ommai_serving_begin,
    .max_arguments = 1,
    .run = run_batch,
};
