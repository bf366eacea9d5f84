#include "request/vectors.h"

#include <math.h>
#include <string.h>

#include "base/allocator.h"
#include "base/error.h"
#include "families/family.h"
#include "families/vector_rules.h"

static enum omma_status find_token(const struct omma_request *request, const char *word, int32_t *token,
                                   struct omma_error *error) {
  const struct omma_model *model = request->model;
  if (model->tokenizer && ommai_tokenizer_find(model->tokenizer, word, token)) return OMMA_OK;
  return ommai_fail_field(error, OMMA_ERROR_UNSUPPORTED, "model",
                          "%s: no token is \"%s\", whose logit a score is read off; %s models have it", model->directory, word,
                          ommai_vector_model_name(OMMA_TASK_SCORE));
}

enum omma_status ommai_request_set_vectors(struct omma_request *request, const struct omma_request_options *options,
                                           struct omma_error *error) {
  const struct ommai_vector_rules *rules = request->model->network.family->vectors;
  int64_t width = ommai_decoder_state_width(&request->model->config.text);
  if (!ommai_request_reads(request)) return OMMA_OK;
  request->whole = true;
  request->raw_vectors = options->raw_vectors != 0;
  request->dimensions = options->dimensions;
  request->every_token = request->kind == OMMA_REQUEST_EMBED && request->model->config.text.projected_state > 0;
  if (request->every_token && request->dimensions) {
    return ommai_fail_field(error, OMMA_ERROR_UNSUPPORTED, "dimensions",
                            "dimensions: a model that gives a vector for each token was not trained for shorter ones");
  }
  if (request->dimensions < 0 || request->dimensions > width) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "dimensions", "dimensions: expected 1 to %lld, found %lld",
                            (long long)width, (long long)request->dimensions);
  }
  if (request->kind == OMMA_REQUEST_EMBED) return OMMA_OK;
  if (!rules) {
    return ommai_fail_field(error, OMMA_ERROR_UNSUPPORTED, "model", "%s: no scores can be read off a model of type %s",
                            request->model->directory, request->model->config.model_type);
  }
  OMMAI_TRY(find_token(request, rules->yes, &request->score_tokens[0], error));
  return find_token(request, rules->no, &request->score_tokens[1], error);
}

/* ---- prompts that are too long ---- */

static bool is_special(const struct omma_request *request, const struct ommai_prompt_token *token) {
  const char *bytes;
  size_t size;
  bool special = false;
  ommai_tokenizer_token_bytes(request->model->tokenizer, token->token, &bytes, &size, &special);
  return special || token->image >= 0;
}

static size_t count_special(const struct omma_request *request, size_t end) {
  size_t n = 0;
  for (size_t i = 0; i < end; i++) n += is_special(request, &request->tokens[i]);
  return n;
}

/* What is left stands closer together: every token that goes takes one position from those behind
 * it. `plain` is what may stay of the others before `end`. */
static void keep(struct omma_request *request, const struct omma_request *full, size_t end, size_t plain) {
  size_t at = 0;
  for (size_t i = 0; i < full->n_tokens; i++) {
    bool stays = i >= end || is_special(full, &full->tokens[i]);
    if (!stays && plain > 0) {
      plain--;
      stays = true;
    }
    if (!stays) continue;
    request->ids[at] = full->ids[i];
    request->tokens[at] = full->tokens[i];
    for (int axis = 0; axis < 3; axis++) request->tokens[at].position[axis] -= (int32_t)(i - at);
    at++;
  }
  request->next_position = full->next_position - (int32_t)(full->n_tokens - at);
}

enum omma_status ommai_request_shorten(struct omma_request *request, size_t limit, struct omma_error *error) {
  const struct ommai_vector_rules *rules = request->model->network.family->vectors;
  size_t last = rules && request->kind == OMMA_REQUEST_SCORE ? rules->score_kept_last : 0;
  if (request->n_tokens <= limit + last) return OMMA_OK;
  struct omma_request full = *request;
  size_t end = full.n_tokens - last, n_special = count_special(&full, end), plain = limit > n_special ? limit - n_special : 0;
  request->n_tokens = n_special + plain + last;
  enum omma_status status = ommai_request_allocate_prompt(request, error);
  if (status == OMMA_OK) keep(request, &full, end, plain);
  ommai_release(&full.allocator, full.ids, full.n_tokens, sizeof *full.ids);
  ommai_release(&full.allocator, full.tokens, full.n_tokens, sizeof *full.tokens);
  ommai_release(&full.allocator, full.page_keys, full.n_page_keys, sizeof *full.page_keys);
  return status;
}

/* ---- results ---- */

/* Divides the values by their length, which is summed in double and in order. */
static void normalise(float *values, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++) sum += (double)values[i] * values[i];
  double length = fmax(sqrt(sum), 1e-12); /* as torch's normalize */
  for (int64_t i = 0; i < n; i++) values[i] = (float)(values[i] / length);
}

bool ommai_request_make_vectors(const struct omma_request *request, void *read, struct omma_vectors *vectors) {
  float *values = read;
  int64_t width = ommai_decoder_state_width(&request->model->config.text), n_rows = 1;
  bool finite = true;
  if (request->kind == OMMA_REQUEST_SCORE) {
    float difference = values[0] - values[1];
    values[0] = request->raw_vectors ? difference : (float)(1 / (1 + exp(-(double)difference)));
    *vectors = (struct omma_vectors){.n_rows = 1, .width = 1, .values = values};
    return isfinite(difference);
  }
  if (request->every_token) n_rows = (int64_t)request->n_tokens;
  for (int64_t i = 0; i < n_rows * width; i++) finite &= isfinite(values[i]) != 0;
  if (request->dimensions) width = request->dimensions;
  for (int64_t row = 0; row < n_rows && !request->raw_vectors; row++) normalise(values + row * width, width);
  *vectors = (struct omma_vectors){.n_rows = n_rows, .width = width, .values = values};
  return finite;
}
