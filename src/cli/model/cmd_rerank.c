/* omma rerank: documents by how well they answer a query. */
#include <omma/vectors.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/growing.h"
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
  json_t *line; /* of --input that it came from; NULL: an argument or --text */
};

struct ranking {
  const struct values *values;
  struct ommai_vector_item query;
  bool compares; /* vectors */
  struct omma_vectors query_vectors;
  float *query_values; /* theirs */
  struct scored *list;
  size_t n, capacity;
  /* entries of a list in JSON, of which there is none without --json */
  struct ommai_text errors;
  json_t *lines[OMMAI_VECTOR_RUN_ROOM + 1]; /* of inputs under way, by index modulo the size */
  const struct ommai_strings *images;       /* the first documents */
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

/* A model that gives vectors: the query's come first. */
static int prepare(void *context, const struct omma_model *model, struct omma_engine *engine) {
  struct ranking *ranking = context;
  const struct omma_request_options options = {.max_model_len = omma_engine_max_model_len(engine)};
  struct omma_request *request = NULL;
  struct omma_error error;
  ranking->compares = true;
  if (omma_request_create_embed(model, ranking->values->vectors.instruction, ranking->query.parts, ranking->query.n_parts,
                                &options, &request, &error) != OMMA_OK) {
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

/* MaxSim, which of single vectors of length 1 is their cosine. */
static float score(const void *context, const struct omma_vectors *vectors) {
  const struct ranking *ranking = context;
  return (float)omma_vectors_max_sim(&ranking->query_vectors, vectors);
}

/* ---- what comes of documents ---- */

/* The best first, and of equal ones the first. */
static int compare(const void *left, const void *right) {
  const struct scored *a = left, *b = right;
  if (a->score != b->score) return a->score < b->score ? 1 : -1;
  return (a->index > b->index) - (a->index < b->index);
}

/* Sorts what there is so far, and drops what --top-n leaves out. */
static void rank(struct ranking *ranking) {
  const size_t top_n = (size_t)ranking->values->top_n;
  if (ranking->n) qsort(ranking->list, ranking->n, sizeof *ranking->list, compare);
  while (top_n && ranking->n > top_n) json_decref(ranking->list[--ranking->n].line);
}

static json_t **line_under_way(struct ranking *ranking, int64_t index) {
  return &ranking->lines[index % (int64_t)(sizeof ranking->lines / sizeof *ranking->lines)];
}

/* An image's source as it is shown: of an image in the line itself the beginning. */
enum { SHOWN = 40 };
static const char *shown(const char *source, char beginning[SHOWN + 4]) {
  if (strncmp(source, "data:", 5) != 0 || strlen(source) <= SHOWN) return source;
  snprintf(beginning, SHOWN + 4, "%.*s...", SHOWN, source);
  return beginning;
}

/* What is kept of a line's images: not they themselves, of which there may be a hundred
 * thousand. */
static json_t *shorten(const json_t *member) {
  char beginning[SHOWN + 4];
  if (json_is_string(member)) return json_string(shown(json_string_value(member), beginning));
  if (!json_is_array(member)) return json_deep_copy(member);
  json_t *list = json_array();
  for (size_t i = 0; i < json_array_size(member); i++) json_array_append_new(list, shorten(json_array_get(member, i)));
  return list;
}

static void note_line(void *context, int64_t index, json_t *line) {
  struct ranking *ranking = context;
  const char *name;
  json_t *member, **kept = line_under_way(ranking, index);
  if (ranking->values->vectors.output) return;
  *kept = json_is_object(line) ? json_object() : json_incref(line);
  if (!json_is_object(line)) return;
  json_object_foreach(line, name, member) {
    bool is_media = strcmp(name, "image") == 0 || strcmp(name, "video") == 0;
    json_object_set_new(*kept, name, is_media ? shorten(member) : json_deep_copy(member));
  }
}

static int take(void *context, int64_t index, float value) {
  struct ranking *ranking = context;
  json_t **line = line_under_way(ranking, index);
  if (ranking->values->top_n && ranking->n == ranking->capacity) rank(ranking);
  if (!ommai_grow((void **)&ranking->list, &ranking->capacity, ranking->n, 1, sizeof *ranking->list,
                  &ommai_default_allocator)) {
    return ommai_failed("out of memory: a list of %zu documents", ranking->n + 1);
  }
  ranking->list[ranking->n++] = (struct scored){index, value, *line};
  *line = NULL;
  return OMMAI_EXIT_DONE;
}

static int take_failure(void *context, int64_t index, const char *reason) {
  struct ranking *ranking = context;
  json_t **line = line_under_way(ranking, index);
  json_decref(*line);
  *line = NULL;
  if (!ranking->values->json || ranking->values->vectors.output) return OMMAI_EXIT_DONE;
  ommai_put_begin(&ranking->errors, NULL, "{");
  ommai_put_integer(&ranking->errors, "index", index);
  ommai_put_string(&ranking->errors, "error", reason);
  ommai_put_end(&ranking->errors, "}");
  return ranking->errors.failed ? ommai_failed("out of memory: why a document failed") : OMMAI_EXIT_DONE;
}

/* ---- output ---- */

/* A document that is an argument or a --text, and then is the only one of these. */
static void find_word(const struct ranking *ranking, size_t index, const char **image, const char **text) {
  const struct ommai_strings *texts = &ranking->values->vectors.texts;
  *image = index < ranking->images->count ? ranking->images->items[index] : NULL;
  *text = !*image && index - ranking->images->count < texts->count ? texts->items[index - ranking->images->count] : NULL;
}

static void put_image(struct ommai_text *out, const char *source) {
  ommai_put_begin(out, NULL, "{");
  ommai_put_string(out, "type", "image_url");
  ommai_put_begin(out, "image_url", "{");
  ommai_put_string(out, "url", source);
  ommai_put_end(out, "}}");
}

/* The image, text and video of a line, in the order in which the model gets them. */
static void put_parts(struct ommai_text *out, const json_t *line) {
  const json_t *image = json_object_get(line, "image"), *video = json_object_get(line, "video"),
               *text = json_object_get(line, "text");
  if (json_is_string(image)) put_image(out, json_string_value(image));
  for (size_t i = 0; i < json_array_size(image); i++) put_image(out, json_string_value(json_array_get(image, i)));
  if (video) {
    ommai_put_begin(out, NULL, "{");
    ommai_put_string(out, "type", "video");
    ommai_put_value(out, "video", video, 0);
    ommai_put_end(out, "}");
  }
  if (text) {
    ommai_put_begin(out, NULL, "{");
    ommai_put_string(out, "type", "text");
    ommai_put_value(out, "text", text, 0);
    ommai_put_end(out, "}");
  }
}

/* As the server's replies have it: a text, or parts. */
static void put_document(struct ommai_text *out, const struct ranking *ranking, const struct scored *scored) {
  const char *image, *text;
  find_word(ranking, (size_t)scored->index, &image, &text);
  const json_t *line_text = json_is_string(scored->line) ? scored->line : json_object_get(scored->line, "text");
  bool has_images = image || json_object_get(scored->line, "image") || json_object_get(scored->line, "video");
  ommai_put_begin(out, "document", "{");
  if (!has_images) {
    if (line_text) ommai_put_value(out, "text", line_text, 0);
    if (!line_text) ommai_put_string(out, "text", text ? text : "");
    ommai_put_null(out, "multi_modal");
  } else {
    ommai_put_null(out, "text");
    ommai_put_begin(out, "multi_modal", "[");
    if (image) put_image(out, image);
    if (!image) put_parts(out, scored->line);
    ommai_put_end(out, "]");
  }
  ommai_put_end(out, "}");
}

static int print_json(const struct ranking *ranking) {
  struct ommai_text out = ommai_json_begin();
  ommai_put_begin(&out, "results", "[");
  for (size_t i = 0; i < ranking->n; i++) {
    ommai_put_begin(&out, NULL, "{");
    ommai_put_integer(&out, "index", (int64_t)ranking->list[i].index);
    put_document(&out, ranking, &ranking->list[i]);
    ommai_put_real(&out, "relevance_score", ranking->list[i].score);
    ommai_put_end(&out, "}");
  }
  ommai_put_end(&out, "]");
  ommai_put_list(&out, "errors", &ranking->errors);
  return ommai_json_end(&out);
}

static void print_source(const char *source, bool *first) {
  if (!*first) putchar(' ');
  ommai_print_plain(stdout, source, 0);
  *first = false;
}

static void print_sources(const json_t *value, bool *first) {
  if (json_is_string(value)) print_source(json_string_value(value), first);
  for (size_t i = 0; i < json_array_size(value); i++) print_source(json_string_value(json_array_get(value, i)), first);
}

static int print_table(const struct ranking *ranking) {
  for (size_t i = 0; i < ranking->n; i++) {
    const struct scored *scored = &ranking->list[i];
    const char *image, *text;
    char beginning[SHOWN + 4];
    bool first = true;
    find_word(ranking, (size_t)scored->index, &image, &text);
    printf("%.6f  %lld  ", (double)scored->score, (long long)scored->index);
    if (image || text) print_source(image ? shown(image, beginning) : text, &first);
    if (json_is_string(scored->line)) print_sources(scored->line, &first);
    print_sources(json_object_get(scored->line, "image"), &first);
    print_sources(json_object_get(scored->line, "video"), &first);
    print_sources(json_object_get(scored->line, "text"), &first);
    putchar('\n');
  }
  return ommai_finish_output();
}

static int print(struct ranking *ranking) {
  rank(ranking);
  return ranking->values->json ? print_json(ranking) : print_table(ranking);
}

static void release(struct ranking *ranking) {
  for (size_t i = 0; i < ranking->n; i++) json_decref(ranking->list[i].line);
  for (size_t i = 0; i < sizeof ranking->lines / sizeof *ranking->lines; i++) json_decref(ranking->lines[i]);
  ommai_text_free(&ranking->errors);
  ommai_vector_item_release(&ranking->query);
  free(ranking->query_values);
  ommai_release(&ommai_default_allocator, ranking->list, ranking->capacity, sizeof *ranking->list);
}

/* ---- command ---- */

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
    OMMAI_TRY_CODE(ommai_vector_item_add_image(&ranking->query, values->query_images.items[i]));
  }
  if (values->query) ommai_vector_item_add_text(&ranking->query, values->query, strlen(values->query));
  return OMMAI_EXIT_DONE;
}

static int run_rerank(const void *given, const struct ommai_strings *arguments) {
  const struct values *values = given;
  struct ranking ranking = {.values = values, .errors = ommai_text_of(&ommai_default_allocator)};
  struct ommai_vector_job job = {.command = "rerank",
                                 .values = &values->vectors,
                                 .scores = true,
                                 .make = make,
                                 .prepare = prepare,
                                 .score = score,
                                 .note_line = note_line,
                                 .take = take,
                                 .take_failure = take_failure,
                                 .context = &ranking};
  int code = read_query(&ranking, arguments);
  if (code == OMMAI_EXIT_DONE) code = ommai_vector_job_run(&job, arguments);
  ranking.images = &job.images;
  bool printed = (code == OMMAI_EXIT_DONE || ranking.n || ranking.errors.size) && !values->vectors.output;
  if (printed) {
    int result = print(&ranking);
    if (code == OMMAI_EXIT_DONE) code = result;
  }
  release(&ranking);
  ommai_expanded_release(&job.images);
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
    OMMAI_SIZE("top-n", top_n, "N", 0, INT64_MAX, "print the N best alone; 0: all", .otherwise = "all"),
    OMMAI_FLAG("json", json,
               "print the ranking as JSON, with the documents as the server's /rerank has them, and a list of errors"),
    OMMAI_STRING("output", vectors.output, "FILE",
                 "instead of a ranking: write the scores in the order of the documents, to NAME.npy, NAME.jsonl, or - for JSON "
                 "lines on standard output",
                 .letter = 'o'),
};
static const struct ommai_option_group options = OMMAI_OPTION_GROUP("Scores", table);

const struct ommai_command ommai_command_rerank = {
    .name = "rerank",
    .summary = "texts and images, the best answer to a query first",
    .arguments = "[DIR] [IMAGE|FOLDER...] --query TEXT",
    .details =
        "Gives each document (an image, those of a folder, a --text, a line of --input) a score for the query, by a model "
        "that was trained for it (from 0 to 1), from the vectors of a model that was trained for these (their cosine), or from "
        "those of "
        "their tokens (MaxSim, without bounds), and prints score, number and document, the best first. DIR is the "
        "model, as with --model. docs/embeddings.md has more.",
    .examples = {"omma rerank MODEL photos --query \"a red circle\" --top-n 10"},
    .groups = {&options, &ommai_vector_engine_options, &ommai_image_options, &ommai_model_options, &ommai_weight_options,
               &ommai_engine_options, &ommai_machine_options},
    .values_size = sizeof(struct values),
    .max_arguments = SIZE_MAX,
    .run = run_rerank,
};
