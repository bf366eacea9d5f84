#include "engine/sequence.h"

#include <string.h>

#include "base/allocator.h"
#include "base/checked.h"
#include "base/debug.h"
#include "base/error.h"
#include "base/plural.h"
#include "engine/embeddings.h"
#include "engine/kept_page.h"
#include "request/vectors.h"

enum { PAGE = OMMA_ATTENTION_PAGE_TOKENS, AHEAD_TOKENS = 64 };

/* ---- start and end ---- */

static int64_t answer_limit(const struct omma_request *request, int64_t context) {
  if (ommai_request_reads(request)) return 0;
  int64_t room = context - (int64_t)request->n_tokens;
  return request->max_tokens ? ommai_min_i64(request->max_tokens, room) : room;
}

/* Whether some tokens may be shut out by a mask: by a grammar, a list, a forced end of reasoning,
 * or because they repeat. */
static bool can_need_mask(const struct omma_request *request) {
  return request->grammar || request->rules.allowed || request->reasoning.limited || request->no_repeat_ngram_size;
}

/* Bytes that are read of its tokens. */
static size_t read_bytes(const struct ommai_sequence *sequence) {
  static const size_t scores = sizeof sequence->request->score_tokens / sizeof *sequence->request->score_tokens;
  if (!ommai_request_reads(sequence->request)) return 0;
  const size_t state_bytes = sequence->resources->sizes.facts.state_bytes;
  if (sequence->request->every_token) return sequence->request->n_tokens * state_bytes;
  return sequence->request->kind == OMMA_REQUEST_EMBED ? state_bytes : scores * sizeof(float);
}

static enum omma_status allocate(struct ommai_sequence *sequence, struct omma_error *error) {
  const struct omma_request *request = sequence->request;
  const struct omma_allocator *allocator = &request->allocator;
  const struct ommai_engine_sizes *sizes = &sequence->resources->sizes;
  sequence->generated = ommai_allocate_uninitialised(allocator, (size_t)sequence->max_generated, sizeof *sequence->generated);
  if (can_need_mask(request)) sequence->mask = ommai_allocate(allocator, (size_t)sizes->mask_words, sizeof *sequence->mask);
  size_t n_read = read_bytes(sequence);
  if (n_read) sequence->read = ommai_allocate(allocator, n_read, 1);
  if (!sequence->generated || (can_need_mask(request) && !sequence->mask) || (n_read && !sequence->read)) {
    return ommai_fail_memory(error, "request", (size_t)sequence->max_generated * sizeof *sequence->generated);
  }
  return ommai_repetition_init(&sequence->repetition, request->no_repeat_ngram_size, &request->repetition_detection,
                               sequence->max_generated, allocator, error);
}

enum omma_status ommai_sequence_start(struct ommai_sequence *sequence, struct ommai_resources *resources,
                                      const struct ommai_queued_request *queued, struct omma_error *error) {
  const struct omma_request *request = queued->request;
  *sequence = (struct ommai_sequence){.resources = resources,
                                      .id = queued->id,
                                      .slot = -1,
                                      .priority = queued->priority,
                                      .request = request,
                                      .callbacks = queued->callbacks,
                                      .stage_started = queued->submitted};
  sequence->result.n_prompt_tokens = (int64_t)request->n_tokens;
  sequence->result.stop_token = -1;
  sequence->result.timings.preprocess = request->preprocess_seconds;
  sequence->max_generated = answer_limit(request, resources->sizes.limits.context);
  ommai_grammar_matcher_start(&sequence->matcher, ommai_grammar_of_engine(request->grammar, resources->sizes.limits.engine));
  ommai_answer_text_init(&sequence->answer, request);
  OMMAI_TRY(ommai_held_state_init(&sequence->state, resources->pool, ommai_div_up(resources->sizes.limits.context, PAGE),
                                  &request->allocator, error));
  sequence->encoded = ommai_allocate(&request->allocator, request->n_images, sizeof *sequence->encoded);
  sequence->image_rows = ommai_allocate(&request->allocator, request->n_images, sizeof *sequence->image_rows);
  if (sequence->encoded && sequence->image_rows) return OMMA_OK;
  return ommai_fail_memory(error, "request", request->n_images * sizeof *sequence->encoded);
}

