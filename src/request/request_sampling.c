#include "request/request.h"

#include <string.h>

#include "base/allocator.h"
#include "base/checked.h"
#include "base/error.h"
#include "request/grammar_matcher.h"
#include "text/utf8.h"

static enum omma_status in_range(const char *field, double value, double low, double high, struct omma_error *error) {
  if (value >= low && value <= high) return OMMA_OK;
  return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, field, "%s: expected %.10g to %.10g, found %.10g", field, low, high,
                          value);
}

static enum omma_status check_repetition(const struct omma_sampling *sampling, struct omma_error *error) {
  static const char FIELD[] = "repetition_detection";
  const struct omma_repetition_detection *detection = &sampling->repetition_detection;
  OMMAI_TRY(in_range("no_repeat_ngram_size", (double)sampling->no_repeat_ngram_size, 0, INT32_MAX, error));
  if (detection->min_pattern_size < 0 || detection->min_pattern_size > detection->max_pattern_size) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, FIELD,
                            "%s: expected a min_pattern_size of 0 to max_pattern_size = %lld, found %lld", FIELD,
                            (long long)detection->max_pattern_size, (long long)detection->min_pattern_size);
  }
  if (detection->max_pattern_size > 0 && detection->min_count < 2) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, FIELD, "%s: expected a min_count of at least 2, found %lld", FIELD,
                            (long long)detection->min_count);
  }
  return OMMA_OK;
}

static enum omma_status check_numbers(const struct omma_sampling *sampling, struct omma_error *error) {
  OMMAI_TRY(in_range("temperature", sampling->temperature, 0, 2, error));
  OMMAI_TRY(in_range("top_p", sampling->top_p, 0, 1, error));
  OMMAI_TRY(in_range("min_p", sampling->min_p, 0, 1, error));
  OMMAI_TRY(in_range("top_k", (double)sampling->top_k, -1, INT32_MAX, error));
  OMMAI_TRY(in_range("repetition_penalty", sampling->repetition_penalty, 0, 100, error));
  OMMAI_TRY(in_range("presence_penalty", sampling->presence_penalty, -2, 2, error));
  OMMAI_TRY(in_range("frequency_penalty", sampling->frequency_penalty, -2, 2, error));
  OMMAI_TRY(in_range("max_tokens", (double)sampling->max_tokens, 0, INT32_MAX, error));
  OMMAI_TRY(in_range("min_tokens", (double)sampling->min_tokens, 0, INT32_MAX, error));
  OMMAI_TRY(in_range("top_logprobs", sampling->n_top_logprobs, 0, OMMA_MAX_TOP_LOGPROBS, error));
  OMMAI_TRY(in_range("prompt_logprobs", sampling->n_prompt_logprobs, 0, OMMA_MAX_TOP_LOGPROBS, error));
  OMMAI_TRY(in_range("stop", (double)sampling->n_stop, 0, OMMA_MAX_STOP_STRINGS, error));
  OMMAI_TRY(in_range("stop_token_ids", (double)sampling->n_stop_token_ids, 0, OMMAI_REQUEST_MAX_STOP_TOKENS, error));
  if ((sampling->n_stop && !sampling->stop) || (sampling->n_stop_token_ids && !sampling->stop_token_ids)) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "stop", "stop: a count without its list");
  }
  if (sampling->max_tokens && sampling->min_tokens > sampling->max_tokens) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "min_tokens",
                            "min_tokens: expected at most max_tokens = %lld, found %lld", (long long)sampling->max_tokens,
                            (long long)sampling->min_tokens);
  }
  return check_repetition(sampling, error);
}

static void set_logprobs(struct omma_request *request, const struct omma_sampling *sampling) {
  int max_logprobs = (int)ommai_min_i64(request->model->config.text.vocab_size, OMMA_MAX_TOP_LOGPROBS);
  request->logprobs = sampling->logprobs;
  request->n_top_logprobs = sampling->logprobs ? (int)ommai_min_i64(sampling->n_top_logprobs, max_logprobs) : 0;
  request->prompt_logprobs = sampling->prompt_logprobs;
  request->n_prompt_logprobs = sampling->prompt_logprobs ? (int)ommai_min_i64(sampling->n_prompt_logprobs, max_logprobs) : 0;
}

static enum omma_status copy_stop(struct omma_request *request, const struct omma_sampling *sampling,
                                  struct omma_error *error) {
  for (size_t i = 0; i < sampling->n_stop; i++) {
    size_t size = strlen(sampling->stop[i]);
    if (size == 0 || size > OMMAI_REQUEST_MAX_STOP_BYTES) {
      return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "stop", "stop[%zu]: expected 1 to %d bytes, found %zu", i,
                              OMMAI_REQUEST_MAX_STOP_BYTES, size);
    }
    size_t offset;
    if (!ommai_utf8_valid(sampling->stop[i], size, &offset)) {
      return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "stop", "stop[%zu]: invalid UTF-8 at byte %zu", i, offset);
    }
    request->stop[i] = ommai_duplicate(&request->allocator, sampling->stop[i], size);
    if (!request->stop[i]) return ommai_fail_memory(error, "stop string", size);
    request->stop_size[i] = size;
    request->n_stop = i + 1;
  }
  for (size_t i = 0; i < sampling->n_stop_token_ids; i++) {
    int32_t token = sampling->stop_token_ids[i];
    if (token < 0 || token >= request->model->config.text.vocab_size) {
      return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "stop_token_ids", "stop_token_ids[%zu]: no token %d", i, token);
    }
    request->stop_tokens[i] = token;
  }
  request->n_stop_tokens = sampling->n_stop_token_ids;
  return OMMA_OK;
}

enum omma_status ommai_request_set_sampling(struct omma_request *request, const struct omma_sampling *sampling,
                                            struct omma_error *error) {
  OMMAI_TRY(check_numbers(sampling, error));
  request->sampler = (struct ommai_sampler_settings){
      .temperature = sampling->temperature,
      .top_p = sampling->top_p > 0 ? sampling->top_p : 1,
      .min_p = sampling->min_p,
      .top_k = sampling->top_k > 0 ? sampling->top_k : 0,
      .seed = sampling->seed,
      .repetition_penalty = sampling->repetition_penalty > 0 ? sampling->repetition_penalty : 1,
      .presence_penalty = sampling->presence_penalty,
      .frequency_penalty = sampling->frequency_penalty,
  };
  request->max_tokens = sampling->max_tokens;
  request->min_tokens = sampling->min_tokens;
  request->ignore_eos = sampling->ignore_eos;
  request->include_stop = sampling->include_stop;
  request->keep_special_tokens = sampling->keep_special_tokens;
  request->no_repeat_ngram_size = sampling->no_repeat_ngram_size;
  request->repetition_detection = sampling->repetition_detection;
  set_logprobs(request, sampling);
  if (sampling->grammar && sampling->grammar->model != request->model) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "grammar", "grammar: it was made for another model");
  }
  request->grammar = omma_grammar_share(sampling->grammar);
  OMMAI_TRY(ommai_reasoning_rules_take(&request->reasoning, request->model, sampling, error));
  OMMAI_TRY(ommai_token_rules_take(&request->rules, request->model, sampling, error));
  return copy_stop(request, sampling, error);
}
