#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "runner/fake_inside.h"

enum { PAGE = OMMA_ATTENTION_PAGE_TOKENS, FROM_PROMPT = 11, FROM_STEP = 12 };

/* The page of a group that has the position; NULL with a complaint. */
static struct ommai_fake_page *page_of(struct ommai_fake_runner *fake, int group, const struct ommai_state_pages *pages,
                                       int64_t position) {
  if (position < 0 || position >= fake->limits.context) {
    ommai_fake_complain(fake, "position %lld in a context of %lld", (long long)position, (long long)fake->limits.context);
    return NULL;
  }
  int32_t page = pages->of_group[group][position / PAGE];
  if (page >= 0 && page < fake->limits.n_pages[group]) return &fake->pages[group][page];
  ommai_fake_complain(fake, "page %d of %lld in group %d", page, (long long)fake->limits.n_pages[group], group);
  return NULL;
}

/* What stands in the group's last position before `position`, which has all before it: the cells of
 * a page say what led to them. Every page on the way is looked at, as attention does. */
static uint64_t seen_before(struct ommai_fake_runner *fake, int64_t slot, int group, const struct ommai_state_pages *pages,
                            int64_t position) {
  uint64_t hash = 5;
  for (int64_t first = 0; first < position; first += PAGE) {
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

static void write(struct ommai_fake_page *page, int64_t offset, uint64_t hash) {
  page->cells[offset] = ommai_fake_mix(offset ? page->cells[offset - 1] : 6, hash);
  page->n_written = offset + 1;
}

/* A row that sees all before it; its hash goes into the pages of every group. */
static uint64_t compute(struct ommai_fake_runner *fake, int64_t slot, const struct ommai_state_pages *pages, int64_t position,
                        uint64_t hash) {
  int n_groups = fake->network->facts.n_groups;
  for (int g = 0; g < n_groups; g++) hash = ommai_fake_mix(hash, seen_before(fake, slot, g, pages, position));
  for (int g = 0; g < n_groups; g++) {
    struct ommai_fake_page *page = page_of(fake, g, pages, position);
    if (page) write(page, position % PAGE, ommai_fake_mix(hash, (uint64_t)g));
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
    for (int64_t at = piece->first; at < piece->first + piece->n_tokens; at += PAGE) {
      struct ommai_fake_page *page = page_of(fake, g, &piece->pages, at);
      if (page) page->n_written = 0;
    }
  }
}

enum omma_status ommai_fake_prompt_begin(struct ommai_runner *runner, const struct ommai_prompt_piece *pieces, int64_t n_pieces,
                                         struct omma_error *error) {
  struct ommai_fake_runner *fake = ommai_fake_inside(runner);
  const struct ommai_prompt_piece *piece = pieces;
  fake->chunk.running = false;
  fake->n_chunk_rows = 0;
  if (ommai_fake_fails(fake, OMMAI_FAKE_PROMPT_BEGIN)) return ommai_fail(error, OMMA_ERROR_INTERNAL, "a chunk that fails");
  if (n_pieces != 1 || piece->first % PAGE || piece->n_tokens < 1 || piece->n_tokens > fake->limits.prefill_chunk) {
    ommai_fake_complain(fake, "a chunk of %lld pieces, the first %lld tokens at %lld", (long long)n_pieces,
                        (long long)piece->n_tokens, (long long)piece->first);
  }
  if (!ommai_fake_knows_slot(fake, piece->slot)) return OMMA_OK;
  const struct ommai_fake_costs *costs = &fake->network->costs;
  fake->piece = *piece;
  fake->chunk = (struct ommai_fake_work){.running = true, .total_ns = costs->chunk + piece->n_tokens * costs->prompt_row};
  unwrite(fake, piece);
  return OMMA_OK;
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

enum omma_status ommai_fake_prompt_advance(struct ommai_runner *runner, int64_t ns, bool *done, struct omma_error *error) {
  struct ommai_fake_runner *fake = ommai_fake_inside(runner);
  const struct ommai_prompt_piece *piece = &fake->piece;
  if (ommai_fake_fails(fake, OMMAI_FAKE_PROMPT_ADVANCE)) return ommai_fail(error, OMMA_ERROR_INTERNAL, "a chunk that fails");
  *done = true;
  if (!fake->chunk.running) {
    if (fake->n_chunk_rows == 0) ommai_fake_complain(fake, "a chunk goes on that was not begun");
    return OMMA_OK;
  }
  *done = ommai_fake_work_for(fake, &fake->chunk, ns);
  if (!*done) return OMMA_OK;
  for (int64_t i = 0; i < piece->n_tokens; i++) {
    const struct ommai_prompt_token *token = &piece->tokens[i];
    uint64_t hash = compute(fake, piece->slot, &piece->pages, piece->first + i, hash_token(piece, token));
    fake->chunk_rows[i] = (struct ommai_fake_row){piece->slot, token->token, hash};
  }
  fake->n_chunk_rows = piece->n_tokens;
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
    fake->step_rows[i] =
        (struct ommai_fake_row){row->slot, row->token, compute(fake, row->slot, &row->pages, row->index, hash)};
  }
  if (drawn) fake->n_step_rows = n;
  return OMMA_OK;
}
