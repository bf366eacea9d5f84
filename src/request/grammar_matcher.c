#include "request/grammar_matcher.h"

#include <string.h>

#include "base/allocator.h"
#include "base/error.h"
#include "base/sized.h"
#include "grammar/answer_grammar.h"
#include "model/model_open.h"
#include "request/request.h"

/* ---- grammars ---- */

/* The model's tree; two that are made at the same time are the same, and the second one goes. */
static enum omma_status find_trie(const struct omma_model *model, struct ommai_token_trie **trie, struct omma_error *error) {
  const struct ommai_generation_config *generation = &model->config.generation;
  struct ommai_token_trie *none = NULL;
  *trie = atomic_load(&model->trie->trie);
  if (*trie) return OMMA_OK;
  OMMAI_TRY(ommai_model_require_tokenizer(model, error));
  OMMAI_TRY(ommai_token_trie_create(model->tokenizer, model->config.text.vocab_size, generation->stop_tokens,
                                    generation->n_stop_tokens, &model->allocator, trie, error));
  if (atomic_compare_exchange_strong(&model->trie->trie, &none, *trie)) return OMMA_OK;
  ommai_token_trie_destroy(*trie);
  *trie = none;
  return OMMA_OK;
}

static int64_t max_work_of(const struct omma_grammar_options *options) {
  const int64_t most = INT64_MAX / OMMAI_GRAMMAR_STEPS_PER_SECOND;
  if (options->max_cpu_ms <= 0) return OMMAI_GRAMMAR_MAX_WORK;
  return (options->max_cpu_ms < most ? options->max_cpu_ms : most) * OMMAI_GRAMMAR_STEPS_PER_SECOND / 1000;
}

enum omma_status omma_grammar_create(const struct omma_model *model, const struct omma_grammar_options *options,
                                     struct omma_grammar **out, struct omma_error *error) {
  static const enum ommai_answer_kind kinds[] = {[OMMA_GRAMMAR_JSON_SCHEMA] = OMMAI_ANSWER_JSON_SCHEMA,
                                                 [OMMA_GRAMMAR_JSON_OBJECT] = OMMAI_ANSWER_JSON_OBJECT,
                                                 [OMMA_GRAMMAR_REGEX] = OMMAI_ANSWER_REGEX,
                                                 [OMMA_GRAMMAR_CHOICE] = OMMAI_ANSWER_CHOICE,
                                                 [OMMA_GRAMMAR_GBNF] = OMMAI_ANSWER_GBNF};
  struct ommai_token_trie *trie;
  OMMAI_TAKE_OPTIONS(omma_grammar_options, options, error);
  if (!model) return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "model", "grammar: there is no model");
  if ((unsigned)options->kind >= sizeof kinds / sizeof kinds[0]) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "kind", "unknown kind of grammar: %d", (int)options->kind);
  }
  OMMAI_TRY(find_trie(model, &trie, error));
  struct omma_grammar *grammar = ommai_allocate(&model->allocator, 1, sizeof *grammar);
  if (!grammar) return ommai_fail_memory(error, "grammar", sizeof *grammar);
  atomic_init(&grammar->users, 1);
  grammar->model = model;
  const struct ommai_grammar_source source = {.kind = kinds[options->kind],
                                              .text = options->text,
                                              .size = options->text_size,
                                              .compact = options->compact_json,
                                              .max_work = max_work_of(options)};
  enum omma_status status =
      ommai_answer_grammar_create(&source, ommai_mapped_instead(&model->allocator), &grammar->grammar, error);
  grammar->max_work = source.max_work;
  if (status == OMMA_OK) status = ommai_token_masks_create(grammar->grammar, trie, grammar->max_work, &grammar->masks, error);
  if (status == OMMA_OK) {
    *out = grammar;
  } else {
    omma_grammar_destroy(grammar);
  }
  return status;
}

static void destroy_tables(struct omma_grammar *tables) {
  ommai_token_masks_destroy(tables->masks);
  ommai_release(&tables->model->allocator, tables, 1, sizeof *tables);
}

