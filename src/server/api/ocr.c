/* POST /v1/ocr. A worker reads the request; a thread of the server's own for documents renders its
 * pages, asks the server's chat endpoint about them as `omma read` does, and answers. Pages end in
 * any order and are answered in the document's. */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/allocator.h"
#include "base/clock.h"
#include "base/json_writer.h"
#include "server/api/media.h"
#include "server/api/ocr_request.h"
#include "server/api/page_loop.h"
#include "server/api/request_log.h"
#include "server/core/request_json.h"
#include "server/http/endpoints.h"
#include "server/state/server_state.h"

/* Pages of a document that are open, and those that wait for an earlier one. */
#define N_OPEN 2
#define N_WINDOW 4
#define N_PARALLEL 16
#define MAX_REPLY_BYTES (INT64_C(128) << 20)
/* Of a process that renders a page. */
#define RENDER_BYTES (INT64_C(1) << 30)
#define RENDER_SECONDS 60
/* How often one that waits looks whether its client is still there. */
#define LOOK_NS INT64_C(200000000)

struct ocr {
  struct ommai_job job; /* first */
  struct ommai_http_call *call;
  const struct omma_allocator *allocator;
  json_t *root;
  struct ommai_ocr_request request;
  struct ommai_media_file file;
  struct ommai_page_source source;
  struct ommai_pdf_limits limits;
  int64_t *pages; /* [n_pages], from 0 */
  int64_t n_pages;
  int64_t next, n_answered;                /* pages opened, and answered */
  struct ommai_open_page window[N_WINDOW]; /* of pages[i] at i % N_WINDOW, where it has ended */
  struct ommai_ocr_numbers numbers;
  struct ommai_text reply;
  bool failed; /* the client knows why */
  pthread_mutex_t lock;
  pthread_cond_t changed;
  bool woken;
};

static bool fail(struct ocr *ocr, const struct ommai_api_error *error) {
  ommai_http_call_fail(ocr->call, error);
  ocr->failed = true;
  return false;
}

/* A failure of reading, which names no file. */
static bool fail_from(struct ocr *ocr, const struct omma_error *cause, const char *what) {
  struct ommai_api_error error;
  if (cause->status == OMMA_ERROR_MEMORY) {
    ommai_api_fail_memory(&error);
  } else {
    ommai_api_fail(&error, 400, "document", "%s: %s", what, cause->message);
  }
  return fail(ocr, &error);
}

/* ---- the loop's calls ---- */

static bool is_over(void *context) {
  struct ocr *ocr = context;
  return ocr->failed || ommai_http_call_is_over(ocr->call);
}

static void wake(void *context) {
  struct ocr *ocr = context;
  pthread_mutex_lock(&ocr->lock);
  ocr->woken = true;
  pthread_cond_signal(&ocr->changed);
  pthread_mutex_unlock(&ocr->lock);
}

static void wait(void *context) {
  struct ocr *ocr = context;
  int64_t until = ommai_clock_ns() + LOOK_NS;
  const struct timespec at = ommai_clock_timespec(until);
  pthread_mutex_lock(&ocr->lock);
  while (!ocr->woken && pthread_cond_timedwait(&ocr->changed, &ocr->lock, &at) == 0) continue;
  ocr->woken = false;
  pthread_mutex_unlock(&ocr->lock);
}

static enum ommai_page_opening open_page(void *context, struct ommai_open_page *page) {
  struct ocr *ocr = context;
  struct omma_error error;
  if (ocr->next == ocr->n_pages) return OMMAI_PAGE_NONE;
  if (ocr->next >= ocr->n_answered + N_WINDOW) return OMMAI_PAGE_NOT_NOW;
  page->number = ocr->pages[ocr->next] + 1;
  page->document = &ocr->window[ocr->next++ % N_WINDOW];
  if (ommai_page_source_load(&ocr->source, page->number, (int)ocr->request.dpi, &ocr->limits, &page->image, &error) !=
      OMMA_OK) {
    ommai_open_page_fail(page, error.message);
    page->status = error.status == OMMA_ERROR_MEMORY ? 503 : 400;
  }
  return OMMAI_PAGE_OPENED;
}

/* ---- answers ---- */

/* Adds JSON to the reply, or sends it as an event. */
static void add_json(struct ocr *ocr, const json_t *value) {
  struct ommai_text event = ommai_text_of(ocr->allocator), *out = ocr->request.stream ? &event : &ocr->reply;
  if (ocr->request.stream) ommai_text_add(out, "data: ");
  ommai_put_value(out, NULL, value, 15);
  if (ocr->request.stream) ommai_text_add(out, "\n\n");
  if (ocr->request.stream && (event.failed || !ommai_http_call_push(ocr->call, event.data, event.size))) {
    struct ommai_api_error error;
    ommai_api_fail_memory(&error);
    fail(ocr, &error);
  }
  ommai_text_free(&event);
}

