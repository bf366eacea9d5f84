#include "bench_client/server_tokenizer.h"

#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/allocator.h"
#include "base/json.h"

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
  if (tokenizer->agreement == OMMAI_AGREEMENT_UNKNOWN) request.on_slow = tokenizer->on_slow;
  enum omma_status result = ommai_http_fetch(tokenizer->http, &request, tokenizer->allocator, &status, &text, &size, error);
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