enum omma_status ommai_sequence_take_slot(struct ommai_sequence *sequence, int64_t slot, struct omma_error *error) {
  const struct omma_request *request = sequence->request;
  struct ommai_runner *runner = sequence->resources->runner;
  OMMAI_TRY(allocate(sequence, error));
  sequence->slot = slot;
  return runner->functions->slot_begin(runner, slot, &request->sampler, request->ids, request->n_tokens, error);
}

void ommai_sequence_free(struct ommai_sequence *sequence) {
  const struct omma_request *request = sequence->request;
  const struct omma_allocator *allocator = &request->allocator;
  struct ommai_runner *runner = sequence->resources->runner;
  ommai_sequence_leave(sequence);
  if (sequence->slot >= 0) runner->functions->slot_end(runner, sequence->slot);
  ommai_release(allocator, sequence->encoded, request->n_images, sizeof *sequence->encoded);
  ommai_release(allocator, sequence->image_rows, request->n_images, sizeof *sequence->image_rows);
  ommai_held_state_free(&sequence->state, allocator);
  ommai_release(allocator, sequence->read, read_bytes(sequence), 1);
  ommai_release(allocator, sequence->generated, (size_t)sequence->max_generated, sizeof *sequence->generated);
  ommai_release(allocator, sequence->mask, (size_t)sequence->resources->sizes.mask_words, sizeof *sequence->mask);
  ommai_repetition_free(&sequence->repetition, allocator);
}

void ommai_sequence_log_end(const struct ommai_sequence *sequence) {
  static const char *const ends[] = {"a stop", "its limit", "a cancellation", "an error", "a repetition"};
  const struct omma_result *result = &sequence->result;
  OMMAI_DEBUG(&sequence->request->model->log,
              "request %llu: ended by %s: prompt of %lld tokens, answer of %lld; %.1f ms of prefill, %.1f of decode",
              (unsigned long long)sequence->id, ends[result->finish], (long long)result->n_prompt_tokens,
              (long long)result->n_completion_tokens, result->timings.prefill * 1e3, result->timings.decode * 1e3);
}

/* ---- stages ---- */

void ommai_sequence_book_time(struct ommai_sequence *sequence) {
  struct omma_timings *timings = &sequence->result.timings;
  double *slots[] = {[OMMA_STAGE_QUEUED] = &timings->queue,
                     [OMMA_STAGE_ENCODE] = &timings->encode,
                     [OMMA_STAGE_PREFILL] = &timings->prefill,
                     [OMMA_STAGE_DECODE] = &timings->decode};
  int64_t now = ommai_resources_now(sequence->resources);
  *slots[sequence->stage] += (double)(now - sequence->stage_started) * 1e-9;
  sequence->stage_started = now;
}

static void enter_stage(struct ommai_sequence *sequence, enum omma_stage stage) {
  ommai_sequence_book_time(sequence);
  sequence->stage = stage;
}

void ommai_sequence_report(const struct ommai_sequence *sequence, int64_t done, int64_t total) {
  if (sequence->callbacks.on_progress)
    sequence->callbacks.on_progress(sequence->callbacks.context, sequence->stage, done, total);
}

/* Finds the image in the cache, or a place for it. */
static enum omma_status take_image(struct ommai_sequence *sequence, size_t index, struct omma_error *error) {
  const struct omma_request *request = sequence->request;
  struct ommai_encoder_cache *cache = &sequence->resources->encoder_cache;
  struct ommai_encoded_image **encoded = &sequence->encoded[index];
  *encoded = ommai_encoder_cache_take(cache, &request->keys[index]);
  if (!*encoded) {
    OMMAI_TRY(ommai_encoder_cache_add(cache, &request->keys[index], request->images[index].sizes.n_tokens, encoded, error));
  }
  sequence->image_rows[index] = (*encoded)->rows;
  return OMMA_OK;
}