/* Pages that fail end a whole reply; in a stream they are named, and the others follow. */
static bool answer_failure(struct ocr *ocr, const struct ommai_open_page *page) {
  struct ommai_api_error error;
  if (!ocr->request.stream) {
    ommai_api_fail(&error, page->status, "document", "page %" PRId64 ": %s", page->number - 1, page->failure);
    return fail(ocr, &error);
  }
  json_t *event = json_pack("{s:s, s:I, s:{s:s, s:i}}", "object", "ocr.page", "index", (json_int_t)page->number - 1, "error",
                            "message", page->failure, "code", page->status);
  add_json(ocr, event);
  json_decref(event);
  return !ocr->failed;
}

static bool answer_page(struct ocr *ocr, struct ommai_open_page *page) {
  struct omma_error error;
  struct ommai_api_error too_large;
  json_t *made;
  ommai_metrics_count(&ocr->call->server->metrics, *page->failure ? OMMAI_PAGES_FAILED : OMMAI_PAGES_READ, 1);
  if (*page->failure) return answer_failure(ocr, page);
  if (ommai_ocr_page_make(&ocr->request, page, &ocr->numbers, &made, &error) != OMMA_OK) return fail_from(ocr, &error, "page");
  if (ocr->request.stream) json_object_set_new(made, "object", json_string("ocr.page"));
  add_json(ocr, made);
  json_decref(made);
  if ((int64_t)ocr->reply.size <= MAX_REPLY_BYTES) return !ocr->failed;
  ommai_api_fail(&too_large, 400, "pages", "The reply is larger than %" PRId64 " bytes: ask for fewer pages at once.",
                 MAX_REPLY_BYTES);
  return fail(ocr, &too_large);
}

/* Keeps the page, and answers those whose turn has come. */
static bool end_page(void *context, struct ommai_open_page *page) {
  struct ocr *ocr = context;
  struct ommai_open_page *first = page->document;
  *first = *page;
  page->image = NULL;
  page->blocks = NULL;
  for (first = &ocr->window[ocr->n_answered % N_WINDOW]; first->open; first = &ocr->window[ocr->n_answered % N_WINDOW]) {
    bool good = answer_page(ocr, first);
    ommai_open_page_release(first);
    if (!good) return false;
    ocr->n_answered++;
  }
  return true;
}

static void begin_reply(struct ocr *ocr) {
  if (!ocr->request.stream) {
    ommai_put_begin(&ocr->reply, NULL, "{");
    ommai_put_begin(&ocr->reply, "pages", "[");
    return;
  }
  json_t *indices = json_array(), *event;
  for (int64_t i = 0; i < ocr->n_pages; i++) json_array_append_new(indices, json_integer((json_int_t)ocr->pages[i]));
  event = json_pack("{s:s, s:s, s:o}", "object", "ocr.document", "model", ocr->request.model, "pages", indices);
  ommai_http_call_expect_stream(ocr->call);
  add_json(ocr, event);
  json_decref(event);
}

static void end_reply(struct ocr *ocr) {
  json_t *usage =
      json_pack("{s:I, s:I}", "pages_processed", (json_int_t)ocr->n_answered, "doc_size_bytes", (json_int_t)ocr->file.size);
  if (ocr->request.stream) {
    json_t *event = json_pack("{s:s, s:O}", "object", "ocr.usage", "usage_info", usage);
    add_json(ocr, event);
    json_decref(event);
    if (!ocr->failed) ommai_http_call_end(ocr->call);
  } else {
    ommai_put_end(&ocr->reply, "]");
    ommai_put_string(&ocr->reply, "model", ocr->request.model);
    ommai_put_null(&ocr->reply, "document_annotation");
    ommai_put_value(&ocr->reply, "usage_info", usage, 0);
    ommai_put_end(&ocr->reply, "}");
    ommai_http_call_reply(ocr->call, 200, "application/json", &ocr->reply);
  }
  json_decref(usage);
}

/* ---- the document ---- */

static bool choose_pages(struct ocr *ocr) {
  struct ommai_api_error error;
  const size_t n_all = (size_t)ocr->source.n_pages;
  bool *wanted = ommai_allocate(ocr->allocator, n_all, sizeof *wanted);
  int64_t n = 0;
  if (wanted)
    n = ommai_ocr_request_pages(&ocr->request, ocr->source.n_pages, ocr->call->server->config.settings.max_document_pages,
                                wanted, &error);
  ocr->pages = n ? ommai_allocate(ocr->allocator, (size_t)n, sizeof *ocr->pages) : NULL;
  if (!wanted || (n && !ocr->pages)) ommai_api_fail_memory(&error);
  if (ocr->pages) ocr->n_pages = n;
  for (int64_t page = 0, i = 0; ocr->pages && i < n; page++) {
    if (wanted[page]) ocr->pages[i++] = page;
  }
  ommai_release(ocr->allocator, wanted, n_all, sizeof *wanted);
  return ocr->pages || fail(ocr, &error);
}

