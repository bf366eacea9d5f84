#include "engine/sequence.h"

#include <math.h>
#include <string.h>

#include "base/allocator.h"
#include "base/checked.h"
#include "base/clock.h"
#include "base/error.h"
#include "language/decode.h"

enum { PAGE = OMMA_ATTENTION_PAGE_TOKENS, SLICE_TASKS = 64 };

/* ---- start and end ---- */

/* Pictures of other requests that one batch may take along. */
enum { MAX_INVITED = 64 };

static enum omma_status allocate(struct ommai_sequence *sequence, struct omma_error *error) {
  const struct omma_request *request = sequence->request;
  const struct omma_allocator *allocator = &request->allocator;
  sequence->max_pages = ommai_div_up(sequence->resources->sizes.context, PAGE);
  sequence->encoded = ommai_allocate(allocator, request->n_pictures, sizeof *sequence->encoded);
  sequence->rows = ommai_allocate(allocator, request->n_tokens, sizeof *sequence->rows);
  sequence->pages = ommai_allocate(allocator, (size_t)sequence->max_pages, sizeof *sequence->pages);
  if (!sequence->encoded || !sequence->rows || !sequence->pages) {
    return ommai_fail_memory(error, "request", request->n_tokens * sizeof *sequence->rows);
  }
  return OMMA_OK;
}

/* Finds the pictures in the cache, or places for them; those to be encoded go into the batch. */
static enum omma_status take_pictures(struct ommai_sequence *sequence, struct omma_error *error) {
  const struct omma_request *request = sequence->request;
  struct ommai_encoder_cache *cache = &sequence->resources->encoder_cache;
  if (request->n_pictures == 0) return OMMA_OK;
  OMMAI_TRY(
      ommai_encode_batch_init(&sequence->batch, cache, (int64_t)request->n_pictures + MAX_INVITED, &request->allocator, error));
  for (size_t i = 0; i < request->n_pictures; i++) {
    const struct ommai_prepared_picture *picture = &request->pictures[i];
    size_t n_values = (size_t)ommai_encode_output_size(request->model, picture->plan.n_tokens);
    sequence->encoded[i] = ommai_encoder_cache_take(cache, &request->keys[i]);
    if (!sequence->encoded[i]) {
      OMMAI_TRY(ommai_encoder_cache_add(cache, &request->keys[i], n_values, &sequence->encoded[i], error));
    }
    if (!sequence->encoded[i]->complete) ommai_encode_batch_add(&sequence->batch, picture, sequence->encoded[i]);
  }
  return OMMA_OK;
}

static void lay_out(struct ommai_sequence *sequence) {
  const struct omma_request *request = sequence->request;
  int64_t width = request->model->config.vision.out_hidden_size;
  for (size_t i = 0; i < request->n_tokens; i++) {
    const struct ommai_request_token *token = &request->tokens[i];
    struct ommai_prompt_row *row = &sequence->rows[i];
    *row = (struct ommai_prompt_row){.token = token->token};
    memcpy(row->position, token->position, sizeof row->position);
    if (token->picture < 0) continue;
    row->picture = sequence->encoded[token->picture]->values + token->picture_row * width;
    row->picture_stride = request->pictures[token->picture].plan.n_tokens * width;
  }
}

static void count_prompt(struct ommai_sequence *sequence) {
  struct ommai_resources *resources = sequence->resources;
  size_t vocab = (size_t)resources->model->config.text.vocab_size;
  memset(resources->answer_counts, 0, vocab * sizeof *resources->answer_counts);
  memset(resources->in_prompt, 0, vocab * sizeof *resources->in_prompt);
  for (size_t i = 0; i < sequence->request->n_tokens; i++) resources->in_prompt[sequence->request->ids[i]] = true;
}

static void enter_stage(struct ommai_sequence *sequence, enum omma_stage stage) {
  struct omma_timings *timings = &sequence->result.timings;
  double *slots[] = {[OMMA_STAGE_QUEUED] = &timings->queue,
                     [OMMA_STAGE_ENCODE] = &timings->encode,
                     [OMMA_STAGE_PREFILL] = &timings->prefill,
                     [OMMA_STAGE_DECODE] = &timings->decode};
  int64_t now = ommai_clock_ns();
  *slots[sequence->stage] += (double)(now - sequence->stage_started) * 1e-9;
  sequence->stage = stage;
  sequence->stage_started = now;
}