enum omma_status ommai_grammar_prepare(struct omma_grammar *grammar, int index, struct omma_error *error) {
  struct omma_grammar *none = NULL;
  if (ommai_grammar_of_engine(grammar, index) || !grammar) return OMMA_OK;
  struct omma_grammar *tables = ommai_allocate(&grammar->model->allocator, 1, sizeof *tables);
  if (!tables) return ommai_fail_memory(error, "grammar", sizeof *tables);
  tables->model = grammar->model;
  const struct ommai_token_trie *trie = atomic_load(&grammar->model->trie->trie);
  enum omma_status status = ommai_token_masks_create(grammar->grammar, trie, grammar->max_work, &tables->masks, error);
  if (status == OMMA_OK && atomic_compare_exchange_strong(&grammar->of_engine[index], &none, tables)) return OMMA_OK;
  destroy_tables(tables);
  return status;
}

struct omma_grammar *ommai_grammar_of_engine(struct omma_grammar *grammar, int index) {
  return grammar && index > 0 ? atomic_load(&grammar->of_engine[index]) : grammar;
}

void omma_grammar_destroy(struct omma_grammar *grammar) {
  if (!grammar || atomic_fetch_sub(&grammar->users, 1) != 1) return;
  for (int i = 1; i < OMMAI_MAX_ENGINES; i++) {
    struct omma_grammar *tables = atomic_load(&grammar->of_engine[i]);
    if (tables) destroy_tables(tables);
  }
  ommai_token_masks_destroy(grammar->masks);
  ommai_grammar_destroy(grammar->grammar);
  ommai_release(&grammar->model->allocator, grammar, 1, sizeof *grammar);
}

size_t omma_grammar_bytes(const struct omma_grammar *grammar) {
  size_t bytes = sizeof *grammar + ommai_grammar_bytes(grammar->grammar) + ommai_token_masks_bytes(grammar->masks);
  for (int i = 1; i < OMMAI_MAX_ENGINES; i++) {
    const struct omma_grammar *tables = atomic_load(&grammar->of_engine[i]);
    if (tables) bytes += sizeof *tables + ommai_token_masks_bytes(tables->masks);
  }
  return bytes;
}

bool omma_grammar_is_shared(const struct omma_grammar *grammar) { return atomic_load(&grammar->users) > 1; }

struct omma_grammar *omma_grammar_share(struct omma_grammar *grammar) {
  if (grammar) atomic_fetch_add(&grammar->users, 1);
  return grammar;
}

/* ---- answers ---- */

/* A position that no table knows. */
static const struct ommai_mask_position NOWHERE = {-1, OMMAI_STATE_DEAD};

void ommai_grammar_matcher_start(struct ommai_grammar_matcher *matcher, struct omma_grammar *grammar) {
  *matcher = (struct ommai_grammar_matcher){.grammar = grammar, .position = NOWHERE, .found = NOWHERE};
}

/* False: as ommai_token_masks_try_advance. */
static bool try_advance(const struct omma_grammar *grammar, struct ommai_mask_position *position, int32_t token,
                        bool may_flush) {
  const char *bytes;
  size_t size;
  bool is_special;
  if (!ommai_tokenizer_token_bytes(grammar->model->tokenizer, token, &bytes, &size, &is_special) || is_special) {
    position->state = OMMAI_STATE_DEAD;
    return true;
  }
  return ommai_token_masks_try_advance(grammar->masks, position, bytes, size, may_flush);
}

/* Other answers may have filled the tables: then the place is found again by the answer's tokens.
 * False: that takes too long, or there is no room for it; what was found is kept. */
static bool find_again(struct ommai_grammar_matcher *matcher, const int32_t *generated, int64_t n_generated, bool may_flush) {
  struct ommai_token_masks *masks = matcher->grammar->masks;
  if (ommai_token_masks_know(masks, &matcher->position)) return true;
  if (!ommai_token_masks_know(masks, &matcher->found)) {
    matcher->found = ommai_token_masks_start(masks);
    matcher->n_found = 0;
    if (matcher->found.state == OMMAI_STATE_FULL) matcher->found = NOWHERE;
  }
  if (!ommai_token_masks_know(masks, &matcher->found)) return false;
  for (; matcher->n_found < n_generated && matcher->found.state >= 0; matcher->n_found++) {
    if (!try_advance(matcher->grammar, &matcher->found, generated[matcher->n_found], may_flush)) return false;
  }
  matcher->position = matcher->found;
  matcher->found = NOWHERE;
  return true;
}

bool ommai_grammar_matcher_is_ready(const struct ommai_grammar_matcher *matcher) {
  const struct ommai_token_masks *masks = matcher->grammar->masks;
  if (!matcher->begun) return true;
  if (!ommai_token_masks_know(masks, &matcher->position)) return false;
  return matcher->position.state < 0 || matcher->has_copy || ommai_token_masks_remember(masks, &matcher->position);
}

