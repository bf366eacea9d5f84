#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "runner/fake_inside.h"

enum { PAGE = OMMA_ATTENTION_PAGE_TOKENS, FROM_PROMPT = 11, FROM_STEP = 12 };

static struct ommai_fake_page *page_at(struct ommai_fake_runner *fake, int group, int32_t page) {
  if (page >= 0 && page < fake->limits.n_pages[group]) return &fake->pages[group][page];
  ommai_fake_complain(fake, "page %d of %lld in group %d", page, (long long)fake->limits.n_pages[group], group);
  return NULL;
}

/* The page of a group that has the position; NULL with a complaint. */
static struct ommai_fake_page *page_of(struct ommai_fake_runner *fake, int group, const struct ommai_state_pages *pages,
                                       int64_t position) {
  if (position >= 0 && position < fake->limits.context) return page_at(fake, group, pages->of_group[group][position / PAGE]);
  ommai_fake_complain(fake, "position %lld in a context of %lld", (long long)position, (long long)fake->limits.context);
  return NULL;
}

void ommai_fake_check_page(struct ommai_fake_runner *fake, int group, const struct ommai_state_pages *pages, int64_t position) {
  (void)page_of(fake, group, pages, position);
}

static bool is_snapshot(const struct ommai_fake_runner *fake, int group) {
  return fake->network->facts.groups[group].kind == OMMAI_STATE_SNAPSHOT;
}

/* What the group's positions before `position` led to, of a window those that it reaches: the last
 * cell of every page on the way is looked at, as attention looks at all of them. */
static uint64_t seen_before(struct ommai_fake_runner *fake, int64_t slot, int group, const struct ommai_state_pages *pages,
                            int64_t position) {
  const struct ommai_state_group *facts = &fake->network->facts.groups[group];
  uint64_t hash = 5;
  int64_t begin = facts->kind == OMMAI_STATE_WINDOW ? ommai_max_i64(position - facts->window + 1, 0) : 0;
  for (int64_t first = begin / PAGE * PAGE; first < position; first += PAGE) {
    int64_t last = ommai_min_i64(PAGE, position - first) - 1;
    const struct ommai_fake_page *page = page_of(fake, group, pages, first);
    if (!page) return 0;
    if (last >= page->n_written) {
      ommai_fake_complain(fake, "slot %lld reads position %lld, which is not there: its page has %lld rows", (long long)slot,
                          (long long)(first + last), (long long)page->n_written);
      return 0;
    }
    hash = ommai_fake_mix(hash, page->cells[last]);
  }
  return hash;
}

static uint64_t read_snapshot(struct ommai_fake_runner *fake, int64_t slot, int group, const struct ommai_state_pages *pages,
                              int64_t position) {
  int32_t read = pages->of_group[group][OMMAI_SNAPSHOT_READ];
  const struct ommai_fake_page *page = read < 0 ? NULL : page_at(fake, group, read);
  if ((page ? page->n_written : 0) != position) {
    ommai_fake_complain(fake, "slot %lld goes on at position %lld from a snapshot of %lld", (long long)slot,
                        (long long)position, (long long)(page ? page->n_written : 0));
  }
  return page ? page->cells[0] : 8;
}

static void write_snapshot(struct ommai_fake_runner *fake, int group, int32_t page, int64_t n_positions, uint64_t state) {
  struct ommai_fake_page *written = page_at(fake, group, page);
  if (!written) return;
  written->cells[0] = state;
  written->n_written = n_positions;
}

static void write(struct ommai_fake_page *page, int64_t offset, uint64_t hash) {
  page->cells[offset] = ommai_fake_mix(offset ? page->cells[offset - 1] : 6, hash);
  page->n_written = offset + 1;
}

/* What goes from row to row of a chunk, by group of snapshots. */
struct states {
  uint64_t of_group[OMMAI_MAX_STATE_GROUPS];
};

