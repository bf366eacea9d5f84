/* omma read: documents -> Markdown. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/commands.h"
#include "cli/diagnostics.h"
#include "cli/interrupt.h"
#include "cli/read_inputs.h"
#include "cli/serving.h"

/* Requests that the engine runs at once where their number is not given. */
#define DEFAULT_SEQUENCES 32
/* Memory of a page besides its pixels: crops as PNG and their text, up to the request's last
 * copy. */
#define PAGE_COPIES 5
/* Of a process that renders. */
#define RENDER_BYTES ((int64_t)1 << 30)
#define RENDER_SECONDS 60

struct values {
  struct ommai_serving serving;
  const char *output, *pages, *prompt;
  int form, recipe; /* recipe -1: not given */
  int64_t dpi, jobs, max_page_pixels;
  bool resume;
};

static const char *recipe_name(int index) {
  const struct ommai_reading_recipe *recipe = ommai_reading_recipe_at((size_t)index);
  return recipe ? recipe->name : NULL;
}

/* "3", "3-7" or "3-". */
static int read_pages(const char *text, int64_t *first, int64_t *last) {
  char *end = NULL;
  *first = 1;
  *last = INT64_MAX;
  if (!text) return OMMAI_EXIT_DONE;
  errno = 0;
  *first = strtoll(text, &end, 10);
  bool good = end != text && *first >= 1;
  if (good && *end == '\0') *last = *first;
  if (good && *end == '-' && end[1]) {
    const char *from = end + 1;
    *last = strtoll(from, &end, 10);
    good = end != from && *end == '\0';
  } else {
    good = good && (*end == '\0' || *end == '-');
  }
  if (good && errno == 0 && *last >= *first) return OMMAI_EXIT_DONE;
  return ommai_usage_error("read: --pages: %s: expected a page or a range of them, such as 3, 1-10 or 11-", text);
}

/* By its name, the model's, or the one that reads pages as a whole. */
static void choose_recipe(const struct values *values, struct ommai_read_job *job) {
  job->prompt = values->prompt;
  job->recipe = values->recipe < 0 ? NULL : ommai_reading_recipe_at((size_t)values->recipe);
  if (!job->recipe && !values->prompt) job->recipe = ommai_reading_recipe_of_model(job->model);
  if (!job->recipe) job->recipe = ommai_reading_recipe_find("page");
}

static void note_start(const struct ommai_read_job *job, int64_t n_pages) {
  int64_t bytes = (int64_t)job->n_open * job->limits.max_pixels * 3 * PAGE_COPIES;
  ommai_note("read: %zu documents, %" PRId64 " pages, as %s; %zu pages at once take at most %" PRId64
             " MiB besides the model (--jobs, --max-page-pixels)",
             job->n_documents, n_pages, job->recipe->name, job->n_open, bytes >> 20);
}

static void note_end(const struct ommai_read_job *job, const struct ommai_read_counts *counts) {
  double rate = counts->seconds > 0 ? 60 * (double)(counts->n_read + counts->n_failed) / counts->seconds : 0;
  ommai_note("read: %" PRId64 " pages read, %" PRId64 " failed, %" PRId64 " read before; %.1f s, %.1f pages a minute; in %s",
             counts->n_read, counts->n_failed, counts->n_earlier, counts->seconds, rate, job->folder);
  if (ommai_interrupted()) ommai_note("read: interrupted: the same command with --resume continues");
}

static void log_line(void *context, const char *line) {
  (void)context;
  ommai_note("read: %s", line);
}

static int read_documents(struct ommai_read_job *job, const struct values *values, struct omma_server_options *options) {
  const struct ommai_strings none = {.items = NULL};
  struct ommai_read_counts counts = {.n_pages = 0};
  struct ommai_opened opened;
  struct omma_error error;
  for (size_t i = 0; i < job->n_documents; i++) counts.n_pages += job->documents[i].last - job->documents[i].first + 1;
  note_start(job, counts.n_pages);
  int code = ommai_serving_open("read", &values->serving, options, &none, NULL, NULL, &opened);
  if (code != OMMAI_EXIT_DONE) return code;
  if (ommai_server_create(options, opened.model, opened.engine, &job->server, &error) == OMMA_OK) {
    ommai_interrupt_defer();
    code = ommai_read_run(job, &counts);
    note_end(job, &counts);
    ommai_server_destroy(job->server);
    if (code == OMMAI_EXIT_DONE && counts.n_failed) code = OMMAI_EXIT_FAILED;
    if (ommai_interrupted()) code = ommai_interrupt_status();
    ommai_interrupt_resume();
  } else {
    code = ommai_failed_call(&error);
  }
  ommai_serving_close(&opened);
  return code;
}

