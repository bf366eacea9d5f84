#include "engine/decode_lane.h"

#include "base/allocator.h"
#include "base/checked.h"
#include "base/error.h"
#include "engine/draft.h"

size_t ommai_decode_lane_bytes(const struct ommai_engine_sizes *sizes) {
  return (size_t)sizes->limits.max_rows * sizeof(struct ommai_step_row) +
         (size_t)sizes->limits.max_sequences *
             (sizeof(struct ommai_draw) + sizeof(struct ommai_draft) + sizeof(struct ommai_decode_entry) +
              sizeof(struct ommai_mask_wish) + sizeof(int64_t) + OMMAI_SEQUENCE_MAX_BANNED * sizeof(int32_t)) +
         ommai_mask_worker_bytes(sizes->limits.max_sequences);
}

enum omma_status ommai_decode_lane_init(struct ommai_decode_lane *lane, struct ommai_resources *resources,
                                        struct omma_error *error) {
  const struct omma_allocator *allocator = &resources->model->allocator;
  const struct ommai_runner_limits *limits = &resources->sizes.limits;
  size_t n = (size_t)limits->max_sequences;
  *lane = (struct ommai_decode_lane){.resources = resources};
  lane->rows = ommai_allocate(allocator, (size_t)limits->max_rows, sizeof *lane->rows);
  lane->entries = ommai_allocate(allocator, n, sizeof *lane->entries);
  lane->draws = ommai_allocate(allocator, n, sizeof *lane->draws);
  lane->drafts = ommai_allocate(allocator, n, sizeof *lane->drafts);
  lane->drawn = ommai_allocate(allocator, n, sizeof *lane->drawn);
  lane->banned = ommai_allocate(allocator, n * OMMAI_SEQUENCE_MAX_BANNED, sizeof *lane->banned);
  lane->mask_wishes = ommai_allocate(allocator, n, sizeof *lane->mask_wishes);
  if (lane->rows && lane->entries && lane->draws && lane->drafts && lane->drawn && lane->banned && lane->mask_wishes) {
    return ommai_mask_worker_init(&lane->mask_worker, (int64_t)n, allocator, error);
  }
  return ommai_fail_memory(error, "decode", ommai_decode_lane_bytes(&resources->sizes));
}

void ommai_decode_lane_free(struct ommai_decode_lane *lane) {
  if (!lane->resources) return;
  const struct omma_allocator *allocator = &lane->resources->model->allocator;
  const struct ommai_runner_limits *limits = &lane->resources->sizes.limits;
  size_t n = (size_t)limits->max_sequences;
  ommai_mask_worker_free(&lane->mask_worker);
  ommai_release(allocator, lane->mask_wishes, n, sizeof *lane->mask_wishes);
  ommai_release(allocator, lane->rows, (size_t)limits->max_rows, sizeof *lane->rows);
  ommai_release(allocator, lane->entries, n, sizeof *lane->entries);
  ommai_release(allocator, lane->draws, n, sizeof *lane->draws);
  ommai_release(allocator, lane->drafts, n, sizeof *lane->drafts);
  ommai_release(allocator, lane->drawn, n, sizeof *lane->drawn);
  ommai_release(allocator, lane->banned, n * OMMAI_SEQUENCE_MAX_BANNED, sizeof *lane->banned);
}

/* Token `index` of the sequence's answer as an input. */
static struct ommai_step_row row_of(struct ommai_sequence *sequence, int64_t index, int32_t token, enum ommai_row_kind kind) {
  return (struct ommai_step_row){.slot = sequence->slot,
                                 .token = token,
                                 .position = sequence->request->next_position + (int32_t)index,
                                 .index = (int64_t)sequence->request->n_tokens + index,
                                 .pages = ommai_held_state_rows(&sequence->state, sequence->resources->pool, kind)};
}

/* n tokens of the answer whose state is still missing, into rows. */
static void add_rows(struct ommai_sequence *sequence, int64_t n, struct ommai_step_row *rows) {
  for (int64_t i = 0; i < n; i++) {
    int64_t at = sequence->n_decoded + i;
    rows[i] = row_of(sequence, at, sequence->generated[at], i ? OMMAI_ROW_GO_ON : OMMAI_ROW_BEGIN);
  }
}