enum omma_status ommai_sequence_start(struct ommai_resources *resources, const struct omma_request *request,
                                      const struct omma_callbacks *callbacks, struct ommai_sequence *sequence,
                                      struct omma_error *error) {
  *sequence = (struct ommai_sequence){
      .resources = resources, .request = request, .callbacks = *callbacks, .stage_started = ommai_clock_ns()};
  sequence->result.n_prompt_tokens = (int64_t)request->n_tokens;
  sequence->result.stop_token = -1;
  sequence->result.timings.preprocess = request->preprocess_seconds;
  OMMAI_TRY(allocate(sequence, error));
  OMMAI_TRY(take_pictures(sequence, error));
  lay_out(sequence);
  count_prompt(sequence);
  ommai_answer_text_init(&sequence->answer, request);
  sequence->encode =
      (struct ommai_encode_job){.resources = resources, .inputs = sequence->batch.inputs, .n_inputs = sequence->batch.n};
  enter_stage(sequence, sequence->batch.n ? OMMA_STAGE_ENCODE : OMMA_STAGE_PREFILL);
  return OMMA_OK;
}

bool ommai_sequence_invite(struct ommai_sequence *sequence, const struct omma_request *request) {
  if (sequence->stage != OMMA_STAGE_ENCODE) return false;
  bool has_room = ommai_encode_batch_invite(&sequence->batch, request, sequence->resources->sizes.patch_budget);
  sequence->encode.n_inputs = sequence->batch.n;
  return has_room;
}

void ommai_sequence_free(struct ommai_sequence *sequence) {
  const struct omma_request *request = sequence->request;
  const struct omma_allocator *allocator = &request->allocator;
  ommai_kv_cache_give_back(sequence->resources->kv, sequence->n_pages, sequence->pages);
  ommai_encode_batch_free(&sequence->batch);
  for (size_t i = 0; sequence->encoded && i < request->n_pictures; i++) {
    if (sequence->encoded[i]) ommai_encoder_cache_give_back(&sequence->resources->encoder_cache, sequence->encoded[i]);
  }
  ommai_release(allocator, sequence->encoded, request->n_pictures, sizeof *sequence->encoded);
  ommai_release(allocator, sequence->rows, request->n_tokens, sizeof *sequence->rows);
  ommai_release(allocator, sequence->pages, (size_t)sequence->max_pages, sizeof *sequence->pages);
}

static void report(const struct ommai_sequence *sequence, int64_t done, int64_t total) {
  if (sequence->callbacks.on_progress)
    sequence->callbacks.on_progress(sequence->callbacks.context, sequence->stage, done, total);
}

/* Makes sure that the pages cover n_positions. */
static enum omma_status cover(struct ommai_sequence *sequence, int64_t n_positions, struct omma_error *error) {
  int64_t missing = ommai_div_up(n_positions, PAGE) - sequence->n_pages;
  if (missing <= 0) return OMMA_OK;
  if (!ommai_kv_cache_take(sequence->resources->kv, missing, sequence->pages + sequence->n_pages)) {
    return ommai_fail_field(error, OMMA_ERROR_MEMORY, "kv_cache_bytes", "KV cache: %lld more pages wanted, %lld are free",
                            (long long)missing, (long long)sequence->resources->kv->n_free);
  }
  sequence->n_pages += missing;
  return OMMA_OK;
}

/* ---- tokens ---- */

static bool is_stop_token(const struct ommai_sequence *sequence, int32_t token) {
  const struct omma_request *request = sequence->request;
  const struct ommai_generation_config *generation = &request->model->config.generation;
  for (size_t i = 0; !request->ignore_eos && i < generation->n_stop_tokens; i++) {
    if (generation->stop_tokens[i] == token) return true;
  }
  for (size_t i = 0; i < request->n_stop_tokens; i++) {
    if (request->stop_tokens[i] == token) return true;
  }
  return false;
}

/* Before min_tokens no token may end the answer. */
static size_t banned_tokens(const struct ommai_sequence *sequence,
                            int32_t banned[OMMAI_MAX_STOP_TOKENS + OMMAI_REQUEST_MAX_STOP_TOKENS]) {
  const struct omma_request *request = sequence->request;
  const struct ommai_generation_config *generation = &request->model->config.generation;
  size_t n = 0;
  if (sequence->n_generated >= request->min_tokens) return 0;
  for (size_t i = 0; !request->ignore_eos && i < generation->n_stop_tokens; i++) banned[n++] = generation->stop_tokens[i];
  for (size_t i = 0; i < request->n_stop_tokens; i++) banned[n++] = request->stop_tokens[i];
  return n;
}

