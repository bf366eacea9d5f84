#include "cli/model/vector_command.h"

#include <errno.h>
#include <string.h>

#include "base/plural.h"
#include "cli/core/diagnostics.h"
#include "cli/core/interrupt.h"
#include "cli/core/progress.h"
#include "cli/model/image_sources.h"
#include "cli/model/vector_run.h"

#define OMMAI_VALUES struct ommai_vector_values

static const struct ommai_option engine_table[] = {
    OMMAI_INTEGER("max-num-seqs", max_num_seqs, "N", 1, 1024, "inputs that are worked on at the same time", .initial = "32"),
    OMMAI_SIZE("max-num-batched-tokens", max_num_batched_tokens, "N", 1, INT32_MAX, "tokens of prompts in a step",
               .otherwise = "512"),
};
const struct ommai_option_group ommai_vector_engine_options = OMMAI_OPTION_GROUP("Engine", engine_table);

struct run {
  struct ommai_vector_job *job;
  struct omma_model *model;
  struct omma_engine *engine;
  struct ommai_vector_items items;
  struct ommai_vector_file file;
  struct ommai_progress progress;
  struct omma_image_options limits;
  int64_t n_done;
  struct omma_model_info info;
};

static bool compares_vectors(const struct run *run) { return run->job->scores && run->info.task == OMMA_TASK_EMBED; }

static int take(void *context, const struct omma_vectors *vectors, const struct omma_error *error) {
  struct run *run = context;
  float score = 0;
  const struct omma_vectors single = {1, 1, &score};
  struct ommai_vector_job *job = run->job;
  int64_t index = run->n_done++;
  int code = OMMAI_EXIT_DONE;
  if (vectors && compares_vectors(run)) {
    score = job->score(job->context, vectors);
    vectors = &single;
  }
  if (!vectors) {
    job->n_failed++;
    if (error->status != OMMA_OK) ommai_failed("input %lld: %s", (long long)index, error->message);
  }
  if (run->file.file) code = ommai_vector_file_add(&run->file, vectors, error->message);
  if (code == OMMAI_EXIT_DONE && vectors && job->take) code = job->take(job->context, index, vectors->values[0]);
  if (code == OMMAI_EXIT_DONE && !vectors && job->take_failure) code = job->take_failure(job->context, index, error->message);
  ommai_progress_count(&run->progress, run->n_done, 0, job->n_failed, ommai_vector_items_count(&run->items));
  return code;
}

/* Submits an item, or what is wrong with it: `reason`, which has been printed, or NULL. */
static int add_item(struct run *run, struct ommai_vector_run *under_way, const struct ommai_vector_item *item,
                    const struct omma_error *reason) {
  const struct omma_request_options options = {.max_model_len = omma_engine_max_model_len(run->engine)};
  struct omma_request *request = NULL;
  struct omma_error error = {.status = OMMA_OK};
  if (reason) return ommai_vector_run_add(under_way, NULL, reason);
  if (item->line && run->job->note_line) run->job->note_line(run->job->context, run->items.n - 1, item->line);
  if (run->job->make(run->job->context, run->model, item, &options, &request, &error) != OMMA_OK) request = NULL;
  return ommai_vector_run_add(under_way, request, &error);
}

static int run_items(struct run *run, struct ommai_vector_run *under_way) {
  int code = OMMAI_EXIT_DONE;
  while (code == OMMAI_EXIT_DONE) {
    struct ommai_vector_item item;
    struct omma_error error = {.status = OMMA_OK};
    ommai_failures_to(error.message, sizeof error.message);
    enum ommai_vector_next next = ommai_vector_items_next(&run->items, &item);
    ommai_failures_to(NULL, 0);
    for (size_t i = 0; i < item.n_parts; i++) {
      if (item.parts[i].image) item.parts[i].image_options = run->limits;
    }
    if (next == OMMAI_VECTOR_ITEM || next == OMMAI_VECTOR_BAD_ITEM) {
      code = add_item(run, under_way, &item, next == OMMAI_VECTOR_ITEM ? NULL : &error);
    }
    ommai_vector_item_release(&item);
    if (ommai_interrupted()) return ommai_interrupt_status();
    if (next == OMMAI_VECTOR_FAILED) return OMMAI_EXIT_FAILED;
    if (next == OMMAI_VECTOR_END) return ommai_vector_run_finish(under_way);
  }
  return code;
}

/* What fails with a short text fails with every input: it does so once. */
static int check_options(const struct run *run) {
  const struct ommai_vector_job *job = run->job;
  const struct omma_request_options options = {0};
  struct ommai_vector_item item = {0};
  struct omma_request *request = NULL;
  struct omma_error error = {0};
  ommai_vector_item_add_text(&item, "a", 1);
  if (ommai_check_image_options(run->model, &run->limits, &error) != OMMA_OK) return ommai_failed_call(&error);
  enum omma_status status = job->make(job->context, run->model, &item, &options, &request, &error);
  omma_request_destroy(request);
  return status == OMMA_OK ? OMMAI_EXIT_DONE : ommai_failed_call(&error);
}

static void note_interrupt(const struct run *run) {
  const char *command = run->job->command, *output = run->job->values->output;
  long long n = (long long)run->n_done;
  if (!output) {
    ommai_note("%s: interrupted: the ranking is of the first %lld input%s", command, n, ommai_plural(n));
  } else if (strcmp(output, "-") == 0) {
    ommai_note("%s: interrupted after %lld input%s", command, n, ommai_plural(n));
  } else {
    ommai_note("%s: interrupted after %lld input%s: %s was not written, nothing of it is kept", command, n, ommai_plural(n),
               output);
  }
}