enum omma_status ommai_grammar_matcher_take(struct ommai_grammar_matcher *matcher, const int32_t *generated,
                                            int64_t n_generated, struct omma_error *error) {
  const struct ommai_token_masks *masks = matcher->grammar->masks;
  (void)find_again(matcher, generated, n_generated - 1, true);
  matcher->begun = true;
  matcher->has_copy = false;
  /* the bytes are those of a token that its mask allows: the way is known */
  if (!matcher->stuck && matcher->position.state >= 0) {
    (void)try_advance(matcher->grammar, &matcher->position, generated[n_generated - 1], true);
  }
  if (!matcher->stuck && matcher->position.state >= 0) {
    matcher->ends = ommai_token_masks_ends(masks, &matcher->position);
    matcher->goes_on = ommai_token_masks_goes_on(masks, &matcher->position);
    return OMMA_OK;
  }
  return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "structured_outputs",
                          "the vocabulary has no token that goes on with the answer as its grammar wants it");
}

bool ommai_grammar_matcher_is_over(const struct ommai_grammar_matcher *matcher, bool ignore_eos) {
  if (!matcher->grammar || matcher->goes_on || !matcher->ends) return false;
  return ignore_eos || matcher->grammar->model->config.generation.n_stop_tokens == 0;
}

void ommai_grammar_matcher_mask(struct ommai_grammar_matcher *matcher, bool ignore_eos, uint32_t *mask) {
  const struct ommai_model_config *config = &matcher->grammar->model->config;
  const struct ommai_token_masks *masks = matcher->grammar->masks;
  size_t n_bytes = (size_t)ommai_mask_words(config->text.vocab_size) * sizeof *mask;
  struct ommai_mask_view view = {.words = NULL};
  if (!matcher->begun) {
    view = ommai_token_masks_first(masks);
  } else if (matcher->position.state >= 0) {
    view = ommai_token_masks_recall(masks, &matcher->position);
  }
  bool goes_on = view.goes_on;
  matcher->ends = view.ends;
  if (view.words) memcpy(mask, view.words, n_bytes);
  for (size_t i = 0; goes_on && ignore_eos && i < config->generation.n_stop_tokens; i++) {
    ommai_mask_clear(mask, config->generation.stop_tokens[i]);
  }
  bool can_end = matcher->ends && !ignore_eos && config->generation.n_stop_tokens > 0;
  matcher->stuck = !goes_on && !can_end;
  if (matcher->stuck) memset(mask, 0xff, n_bytes);
}

bool ommai_grammar_matcher_leaves(uint32_t *mask, int64_t n_words, const int32_t *banned, size_t n_banned) {
  bool had[OMMAI_MAX_STOP_TOKENS + OMMAI_REQUEST_MAX_STOP_TOKENS];
  uint32_t left = 0;
  for (size_t i = 0; i < n_banned; i++) {
    had[i] = ommai_mask_has(mask, banned[i]);
    ommai_mask_clear(mask, banned[i]);
  }
  for (int64_t i = 0; i < n_words; i++) left |= mask[i];
  for (size_t i = 0; i < n_banned; i++) {
    if (had[i]) ommai_mask_set(mask, banned[i]);
  }
  return left != 0;
}

/* ---- ahead of the draw ---- */

enum { MAX_TAIL = 32, MAX_FORCED = 96, MAX_IDS = 3 * (MAX_TAIL + MAX_FORCED) };
/* Steps of work for a draft: the engine waits for it. */
enum { MAX_DRAFT_WORK = 20000 };

static bool continues(char byte) { return ((unsigned char)byte & 0xc0) == 0x80; }

/* The end of the answer's text, from a character's beginning on; returns its size. */
static size_t write_tail(const struct ommai_grammar_matcher *matcher, const int32_t *generated, int64_t n_generated,
                         char tail[MAX_TAIL]) {
  size_t used = 0, first = 0;
  while (n_generated-- > 0) {
    const char *bytes;
    size_t size;
    bool known = ommai_tokenizer_token_bytes(matcher->grammar->model->tokenizer, generated[n_generated], &bytes, &size, NULL);
    if (!known || size > MAX_TAIL - used) break;
    memmove(tail + size, tail, used);
    memcpy(tail, bytes, size);
    used += size;
  }
  while (first < used && continues(tail[first])) first++;
  memmove(tail, tail + first, used - first);
  return used - first;
}