static void read_states(struct ommai_fake_runner *fake, int64_t slot, const struct ommai_state_pages *pages, int64_t position,
                        struct states *states) {
  for (int g = 0; g < fake->network->facts.n_groups; g++) {
    if (is_snapshot(fake, g)) states->of_group[g] = read_snapshot(fake, slot, g, pages, position);
  }
}

static void write_states(struct ommai_fake_runner *fake, const struct ommai_state_pages *pages, int place, int64_t n_positions,
                         const struct states *states) {
  for (int g = 0; g < fake->network->facts.n_groups; g++) {
    if (!is_snapshot(fake, g) || (place == OMMAI_SNAPSHOT_BORDER && pages->of_group[g][place] < 0)) continue;
    write_snapshot(fake, g, pages->of_group[g][place], n_positions, states->of_group[g]);
  }
}

/* A row that sees all before it; its hash goes into every group. */
static uint64_t compute(struct ommai_fake_runner *fake, int64_t slot, const struct ommai_state_pages *pages, int64_t position,
                        uint64_t hash, struct states *states) {
  int n_groups = fake->network->facts.n_groups;
  for (int g = 0; g < n_groups; g++) {
    hash = ommai_fake_mix(hash, is_snapshot(fake, g) ? states->of_group[g] : seen_before(fake, slot, g, pages, position));
  }
  for (int g = 0; g < n_groups; g++) {
    struct ommai_fake_page *page = is_snapshot(fake, g) ? NULL : page_of(fake, g, pages, position);
    if (page) write(page, position % PAGE, ommai_fake_mix(hash, (uint64_t)g));
    if (is_snapshot(fake, g)) states->of_group[g] = ommai_fake_mix(states->of_group[g], hash);
  }
  return hash;
}

/* ---- time ---- */

bool ommai_fake_work_for(struct ommai_fake_runner *fake, struct ommai_fake_work *work, int64_t ns) {
  int64_t round = ommai_max_i64(fake->network->costs.round, 1), wanted = ommai_round_up(ommai_max_i64(ns, 1), round);
  int64_t took = ommai_min_i64(wanted, work->total_ns - work->done_ns);
  work->done_ns += took;
  fake->now += took;
  return work->done_ns == work->total_ns;
}

/* ---- prompts ---- */

/* Positions that are being computed again, or for the first time: nobody may read them yet. */
static void unwrite(struct ommai_fake_runner *fake, const struct ommai_prompt_piece *piece) {
  for (int g = 0; g < fake->network->facts.n_groups; g++) {
    int64_t at = is_snapshot(fake, g) ? INT64_MAX : piece->first;
    for (; at < piece->first + piece->n_tokens; at = (at / PAGE + 1) * PAGE) {
      struct ommai_fake_page *page = page_of(fake, g, &piece->pages, at);
      if (page) page->n_written = ommai_min_i64(page->n_written, at % PAGE);
    }
  }
}

/* Whether the pieces make a chunk; *n_tokens of all. */
static bool check_pieces(struct ommai_fake_runner *fake, const struct ommai_prompt_piece *pieces, int64_t n_pieces,
                         int64_t *n_tokens) {
  int64_t most = ommai_min_i64(OMMAI_MAX_CHUNK_PIECES, fake->limits.max_sequences), context = 0;
  *n_tokens = 0;
  for (int64_t i = 0; i < n_pieces && i < most; i++) {
    const struct ommai_prompt_piece *piece = &pieces[i];
    bool begins = piece->first % PAGE == 0 || (piece->first < PAGE && fake->network->facts.n_groups == 1);
    if (!begins || piece->n_tokens < 1 || piece->first_read < 0 || piece->first_read > piece->n_tokens) {
      ommai_fake_complain(fake, "a piece of %lld tokens at %lld", (long long)piece->n_tokens, (long long)piece->first);
    }
    for (int64_t j = 0; j < i; j++) {
      if (pieces[j].slot == piece->slot) ommai_fake_complain(fake, "slot %lld is twice in a chunk", (long long)piece->slot);
    }
    if (!ommai_fake_knows_slot(fake, piece->slot)) return false;
    *n_tokens += piece->n_tokens;
    context += ommai_round_up(piece->first + piece->n_tokens, PAGE);
  }
  if (n_pieces < 1 || n_pieces > most || *n_tokens > fake->limits.prefill_chunk ||
      context > ommai_round_up(fake->limits.context, PAGE)) {
    ommai_fake_complain(fake, "a chunk of %lld pieces, %lld tokens and %lld positions", (long long)n_pieces,
                        (long long)*n_tokens, (long long)context);
    return false;
  }
  return true;
}