static int run_all(struct run *run) {
  struct ommai_vector_run *under_way = ommai_vector_run_create(run->engine, take, run);
  if (!under_way) return ommai_failed("out of memory: vectors that are under way");
  ommai_interrupt_defer();
  ommai_progress_begin_long(&run->progress, run->job->command);
  int code = OMMAI_EXIT_DONE;
  if (compares_vectors(run)) code = run->job->prepare(run->job->context, run->model, run->engine);
  if (code == OMMAI_EXIT_DONE) code = check_options(run);
  if (code == OMMAI_EXIT_DONE) code = run_items(run, under_way);
  ommai_vector_run_destroy(under_way);
  ommai_progress_end(&run->progress);
  if (ommai_interrupted() && code == ommai_interrupt_status()) note_interrupt(run);
  ommai_interrupt_resume();
  return code;
}

static int open_engine(struct run *run) {
  const struct ommai_vector_values *values = run->job->values;
  struct omma_error error;
  /* Nothing is kept of images: they come once. */
  const struct omma_engine_options options = {.kv_cache_bytes = values->common.kv_cache_bytes,
                                              .max_sequences = values->max_num_seqs,
                                              .prefill_chunk = values->max_num_batched_tokens,
                                              .encoder_cache_bytes = -1,
                                              .scheduling = OMMA_SCHEDULING_THROUGHPUT};
  return omma_engine_create(run->model, &options, &run->engine, &error) == OMMA_OK ? OMMAI_EXIT_DONE
                                                                                   : ommai_failed_call(&error);
}

static int open_file(struct run *run) {
  enum ommai_vector_shape shape = run->job->scores               ? OMMAI_VECTOR_VALUES
                                  : run->info.token_vector_width ? OMMAI_VECTOR_LISTS
                                                                 : OMMAI_VECTOR_ROWS;
  return ommai_vector_file_open(run->job->values->output, shape, &run->file);
}

/* Any model of some types gives vectors and scores; whether they are of use is known from what it
 * was trained for. Layers for the vectors of tokens come from such training alone. */
static void note_purpose(const struct run *run, enum omma_model_task trained) {
  const struct ommai_vector_job *job = run->job;
  if (run->info.token_vector_width || run->info.task == trained) return;
  ommai_note(
      "%s: neither this model's files nor its name say that it was trained for %s, which may be of no use: "
      "docs/embeddings.md",
      job->command, job->scores ? "scores" : "vectors");
}

/* Opens the model for the job's task; scores are made of the vectors of a model that was trained
 * for these, as the server has it. */
static int open_model(struct run *run, struct ommai_common *common) {
  struct omma_model_info info;
  OMMAI_TRY_CODE(ommai_read_model_info(common, &info));
  common->task = run->job->scores && info.task != OMMA_TASK_EMBED ? OMMA_TASK_SCORE : OMMA_TASK_EMBED;
  OMMAI_TRY_CODE(ommai_open_model(common, false, &run->model));
  ommai_common_note_demo(run->job->command, common);
  omma_model_get_info(run->model, &run->info);
  note_purpose(run, info.task);
  return OMMAI_EXIT_DONE;
}

/* The model that the first word names, and the images that the others do. Without a model the demo
 * model would answer, so that a first word that is no file ends it all. */
static int take_words(struct ommai_vector_job *job, const struct ommai_strings *arguments, struct ommai_common *common) {
  struct ommai_strings words = *arguments;
  OMMAI_TRY_CODE(ommai_common_take_model_of(job->command, OMMAI_FURTHER_FOLDERS, &words, common));
  if (!common->model && words.count && ommai_is_no_file(words.items[0])) {
    return ommai_failed(
        "%s: %s: %s: the first word is a model (a Hugging Face directory or a GGUF file; nothing is downloaded) or an image; "
        "a text goes after --text",
        job->command, words.items[0], strerror(ENOENT));
  }
  return ommai_expand_folders(&words, &job->images);
}

int ommai_vector_job_run(struct ommai_vector_job *job, const struct ommai_strings *arguments) {
  const struct ommai_vector_values *values = job->values;
  struct ommai_common common = values->common;
  struct run run = {.job = job, .limits = ommai_common_image_options(&values->common)};
  common.known_image_bytes = -1;
  int code = take_words(job, arguments, &common);
  run.items = (struct ommai_vector_items){.images = job->images, .texts = values->texts, .file = values->input};
  if (code == OMMAI_EXIT_DONE && !ommai_vector_items_exist(&run.items)) {
    code = ommai_usage_error("%s: nothing to do: name images, --text or --input", job->command);
  }
  if (code == OMMAI_EXIT_DONE && values->output) code = ommai_vector_file_check(values->output);
  if (code == OMMAI_EXIT_DONE) code = open_model(&run, &common);
  if (code == OMMAI_EXIT_DONE && values->output) code = open_file(&run);
  if (code == OMMAI_EXIT_DONE) code = open_engine(&run);
  if (code == OMMAI_EXIT_DONE) code = run_all(&run);
  omma_engine_destroy(run.engine);
  omma_model_close(run.model);
  ommai_vector_items_release(&run.items);
  int closed = ommai_vector_file_close(&run.file, code == OMMAI_EXIT_DONE, run.info.hidden_size);
  if (code == OMMAI_EXIT_DONE) code = closed;
  if (code != OMMAI_EXIT_DONE || job->n_failed == 0) return code;
  return ommai_failed("%s: %lld of %lld inputs failed", job->command, (long long)job->n_failed, (long long)run.n_done);
}