/* The size of the text without a last character that is cut off. */
static size_t whole_size(const char *text, size_t size) {
  size_t at = size;
  while (at > 0 && continues(text[at - 1])) at--;
  if (at == 0 || (unsigned char)text[at - 1] < 0xc0) return at == size ? size : 0;
  unsigned char lead = (unsigned char)text[at - 1];
  size_t length = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  return size - (at - 1) >= length ? size : at - 1;
}

/* The tokens of text [size] that begin at byte `from` or after it; 0 where one lies across it. */
static int64_t cut(const struct ommai_tokenizer *tokenizer, const char *text, size_t size, size_t from, int64_t max_tokens,
                   int32_t *tokens) {
  int32_t ids[MAX_IDS];
  size_t n_ids, at = 0;
  int64_t n = 0;
  if (ommai_tokenizer_encode(tokenizer, text, size, false, ids, MAX_IDS, &n_ids, NULL) != OMMA_OK) return 0;
  for (size_t i = 0; i < n_ids && n < max_tokens; i++) {
    const char *bytes;
    size_t length;
    if (at < from && n) return 0;
    if (at >= from) tokens[n++] = ids[i];
    if (!ommai_tokenizer_token_bytes(tokenizer, ids[i], &bytes, &length, NULL)) return 0;
    if (at < from && at + length > from) return 0;
    at += length;
  }
  return n;
}

int64_t ommai_grammar_matcher_draft(struct ommai_grammar_matcher *matcher, const int32_t *generated, int64_t n_generated,
                                    int64_t max_tokens, int32_t *tokens) {
  char text[MAX_TAIL + MAX_FORCED], forced[MAX_FORCED];
  if (!matcher->grammar || max_tokens < 1) return 0;
  struct ommai_token_masks *masks = matcher->grammar->masks;
  if (!ommai_token_masks_know(masks, &matcher->position) || matcher->position.state < 0) return 0;
  ommai_token_masks_limit(masks, MAX_DRAFT_WORK);
  size_t n_forced = ommai_token_masks_forced(masks, &matcher->position, forced, MAX_FORCED);
  ommai_token_masks_unlimited(masks);
  n_forced = whole_size(forced, n_forced);
  if (n_forced == 0) return 0;
  const struct ommai_tokenizer *tokenizer = matcher->grammar->model->tokenizer;
  size_t n_tail = write_tail(matcher, generated, n_generated, text);
  memcpy(text + n_tail, forced, n_forced);
  int64_t n = cut(tokenizer, text, n_tail + n_forced, n_tail, max_tokens, tokens);
  return n ? n : cut(tokenizer, forced, n_forced, 0, max_tokens, tokens);
}

bool ommai_grammar_matcher_needs_mask(const struct ommai_grammar_matcher *matcher, int64_t n_draft) {
  return n_draft > 0 || !ommai_grammar_matcher_is_ready(matcher);
}

/* False: not done. */
static bool make(const struct ommai_mask_wish *wish, bool alone) {
  struct ommai_grammar_matcher *matcher = wish->matcher;
  struct ommai_token_masks *masks = matcher->grammar->masks;
  if (!find_again(matcher, wish->generated, wish->n_generated, alone)) return false;
  if (matcher->begun && matcher->position.state >= 0 && !ommai_token_masks_make(masks, &matcher->position, alone)) return false;
  if (wish->mask) ommai_grammar_matcher_mask(matcher, wish->ignore_eos, wish->mask);
  matcher->has_copy = wish->mask != NULL;
  struct ommai_mask_position position = matcher->position;
  for (int64_t i = 0; i < wish->n_draft && position.state >= 0; i++) {
    if (!try_advance(matcher->grammar, &position, wish->draft[i], false) || position.state < 0 ||
        !ommai_token_masks_make(masks, &position, false)) {
      break;
    }
  }
  return true;
}

bool ommai_grammar_matcher_make(const struct ommai_mask_wish *wish, int64_t max_work, bool alone, int64_t *work) {
  ommai_token_masks_limit(wish->matcher->grammar->masks, max_work);
  bool done = make(wish, alone);
  *work += ommai_token_masks_unlimited(wish->matcher->grammar->masks);
  return done;
}