static void give_back_images(struct ommai_sequence *sequence) {
  for (size_t i = 0; sequence->encoded && i < sequence->request->n_images; i++) {
    if (sequence->encoded[i]) ommai_encoder_cache_give_back(&sequence->resources->encoder_cache, sequence->encoded[i]);
    sequence->encoded[i] = NULL;
  }
}

static int64_t missing_images(const struct ommai_sequence *sequence) {
  int64_t n = 0;
  for (size_t i = 0; i < sequence->request->n_images; i++) n += sequence->encoded[i] && !sequence->encoded[i]->complete;
  return n;
}

bool ommai_sequence_wants_scores(const struct ommai_sequence *sequence) {
  return sequence->request->prompt_logprobs && sequence->n_scored + 1 < (int64_t)sequence->request->n_tokens;
}

bool ommai_sequence_may_match(const struct ommai_sequence *sequence) {
  return sequence->resources->sizes.prefix_cache && sequence->request->kind != OMMA_REQUEST_ENCODE &&
         !ommai_sequence_wants_scores(sequence) && !sequence->request->every_token;
}

enum omma_status ommai_sequence_take_images(struct ommai_sequence *sequence, struct omma_error *error) {
  const struct omma_request *request = sequence->request;
  struct ommai_state_pool *pool = sequence->resources->pool;
  int64_t n_keys = ommai_sequence_may_match(sequence) ? (int64_t)request->n_page_keys : 0;
  int64_t n_kept = n_keys ? PAGE * ommai_state_pool_find(pool, request->page_keys, n_keys) : 0;
  for (size_t i = (size_t)n_kept; i < request->n_tokens; i++) {
    int32_t image = request->tokens[i].image;
    if (image >= 0 && !sequence->encoded[image]) OMMAI_TRY(take_image(sequence, (size_t)image, error));
  }
  int64_t n_missing = missing_images(sequence);
  OMMAI_DEBUG(&request->model->log, "request %llu: %lld of %zu tokens in the prefix cache; %lld of %zu image%s to be encoded",
              (unsigned long long)sequence->id, (long long)n_kept, request->n_tokens, (long long)n_missing, request->n_images,
              ommai_plural((int64_t)request->n_images));
  if (n_missing) enter_stage(sequence, OMMA_STAGE_ENCODE);
  return OMMA_OK;
}

void ommai_sequence_enter(struct ommai_sequence *sequence) {
  ommai_sequence_match(sequence);
  if (!sequence->result.n_preemptions && ommai_sequence_may_match(sequence))
    sequence->resources->stats.prefix_cache_queries += (int64_t)sequence->request->n_tokens;
  enter_stage(sequence, OMMA_STAGE_PREFILL);
  if (sequence->request->kind != OMMA_REQUEST_ENCODE) {
    ommai_sequence_report(sequence, sequence->n_prefilled, (int64_t)sequence->request->n_tokens);
  }
}

void ommai_sequence_leave(struct ommai_sequence *sequence) {
  give_back_images(sequence);
  ommai_state_pool_give_back(sequence->resources->pool, &sequence->state);
  sequence->n_prefilled = sequence->n_decoded = 0;
  enter_stage(sequence, OMMA_STAGE_QUEUED);
}

void ommai_sequence_end_pass(struct ommai_sequence *sequence) {
  if (missing_images(sequence) == 0) enter_stage(sequence, OMMA_STAGE_QUEUED);
}

void ommai_sequence_begin_decode(struct ommai_sequence *sequence) {
  give_back_images(sequence);
  enter_stage(sequence, OMMA_STAGE_DECODE);
}

/* ---- pages ---- */

bool ommai_sequence_take_pages(struct ommai_sequence *sequence, int64_t n_positions) {
  int64_t position = sequence->n_prefilled + sequence->n_decoded;
  return ommai_state_pool_take(sequence->resources->pool, &sequence->state, position, n_positions);
}

