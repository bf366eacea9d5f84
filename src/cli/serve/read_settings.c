#include "cli/serve/read_settings.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/plural.h"
#include "cli/core/diagnostics.h"
#include "cli/serve/read_inputs.h"

/* Memory of a page besides its pixels: crops as PNG and their text, up to the request's last
 * copy. */
#define PAGE_COPIES 5
/* Of a process that renders. */
#define RENDER_BYTES ((int64_t)1 << 30)
#define RENDER_SECONDS 60

static const char *recipe_name(int index) {
  const struct ommai_reading_recipe *recipe = ommai_reading_recipe_at((size_t)index);
  return recipe ? recipe->name : NULL;
}

/* By its name, the model's, or the one that reads pages as a whole. */
static void choose_recipe(const struct ommai_read_values *values, struct ommai_read_job *job) {
  job->prompt = values->prompt;
  job->recipe = values->recipe.given ? ommai_reading_recipe_at((size_t)values->recipe.value) : NULL;
  if (!job->recipe && !values->prompt) job->recipe = ommai_reading_recipe_of_model(job->model);
  if (!job->recipe) job->recipe = ommai_reading_recipe_find("page");
}

static void note_pages(const char *command, const struct ommai_read_job *job) {
  int64_t bytes = (int64_t)job->n_open * job->limits.max_pixels * 3 * PAGE_COPIES;
  ommai_note("%s: %zu document%s, %" PRId64 " page%s, as %s; %zu page%s at once take at most %" PRId64
             " MiB besides the model (--jobs, --max-page-pixels)",
             command, job->n_documents, ommai_plural((int64_t)job->n_documents), job->n_pages, ommai_plural(job->n_pages),
             job->recipe->name, job->n_open, ommai_plural((int64_t)job->n_open), bytes >> 20);
}

static int take_settings(const char *command, struct ommai_read_values *values, const struct ommai_strings *arguments,
                         struct omma_server_options *options, struct ommai_read_job *job) {
  struct ommai_strings paths = *arguments;
  struct ommai_common *common = &values->serving.common;
  job->dpi = (int)values->dpi;
  job->n_open = (size_t)values->jobs;
  job->limits =
      (struct ommai_pdf_limits){.max_bytes = RENDER_BYTES, .max_pixels = values->max_page_pixels, .seconds = RENDER_SECONDS};
  if (!ommai_page_list_read(values->pages, &job->pages)) {
    return ommai_usage_error("%s: --pages: %s: expected pages and ranges of them, at most %d, such as 3, 1-10 or 1-3,7,11-",
                             command, values->pages, OMMAI_MAX_PAGE_RANGES);
  }
  int code = ommai_common_take_model_of(command, OMMAI_FURTHER_TEXTS, &paths, common);
  if (code == OMMAI_EXIT_DONE && !paths.count) {
    code = ommai_usage_error("%s: documents are missing: PDF files, images or folders", command);
  }
  job->model = common->model ? common->model : "";
  snprintf(job->answer_limits, sizeof job->answer_limits, "%" PRId64 " %s", common->max_model_len,
           common->override_generation_config ? common->override_generation_config : "");
  if (code == OMMAI_EXIT_DONE) choose_recipe(values, job);
  if (!common->model && ommai_find_demo_model(job->demo_model, sizeof job->demo_model)) job->model = job->demo_model;
  if (code == OMMAI_EXIT_DONE) code = ommai_serving_read(command, &values->serving, options);
  if (code != OMMAI_EXIT_DONE) return code;
  code = ommai_read_inputs(&paths, &job->pages, &job->limits, job->folder, &job->documents, &job->n_documents, &job->n_bad);
  for (size_t i = 0; i < job->n_documents; i++) job->n_pages += job->documents[i].n_left;
  return code;
}

/* The last folder of a path; it may be there. */
static int make_folder(const char *command, const char *path) {
  struct stat status;
  if (mkdir(path, 0777) == 0) return OMMAI_EXIT_DONE;
  if (errno == ENOENT) return ommai_failed("%s: --output %s: the folder that it is to lie in is missing", command, path);
  if (errno != EEXIST) return ommai_failed("%s: --output %s: %s", command, path, strerror(errno));
  if (stat(path, &status) == 0 && S_ISDIR(status.st_mode)) return OMMAI_EXIT_DONE;
  return ommai_failed("%s: --output %s: not a folder", command, path);
}

int ommai_read_command_run(const char *command, struct ommai_read_values *values, const struct ommai_strings *arguments,
                           void (*log)(void *context, const char *line), struct ommai_read_job *job,
                           int (*run)(void *context, struct ommai_server *server, size_t n_parallel), void *context) {
  const struct ommai_strings no_words = {.items = NULL};
  struct omma_server_options options = values->serving.server;
  options.offline = true;
  options.log = log;
  int code = take_settings(command, values, arguments, &options, job);
  if (code == OMMAI_EXIT_DONE && job->folder) code = make_folder(command, job->folder);
  if (code == OMMAI_EXIT_DONE && job->n_documents) {
    note_pages(command, job);
    code = ommai_serving_run_offline(command, &values->serving, &options, &no_words, run, context);
  }
  ommai_read_inputs_release(job->documents, job->n_documents);
  return code == OMMAI_EXIT_DONE && job->n_bad ? OMMAI_EXIT_FAILED : code;
}

#define OMMAI_VALUES struct ommai_read_values

static const struct ommai_option table[] = {
    OMMAI_STRING("pages", pages, "LIST", "pages of each document: 3, 1-10 or 1-3,7,11-", .otherwise = "all"),
    OMMAI_INTEGER("dpi", dpi, "N", 30, 1200, "pixels an inch of rendered PDF pages", .initial = "200"),
    OMMAI_INTEGER("jobs", jobs, "N", 1, 256, "pages that are open at once; their requests run together", .initial = "4"),
    OMMAI_LISTED_CHOICE("recipe", recipe, "NAME", recipe_name, "how the model is asked", .otherwise = "by the model's name"),
    OMMAI_STRING("prompt", prompt, "TEXT", "what is asked about each page, or about each text of a page with a layout"),
    OMMAI_SIZE("max-page-pixels", max_page_pixels, "SIZE", 1 << 16, 1 << 28, "pixels of a page; larger ones fail",
               .initial = "24m"),
};
const struct ommai_option_group ommai_read_options = OMMAI_OPTION_GROUP("Pages", table);
