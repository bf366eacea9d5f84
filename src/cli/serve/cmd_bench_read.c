/* omma bench read: documents as `omma read` reads them, timed by stage, compared with a truth. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "cli/core/commands.h"
#include "cli/core/diagnostics.h"
#include "cli/core/interrupt.h"
#include "cli/core/json_out.h"
#include "cli/core/progress.h"
#include "cli/serve/read_settings.h"
#include "scores/page_scores.h"
#include "server/api/page_loop.h"

struct values {
  struct ommai_read_values pages; /* first */
  const char *truth;
};

struct bench {
  struct ommai_read_job job;
  const struct values *values;
  json_t *truth; /* NULL: none */
  size_t document;
  int64_t n_read, n_failed, n_compared;
  struct ommai_page_cost cost; /* of all pages */
  double began, seconds;
  struct ommai_page_scores scores;
  int code;
  struct ommai_progress progress;
};

static enum ommai_page_opening open_page(void *context, struct ommai_open_page *page) {
  struct bench *bench = context;
  struct omma_error error;
  while (bench->document < bench->job.n_documents) {
    struct ommai_read_document *document = &bench->job.documents[bench->document];
    if (!document->next) {
      bench->document++;
      continue;
    }
    page->document = document;
    page->number = document->next;
    document->next = ommai_page_list_next(document->pages, page->number + 1, document->source.n_pages);
    if (ommai_page_source_load(&document->source, page->number, bench->job.dpi, &bench->job.limits, &page->image, &error) !=
        OMMA_OK) {
      ommai_open_page_fail(page, error.message);
    }
    return OMMAI_PAGE_OPENED;
  }
  return OMMAI_PAGE_NONE;
}

/* Names of images of one page are in the truth. */
static bool compare(struct bench *bench, const struct ommai_open_page *page) {
  const struct ommai_read_document *document = page->document;
  const char *name = ommai_path_name(document->source.path);
  const json_t *truth = document->source.n_pages > 1 || document->source.is_pdf ? NULL : ommai_truth_find(bench->truth, name);
  if (!truth) return true;
  char *markdown = ommai_document_markdown(page->blocks, false);
  bool good = markdown && ommai_page_scores_add(&bench->scores, markdown, truth);
  bench->n_compared += good;
  free(markdown);
  return good;
}

static bool end_page(void *context, struct ommai_open_page *page) {
  struct bench *bench = context;
  const struct ommai_page_cost *cost = &page->cost;
  if (*page->failure) {
    const struct ommai_read_document *document = page->document;
    ommai_failed("bench read: %s: page %" PRId64 ": %s", document->source.path, page->number, page->failure);
    bench->n_failed++;
    return true;
  }
  bench->n_read++;
  bench->cost.n_requests += cost->n_requests;
  bench->cost.n_prompt_tokens += cost->n_prompt_tokens;
  bench->cost.n_tokens += cost->n_tokens;
  bench->cost.render += cost->render;
  bench->cost.layout += cost->layout;
  bench->cost.encode += cost->encode;
  bench->cost.prefill += cost->prefill;
  bench->cost.decode += cost->decode;
  ommai_progress_update(&bench->progress, bench->n_read + bench->n_failed, bench->job.n_pages);
  if (!bench->truth || compare(bench, page)) return true;
  bench->code = ommai_failed("bench read: out of memory");
  return false;
}

static bool is_over(void *context) {
  (void)context;
  return ommai_interrupted();
}

/* ---- what is printed ---- */

static double mean(double sum, int64_t n) { return n ? sum / (double)n : 0; }

/* Of a truth; null where it has nothing of the kind. */
static json_t *score(double sum, int64_t n) { return n ? json_real(mean(sum, n)) : json_null(); }

static const char *const score_names[] = {"text_edit_distance", "formula_edit_distance", "table_edit_distance",
                                          "reading_order_edit_distance"};

static json_t *make_json(const struct bench *bench) {
  const struct ommai_page_cost *cost = &bench->cost;
  const struct ommai_page_scores *scores = &bench->scores;
  const int64_t n = bench->n_read;
  json_t *object = json_pack(
      "{s:s, s:s, s:I, s:I, s:f, s:f, s:{s:f, s:f, s:f, s:f, s:f}, s:f, s:f, s:f}", "model", bench->job.model, "recipe",
      bench->job.recipe->name, "pages", (json_int_t)n, "failed", (json_int_t)bench->n_failed, "seconds", bench->seconds,
      "pages_per_minute", bench->seconds > 0 ? 60 * (double)n / bench->seconds : 0.0, "seconds_per_page", "render",
      mean(cost->render, n), "layout", mean(cost->layout, n), "encode", mean(cost->encode, n), "prefill",
      mean(cost->prefill, n), "decode", mean(cost->decode, n), "requests_per_page", mean((double)cost->n_requests, n),
      "prompt_tokens_per_page", mean((double)cost->n_prompt_tokens, n), "tokens_per_page", mean((double)cost->n_tokens, n));
  if (!bench->truth) return object;
  json_t *truth =
      json_pack("{s:I, s:I, s:o, s:o}", "pages", (json_int_t)bench->n_compared, "tables", (json_int_t)scores->n_tables, "teds",
                score(scores->similarity, scores->n_tables), "teds_structure", score(scores->structure, scores->n_tables));
  for (int kind = 0; kind < OMMAI_N_SCORES; kind++) {
    json_object_set_new(truth, score_names[kind], score(scores->distance[kind], scores->n_pages[kind]));
  }
  json_object_set_new(object, "truth", truth);
  return object;
}