/* n tokens more are there that others have computed. */
static void take_over(struct ommai_sequence *sequence, int64_t n) {
  sequence->n_prefilled += n;
  /* after a preemption some may be its own */
  int64_t n_new = ommai_min_i64(n, sequence->n_prefilled - sequence->n_reached);
  if (n_new <= 0) return;
  sequence->n_reached = sequence->n_prefilled;
  sequence->result.n_cached_tokens += n_new;
  sequence->resources->stats.prefix_cache_hits += n_new;
}

void ommai_sequence_match(struct ommai_sequence *sequence) {
  struct ommai_resources *resources = sequence->resources;
  const struct omma_request *request = sequence->request;
  int64_t n_keys = (int64_t)request->n_page_keys;
  if (!ommai_sequence_may_match(sequence) || sequence->state.n_pages >= n_keys || sequence->n_prefilled % PAGE) return;
  take_over(sequence, PAGE * ommai_state_pool_match(resources->pool, &sequence->state, request->page_keys, n_keys));
}

/* Whether the sequence may begin in a copy of another one's page, and leave such a page: it writes
 * nothing behind its prompt, and keeps nothing but pages. */
static bool may_share_beginning(const struct ommai_sequence *sequence) {
  const struct ommai_runner_facts *facts = &sequence->resources->sizes.facts;
  return ommai_sequence_may_match(sequence) && ommai_request_reads(sequence->request) && !sequence->request->cache_salt &&
         facts->n_groups == 1 && facts->groups[0].kind == OMMAI_STATE_PAGES && facts->drafter == OMMAI_NO_DRAFTER;
}

void ommai_sequence_take_beginning(struct ommai_sequence *sequence) {
  struct ommai_resources *resources = sequence->resources;
  struct ommai_beginnings *beginnings = &resources->beginnings;
  struct ommai_page_pool *pages = resources->pool->pools[0];
  struct ommai_beginning *beginning;
  int32_t page;
  if (sequence->n_prefilled || sequence->state.n_pages || !may_share_beginning(sequence)) return;
  int64_t n = ommai_beginnings_find(beginnings, sequence->request, &beginning);
  int64_t n_seen = sequence->began ? 0 : ommai_beginnings_see(beginnings, sequence->request);
  if (n_seen >= n + OMMAI_MIN_BEGINNING) sequence->n_to_keep = n_seen;
  sequence->began = true;
  if (n == 0) return;
  if (ommai_page_pool_match(pages, &beginning->key, 1, &page) == 0) { /* its place was needed */
    beginning->n_tokens = 0;
    return;
  }
  if (ommai_sequence_take_pages(sequence, n)) {
    resources->runner->functions->copy_rows(resources->runner, page, sequence->state.groups[0].pages[0], n);
    take_over(sequence, n);
  }
  ommai_page_pool_give_back(pages, 1, &page);
}

/* Of a prompt whose first page, or all, is computed and published. */
static void keep_beginning(struct ommai_sequence *sequence) {
  struct ommai_resources *resources = sequence->resources;
  struct ommai_beginning *beginning;
  int64_t n = sequence->n_to_keep;
  sequence->n_to_keep = 0;
  if (n == 0 || ommai_beginnings_find(&resources->beginnings, sequence->request, &beginning) >= n) return;
  beginning = ommai_beginnings_keep(&resources->beginnings, sequence->request);
  if (sequence->request->n_page_keys) {
    beginning->key = sequence->request->page_keys[0];
  } else {
    ommai_state_pool_publish_part(resources->pool, &sequence->state, &beginning->key);
  }
}

/* The border that a chunk up to `end` goes beyond, as a number of pages; 0: none that is of use. */
static int64_t border_within(const struct ommai_sequence *sequence, int64_t end) {
  int64_t border = end / PAGE;
  bool wanted = sequence->resources->sizes.prefix_cache && border <= (int64_t)sequence->request->n_page_keys;
  return wanted && end % PAGE && border * PAGE > sequence->n_prefilled ? border : 0;
}

void ommai_sequence_begin_chunk(struct ommai_sequence *sequence, int64_t end) {
  int64_t border = border_within(sequence, end);
  if (border) {
    ommai_state_pool_mark_border(sequence->resources->pool, &sequence->state, &sequence->request->page_keys[border - 1]);
  }
}

