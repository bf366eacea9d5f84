/* omma read: documents -> Markdown. */
#include <inttypes.h>
#include <string.h>

#include "base/plural.h"
#include "cli/core/commands.h"
#include "cli/core/diagnostics.h"
#include "cli/core/interrupt.h"
#include "cli/serve/read_settings.h"

struct values {
  struct ommai_read_values pages; /* first */
  const char *output;
  int form;
  bool resume;
};

static void note_end(const struct ommai_read_job *job, const struct ommai_read_counts *counts) {
  double rate = counts->seconds > 0 ? 60 * (double)counts->n_read / counts->seconds : 0;
  ommai_note("read: %" PRId64 " page%s read, %" PRId64 " failed, %" PRId64 " read before; %.1f s, %.1f pages a minute; in %s",
             counts->n_read, ommai_plural(counts->n_read), counts->n_failed, counts->n_earlier, counts->seconds, rate,
             job->folder);
  if (job->n_bad) ommai_note("read: %" PRId64 " of the documents could not be opened, as said above", job->n_bad);
  if (counts->n_cut) {
    ommai_note("read: %" PRId64
               " of them ended at the limit of tokens before their text did (\"cut\" in NAME.json); "
               "--max-model-len and --override-generation-config raise it, with --resume for these pages alone",
               counts->n_cut);
  }
  if (ommai_interrupted()) ommai_note("read: interrupted: the same command with --resume continues");
}

static void log_line(void *context, const char *line) {
  (void)context;
  ommai_note("read: %s", line);
}

static int read_documents(void *context, struct ommai_server *server, size_t n_parallel) {
  struct ommai_read_job *job = context;
  struct ommai_read_counts counts = {.n_pages = job->n_pages};
  job->server = server;
  job->n_parallel = n_parallel;
  int code = ommai_read_run(job, &counts);
  note_end(job, &counts);
  if (ommai_interrupted()) return ommai_interrupt_status();
  return code == OMMAI_EXIT_DONE && counts.n_failed ? OMMAI_EXIT_FAILED : code;
}

static int run_read(const void *given, const struct ommai_strings *arguments) {
  struct values values = *(const struct values *)given;
  struct ommai_read_job job = {.folder = values.output, .form = (enum ommai_document_form)values.form, .resume = values.resume};
  if (!values.output) return ommai_usage_error("read: --output is missing: the folder to write to (-o out/)");
  if (strcmp(values.output, "-") == 0) {
    return ommai_usage_error("read: --output -: a document has several files: give a folder");
  }
  return ommai_read_command_run("read", &values.pages, arguments, log_line, &job, read_documents, &job);
}

#define OMMAI_VALUES struct values

static const struct ommai_option table[] = {
    OMMAI_STRING("output", output, "DIR", "folder for NAME.md, NAME.json and NAME_figures of each document; required",
                 .letter = 'o'),
    OMMAI_CHOICE("format", form, "FORM", ommai_document_forms,
                 "what is written of each document besides the JSON of its blocks", .initial = "markdown"),
    OMMAI_FLAG("resume", resume,
               "keep the pages that an earlier run has read of the same document, with the same model, recipe, prompt and "
               "resolution; not those whose answers were cut off, where the limits of answers are others now"),
};
static const struct ommai_option_group options = OMMAI_OPTION_GROUP("Documents", table);

const struct ommai_command ommai_command_read = {
    .name = "read",
    .summary = "PDF files and images to Markdown, by a model that reads documents",
    .arguments = "[DIR] FILE... -o OUT",
    .details =
        "Reads PDF files, images, and folders of them page by page, and writes a Markdown file for each, with the blocks of "
        "its pages as JSON and its figures cut out next to it. How the model is asked depends on its name; --prompt asks any "
        "model about whole pages. A page that fails is named, the others are written all the same, and the exit code is 1. "
        "The same command with --resume continues one that was stopped. PDF files need poppler's pdftoppm and pdfinfo. DIR is "
        "the model, as with --model.",
    .examples = {"omma read paper.pdf --model models/my-model -o out/",
                 "omma read scans/ --model models/my-model --prompt \"Read this page.\" -o out/"},
    .groups = {&options, &ommai_config_options, &ommai_read_options, OMMAI_SERVING_GROUPS, &ommai_machine_options},
    .values_size = sizeof(struct values),
    .begin = ommai_serving_begin,
    .min_arguments = 1,
    .max_arguments = SIZE_MAX,
    .run = run_read,
};