/* Whether the token that was just drawn is the last one, and why. */
static bool ends_answer(struct ommai_sequence *sequence, int32_t token) {
  const struct omma_request *request = sequence->request;
  struct omma_result *result = &sequence->result;
  if (is_stop_token(sequence, token)) {
    result->finish = OMMA_FINISH_STOP;
    result->stop_token = token;
    return true;
  }
  if (sequence->answer.stop_index >= 0) {
    result->finish = OMMA_FINISH_STOP;
    result->stop_string = request->stop[sequence->answer.stop_index];
    return true;
  }
  result->finish = OMMA_FINISH_LENGTH;
  int64_t length = (int64_t)request->n_tokens + sequence->n_generated;
  return sequence->n_generated == request->max_tokens || length >= sequence->resources->sizes.context;
}

static void fill_logprobs(const struct ommai_sequence *sequence, int32_t token, struct omma_top_logprob *top,
                          struct omma_token_event *event) {
  const struct ommai_resources *resources = sequence->resources;
  int64_t vocab = resources->model->config.text.vocab_size;
  int32_t best[OMMA_MAX_TOP_LOGPROBS];
  double norm = ommai_log_sum_exp(resources->logits, vocab);
  event->has_logprob = true;
  event->logprob = (float)(resources->logits[token] - norm);
  event->n_top = sequence->request->n_top_logprobs;
  event->top = top;
  if (event->n_top == 0) return;
  ommai_top_tokens(resources->logits, vocab, best, event->n_top, &resources->sampler_scratch);
  for (int i = 0; i < event->n_top; i++) {
    top[i] = (struct omma_top_logprob){best[i], (float)(resources->logits[best[i]] - norm)};
  }
}

/* NaN or infinity among the logits would be answered with token 0 for ever. x - x is 0 for every other x. */
static enum omma_status check_logits(const struct ommai_resources *resources, struct omma_error *error) {
  const float *logits = resources->logits;
  float sum = 0;
  for (int64_t i = 0; i < resources->model->config.text.vocab_size; i++) sum += logits[i] - logits[i];
  if (sum == 0) return OMMA_OK;
  return ommai_fail(error, OMMA_ERROR_FORMAT,
                    "the model computes NaN or infinity: look for such weights with `omma verify --model %s`",
                    resources->model->directory);
}

/* Draws a token from the logits, tells the client, and sees whether the answer ends. Errors: FORMAT. */
static enum omma_status take_token(struct ommai_sequence *sequence, bool *done, struct omma_error *error) {
  struct ommai_resources *resources = sequence->resources;
  OMMAI_TRY(check_logits(resources, error));
  const struct omma_request *request = sequence->request;
  int32_t banned[OMMAI_MAX_STOP_TOKENS + OMMAI_REQUEST_MAX_STOP_TOKENS];
  struct omma_top_logprob top[OMMA_MAX_TOP_LOGPROBS];
  const struct ommai_token_counts counts = {resources->answer_counts, resources->in_prompt};
  size_t n_banned = banned_tokens(sequence, banned);
  int32_t token = ommai_sample(&request->sampler, resources->logits, resources->model->config.text.vocab_size,
                               sequence->n_generated, &counts, banned, n_banned, &resources->sampler_scratch);
  resources->answer_counts[token]++;
  struct omma_token_event event = {.index = sequence->n_generated, .token = token};
  if (request->logprobs) fill_logprobs(sequence, token, top, &event);
  sequence->last_token = token;
  sequence->n_generated++;
  sequence->result.n_completion_tokens = sequence->n_generated;
  ommai_answer_text_push(&sequence->answer, token, sequence->n_generated > request->min_tokens);
  *done = ends_answer(sequence, token);
  if (*done) ommai_answer_text_finish(&sequence->answer);
  event.text = sequence->answer.held;
  event.text_size = sequence->answer.n_ready;
  event.last = *done;
  event.finish = sequence->result.finish;
  if (sequence->callbacks.on_token && !sequence->callbacks.on_token(sequence->callbacks.context, &event) && !*done) {
    sequence->result.finish = OMMA_FINISH_CANCELLED;
    *done = true;
  }
  return OMMA_OK;
}

/* ---- steps ---- */

