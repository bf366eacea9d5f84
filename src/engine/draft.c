#include "engine/draft.h"

#include "base/checked.h"
#include "engine/sequence.h"

/* Drafts pay from this share of right tokens on. It is a running mean, in which one draft has this
 * weight. Below it nothing is drafted for PAUSE steps. */
#define MIN_SHARE 0.25f
#define WEIGHT 0.2f
#define FIRST_SHARE 0.5f
enum { PAUSE = 32 };

/* Token `at` of prompt and answer as one text. */
static int32_t token_at(const struct ommai_sequence *sequence, int64_t at) {
  int64_t n_prompt = (int64_t)sequence->request->n_tokens;
  return at < n_prompt ? sequence->request->ids[at] : sequence->generated[at - n_prompt];
}

static bool is_image(const struct ommai_sequence *sequence, int64_t at) {
  return at < (int64_t)sequence->request->n_tokens && sequence->request->tokens[at].image >= 0;
}

/* How many tokens before `end` equal those before n, at most `max_tokens`. */
static int64_t run_length(const struct ommai_sequence *sequence, int64_t end, int64_t n, int64_t max_tokens) {
  int64_t length = 0;
  while (length < max_tokens && length < end && token_at(sequence, end - 1 - length) == token_at(sequence, n - 1 - length))
    length++;
  return length;
}

static bool rests(struct ommai_draft_record *record) {
  if (record->pause == 0) return false;
  record->pause--;
  return true;
}

int64_t ommai_draft_look_up(struct ommai_sequence *sequence, int64_t max_tokens, int32_t *tokens) {
  const struct ommai_engine_sizes *sizes = &sequence->resources->sizes;
  int64_t n = (int64_t)sequence->request->n_tokens + sequence->n_generated, best = 0, best_length = sizes->lookup_min - 1;
  if (max_tokens < 1 || rests(&sequence->draft)) return 0;
  /* the latest of equally long runs */
  for (int64_t end = n - 1; end > 0 && best_length < sizes->lookup_max; end--) {
    int64_t length = run_length(sequence, end, n, sizes->lookup_max);
    if (length <= best_length) continue;
    best = end;
    best_length = length;
  }
  if (best == 0) return 0;
  int64_t count = 0;
  while (count < max_tokens && best + count < n && !is_image(sequence, best + count)) {
    tokens[count] = token_at(sequence, best + count);
    count++;
  }
  return count;
}

int64_t ommai_draft_force(struct ommai_sequence *sequence, int64_t max_tokens, int32_t *tokens) {
  if (!ommai_sequence_follows_grammar(sequence) || rests(&sequence->forced)) return 0;
  return ommai_grammar_matcher_draft(&sequence->matcher, sequence->generated + sequence->n_reasoning,
                                     sequence->n_generated - sequence->n_reasoning, max_tokens, tokens);
}

int64_t ommai_draft_of_head(struct ommai_sequence *sequence, int64_t max_tokens, int32_t *tokens) {
  const struct ommai_head_draft *draft = &sequence->head_draft;
  int64_t n = draft->after == sequence->n_generated ? ommai_max_i64(ommai_min_i64(draft->n, max_tokens), 0) : 0;
  for (int64_t i = 0; i < n; i++) tokens[i] = draft->tokens[i];
  return n;
}

int64_t ommai_draft_head_wanted(struct ommai_sequence *sequence) {
  int64_t n = ommai_min_i64(sequence->resources->sizes.draft_tokens, ommai_draft_room(sequence));
  return n < 1 || rests(&sequence->draft) ? 0 : n;
}

int64_t ommai_draft_room(const struct ommai_sequence *sequence) {
  int64_t place = (int64_t)sequence->request->n_tokens + sequence->n_generated;
  int64_t room = sequence->state.n_pages * OMMA_ATTENTION_PAGE_TOKENS - place;
  int64_t left = sequence->max_generated - sequence->n_generated - 1;
  return ommai_min_i64(ommai_min_i64(room, left), OMMA_MAX_DRAFT_TOKENS);
}

void ommai_draft_record_hits(struct ommai_draft_record *record, int64_t n_drafted, int64_t n_right) {
  if (n_drafted == 0) return;
  if (record->share == 0) record->share = FIRST_SHARE;
  record->share += WEIGHT * ((float)n_right / (float)n_drafted - record->share);
  if (record->share >= MIN_SHARE) return;
  *record = (struct ommai_draft_record){.share = FIRST_SHARE, .pause = PAUSE};
}