static int run_read(const void *given, const struct ommai_strings *arguments) {
  struct values values = *(const struct values *)given;
  struct ommai_strings paths = *arguments;
  struct omma_server_options options = {.offline = true, .log = log_line};
  struct ommai_common *common = &values.serving.common;
  int64_t sequences = values.serving.max_num_seqs > 0 ? values.serving.max_num_seqs : DEFAULT_SEQUENCES, first, last, n_bad = 0;
  struct ommai_read_job job = {.folder = values.output,
                               .form = (enum ommai_document_form)values.form,
                               .dpi = (int)values.dpi,
                               .resume = values.resume,
                               .n_open = (size_t)values.jobs,
                               .n_parallel = 2 * (size_t)sequences,
                               .limits = {RENDER_BYTES, values.max_page_pixels, RENDER_SECONDS}};
  if (!values.output) return ommai_usage_error("read: --output is missing: the folder to write to (-o out/)");
  int code = read_pages(values.pages, &first, &last);
  if (code == OMMAI_EXIT_DONE) code = ommai_common_take_model_of("read", OMMAI_FURTHER_TEXTS, &paths, common);
  if (code == OMMAI_EXIT_DONE && !paths.count)
    code = ommai_usage_error("read: documents are missing: PDF files, images or folders");
  job.model = common->model ? common->model : "";
  if (code == OMMAI_EXIT_DONE) choose_recipe(&values, &job);
  if (code == OMMAI_EXIT_DONE) code = ommai_serving_read("read", &values.serving, &options);
  if (code == OMMAI_EXIT_DONE && mkdir(job.folder, 0777) != 0 && errno != EEXIST) {
    code = ommai_failed("read: %s: %s", job.folder, strerror(errno));
  }
  if (code == OMMAI_EXIT_DONE)
    code = ommai_read_inputs(&paths, first, last, &job.limits, &job.documents, &job.n_documents, &n_bad);
  if (code == OMMAI_EXIT_DONE && job.n_documents) code = read_documents(&job, &values, &options);
  ommai_read_inputs_release(job.documents, job.n_documents);
  return code == OMMAI_EXIT_DONE && n_bad ? OMMAI_EXIT_FAILED : code;
}

#define OMMAI_VALUES struct values

static const struct ommai_option table[] = {
    OMMAI_STRING("output", output, "DIR", "folder for NAME.md, NAME.json and NAME_figures of each document; required",
                 .letter = 'o'),
    OMMAI_CHOICE("format", form, "FORM", ommai_document_forms,
                 "what is written of each document besides the JSON of its blocks", .initial = "markdown"),
    OMMAI_STRING("pages", pages, "FIRST-LAST", "pages of each document: 3, 1-10 or 11-", .otherwise = "all"),
    OMMAI_INTEGER("dpi", dpi, "N", 30, 1200, "pixels an inch of rendered PDF pages", .initial = "200"),
    OMMAI_FLAG("resume", resume, "keep the pages that an earlier run has read with the same model and settings"),
    OMMAI_INTEGER("jobs", jobs, "N", 1, 256, "pages that are open at once; their requests run together", .initial = "4"),
    OMMAI_LISTED_CHOICE("recipe", recipe, "NAME", recipe_name, "how the model is asked", .otherwise = "by the model's name",
                        .unset = -1),
    OMMAI_STRING("prompt", prompt, "TEXT", "what is asked about each page, or about each text of a page with a layout"),
    OMMAI_SIZE("max-page-pixels", max_page_pixels, "SIZE", 1 << 16, 1 << 28, "pixels of a page; larger ones fail",
               .initial = "24m"),
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
    .groups = {&options, &ommai_model_options, &ommai_weight_options, &ommai_engine_options, &ommai_scheduler_options,
               &ommai_request_options, &ommai_media_options, &ommai_image_options, &ommai_template_options,
               &ommai_machine_options},
    .values_size = sizeof(struct values),
    .min_arguments = 1,
    .max_arguments = SIZE_MAX,
    .run = run_read,
};