static enum omma_status encode_step(struct ommai_sequence *sequence, struct omma_error *error) {
  bool encoded;
  OMMAI_TRY(ommai_encode_step(&sequence->encode, &encoded, error));
  int64_t done, total;
  ommai_encode_progress(&sequence->encode, &done, &total);
  report(sequence, done, total);
  if (!encoded) return OMMA_OK;
  ommai_encode_batch_finish(&sequence->batch);
  enter_stage(sequence, OMMA_STAGE_PREFILL);
  return OMMA_OK;
}

static enum omma_status begin_chunk(struct ommai_sequence *sequence, struct omma_error *error) {
  struct ommai_resources *resources = sequence->resources;
  int64_t n_tokens = (int64_t)sequence->request->n_tokens;
  int64_t count = ommai_min_i64(resources->sizes.prefill_chunk, n_tokens - sequence->n_prefilled);
  OMMAI_TRY(cover(sequence, sequence->n_prefilled + count, error));
  return ommai_prefill_start(&resources->model->decoder, resources->kv, sequence->pages, sequence->n_prefilled,
                             sequence->rows + sequence->n_prefilled, count, resources->language_workspace,
                             resources->sizes.language_workspace, resources->team_interface, &sequence->prefill, error);
}

/* After the last chunk: the logits of the last prompt row. They overwrite the chunk's workspace, so the row is copied first. */
static enum omma_status finish_prompt(struct ommai_sequence *sequence, int64_t last_row, bool *done, struct omma_error *error) {
  struct ommai_resources *resources = sequence->resources;
  const struct ommai_decoder *decoder = &resources->model->decoder;
  memcpy(resources->last_row, ommai_prefill_residual(sequence->prefill, last_row),
         (size_t)decoder->config.hidden_size * sizeof(float));
  sequence->prefill = NULL;
  OMMAI_TRY(ommai_decode_logits(decoder, resources->last_row, resources->language_workspace,
                                resources->sizes.language_workspace, resources->team_interface, resources->logits, error));
  enter_stage(sequence, OMMA_STAGE_DECODE);
  return take_token(sequence, done, error);
}

static enum omma_status prefill_step(struct ommai_sequence *sequence, bool *done, struct omma_error *error) {
  int64_t n_tokens = (int64_t)sequence->request->n_tokens;
  if (!sequence->prefill) return begin_chunk(sequence, error);
  OMMAI_TRY(ommai_prefill_advance(sequence->prefill, SLICE_TASKS, error));
  if (!ommai_prefill_done(sequence->prefill)) return OMMA_OK;
  int64_t count = ommai_min_i64(sequence->resources->sizes.prefill_chunk, n_tokens - sequence->n_prefilled);
  sequence->n_prefilled += count;
  report(sequence, sequence->n_prefilled, n_tokens);
  if (sequence->n_prefilled == n_tokens) return finish_prompt(sequence, count - 1, done, error);
  sequence->prefill = NULL;
  return OMMA_OK;
}

static enum omma_status decode_step(struct ommai_sequence *sequence, bool *done, struct omma_error *error) {
  struct ommai_resources *resources = sequence->resources;
  int64_t index = (int64_t)sequence->request->n_tokens + sequence->n_generated - 1;
  int32_t position = sequence->request->next_position + (int32_t)sequence->n_generated - 1;
  OMMAI_TRY(cover(sequence, index + 1, error));
  struct ommai_decode_row row = {
      .token = sequence->last_token, .position = {position, position, position}, .index = index, .pages = sequence->pages};
  OMMAI_TRY(ommai_decode_run(&resources->model->decoder, resources->kv, &row, 1, resources->language_workspace,
                             resources->sizes.language_workspace, resources->team_interface, resources->logits, error));
  return take_token(sequence, done, error);
}

enum omma_status ommai_sequence_step(struct ommai_sequence *sequence, bool *done, struct omma_error *error) {
  enum omma_status status = OMMA_OK;
  *done = false;
  switch (sequence->stage) {
    case OMMA_STAGE_QUEUED: break;
    case OMMA_STAGE_ENCODE: status = encode_step(sequence, error); break;
    case OMMA_STAGE_PREFILL: status = prefill_step(sequence, done, error); break;
    case OMMA_STAGE_DECODE: status = decode_step(sequence, done, error); break;
  }
  enter_stage(sequence, sequence->stage); /* a request that ends early is told its times as well */
  return status;
}