void ommai_sequence_publish(struct ommai_sequence *sequence, int64_t n_prefilled) {
  const struct omma_request *request = sequence->request;
  struct ommai_resources *resources = sequence->resources;
  int64_t first = sequence->n_prefilled / PAGE, end = ommai_min_i64(n_prefilled / PAGE, (int64_t)request->n_page_keys);
  int64_t border = border_within(sequence, n_prefilled);
  sequence->n_prefilled = n_prefilled;
  sequence->n_reached = ommai_max_i64(sequence->n_reached, n_prefilled);
  /* of the prompt's last row the next token, if there is one, is none that a model computed */
  bool open = sequence->n_generated == 0 || resources->sizes.facts.drafter == OMMAI_DRAFT_MODEL;
  sequence->head_end = ommai_min_i64(n_prefilled, (int64_t)request->n_tokens - open);
  ommai_state_pool_go_on(resources->pool, &sequence->state);
  if (!resources->sizes.prefix_cache) return;
  for (int64_t i = first; i < end; i++) {
    if (ommai_state_pool_publish(resources->pool, &sequence->state, i, &request->page_keys[i]))
      ommai_kept_page_report(&resources->pool->events, request, i);
  }
  keep_beginning(sequence);
  if (border || end * PAGE == n_prefilled) {
    ommai_state_pool_publish_snapshot(resources->pool, &sequence->state, border > 0, &request->page_keys[end - 1]);
  }
}

void ommai_sequence_settle_drafts(struct ommai_sequence *sequence, int64_t n_drafted, int64_t n_right) {
  struct ommai_state_pool *pool = sequence->resources->pool;
  if (n_drafted == 0 || !ommai_state_pool_has_snapshots(pool)) return;
  if (n_right == n_drafted) {
    ommai_held_state_accept_drafts(&sequence->state, pool);
  } else {
    sequence->n_decoded -= n_right;
  }
}

int64_t ommai_request_goal(const struct omma_request *request, const struct ommai_engine_sizes *sizes) {
  if (request->kind == OMMA_REQUEST_ENCODE) return 0;
  return (int64_t)request->n_tokens + ommai_min_i64(answer_limit(request, sizes->limits.context), sizes->reserve_tokens);
}

