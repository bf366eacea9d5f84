/* omma rerank: documents by how well they answer a query. */
#include <omma/vectors.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/core/commands.h"
#include "cli/core/diagnostics.h"
#include "cli/core/json_out.h"
#include "cli/core/plain_text.h"
#include "cli/model/image_sources.h"
#include "cli/model/vector_command.h"
#include "cli/model/vector_run.h"

struct values {
  struct ommai_vector_values vectors;
  const char *query;
  struct ommai_strings query_images;
  int64_t top_n;
  bool json;
};

struct scored {
  int64_t index;
  float score;
};

struct ranking {
  const struct values *values;
  struct ommai_vector_item query;
  bool compares; /* vectors of tokens */
  struct omma_vectors query_vectors;
  float *query_values; /* theirs */
  struct scored *list;
  size_t n, capacity;
};

static enum omma_status make(const void *context, const struct omma_model *model, const struct ommai_vector_item *item,
                             const struct omma_request_options *options, struct omma_request **request,
                             struct omma_error *error) {
  const struct ranking *ranking = context;
  const char *instruction = item->instruction ? item->instruction : ranking->values->vectors.instruction;
  if (ranking->compares) {
    struct omma_request_options own = *options;
    own.is_document = 1;
    return omma_request_create_embed(model, instruction, item->parts, item->n_parts, &own, request, error);
  }
  return omma_request_create_score(model, instruction, ranking->query.parts, ranking->query.n_parts, item->parts, item->n_parts,
                                   options, request, error);
}

static int take_query(void *context, const struct omma_vectors *vectors, const struct omma_error *error) {
  struct ranking *ranking = context;
  if (!vectors) return ommai_failed("--query: %s", error->message);
  size_t size = (size_t)(vectors->n_rows * vectors->width) * sizeof *ranking->query_values;
  ranking->query_vectors = *vectors;
  ranking->query_vectors.values = ranking->query_values = malloc(size);
  if (!ranking->query_values) return ommai_failed("out of memory: the query's vectors");
  memcpy(ranking->query_values, vectors->values, size);
  return OMMAI_EXIT_DONE;
}

/* A model with a vector for each token: the query's come first. */
static int prepare(void *context, const struct omma_model *model, struct omma_engine *engine) {
  struct ranking *ranking = context;
  const struct omma_request_options options = {.max_model_len = omma_engine_max_model_len(engine)};
  struct omma_request *request = NULL;
  struct omma_error error;
  ranking->compares = true;
  if (omma_request_create_embed(model, NULL, ranking->query.parts, ranking->query.n_parts, &options, &request, &error) !=
      OMMA_OK) {
    return ommai_failed_call(&error);
  }
  struct ommai_vector_run *run = ommai_vector_run_create(engine, take_query, ranking);
  if (!run) {
    omma_request_destroy(request);
    return ommai_failed("out of memory: the query's vectors");
  }
  int code = ommai_vector_run_add(run, request, &error);
  if (code == OMMAI_EXIT_DONE) code = ommai_vector_run_finish(run);
  ommai_vector_run_destroy(run);
  return code;
}

static float score(const void *context, const struct omma_vectors *vectors) {
  const struct ranking *ranking = context;
  return (float)omma_vectors_max_sim(&ranking->query_vectors, vectors);
}

static int take(void *context, int64_t index, float value) {
  struct ranking *ranking = context;
  if (ranking->n == ranking->capacity) {
    size_t capacity = ranking->capacity ? 2 * ranking->capacity : 1024;
    struct scored *list = realloc(ranking->list, capacity * sizeof *list);
    if (!list) return ommai_failed("out of memory: a list of %zu scores", capacity);
    ranking->list = list;
    ranking->capacity = capacity;
  }
  ranking->list[ranking->n++] = (struct scored){index, value};
  return OMMAI_EXIT_DONE;
}

/* The best first, and of equal ones the first. */
static int compare(const void *left, const void *right) {
  const struct scored *a = left, *b = right;
  if (a->score != b->score) return a->score < b->score ? 1 : -1;
  return (a->index > b->index) - (a->index < b->index);
}

static int print_json(const struct ranking *ranking, size_t n) {
  struct ommai_text out;
  ommai_json_begin(&out);
  ommai_put_begin(&out, "results", "[");
  for (size_t i = 0; i < n; i++) {
    ommai_put_begin(&out, NULL, "{");
    ommai_put_integer(&out, "index", (int64_t)ranking->list[i].index);
    ommai_put_real(&out, "relevance_score", ranking->list[i].score);
    ommai_put_end(&out, "}");
  }
  ommai_put_end(&out, "]");
  return ommai_json_end(&out);
}

static int print_table(const struct ranking *ranking, const struct ommai_strings *images, size_t n) {
  const struct ommai_strings *texts = &ranking->values->vectors.texts;
  for (size_t i = 0; i < n; i++) {
    size_t index = (size_t)ranking->list[i].index;
    printf("%.6f  %zu  ", (double)ranking->list[i].score, index);
    if (index < images->count) {
      ommai_print_plain(stdout, images->items[index], 0);
    } else if (index - images->count < texts->count) {
      ommai_print_plain(stdout, texts->items[index - images->count], 0);
    }
    putchar('\n');
  }
  return ommai_finish_output();
}