/* A draft is worth no page of anybody's: it ends with the pages that are there, and takes rows that
 * nobody has in this step. What a grammar leaves is a better draft than a repetition of earlier
 * text. */
static int64_t make_draft(struct ommai_decode_entry *entry, const struct ommai_engine_sizes *sizes, int64_t n_free_rows) {
  struct ommai_sequence *sequence = entry->sequence;
  int64_t max_tokens = ommai_min_i64(n_free_rows, ommai_draft_room(sequence));
  int64_t n_forced = ommai_draft_force(sequence, max_tokens, entry->draft);
  entry->forced = n_forced > 0;
  int64_t n = n_forced;
  if (!entry->forced) {
    int64_t (*look)(struct ommai_sequence *, int64_t, int32_t *) = sizes->drafter ? ommai_draft_of_head : ommai_draft_look_up;
    n = look(sequence, ommai_min_i64(sizes->draft_tokens, max_tokens), entry->draft);
  }
  return n && ommai_state_pool_take_draft(sequence->resources->pool, &sequence->state) ? n : 0;
}

/* Tokens before the last one whose state a wrong draft left behind, where the step has rows for
 * them; otherwise they are computed now. */
static enum omma_status catch_up(struct ommai_decode_lane *lane, struct ommai_sequence *sequence, int64_t *n_free_rows,
                                 struct omma_error *error) {
  int64_t n = ommai_decode_lane_replay_count(sequence);
  if (n > *n_free_rows) return ommai_decode_lane_replay(lane, sequence, error);
  *n_free_rows -= n;
  return OMMA_OK;
}

static struct ommai_mask_wish wish_of(const struct ommai_decode_entry *entry) {
  struct ommai_sequence *sequence = entry->sequence;
  return (struct ommai_mask_wish){.matcher = &sequence->matcher,
                                  .generated = sequence->generated + sequence->n_reasoning,
                                  .n_generated = sequence->n_generated - sequence->n_reasoning,
                                  .draft = entry->draft,
                                  .n_draft = entry->n_draft,
                                  .ignore_eos = sequence->request->ignore_eos,
                                  .mask = sequence->mask};
}

/* Has the masks of the next tokens made while the network runs. */
static void begin_masks(struct ommai_decode_lane *lane, int64_t n) {
  int64_t n_wishes = 0, work = 0;
  for (int64_t i = 0; i < n; i++) {
    if (!ommai_sequence_follows_grammar(lane->entries[i].sequence)) continue;
    struct ommai_mask_wish wish = wish_of(&lane->entries[i]);
    if (ommai_grammar_matcher_needs_mask(wish.matcher, wish.n_draft)) {
      lane->mask_wishes[n_wishes++] = wish;
    } else {
      (void)ommai_grammar_matcher_make(&wish, OMMAI_MASK_STEP_WORK, false, &work); /* copies it */
    }
  }
  ommai_mask_worker_begin(&lane->mask_worker, lane->mask_wishes, n_wishes, ommai_mask_step_work(n, lane->step_ns));
}

int64_t ommai_decode_lane_sort(struct ommai_decode_lane *lane, int64_t n) {
  struct ommai_decode_entry *entries = lane->entries;
  int64_t n_ready = 0;
  for (int64_t i = 0; i < n; i++) {
    entries[i].n_draft = 0;
    entries[i].sits_out = false;
  }
  if (!ommai_state_pool_has_snapshots(lane->resources->pool)) return n;
  begin_masks(lane, n);
  ommai_mask_worker_wait(&lane->mask_worker);
  for (int64_t i = 0; i < n; i++) {
    struct ommai_sequence *sequence = entries[i].sequence;
    entries[i].sits_out = true;
    if (!ommai_sequence_can_draw(sequence)) continue;
    entries[i].sequence = entries[n_ready].sequence;
    entries[n_ready].sequence = sequence;
    entries[n_ready++].sits_out = false;
  }
  return n_ready;
}

