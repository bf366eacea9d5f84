#include "bench_client/server_queries.h"

#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/allocator.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/text_buffer.h"
#include "bench_client/http_client.h"

/* ---- one request from beginning to end ---- */

#define MAX_BYTES ((size_t)64 << 20)

struct fetch {
  struct ommai_text body;
  int status;
  bool ended;
};

static bool take_data(void *context, int status, const char *bytes, size_t size) {
  struct fetch *fetch = context;
  (void)status;
  if (fetch->body.size + size > MAX_BYTES) return false;
  ommai_text_append(&fetch->body, bytes, size);
  return !fetch->body.failed;
}

static void take_end(void *context, const struct ommai_http_end *end) {
  struct fetch *fetch = context;
  fetch->ended = true;
  fetch->status = end->failure ? 0 : end->status;
  if (!end->failure) return;
  fetch->body.size = 0;
  ommai_text_add(&fetch->body, end->failure);
}

/* One question besides the load, from beginning to end, which takes OMMAI_FETCH_SECONDS at most.
 * *status is HTTP's (0: no reply, and then `body` is the reason); *body is the reply (at most 64
 * MiB), *size bytes and a NUL in the allocator's memory, released with ommai_release(allocator,
 * *body, *size + 1, 1). */
static enum omma_status fetch_reply(struct ommai_http *http, const struct ommai_http_request *request,
                                    void (*on_slow)(const char *url), const struct omma_allocator *allocator, int *status,
                                    char **body, size_t *size, struct omma_error *error) {
  struct fetch fetch = {.body = ommai_text_of(allocator)};
  struct ommai_http_request own = *request;
  own.timeout_seconds = OMMAI_FETCH_SECONDS;
  own.on_data = take_data;
  own.on_end = take_end;
  own.context = &fetch;
  enum omma_status result = ommai_http_send(http, &own, error);
  double slow = on_slow ? ommai_clock_seconds() + OMMAI_FETCH_SLOW_SECONDS : INFINITY;
  while (result == OMMA_OK && !fetch.ended) {
    result = ommai_http_wait(http, slow, -1, error);
    if (fetch.ended || ommai_clock_seconds() < slow) continue;
    on_slow(request->url);
    slow = INFINITY;
  }
  *status = fetch.status;
  *size = fetch.body.size;
  *body = result == OMMA_OK ? ommai_duplicate(allocator, fetch.body.data ? fetch.body.data : "", fetch.body.size) : NULL;
  ommai_text_free(&fetch.body);
  if (result == OMMA_OK && !*body) result = ommai_fail_memory(error, request->url, *size);
  return result;
}

/* What helps against a reply that is not a list of models. */
static const char *hint(const char *base_url, int status) {
  if (status == 401 || status == 403) return "give the key with --header \"Authorization=Bearer KEY\"";
  if (ommai_path_ends_with(base_url, "/v1")) return "give --base-url without /v1 at its end";
  return "name the model with --model";
}

enum omma_status ommai_query_first_model(struct ommai_http *http, const char *base_url, const char *const *headers,
                                         const struct omma_allocator *allocator, json_t **model, struct omma_error *error) {
  char url[PATH_MAX], *body;
  int status;
  size_t size;
  snprintf(url, sizeof url, "%s/v1/models", base_url);
  struct ommai_http_request request = {.url = url, .headers = headers};
  OMMAI_TRY(fetch_reply(http, &request, NULL, allocator, &status, &body, &size, error));
  bool no_memory = false;
  json_t *root = status == 200 ? ommai_json_parse(body, size, 0, NULL, &no_memory) : NULL;
  json_t *first = json_array_get(json_object_get(root, "data"), 0);
  enum omma_status result = OMMA_OK;
  *model = NULL;
  if (no_memory) {
    result = ommai_fail_memory(error, url, size);
  } else if (status == 0) {
    result = ommai_fail(error, OMMA_ERROR_IO, "%s: %s: is the server running there?", url, body);
  } else if (status != 200) {
    result = ommai_fail(error, OMMA_ERROR_IO, "%s: HTTP %d: %s", url, status, hint(base_url, status));
  } else if (!json_is_string(json_object_get(first, "id"))) {
    result = ommai_fail(error, OMMA_ERROR_FORMAT, "%s: the reply names no model: %s", url, hint(base_url, status));
  } else {
    *model = json_incref(first);
  }
  json_decref(root);
  ommai_release(allocator, body, size + 1, 1);
  return result;
}