static bool open_document(struct ocr *ocr) {
  struct ommai_server *server = ocr->call->server;
  const struct ommai_stop stop = {is_over, ocr, ommai_clock_ns() + server->config.fetch_rules.timeout_ms * 1000000};
  struct ommai_api_error error;
  struct omma_error cause;
  if (!ommai_media_read_bytes(server, ocr->request.url, strlen(ocr->request.url), &stop, &ocr->file, &error)) {
    if (strcmp(error.param, "image_url") == 0) snprintf(error.param, sizeof error.param, "document");
    return fail(ocr, &error);
  }
  if (ommai_page_source_open_bytes(ocr->file.bytes, ocr->file.size, &ocr->limits, &ocr->source, &cause) != OMMA_OK) {
    return fail_from(ocr, &cause, "document");
  }
  ocr->numbers.is_pdf = ocr->source.is_pdf;
  return choose_pages(ocr);
}

static void read_document(struct ocr *ocr) {
  const struct ommai_page_loop loop = {.server = ocr->call->server,
                                       .recipe = ocr->request.recipe,
                                       .prompt = ocr->request.prompt,
                                       .n_open = N_OPEN,
                                       .n_parallel = N_PARALLEL,
                                       .context = ocr,
                                       .open = open_page,
                                       .end = end_page,
                                       .is_over = is_over,
                                       .wait = wait,
                                       .wake = wake};
  struct ommai_api_error error;
  begin_reply(ocr);
  if (!ommai_page_loop_run(&loop)) {
    ommai_api_fail_memory(&error);
    fail(ocr, &error);
  }
  if (!is_over(ocr)) end_reply(ocr);
}

static void free_ocr(struct ocr *ocr) {
  for (size_t i = 0; i < N_WINDOW; i++) ommai_open_page_release(&ocr->window[i]);
  ommai_release(ocr->allocator, ocr->pages, (size_t)ocr->n_pages, sizeof *ocr->pages);
  ommai_page_source_close(&ocr->source);
  ommai_media_file_free(ocr->call->server, &ocr->file);
  ommai_text_free(&ocr->reply);
  json_decref(ocr->root);
  pthread_cond_destroy(&ocr->changed);
  pthread_mutex_destroy(&ocr->lock);
  ommai_http_call_let_go(ocr->call);
  ommai_release(ocr->allocator, ocr, 1, sizeof *ocr);
}

static void run(struct ommai_job *job) {
  struct ocr *ocr = (struct ocr *)job;
  if (!is_over(ocr) && open_document(ocr)) read_document(ocr);
  free_ocr(ocr);
}

/* ---- the request ---- */

/* Takes root over, unless memory is out: NULL. */
static struct ocr *make_ocr(struct ommai_http_call *call, json_t *root) {
  struct ocr *ocr = ommai_allocate(call->allocator, 1, sizeof *ocr);
  if (!ocr) return NULL;
  *ocr = (struct ocr){.job.run = run,
                      .call = call,
                      .allocator = call->allocator,
                      .root = root,
                      .source.descriptor = -1,
                      .reply = ommai_text_of(call->allocator),
                      .limits = {RENDER_BYTES, call->config->settings.max_page_pixels, RENDER_SECONDS, is_over, ocr}};
  ommai_http_call_keep(call);
  pthread_mutex_init(&ocr->lock, NULL);
  ommai_clock_condition_init(&ocr->changed);
  return ocr;
}

static bool check_server(const struct ommai_server *server, struct ommai_api_error *error) {
  if (!server->readers) {
    return ommai_api_fail(error, 400, NULL,
                          "This server reads no documents (--max-documents 0, or requests without a socket).");
  }
  return server->config.settings.limit_images_per_prompt > 0 ||
         ommai_api_fail(error, 400, NULL, "This server takes no images (--limit-mm-per-prompt).");
}

bool ommai_endpoint_ocr(struct ommai_http_call *call, json_t *root, struct ommai_api_error *error) {
  struct ommai_ocr_request request;
  struct ocr *ocr = NULL;
  if (check_server(call->server, error) && ommai_ocr_request_read(call->server, root, &request, error)) {
    ocr = make_ocr(call, root);
    if (!ocr) ommai_api_fail_memory(error);
  }
  if (!ocr) {
    json_decref(root);
    return false;
  }
  ocr->request = request;
  ommai_request_log_inputs(call, request.model, 1);
  if (ommai_job_queue_push(call->server->readers, &ocr->job, 0)) return true;
  free_ocr(ocr);
  return ommai_api_refuse(error, OMMAI_REFUSAL_QUEUED_REQUESTS);
}