enum omma_status ommai_decode_lane_step(struct ommai_decode_lane *lane, int64_t n, struct omma_error *error) {
  struct ommai_resources *resources = lane->resources;
  int64_t n_rows = 0, n_free_rows = resources->sizes.limits.drawn_rows - n;
  for (int64_t i = 0; i < n; i++) OMMAI_TRY(catch_up(lane, lane->entries[i].sequence, &n_free_rows, error));
  for (int64_t i = 0; i < n; i++) {
    struct ommai_decode_entry *entry = &lane->entries[i];
    struct ommai_sequence *sequence = entry->sequence;
    int64_t next = sequence->n_generated, n_missing = next - sequence->n_decoded;
    entry->place = (int64_t)sequence->request->n_tokens + next - 1;
    entry->ended = false;
    entry->n_draft = make_draft(entry, &resources->sizes, n_free_rows);
    add_rows(sequence, n_missing, lane->rows + n_rows);
    n_rows += n_missing;
    entry->first_row = n_rows - 1;
    for (int64_t j = 0; j < entry->n_draft; j++) {
      lane->rows[n_rows++] = row_of(sequence, next + j, entry->draft[j], j ? OMMAI_ROW_DRAFT : OMMAI_ROW_FORK);
    }
    n_free_rows -= entry->n_draft;
    resources->stats.n_drafts += entry->n_draft > 0;
    resources->stats.draft_tokens += entry->n_draft;
  }
  begin_masks(lane, n);
  enum omma_status status = resources->runner->functions->decode(resources->runner, lane->rows, n_rows, true, error);
  ommai_mask_worker_wait(&lane->mask_worker);
  for (int64_t i = 0; i < n && status == OMMA_OK; i++) {
    struct ommai_decode_entry *entry = &lane->entries[i];
    struct ommai_sequence *sequence = entry->sequence;
    entry->open = ommai_sequence_can_draw(sequence);
    entry->sits_out = !entry->open;
    ommai_state_pool_go_on(resources->pool, &sequence->state);
    sequence->n_decoded = sequence->n_generated - 1; /* the last one counts as it is drawn from */
  }
  return status;
}

int64_t ommai_decode_lane_group(const struct ommai_decode_lane *lane, int64_t first, int64_t n) {
  const struct ommai_decode_entry *entries = lane->entries;
  int64_t end = first + 1, end_row = entries[first].first_row + lane->resources->sizes.facts.draw_rows;
  while (end < n && entries[end].first_row + entries[end].n_draft < end_row) end++;
  return end;
}

/* Whether the next token's mask is there. After a right draft token it may not be: then those
 * before the last right one count, and that one is computed again. */
static bool goes_on(struct ommai_decode_entry *entry, int64_t round) {
  struct ommai_sequence *sequence = entry->sequence;
  if (round == 0 || ommai_sequence_can_draw(sequence)) return true;
  ommai_draft_record_hits(entry->forced ? &sequence->forced : &sequence->draft, round, round);
  ommai_sequence_settle_drafts(sequence, entry->n_draft, round - 1);
  return false;
}

enum omma_status ommai_decode_lane_draw(struct ommai_decode_lane *lane, int64_t first, int64_t end, int64_t round,
                                        int64_t *n_drawn, struct omma_error *error) {
  struct ommai_runner *runner = lane->resources->runner;
  int64_t count = 0;
  for (int64_t i = first; i < end; i++) {
    struct ommai_decode_entry *entry = &lane->entries[i];
    if (entry->open) entry->open = goes_on(entry, round);
    if (!entry->open) continue;
    entry->sequence->n_decoded++;
    lane->drawn[count] = i;
    lane->draws[count] =
        ommai_sequence_draw(entry->sequence, entry->first_row + round, lane->banned + count * OMMAI_SEQUENCE_MAX_BANNED);
    count++;
  }
  *n_drawn = count;
  return runner->functions->draw(runner, OMMAI_DRAW_FROM_STEP, lane->draws, count, error);
}

void ommai_decode_lane_close(struct ommai_decode_lane *lane, struct ommai_decode_entry *entry, int64_t round, int32_t token,
                             bool ended) {
  bool right = round < entry->n_draft && entry->draft[round] == token;
  lane->resources->stats.accepted_tokens += right;
  if (right) lane->resources->stats.accepted_by_place[round]++;
  entry->open = right && !ended;
  entry->ended = ended;
  if (entry->open || ended) return;
  struct ommai_sequence *sequence = entry->sequence;
  ommai_draft_record_hits(entry->forced ? &sequence->forced : &sequence->draft, entry->n_draft, round);
  ommai_sequence_settle_drafts(sequence, entry->n_draft, round);
}

