/* What is asked of the server next to the measured requests. */
#pragma once

#include <jansson.h>

#include "bench_client/http_client.h"

/* A question takes the first at most; one that takes the second is slow. */
#define OMMAI_FETCH_SECONDS 10
#define OMMAI_FETCH_SLOW_SECONDS 1

/* GET BASE/v1/models: *model is the first entry, an object of the caller's with "id" and perhaps
 * "root". Errors: IO (no reply, or another status than 200), FORMAT. */
enum omma_status ommai_query_first_model(struct ommai_http *http, const char *base_url, const char *const *headers,
                                         const struct omma_allocator *allocator, json_t **model, struct omma_error *error);

/* Random prompts in the server's own tokens: where its tokenizer counts more of them than the one
 * here, prompts are cut to length with the server's help (POST /tokenize and /detokenize). */
enum ommai_agreement { OMMAI_AGREEMENT_UNKNOWN, OMMAI_AGREEMENT_NOT_NEEDED, OMMAI_AGREEMENT_MISSING };

struct ommai_server_tokenizer {
  struct ommai_http *http;
  const char *base_url, *model;
  const char *const *headers; /* of every question, as in struct ommai_http_request */
  const struct omma_allocator *allocator;
  /* the first question takes OMMAI_FETCH_SLOW_SECONDS; may be NULL */
  void (*on_slow)(const char *url);
  enum ommai_agreement agreement; /* UNKNOWN in the beginning; the first prompt decides */
  /* the server has no /tokenize, so that prompts stay as they are */
  bool unavailable;
  size_t n_found, n_expected; /* tokens of the first prompt, there and here */
};

/* Cuts one prompt of `size` bytes and n_tokens tokens if need be: *cut is then a new text of
 * *cut_size bytes, released with ommai_release(allocator, *cut, *cut_size + 1, 1), else NULL. A
 * server that does not answer leaves prompts as they are. Errors: MEMORY, those of the client. */
enum omma_status ommai_server_tokenizer_cut(struct ommai_server_tokenizer *tokenizer, const char *text, size_t size,
                                            size_t n_tokens, char **cut, size_t *cut_size, struct omma_error *error);
