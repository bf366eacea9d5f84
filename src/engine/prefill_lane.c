#include "engine/prefill_lane.h"

#include <string.h>

#include "base/checked.h"
#include "base/debug.h"
#include "base/error.h"
#include "engine/prompt_scores.h"

/* HURRY_ROWS: where somebody waits for a first token, others join a chunk up to this number: about
 * there its time begins to grow with each row, so that more would delay the first ones by
 * more than they save those behind. */
enum { PAGE = OMMA_ATTENTION_PAGE_TOKENS, HURRY_ROWS = 32 };

int64_t ommai_prefill_lane_end(const struct ommai_prefill_lane *lane, const struct ommai_sequence *sequence) {
  int64_t end = sequence->n_prefilled + lane->resources->sizes.limits.prefill_chunk;
  int64_t n_tokens = (int64_t)sequence->request->n_tokens;
  return end < n_tokens ? end / PAGE * PAGE : n_tokens;
}

/* ---- who is in a chunk ---- */

/* Room for more: rows, and positions up to the ends of their pages. */
struct room {
  int64_t rows, positions;
};

static void add_part(struct ommai_prefill_lane *lane, struct ommai_sequence *sequence, int64_t n_rows, struct room *room) {
  const struct ommai_prefill_part *last = lane->n_parts ? &lane->parts[lane->n_parts - 1] : NULL;
  lane->parts[lane->n_parts++] = (struct ommai_prefill_part){
      .sequence = sequence, .first_row = last ? last->first_row + last->n_rows : 0, .n_rows = n_rows};
  room->rows -= n_rows;
  room->positions -= ommai_round_up(sequence->n_prefilled + n_rows, PAGE);
}

/* Whether a part computes the page that the sequence needs next: it had better wait and take that
 * over. */
static bool finds_pages(const struct ommai_prefill_lane *lane, const struct ommai_sequence *sequence) {
  int64_t page = sequence->n_prefilled / PAGE;
  if (!ommai_sequence_may_match(sequence) || page >= (int64_t)sequence->request->n_page_keys) return false;
  const struct omma_kv_page_key *key = &sequence->request->page_keys[page];
  for (int64_t i = 0; i < lane->n_parts; i++) {
    const struct ommai_sequence *other = lane->parts[i].sequence;
    int64_t n_full = ommai_min_i64((other->n_prefilled + lane->parts[i].n_rows) / PAGE, (int64_t)other->request->n_page_keys);
    if (other->n_prefilled / PAGE <= page && page < n_full && !memcmp(&other->request->page_keys[page], key, sizeof *key)) {
      return true;
    }
  }
  return false;
}

/* Tokens of the sequence's rest that fit, up to a page's border unless they are all; 0: it stays
 * out. */
static int64_t fitting_rows(const struct ommai_sequence *sequence, bool hurry, const struct room *room) {
  int64_t rest = (int64_t)sequence->request->n_tokens - sequence->n_prefilled;
  int64_t most = ommai_min_i64(room->rows, room->positions - sequence->n_prefilled);
  if (rest <= most) return rest;
  return hurry ? 0 : ommai_max_i64((sequence->n_prefilled + most) / PAGE * PAGE - sequence->n_prefilled, 0);
}

/* Those that join take no page from anybody, and none goes before one that does not fit. */
static void add_others(struct ommai_prefill_lane *lane, struct ommai_sequence *const *sequences, int64_t n, bool hurry,
                       struct room *room) {
  if (hurry) room->rows = ommai_min_i64(room->rows, HURRY_ROWS - lane->parts[0].n_rows);
  for (int64_t i = 0; i < n && room->rows > 0 && lane->n_parts < OMMAI_MAX_CHUNK_PIECES; i++) {
    struct ommai_sequence *sequence = sequences[i];
    if (sequence->stage != OMMA_STAGE_PREFILL || sequence->request->kind == OMMA_REQUEST_ENCODE) continue;
    if (sequence == lane->parts[0].sequence || sequence->n_prefilled == (int64_t)sequence->request->n_tokens) continue;
    ommai_sequence_match(sequence);
    if (finds_pages(lane, sequence)) continue;
    ommai_sequence_take_beginning(sequence);
    int64_t n_rows = fitting_rows(sequence, hurry, room);
    if (n_rows == 0 || !ommai_sequence_take_pages(sequence, sequence->n_prefilled + n_rows)) return;
    add_part(lane, sequence, n_rows, room);
  }
}

/* ---- its course ---- */

/* The first of a piece's rows that something is read of: each is scored or has a vector, or the
 * prompt's last one stands for it. */