static int print(struct ranking *ranking, const struct ommai_strings *images) {
  const struct values *values = ranking->values;
  size_t n = ranking->n;
  if (n) qsort(ranking->list, n, sizeof *ranking->list, compare);
  if (values->top_n && (size_t)values->top_n < n) n = (size_t)values->top_n;
  return values->json ? print_json(ranking, n) : print_table(ranking, images, n);
}

/* People take the query for an argument. */
static int query_is_missing(const struct ommai_strings *arguments) {
  for (size_t i = 0; i < arguments->count; i++) {
    if (ommai_is_no_file(arguments->items[i])) {
      return ommai_usage_error(
          "rerank: --query or --query-image is missing: '%.60s' is no file; a text to search by goes after "
          "--query",
          arguments->items[i]);
    }
  }
  return ommai_usage_error("rerank: --query or --query-image is missing");
}

static int read_query(struct ranking *ranking, const struct ommai_strings *arguments) {
  const struct values *values = ranking->values;
  snprintf(ranking->query.name, sizeof ranking->query.name, "--query-image");
  if (!values->query && !values->query_images.count) return query_is_missing(arguments);
  for (size_t i = 0; i < values->query_images.count; i++) {
    int code = ommai_vector_item_add_image(&ranking->query, values->query_images.items[i]);
    if (code != OMMAI_EXIT_DONE) return code;
  }
  if (values->query) ommai_vector_item_add_text(&ranking->query, values->query, strlen(values->query));
  return OMMAI_EXIT_DONE;
}

static int run_rerank(const void *given, const struct ommai_strings *arguments) {
  const struct values *values = given;
  struct ranking ranking = {.values = values};
  struct ommai_vector_job job = {.command = "rerank",
                                 .values = &values->vectors,
                                 .task = OMMA_TASK_SCORE,
                                 .scores = true,
                                 .make = make,
                                 .prepare = prepare,
                                 .score = score,
                                 .take = take,
                                 .context = &ranking};
  int code = read_query(&ranking, arguments);
  if (code == OMMAI_EXIT_DONE) code = ommai_vector_job_run(&job, arguments);
  bool printed = (code == OMMAI_EXIT_DONE || ranking.n) && !values->vectors.output;
  if (printed) {
    int result = print(&ranking, &job.images);
    if (code == OMMAI_EXIT_DONE) code = result;
  }
  ommai_vector_item_release(&ranking.query);
  free(ranking.query_values);
  free(ranking.list);
  return code;
}

#define OMMAI_VALUES struct values

static const struct ommai_option table[] = {
    OMMAI_STRING("query", query, "TEXT", "what the documents are to answer"),
    OMMAI_STRINGS("query-image", query_images, "FILE", "an image of the query"),
    OMMAI_STRINGS("text", vectors.texts, "TEXT", "a document that is a text"),
    OMMAI_STRING("input", vectors.input, "FILE",
                 "documents as JSON lines, - for standard input: a string, or an object with text, image (a file, or a list of "
                 "files), video (a list of its frames' files), fps (of the video, 2) and instruction"),
    OMMAI_STRING("instruction", vectors.instruction, "TEXT", "what makes a document a good one, in a sentence",
                 .otherwise = "the model's own"),
    OMMAI_SIZE("top-n", top_n, "N", 1, INT64_MAX, "print the N best alone", .otherwise = "all"),
    OMMAI_FLAG("json", json, "print the ranking as JSON"),
    OMMAI_STRING("output", vectors.output, "FILE",
                 "instead of a ranking: write the scores in the order of the documents, to NAME.npy, NAME.jsonl, or - for JSON "
                 "lines on standard output",
                 .letter = 'o'),
};
static const struct ommai_option_group options = OMMAI_OPTION_GROUP("Scores", table);

const struct ommai_command ommai_command_rerank = {
    .name = "rerank",
    .summary = "texts and images, the best answer to a query first",
    .arguments = "[DIR] [IMAGE...] --query TEXT",
    .details =
        "Gives each document (an image, a --text, a line of --input) a score for the query, by a model that was trained "
        "for it (from 0 to 1) or from the vectors of their tokens (MaxSim, without bounds), and prints score, number and "
        "document, the best first. DIR is the "
        "model, as with --model. docs/embeddings.md has more.",
    .examples = {"omma rerank MODEL photos/*.jpg --query \"a red circle\" --top-n 10"},
    .groups = {&options, &ommai_vector_engine_options, &ommai_image_options, &ommai_model_options, &ommai_weight_options,
               &ommai_engine_options, &ommai_machine_options},
    .values_size = sizeof(struct values),
    .max_arguments = SIZE_MAX,
    .run = run_rerank,
};