void ommai_decode_lane_end(struct ommai_decode_lane *lane, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    struct ommai_decode_entry *entry = &lane->entries[i];
    /* ended ones are gone, and taken ones get their turn first */
    if (!entry->sits_out || ommai_sequence_sits_out(entry->sequence)) continue;
    entry->n_draft = 0;
    struct ommai_mask_wish wish = wish_of(entry);
    wish.mask = NULL;
    ommai_mask_worker_add_late(&lane->mask_worker, &wish);
  }
}

enum omma_status ommai_decode_lane_first(struct ommai_decode_lane *lane, struct ommai_sequence *const *sequences,
                                         const int64_t *last_rows, int64_t n, struct omma_error *error) {
  struct ommai_runner *runner = lane->resources->runner;
  for (int64_t i = 0; i < n; i++) {
    ommai_mask_worker_recall(&lane->mask_worker, sequences[i]->matcher.grammar);
    lane->draws[i] = ommai_sequence_draw(sequences[i], last_rows[i], lane->banned + i * OMMAI_SEQUENCE_MAX_BANNED);
  }
  return runner->functions->draw(runner, OMMAI_DRAW_FROM_CHUNK, lane->draws, n, error);
}

int64_t ommai_decode_lane_replay_count(const struct ommai_sequence *sequence) {
  return ommai_min_i64(OMMAI_REPLAY_ROWS, ommai_max_i64(sequence->n_generated - 1 - sequence->n_decoded, 0));
}

/* ---- the draft head, or draft model ---- */

/* Rows of the sequence from `row` on, which is at place head_end, to the draft head: those before
 * the last token, or before `end`. */
static struct ommai_draft show(struct ommai_sequence *sequence, int64_t row, int64_t end, int64_t n_wanted) {
  const struct omma_request *request = sequence->request;
  int64_t n_prompt = (int64_t)request->n_tokens, first = sequence->head_end, ahead = first - n_prompt;
  struct ommai_draft draft = {.slot = sequence->slot,
                              .row = row,
                              .n_rows = end - first,
                              .next = sequence->generated + ahead + 1,
                              .index = first,
                              .pages = ommai_held_state_rows(&sequence->state, sequence->resources->pool, OMMAI_ROW_BEGIN),
                              .settings = &request->sampler,
                              .step = sequence->n_generated,
                              .n_tokens = n_wanted,
                              .tokens = sequence->head_draft.tokens};
  for (int axis = 0; axis < 3; axis++) {
    draft.position[axis] = ahead < 0 ? request->tokens[first].position[axis] : request->next_position + (int32_t)ahead;
  }
  sequence->head_end = end;
  sequence->head_draft.after = sequence->n_generated;
  sequence->head_draft.n = n_wanted;
  return draft;
}

/* Up to the token before the last one. */
static int64_t known_end(const struct ommai_sequence *sequence) {
  return (int64_t)sequence->request->n_tokens + sequence->n_generated - 1;
}

/* A draft model is shown rows late, some together, unless it is to draft after them: then it has to
 * have seen all. False: it is shown nothing now. *n_rows: rows that it has room for. */
static bool show_model(struct ommai_sequence *sequence, int64_t n_wanted, int64_t *n_rows, struct ommai_draft *draft) {
  int64_t n_missing = known_end(sequence) - sequence->head_end, n = ommai_min_i64(n_missing, OMMAI_REPLAY_ROWS);
  if (n < n_missing) n_wanted = 0;
  if (n > *n_rows || ommai_draft_room(sequence) < 0 || (n_wanted == 0 && n < OMMAI_REPLAY_ROWS)) return false;
  *n_rows -= n;
  *draft = show(sequence, 0, sequence->head_end + n, n_wanted);
  return true;
}

static bool has_model(const struct ommai_decode_lane *lane) {
  return lane->resources->sizes.facts.drafter == OMMAI_DRAFT_MODEL;
}