enum omma_status ommai_fake_prompt_begin(struct ommai_runner *runner, const struct ommai_prompt_piece *pieces, int64_t n_pieces,
                                         struct omma_error *error) {
  struct ommai_fake_runner *fake = ommai_fake_inside(runner);
  const struct ommai_fake_costs *costs = &fake->network->costs;
  int64_t n_tokens;
  fake->chunk.running = false;
  fake->n_chunk_rows = 0;
  if (ommai_fake_fails(fake, OMMAI_FAKE_PROMPT_BEGIN)) return ommai_fail(error, OMMA_ERROR_INTERNAL, "a chunk that fails");
  if (!check_pieces(fake, pieces, n_pieces, &n_tokens)) return OMMA_OK;
  fake->chunk = (struct ommai_fake_work){.running = true, .total_ns = costs->chunk + n_tokens * costs->prompt_row};
  fake->n_pieces = n_pieces;
  fake->n_all_pieces += n_pieces;
  for (int64_t i = 0; i < n_pieces; i++) {
    fake->pieces[i] = pieces[i];
    fake->dropped[i] = false;
    unwrite(fake, &pieces[i]);
  }
  return OMMA_OK;
}

void ommai_fake_prompt_drop(struct ommai_runner *runner, int64_t slot) {
  struct ommai_fake_runner *fake = ommai_fake_inside(runner);
  for (int64_t i = 0; i < fake->n_pieces; i++) fake->dropped[i] |= fake->pieces[i].slot == slot;
}

void ommai_fake_copy_rows(struct ommai_runner *runner, int32_t from, int32_t to, int64_t n) {
  struct ommai_fake_runner *fake = ommai_fake_inside(runner);
  const struct ommai_fake_page *source = page_at(fake, 0, from);
  struct ommai_fake_page *page = page_at(fake, 0, to);
  if (!source || !page) return;
  if (n > source->n_written || fake->network->facts.n_groups != 1 || is_snapshot(fake, 0)) {
    ommai_fake_complain(fake, "%lld rows copied of page %d, which has %lld", (long long)n, from, (long long)source->n_written);
  }
  *page = *source;
  page->n_written = n;
}

static uint64_t hash_token(const struct ommai_prompt_piece *piece, const struct ommai_prompt_token *token) {
  uint64_t hash = ommai_fake_mix(FROM_PROMPT, (uint64_t)token->token);
  for (int i = 0; i < 3; i++) hash = ommai_fake_mix(hash, (uint64_t)token->position[i]);
  if (token->image < 0) return hash;
  struct ommai_image_rows *rows = piece->images[token->image];
  const unsigned char *bytes = ommai_image_rows_data(rows);
  size_t n_tokens = (size_t)ommai_image_rows_tokens(rows), row_bytes = ommai_image_rows_size(rows) / n_tokens;
  for (size_t i = 0; i < row_bytes; i += OMMAI_IMAGE_VALUE_BYTES) {
    uint32_t value;
    memcpy(&value, bytes + (size_t)token->image_row * row_bytes + i, sizeof value);
    hash = ommai_fake_mix(hash, value);
  }
  return hash;
}