static int64_t first_read_row(const struct ommai_sequence *sequence, int64_t n_rows, bool ends) {
  if (ommai_sequence_wants_scores(sequence) || sequence->request->every_token) return 0;
  return ends ? n_rows - 1 : n_rows;
}

static struct ommai_prompt_piece begin_part(const struct ommai_prefill_lane *lane, const struct ommai_prefill_part *part) {
  struct ommai_resources *resources = lane->resources;
  struct ommai_sequence *sequence = part->sequence;
  int64_t first = sequence->n_prefilled, end = first + part->n_rows;
  const struct omma_request *request = sequence->request;
  /* after a preemption the answer's first token is known */
  const struct ommai_prompt_token next = {.token = sequence->n_generated ? sequence->generated[0] : -1, .image = -1};
  OMMAI_DEBUG(&resources->model->log, "prefill: request %llu: tokens %lld to %lld of %zu", (unsigned long long)sequence->id,
              (long long)first, (long long)end, sequence->request->n_tokens);
  ommai_sequence_begin_chunk(sequence, end);
  return (struct ommai_prompt_piece){.slot = sequence->slot,
                                     .first = first,
                                     .n_tokens = part->n_rows,
                                     .tokens = sequence->request->tokens + first,
                                     .images = sequence->image_rows,
                                     .next = end < (int64_t)request->n_tokens ? request->tokens[end] : next,
                                     .first_read = first_read_row(sequence, part->n_rows, end == (int64_t)request->n_tokens),
                                     .pages = ommai_held_state_rows(&sequence->state, resources->pool, OMMAI_ROW_BEGIN)};
}

enum omma_status ommai_prefill_lane_begin(struct ommai_prefill_lane *lane, struct ommai_sequence *first,
                                          struct ommai_sequence *const *sequences, int64_t n, bool hurry,
                                          struct omma_error *error) {
  const struct ommai_runner_limits *limits = &lane->resources->sizes.limits;
  struct ommai_runner *runner = lane->resources->runner;
  struct ommai_prompt_piece pieces[OMMAI_MAX_CHUNK_PIECES];
  struct room room = {limits->prefill_chunk, ommai_round_up(limits->context, PAGE)};
  add_part(lane, first, ommai_prefill_lane_end(lane, first) - first->n_prefilled, &room);
  add_others(lane, sequences, n, hurry, &room);
  for (int64_t i = 0; i < lane->n_parts; i++) pieces[i] = begin_part(lane, &lane->parts[i]);
  return runner->functions->prompt_begin(runner, pieces, lane->n_parts, error);
}

enum omma_status ommai_prefill_lane_advance(struct ommai_prefill_lane *lane, int64_t ns, bool *done, struct omma_error *error) {
  struct ommai_runner *runner = lane->resources->runner;
  return runner->functions->prompt_advance(runner, ns, done, error);
}

enum omma_status ommai_prefill_lane_score(struct ommai_prefill_part *part, int64_t end_ns, bool *done,
                                          struct omma_error *error) {
  struct ommai_sequence *sequence = part->sequence;
  *done = !ommai_sequence_wants_scores(sequence);
  if (*done) return OMMA_OK;
  do { /* at least a few rows */
    OMMAI_TRY(ommai_prompt_scores_advance(sequence, part->first_row, part->n_rows, &part->n_scored, error));
    *done = part->n_scored == part->n_rows;
  } while (!*done && ommai_resources_now(sequence->resources) < end_ns);
  return OMMA_OK;
}

/* The chunk is over when nobody is left. */
static void clear_part(struct ommai_prefill_lane *lane, struct ommai_prefill_part *part) {
  part->sequence = NULL;
  for (int64_t i = 0; i < lane->n_parts; i++) {
    if (lane->parts[i].sequence) return;
  }
  lane->n_parts = 0;
}

struct ommai_sequence *ommai_prefill_lane_take(struct ommai_prefill_lane *lane, struct ommai_prefill_part *part) {
  struct ommai_sequence *sequence = part->sequence;
  ommai_sequence_publish(sequence, sequence->n_prefilled + part->n_rows);
  clear_part(lane, part);
  return sequence;
}

void ommai_prefill_lane_forget(struct ommai_prefill_lane *lane, const struct ommai_sequence *sequence) {
  struct ommai_runner *runner = lane->resources->runner;
  for (int64_t i = 0; i < lane->n_parts; i++) {
    if (lane->parts[i].sequence != sequence) continue;
    runner->functions->prompt_drop(runner, sequence->slot);
    clear_part(lane, &lane->parts[i]);
    return;
  }
}