static bool has_drafts(const struct ommai_decode_lane *lane, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    if (lane->entries[i].n_draft > 0) return true;
  }
  return false;
}

static enum omma_status run_head(struct ommai_decode_lane *lane, enum ommai_draw_from from, int64_t n,
                                 struct omma_error *error) {
  struct ommai_runner *runner = lane->resources->runner;
  int64_t start = ommai_resources_now(lane->resources);
  enum omma_status status = n ? runner->functions->draft(runner, from, lane->drafts, n, error) : OMMA_OK;
  lane->draft_ns = ommai_resources_now(lane->resources) - start;
  return status;
}

enum omma_status ommai_decode_lane_draft(struct ommai_decode_lane *lane, int64_t n, int64_t n_tokens, int64_t ns,
                                         struct omma_error *error) {
  int64_t count = 0, n_rows = lane->resources->sizes.limits.max_rows;
  if (!lane->resources->sizes.drafter) return OMMA_OK;
  bool drafted = has_drafts(lane, n);
  ommai_draft_gain_record(&lane->gain, n, drafted, ns + (drafted ? lane->draft_ns : 0), n_tokens);
  lane->resources->stats.draft_gain = ommai_draft_gain_of(&lane->gain, n);
  bool pays = ommai_draft_gain_choose(&lane->gain, n);
  for (int64_t i = 0; i < n; i++) {
    const struct ommai_decode_entry *entry = &lane->entries[i];
    if (entry->ended || known_end(entry->sequence) <= entry->sequence->head_end) continue;
    struct ommai_sequence *sequence = entry->sequence;
    int64_t row = entry->first_row + sequence->head_end - entry->place;
    int64_t n_wanted = pays ? ommai_draft_head_wanted(sequence) : 0;
    if (has_model(lane)) {
      count += show_model(sequence, n_wanted, &n_rows, &lane->drafts[count]);
    } else {
      lane->drafts[count++] = show(sequence, row, known_end(sequence), n_wanted);
    }
  }
  return run_head(lane, OMMAI_DRAW_FROM_STEP, count, error);
}

enum omma_status ommai_decode_lane_draft_first(struct ommai_decode_lane *lane, struct ommai_sequence *const *sequences,
                                               const int64_t *last_rows, int64_t n, struct omma_error *error) {
  int64_t count = 0, n_rows = lane->resources->sizes.limits.max_rows;
  if (!lane->resources->sizes.drafter) return OMMA_OK;
  for (int64_t i = 0; i < n; i++) {
    int64_t n_wanted = ommai_draft_head_wanted(sequences[i]);
    if (has_model(lane)) {
      count += show_model(sequences[i], n_wanted, &n_rows, &lane->drafts[count]);
    } else {
      lane->drafts[count++] = show(sequences[i], last_rows[i], known_end(sequences[i]), n_wanted);
    }
  }
  return run_head(lane, OMMAI_DRAW_FROM_CHUNK, count, error);
}

/* Of a replay's rows, what the head has not seen. */
static enum omma_status show_replay(struct ommai_decode_lane *lane, struct ommai_sequence *sequence, int64_t n,
                                    struct omma_error *error) {
  struct ommai_runner *runner = lane->resources->runner;
  int64_t first = (int64_t)sequence->request->n_tokens + sequence->n_decoded, end = first + n;
  if (!lane->resources->sizes.drafter || has_model(lane) || end <= sequence->head_end) return OMMA_OK;
  const struct ommai_draft draft = show(sequence, sequence->head_end - first, end, 0);
  return runner->functions->draft(runner, OMMAI_DRAW_FROM_STEP, &draft, 1, error);
}

enum omma_status ommai_decode_lane_replay(struct ommai_decode_lane *lane, struct ommai_sequence *sequence,
                                          struct omma_error *error) {
  struct ommai_runner *runner = lane->resources->runner;
  int64_t n = ommai_decode_lane_replay_count(sequence);
  add_rows(sequence, n, lane->rows);
  OMMAI_TRY(runner->functions->decode(runner, lane->rows, n, false, error));
  OMMAI_TRY(show_replay(lane, sequence, n, error));
  ommai_state_pool_go_on(lane->resources->pool, &sequence->state);
  sequence->n_decoded += n;
  return OMMA_OK;
}