int64_t ommai_sequence_goal(const struct ommai_sequence *sequence) {
  const struct ommai_engine_sizes *sizes = &sequence->resources->sizes;
  if (sequence->request->kind == OMMA_REQUEST_ENCODE) return 0;
  if (ommai_request_reads(sequence->request)) return ommai_request_goal(sequence->request, sizes);
  int64_t ahead = ommai_min_i64(AHEAD_TOKENS, sizes->reserve_tokens);
  int64_t left = ommai_min_i64(sequence->max_generated - sequence->n_generated, ahead);
  int64_t from_here = (int64_t)sequence->request->n_tokens + sequence->n_generated + left;
  return ommai_max_i64(ommai_request_goal(sequence->request, sizes), from_here);
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

bool ommai_sequence_follows_grammar(const struct ommai_sequence *sequence) {
  return sequence->matcher.grammar && sequence->answer.reasoning.stage == OMMAI_REASONING_OVER;
}

bool ommai_sequence_sits_out(const struct ommai_sequence *sequence) {
  return ommai_sequence_follows_grammar(sequence) && sequence->matcher.grammar->is_late;
}

bool ommai_sequence_can_draw(const struct ommai_sequence *sequence) {
  if (!ommai_sequence_follows_grammar(sequence)) return true;
  return !sequence->matcher.grammar->is_late && ommai_grammar_matcher_is_ready(&sequence->matcher);
}

/* No token may end the answer before min_tokens, unless its grammar or its allowed tokens have no
 * other, nor in reasoning that a grammar is to follow. */
static size_t banned_ends(const struct ommai_sequence *sequence, int32_t *banned) {
  const struct omma_request *request = sequence->request;
  const struct ommai_generation_config *generation = &request->model->config.generation;
  size_t n = 0;
  bool must_go_on = sequence->matcher.grammar && !ommai_sequence_follows_grammar(sequence);
  if (sequence->n_generated >= request->min_tokens && !must_go_on) return 0;
  for (size_t i = 0; !request->ignore_eos && i < generation->n_stop_tokens; i++) banned[n++] = generation->stop_tokens[i];
  for (size_t i = 0; i < request->n_stop_tokens; i++) banned[n++] = request->stop_tokens[i];
  return n;
}

/* The first token that would repeat a sequence of the answer, as its place there; -1: none. */
static int64_t first_repeat(const struct ommai_sequence *sequence) {
  return ommai_repetition_first(&sequence->repetition, sequence->generated, sequence->n_generated);
}

static int64_t next_repeat(const struct ommai_sequence *sequence, int64_t place) {
  return ommai_repetition_next(&sequence->repetition, sequence->generated, sequence->n_generated, place);
}

/* Takes the tokens that would repeat out of the mask, unless it has no others: what a grammar
 * forces may repeat. */
static void clear_repeats(const struct ommai_sequence *sequence, uint32_t *mask) {
  int64_t n_left = 0, first = first_repeat(sequence);
  if (first < 0) return;
  for (int64_t i = 0; i < sequence->resources->sizes.mask_words; i++) n_left += __builtin_popcount(mask[i]);
  for (int64_t at = first; at >= 0; at = next_repeat(sequence, at)) n_left -= ommai_mask_has(mask, sequence->generated[at]);
  if (n_left == 0) return;
  for (int64_t at = first; at >= 0; at = next_repeat(sequence, at)) ommai_mask_clear(mask, sequence->generated[at]);
}

/* The tokens that the grammar and the list of allowed ones leave; the forced one alone, where there
 * is one. */
static void fill_mask(struct ommai_sequence *sequence, int32_t forced) {
  uint32_t *mask = sequence->mask;
  const struct ommai_token_rules *rules = &sequence->request->rules;
  if (forced >= 0) {
    memset(mask, 0, (size_t)sequence->resources->sizes.mask_words * sizeof *mask);
    ommai_mask_set(mask, forced);
    return;
  }
  if (!ommai_sequence_follows_grammar(sequence)) {
    if (rules->allowed) {
      memcpy(mask, rules->allowed, rules->n_allowed_words * sizeof *mask);
    } else {
      ommai_mask_set_all(mask, sequence->resources->sizes.facts.vocab_size);
    }
    return;
  }
  if (!sequence->matcher.has_copy) {
    ommai_grammar_matcher_mask(&sequence->matcher, sequence->request->ignore_eos, mask);
  }
  for (size_t i = 0; i < rules->n_allowed_words; i++) mask[i] &= rules->allowed[i];
}

/* An answer that is complete by its grammar may end, whatever else is forbidden: nothing may be
 * left but the end. */
static void allow_end(const struct ommai_sequence *sequence, uint32_t *mask) {
  const struct ommai_generation_config *generation = &sequence->request->model->config.generation;
  if (!ommai_sequence_follows_grammar(sequence) || !sequence->matcher.ends || sequence->request->ignore_eos) return;
  for (size_t i = 0; i < generation->n_stop_tokens; i++) ommai_mask_set(mask, generation->stop_tokens[i]);
}

struct ommai_draw ommai_sequence_draw(struct ommai_sequence *sequence, int64_t row, int32_t *banned) {
  const struct omma_request *request = sequence->request;
  int32_t forced = ommai_reasoning_forced_token(&sequence->answer.reasoning, &request->reasoning);
  bool has_mask =
      forced >= 0 || ommai_sequence_follows_grammar(sequence) || request->rules.allowed || first_repeat(sequence) >= 0;
  size_t n_banned = forced >= 0 ? 0 : banned_ends(sequence, banned), n_words = 0;
  if (forced < 0) {
    n_words = ommai_token_rules_ban(&request->rules, sequence->generated, sequence->n_generated, banned + n_banned);
  }
  if (has_mask) {
    fill_mask(sequence, forced);
    for (size_t i = 0; i < n_words; i++) ommai_mask_clear(sequence->mask, banned[n_banned + i]);
    allow_end(sequence, sequence->mask);
    if (forced < 0) clear_repeats(sequence, sequence->mask);
    if (!ommai_grammar_matcher_leaves(sequence->mask, sequence->resources->sizes.mask_words, banned, n_banned)) n_banned = 0;
  } else {
    n_banned += n_words;
  }
  return (struct ommai_draw){.slot = sequence->slot,
                             .row = row,
                             .settings = &request->sampler,
                             .step = sequence->n_generated,
                             .banned = banned,
                             .n_banned = n_banned,
                             .allowed = has_mask ? sequence->mask : NULL,
                             .biases = request->rules.biases,
                             .n_biases = request->rules.n_biases,
                             .wants_logprob = request->logprobs,
                             .n_top = request->n_top_logprobs};
}

/* Whether the token that was just taken is the last one, and why. */
static bool ends_answer(struct ommai_sequence *sequence, int32_t token) {
  struct omma_result *result = &sequence->result;
  if (is_stop_token(sequence, token)) {
    result->finish = OMMA_FINISH_STOP;
    result->stop_token = token;
    return true;
  }
  if (sequence->answer.stop_index >= 0) {
    result->finish = OMMA_FINISH_STOP;
    result->stop_string = sequence->request->stop[sequence->answer.stop_index];
    return true;
  }
  if (ommai_grammar_matcher_is_over(&sequence->matcher, sequence->request->ignore_eos)) {
    result->finish = OMMA_FINISH_STOP;
    return true;
  }
  result->finish = OMMA_FINISH_LENGTH;
  if (sequence->n_generated == sequence->max_generated) return true;
  if (sequence->n_generated < sequence->request->min_tokens) return false;
  if (!ommai_repetition_found(&sequence->repetition, sequence->n_generated)) return false;
  result->finish = OMMA_FINISH_REPETITION;
  return true;
}

static bool notify_client(struct ommai_sequence *sequence, const struct ommai_draw *draw, bool done) {
  size_t n_reasoning = ommai_answer_text_reasoning(&sequence->answer);
  const struct omma_token_event event = {.index = sequence->n_generated - 1,
                                         .token = draw->token,
                                         .reasoning = sequence->answer.held,
                                         .reasoning_size = n_reasoning,
                                         .in_reasoning = sequence->n_generated == sequence->n_reasoning,
                                         .text = sequence->answer.held + n_reasoning,
                                         .text_size = sequence->answer.n_ready - n_reasoning,
                                         .has_logprob = draw->wants_logprob,
                                         .logprob = draw->logprob,
                                         .top = draw->n_top ? draw->top : NULL,
                                         .n_top = draw->n_top,
                                         .last = done,
                                         .finish = sequence->result.finish};
  return !sequence->callbacks.on_token || sequence->callbacks.on_token(sequence->callbacks.context, &event);
}

enum omma_status ommai_sequence_fail_not_finite(const struct ommai_sequence *sequence, struct omma_error *error) {
  return ommai_fail(error, OMMA_ERROR_FORMAT,
                    "the model computes NaN or infinity: look for such weights with `omma verify --model %s`",
                    sequence->resources->model->directory);
}

bool ommai_sequence_wants_rows(const struct ommai_sequence *sequence) {
  const struct omma_request *request = sequence->request;
  return ommai_request_reads(request) && (request->every_token || sequence->n_prefilled == (int64_t)request->n_tokens);
}

static struct ommai_reading reading_of(const struct ommai_read_rows *rows) {
  const struct ommai_sequence *sequence = rows->sequence;
  const struct omma_request *request = sequence->request;
  bool scores = request->kind == OMMA_REQUEST_SCORE;
  struct ommai_reading reading = {.row = rows->first_row + rows->n_rows - 1,
                                  .n_rows = 1,
                                  .tokens = request->score_tokens,
                                  .n_tokens = scores ? sizeof request->score_tokens / sizeof *request->score_tokens : 0,
                                  .out = sequence->read};
  if (!request->every_token) return reading;
  size_t first = (size_t)(sequence->n_prefilled - rows->n_rows);
  reading.row = rows->first_row;
  reading.n_rows = rows->n_rows;
  reading.out = (char *)sequence->read + first * sequence->resources->sizes.facts.state_bytes;
  return reading;
}

enum omma_status ommai_sequences_read(const struct ommai_read_rows *rows, int64_t n, struct omma_error *error) {
  struct ommai_reading readings[OMMAI_MAX_CHUNK_PIECES];
  for (int64_t i = 0; i < n; i++) readings[i] = reading_of(&rows[i]);
  if (n == 0) return OMMA_OK;
  struct ommai_runner *runner = rows[0].sequence->resources->runner;
  return runner->functions->read(runner, readings, n, error);
}

enum omma_status ommai_sequence_hand_vectors(struct ommai_sequence *sequence, bool *over, struct omma_error *error) {
  struct omma_vectors vectors;
  *over = false;
  if (sequence->n_prefilled < (int64_t)sequence->request->n_tokens) return OMMA_OK;
  if (!ommai_request_make_vectors(sequence->request, sequence->read, &vectors)) {
    return ommai_sequence_fail_not_finite(sequence, error);
  }
  sequence->result.finish = OMMA_FINISH_STOP;
  *over = true;
  if (sequence->callbacks.on_vectors) sequence->callbacks.on_vectors(sequence->callbacks.context, &vectors);
  return OMMA_OK;
}

enum omma_status ommai_sequence_hand_embeddings(struct ommai_sequence *sequence, struct omma_error *error) {
  struct omma_embeddings *embeddings;
  OMMAI_TRY(
      ommai_embeddings_share(sequence->request, &sequence->resources->encoder_cache, sequence->encoded, &embeddings, error));
  sequence->result.finish = OMMA_FINISH_STOP;
  if (sequence->callbacks.on_embeddings) {
    sequence->callbacks.on_embeddings(sequence->callbacks.context, embeddings);
  } else {
    omma_embeddings_destroy(embeddings);
  }
  return OMMA_OK;
}

enum omma_status ommai_sequence_take_token(struct ommai_sequence *sequence, const struct ommai_draw *draw, bool *done,
                                           struct omma_error *error) {
  if (!draw->finite) return ommai_sequence_fail_not_finite(sequence, error);
  if (draw->token < 0) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, sequence->request->rules.allowed ? "allowed_token_ids" : "bad_words",
                            "after %lld tokens of the answer, what it must look like, allowed_token_ids and bad_words leave no "
                            "token to go on with",
                            (long long)sequence->n_generated);
  }
  sequence->generated[sequence->n_generated++] = draw->token;
  sequence->result.n_completion_tokens = sequence->n_generated;
  ommai_repetition_take(&sequence->repetition, sequence->generated, sequence->n_generated);
  bool stops = is_stop_token(sequence, draw->token);
  if (ommai_sequence_follows_grammar(sequence) && !stops) {
    OMMAI_TRY(ommai_grammar_matcher_take(&sequence->matcher, sequence->generated + sequence->n_reasoning,
                                           sequence->n_generated - sequence->n_reasoning, error));
  }
  if (stops && !sequence->request->include_stop) {
    ommai_answer_text_shown(&sequence->answer);
    ommai_reasoning_count_token(&sequence->answer.reasoning, &sequence->request->reasoning);
  } else {
    ommai_answer_text_push(&sequence->answer, draw->token, sequence->n_generated > sequence->request->min_tokens);
  }
  sequence->n_reasoning = sequence->result.n_reasoning_tokens = sequence->answer.reasoning.n_tokens;
  *done = ends_answer(sequence, draw->token);
  if (*done) ommai_answer_text_finish(&sequence->answer);
  if (!notify_client(sequence, draw, *done) && !*done) {
    sequence->result.finish = OMMA_FINISH_CANCELLED;
    *done = true;
  }
  return OMMA_OK;
}