/* ---- prompts in the server's tokens ---- */

/* POSTs `question` (whose reference is taken) and parses the reply; *reply is NULL when there is
 * none with status 200. */
static enum omma_status ask(const struct ommai_server_tokenizer *tokenizer, const char *path, json_t *question, json_t **reply,
                            struct omma_error *error) {
  char url[PATH_MAX], *body = question ? json_dumps(question, JSON_COMPACT) : NULL, *text = NULL;
  int status = 0;
  size_t size = 0;
  json_decref(question);
  *reply = NULL;
  if (!body) return ommai_fail_memory(error, "a prompt", 0);
  snprintf(url, sizeof url, "%s%s", tokenizer->base_url, path);
  struct ommai_http_request request = {.url = url, .body = body, .body_size = strlen(body), .headers = tokenizer->headers};
  void (*on_slow)(const char *url) = tokenizer->agreement == OMMAI_AGREEMENT_UNKNOWN ? tokenizer->on_slow : NULL;
  enum omma_status result = fetch_reply(tokenizer->http, &request, on_slow, tokenizer->allocator, &status, &text, &size, error);
  free(body);
  if (result != OMMA_OK) return result;
  bool no_memory = false;
  if (status == 200) *reply = ommai_json_parse(text, size, JSON_ALLOW_NUL, NULL, &no_memory);
  ommai_release(tokenizer->allocator, text, size + 1, 1);
  return no_memory ? ommai_fail_memory(error, url, size) : OMMA_OK;
}

static void decide(struct ommai_server_tokenizer *tokenizer, const json_t *tokens, size_t n_tokens) {
  tokenizer->unavailable = !json_is_array(tokens);
  tokenizer->n_found = json_array_size(tokens);
  tokenizer->n_expected = n_tokens;
  bool agreed = tokenizer->unavailable || tokenizer->n_found == n_tokens;
  tokenizer->agreement = agreed ? OMMAI_AGREEMENT_NOT_NEEDED : OMMAI_AGREEMENT_MISSING;
}

/* The text of the first n_tokens tokens. */
static enum omma_status detokenize(const struct ommai_server_tokenizer *tokenizer, json_t *tokens, size_t n_tokens, char **cut,
                                   size_t *cut_size, struct omma_error *error) {
  json_t *reply;
  while (json_array_size(tokens) > n_tokens) json_array_remove(tokens, json_array_size(tokens) - 1);
  OMMAI_TRY(ask(tokenizer, "/detokenize", json_pack("{s:s, s:O}", "model", tokenizer->model, "tokens", tokens), &reply, error));
  const json_t *prompt = json_object_get(reply, "prompt");
  enum omma_status status = OMMA_OK;
  if (json_is_string(prompt)) {
    *cut_size = json_string_length(prompt);
    *cut = ommai_duplicate(tokenizer->allocator, json_string_value(prompt), *cut_size);
    if (!*cut) status = ommai_fail_memory(error, "a prompt", *cut_size);
  }
  json_decref(reply);
  return status;
}

enum omma_status ommai_server_tokenizer_cut(struct ommai_server_tokenizer *tokenizer, const char *text, size_t size,
                                            size_t n_tokens, char **cut, size_t *cut_size, struct omma_error *error) {
  json_t *reply;
  *cut = NULL;
  if (tokenizer->agreement == OMMAI_AGREEMENT_NOT_NEEDED) return OMMA_OK;
  json_t *question = json_pack("{s:s, s:s%, s:b}", "model", tokenizer->model, "prompt", text, size, "add_special_tokens", 0);
  OMMAI_TRY(ask(tokenizer, "/tokenize", question, &reply, error));
  json_t *tokens = json_object_get(reply, "tokens");
  if (tokenizer->agreement == OMMAI_AGREEMENT_UNKNOWN) decide(tokenizer, tokens, n_tokens);
  enum omma_status status = OMMA_OK;
  if (tokenizer->agreement == OMMAI_AGREEMENT_MISSING && json_array_size(tokens) > n_tokens) {
    status = detokenize(tokenizer, tokens, n_tokens, cut, cut_size, error);
  }
  json_decref(reply);
  return status;
}