/* Leaves the piece's rows from chunk_rows[row] on. */
static void compute_piece(struct ommai_fake_runner *fake, const struct ommai_prompt_piece *piece, int64_t row) {
  int64_t end = piece->first + piece->n_tokens, border = end / PAGE * PAGE;
  struct states states;
  read_states(fake, piece->slot, &piece->pages, piece->first, &states);
  for (int64_t i = 0; i < piece->n_tokens; i++) {
    const struct ommai_prompt_token *token = &piece->tokens[i];
    uint64_t hash = compute(fake, piece->slot, &piece->pages, piece->first + i, hash_token(piece, token), &states);
    fake->chunk_rows[row + i] = (struct ommai_fake_row){piece->slot, token->token, hash, i < piece->first_read};
    if (piece->first + i + 1 == border && border < end)
      write_states(fake, &piece->pages, OMMAI_SNAPSHOT_BORDER, border, &states);
  }
  write_states(fake, &piece->pages, OMMAI_SNAPSHOT_WRITTEN, end, &states);
  bool open = piece->next.token < 0 || fake->network->facts.drafter == OMMAI_DRAFT_MODEL;
  fake->slots[piece->slot].head_end = end - open;
}

enum omma_status ommai_fake_prompt_advance(struct ommai_runner *runner, int64_t ns, bool *done, struct omma_error *error) {
  struct ommai_fake_runner *fake = ommai_fake_inside(runner);
  if (ommai_fake_fails(fake, OMMAI_FAKE_PROMPT_ADVANCE)) return ommai_fail(error, OMMA_ERROR_INTERNAL, "a chunk that fails");
  *done = true;
  if (!fake->chunk.running) {
    if (fake->n_chunk_rows == 0) ommai_fake_complain(fake, "a chunk goes on that was not begun");
    return OMMA_OK;
  }
  *done = ommai_fake_work_for(fake, &fake->chunk, ns);
  if (!*done) return OMMA_OK;
  for (int64_t i = 0; i < fake->n_pieces; fake->n_chunk_rows += fake->pieces[i++].n_tokens) {
    if (!fake->dropped[i]) compute_piece(fake, &fake->pieces[i], fake->n_chunk_rows);
  }
  fake->chunk.running = false;
  return OMMA_OK;
}

/* ---- steps ---- */

enum omma_status ommai_fake_decode(struct ommai_runner *runner, const struct ommai_step_row *rows, int64_t n, bool drawn,
                                   struct omma_error *error) {
  struct ommai_fake_runner *fake = ommai_fake_inside(runner);
  int64_t max_rows = drawn ? fake->limits.drawn_rows : fake->limits.max_rows;
  fake->n_step_rows = 0;
  fake->now += fake->network->costs.step + n * fake->network->costs.step_row;
  if (ommai_fake_fails(fake, OMMAI_FAKE_DECODE)) return ommai_fail(error, OMMA_ERROR_INTERNAL, "a step that fails");
  if (n < 1 || n > max_rows) {
    ommai_fake_complain(fake, "a step of %lld rows, at most %lld", (long long)n, (long long)max_rows);
    return OMMA_OK;
  }
  for (int64_t i = 0; i < n; i++) {
    const struct ommai_step_row *row = &rows[i];
    uint64_t hash = ommai_fake_mix(ommai_fake_mix(FROM_STEP, (uint64_t)row->token), (uint64_t)row->position);
    if (!ommai_fake_knows_slot(fake, row->slot)) return OMMA_OK;
    if (i > 0 && row->slot == rows[i - 1].slot && row->index != rows[i - 1].index + 1) {
      ommai_fake_complain(fake, "slot %lld: row %lld after row %lld", (long long)row->slot, (long long)row->index,
                          (long long)rows[i - 1].index);
    }
    struct states states;
    read_states(fake, row->slot, &row->pages, row->index, &states);
    hash = compute(fake, row->slot, &row->pages, row->index, hash, &states);
    write_states(fake, &row->pages, OMMAI_SNAPSHOT_WRITTEN, row->index + 1, &states);
    fake->step_rows[i] = (struct ommai_fake_row){row->slot, row->token, hash, false};
  }
  if (drawn) fake->n_step_rows = n;
  fake->n_shown_rows = n;
  return OMMA_OK;
}
