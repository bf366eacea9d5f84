#include "request/request.h"

#include <string.h>

#include "base/allocator.h"
#include "base/error.h"
#include "request/prefix_key.h"

enum omma_status ommai_request_check_context(int64_t context_tokens, size_t n_tokens, struct omma_error *error) {
  if ((int64_t)n_tokens < context_tokens) return OMMA_OK;
  return ommai_fail_field(
      error, OMMA_ERROR_LIMIT, "input_tokens",
      "This model's maximum context length is %lld tokens, as many as the memory for keys and values holds here. "
      "However, your prompt contains %zu input tokens. Please reduce the length of the input prompt",
      (long long)context_tokens, n_tokens);
}

enum omma_status ommai_request_allocate_prompt(struct omma_request *request, struct omma_error *error) {
  request->ids = ommai_allocate(&request->allocator, request->n_tokens, sizeof *request->ids);
  request->tokens = ommai_allocate(&request->allocator, request->n_tokens, sizeof *request->tokens);
  request->n_page_keys = ommai_prefix_key_count(request->n_tokens);
  request->page_keys = ommai_allocate(&request->allocator, request->n_page_keys, sizeof *request->page_keys);
  if (request->ids && request->tokens && request->page_keys) return OMMA_OK;
  return ommai_fail_memory(error, "prompt", request->n_tokens * sizeof *request->tokens);
}

void ommai_request_free_text_ids(struct omma_request *request) {
  ommai_release(&request->allocator, request->text_ids, request->text_room, sizeof *request->text_ids);
  request->text_ids = NULL;
  request->n_text_ids = request->text_room = 0;
}

int64_t ommai_request_patches(const struct omma_request *request) {
  int64_t n_patches = 0;
  for (size_t i = 0; i < request->n_images; i++) n_patches += request->images[i].sizes.n_patches;
  return n_patches;
}

size_t ommai_request_bytes(const struct omma_request *request) {
  size_t bytes = sizeof *request + request->n_tokens * (sizeof *request->ids + sizeof *request->tokens) +
                 request->n_page_keys * sizeof *request->page_keys +
                 request->n_images * (sizeof *request->images + sizeof *request->keys) +
                 request->rules.bias_room * sizeof *request->rules.biases +
                 request->rules.n_allowed_words * sizeof *request->rules.allowed +
                 request->rules.bad_room * sizeof *request->rules.bad_tokens;
  for (size_t i = 0; i < request->n_stop; i++) bytes += request->stop_size[i];
  return bytes + (request->cache_salt ? strlen(request->cache_salt) : 0);
}

static struct omma_request *own(const struct omma_request *request) { return (struct omma_request *)(uintptr_t)request; }

const struct omma_request *ommai_request_hold(const struct omma_request *request) {
  atomic_fetch_add(&own(request)->n_holds, 1);
  return request;
}

void ommai_request_let_go(const struct omma_request *request) { omma_request_destroy(own(request)); }

void omma_request_destroy(struct omma_request *request) {
  if (!request || atomic_fetch_sub(&request->n_holds, 1) > 0) return;
  struct omma_allocator allocator = request->allocator;
  for (size_t i = 0; request->images && i < request->n_images; i++) ommai_prepared_image_free(&request->images[i]);
  ommai_request_free_text_ids(request);
  omma_grammar_destroy(request->grammar);
  ommai_token_rules_free(&request->rules, &allocator);
  ommai_release(&allocator, request->keys, request->n_images, sizeof *request->keys);
  ommai_release(&allocator, request->images, request->n_images, sizeof *request->images);
  ommai_release(&allocator, request->ids, request->n_tokens, sizeof *request->ids);
  ommai_release(&allocator, request->tokens, request->n_tokens, sizeof *request->tokens);
  ommai_release(&allocator, request->page_keys, request->n_page_keys, sizeof *request->page_keys);
  for (size_t i = 0; i < request->n_stop; i++) ommai_release(&allocator, request->stop[i], request->stop_size[i] + 1, 1);
  if (request->cache_salt) ommai_release(&allocator, request->cache_salt, strlen(request->cache_salt) + 1, 1);
  ommai_release(&allocator, request, 1, sizeof *request);
}

const int32_t *omma_request_prompt(const struct omma_request *request, size_t *n_tokens) {
  *n_tokens = request->n_tokens;
  return request->ids;
}