static void print_text(const json_t *result) {
  const char *key, *inner;
  json_t *value, *part;
  json_object_foreach((json_t *)result, key, value) {
    if (json_is_string(value)) printf("%-28s %s\n", key, json_string_value(value));
    if (json_is_number(value)) printf("%-28s %.4g\n", key, json_number_value(value));
    json_object_foreach(value, inner, part) {
      printf("%s.%-*s ", key, 27 - (int)strlen(key), inner);
      printf(json_is_null(part) ? "-\n" : "%.4g\n", json_number_value(part));
    }
  }
}

/* ---- the command ---- */

static int run_pages(void *context, struct ommai_server *server, size_t n_parallel) {
  struct bench *bench = context;
  const struct ommai_page_loop loop = {
      .measures = true, .context = bench, .open = open_page, .end = end_page, .is_over = is_over};
  double began = ommai_clock_seconds();
  bench->job.server = server;
  bench->job.n_parallel = n_parallel;
  ommai_progress_begin_long(&bench->progress, "reading");
  if (!ommai_read_loop_run(&bench->job, loop)) bench->code = ommai_failed("bench read: out of memory");
  ommai_progress_end(&bench->progress);
  bench->seconds = ommai_clock_seconds() - began;
  if (ommai_interrupted()) return ommai_interrupt_status();
  if (bench->truth && bench->n_read && !bench->n_compared) {
    return ommai_failed("bench read: --truth %s: no image that was read has its name in it", bench->values->truth);
  }
  return bench->code == OMMAI_EXIT_DONE && bench->n_failed ? OMMAI_EXIT_FAILED : bench->code;
}

/* OmniDocBench.json: a list of pages. */
static int read_truth(const char *path, json_t **truth) {
  json_error_t reason;
  *truth = NULL;
  if (!path) return OMMAI_EXIT_DONE;
  *truth = json_load_file(path, 0, &reason);
  if (json_is_array(*truth)) return OMMAI_EXIT_DONE;
  return ommai_failed("bench read: --truth: %s: %s", path, *truth ? "expected a list of pages" : reason.text);
}

static int run_bench_read(const void *given, const struct ommai_strings *arguments) {
  struct values values = *(const struct values *)given;
  struct bench bench = {.values = &values, .code = OMMAI_EXIT_DONE};
  int code = read_truth(values.truth, &bench.truth);
  if (code == OMMAI_EXIT_DONE) {
    code = ommai_read_command_run("bench read", &values.pages, arguments, NULL, &bench.job, run_pages, &bench);
  }
  json_t *result = bench.n_read ? make_json(&bench) : NULL;
  if (result && values.pages.serving.common.json) {
    int printed = ommai_json_print(result);
    if (printed != OMMAI_EXIT_DONE) code = printed;
  } else if (result) {
    print_text(result);
    json_decref(result);
  }
  json_decref(bench.truth);
  return code;
}

#define OMMAI_VALUES struct values

static const struct ommai_option table[] = {
    OMMAI_STRING("truth", truth, "FILE",
                 "OmniDocBench.json: images whose names are in it are compared with it: edit distances, TEDS of tables, order"),
};
static const struct ommai_option_group options = OMMAI_OPTION_GROUP("Comparison", table);

const struct ommai_command ommai_command_bench_read = {
    .name = "bench read",
    .summary = "speed of reading documents by stage, and how near the result comes to a truth",
    .arguments = "[DIR] FILE... [--truth FILE]",
    .details =
        "Reads documents as omma read does and writes none. Prints pages a minute, tokens of a page, and the seconds of a "
        "page: "
        "render until its pixels are there, layout until its blocks are known, and the stages of its requests (encode, "
        "prefill, "
        "decode), which overlap where several run together. DIR is the model, as with --model.",
    .examples = {"omma bench read paper.pdf --model models/my-model --json",
                 "omma bench read images/ --model models/my-model --truth OmniDocBench.json"},
    .groups = {&options, &ommai_read_options, &ommai_output_options, OMMAI_SERVING_GROUPS, &ommai_machine_options},
    .values_size = sizeof(struct values),
    .begin = ommai_serving_begin,
    .min_arguments = 1,
    .max_arguments = SIZE_MAX,
    .run = run_bench_read,
};
