#include "base/checked.h"
#include "base/error.h"
#include "runner/fake_inside.h"

/* ---- slots ---- */

bool ommai_fake_knows_slot(struct ommai_fake_runner *fake, int64_t slot) {
  if (slot >= 0 && slot < fake->limits.max_sequences && fake->slots[slot].used) return true;
  ommai_fake_complain(fake, "slot %lld was not begun", (long long)slot);
  return false;
}

enum omma_status ommai_fake_slot_begin(struct ommai_runner *runner, int64_t slot, const struct ommai_sampler_settings *settings,
                                       const int32_t *prompt, size_t n_prompt, struct omma_error *error) {
  struct ommai_fake_runner *fake = ommai_fake_inside(runner);
  (void)settings;
  if (ommai_fake_fails(fake, OMMAI_FAKE_SLOT_BEGIN)) return ommai_fail_memory(error, "slot", 1);
  if (slot < 0 || slot >= fake->limits.max_sequences || fake->slots[slot].used) {
    ommai_fake_complain(fake, "slot %lld is begun and is not free", (long long)slot);
    return OMMA_OK;
  }
  fake->slots[slot] = (struct ommai_fake_slot){.used = true};
  for (size_t i = 0; i < n_prompt; i++) fake->slots[slot].prompt |= ommai_fake_mix(1, (uint64_t)prompt[i]);
  return OMMA_OK;
}

void ommai_fake_slot_end(struct ommai_runner *runner, int64_t slot) {
  struct ommai_fake_runner *fake = ommai_fake_inside(runner);
  if (slot >= 0 && slot < fake->limits.max_sequences) fake->slots[slot].used = false;
  for (int64_t i = 0; fake->chunk.running && i < fake->n_pieces; i++) {
    if (fake->pieces[i].slot != slot || fake->dropped[i]) continue;
    ommai_fake_complain(fake, "slot %lld ends in the middle of its chunk", (long long)slot);
  }
}

/* ---- draws ---- */

static bool is_allowed(const struct ommai_draw *draw, int32_t token) {
  for (size_t i = 0; i < draw->n_banned; i++) {
    if (draw->banned[i] == token) return false;
  }
  for (size_t i = 0; i < draw->n_biases; i++) {
    if (draw->biases[i].token == token && draw->biases[i].bias < 0) return false;
  }
  return !draw->allowed || (draw->allowed[token / 32] >> (token % 32) & 1);
}

/* Where the choice begins: by everything before, or by the last token alone. */
static int32_t favourite(const struct ommai_fake_runner *fake, const struct ommai_draw *draw, const struct ommai_fake_row *row,
                         uint64_t hash) {
  const struct ommai_fake_slot *slot = &fake->slots[draw->slot];
  uint64_t vocab = (uint64_t)fake->network->facts.vocab_size;
  if ((hash >> 40) % 100 < (uint64_t)fake->network->repeated_percent) {
    return (int32_t)(ommai_fake_mix(2, (uint64_t)row->token) % vocab);
  }
  if (ommai_sampler_has_penalties(draw->settings)) hash = ommai_fake_mix(ommai_fake_mix(hash, slot->prompt), slot->answer);
  if (draw->settings->temperature > 0) {
    hash = ommai_fake_mix(ommai_fake_mix(hash, draw->settings->seed), (uint64_t)draw->step);
  }
  return (int32_t)(hash % vocab);
}

static int32_t choose(const struct ommai_fake_runner *fake, const struct ommai_draw *draw, const struct ommai_fake_row *row) {
  int32_t vocab = (int32_t)fake->network->facts.vocab_size, token = favourite(fake, draw, row, row->hash);
  for (int32_t i = 0; i < vocab; i++) {
    if (is_allowed(draw, (token + i) % vocab)) return (token + i) % vocab;
  }
  return -1;
}

/* Of 24 bits of the hash: a float that holds them all, so that it stands for what the row saw. */
static float logprob_of(uint64_t hash, int32_t token) {
  return -(float)(ommai_fake_mix(hash, (uint64_t)token) & 0xffffff) / (1 << 20);
}

static void answer(struct ommai_fake_runner *fake, struct ommai_draw *draw, const struct ommai_fake_row *row) {
  int64_t vocab = fake->network->facts.vocab_size;
  struct ommai_fake_slot *slot = &fake->slots[draw->slot];
  draw->finite = true;
  if (!draw->is_given) {
    if (draw->step != slot->n_drawn) {
      ommai_fake_complain(fake, "slot %lld: token %lld is drawn as token %lld", (long long)draw->slot, (long long)slot->n_drawn,
                          (long long)draw->step);
    }
    draw->token = choose(fake, draw, row);
    if (draw->token < 0) return;
    slot->n_drawn++;
    slot->answer += ommai_fake_mix(3, (uint64_t)draw->token);
  }
  draw->rank = 1 + (int64_t)(ommai_fake_mix(row->hash, 4) % (uint64_t)vocab);
  draw->logprob = logprob_of(row->hash, draw->token);
  for (int i = 0; i < draw->n_top; i++) {
    int32_t token = (int32_t)((row->hash + (uint64_t)i) % (uint64_t)vocab);
    draw->top[i] = (struct omma_top_logprob){token, logprob_of(row->hash, token)};
  }
}

enum omma_status ommai_fake_draw(struct ommai_runner *runner, enum ommai_draw_from from, struct ommai_draw *draws, int64_t n,
                                 struct omma_error *error) {
  struct ommai_fake_runner *fake = ommai_fake_inside(runner);
  const struct ommai_fake_row *rows = from == OMMAI_DRAW_FROM_CHUNK ? fake->chunk_rows : fake->step_rows;
  int64_t n_rows = from == OMMAI_DRAW_FROM_CHUNK ? fake->n_chunk_rows : fake->n_step_rows;
  (void)error;
  fake->now += n * fake->network->costs.draw;
  bool fails = ommai_fake_fails(fake, OMMAI_FAKE_DRAW);
  for (int64_t i = 0; i < n; i++) {
    struct ommai_draw *draw = &draws[i];
    draw->finite = false;
    if (draw->row < 0 || draw->row >= n_rows || (i > 0 && draw->row < draws[i - 1].row)) {
      ommai_fake_complain(fake, "slot %lld: row %lld of %lld is drawn from", (long long)draw->slot, (long long)draw->row,
                          (long long)n_rows);
    } else if (ommai_fake_knows_slot(fake, draw->slot) && rows[draw->row].slot != draw->slot) {
      ommai_fake_complain(fake, "slot %lld: row %lld is drawn from, which is slot %lld's", (long long)draw->slot,
                          (long long)draw->row, (long long)rows[draw->row].slot);
    } else if (rows[draw->row].unread) {
      ommai_fake_complain(fake, "slot %lld: row %lld is drawn from, which nothing was to be asked of", (long long)draw->slot,
                          (long long)draw->row);
    } else if (!fails) {
      answer(fake, draw, &rows[draw->row]);
    }
  }
  if (from == OMMAI_DRAW_FROM_CHUNK) fake->n_step_rows = 0;
  return OMMA_OK;
}

/* ---- the draft head ---- */

/* Whether the head has seen all rows before, and the pages of what it keeps are there. */
static bool check_draft(struct ommai_fake_runner *fake, const struct ommai_draft *draft, const struct ommai_fake_row *rows,
                        int64_t n_rows) {
  struct ommai_fake_slot *slot = &fake->slots[draft->slot];
  bool model = fake->network->facts.drafter == OMMAI_DRAFT_MODEL;
  int64_t end = draft->index + draft->n_rows;
  if (!ommai_fake_knows_slot(fake, draft->slot)) return false;
  bool known = model || (draft->row >= 0 && draft->row + draft->n_rows <= n_rows && rows[draft->row].slot == draft->slot);
  if (draft->n_rows < 1 || !known) {
    ommai_fake_complain(fake, "slot %lld: the draft head is shown %lld rows from %lld on of %lld", (long long)draft->slot,
                        (long long)draft->n_rows, (long long)draft->row, (long long)n_rows);
    return false;
  }
  if (draft->index != slot->head_end) {
    ommai_fake_complain(fake, "slot %lld: the draft head is shown position %lld after %lld", (long long)draft->slot,
                        (long long)draft->index, (long long)slot->head_end);
  }
  slot->head_end = end;
  for (int64_t at = draft->index; at < end + ommai_max_i64(draft->n_tokens - 1, 0); at++) {
    ommai_fake_check_page(fake, 0, &draft->pages, at + model);
  }
  return true;
}

enum omma_status ommai_fake_draft(struct ommai_runner *runner, enum ommai_draw_from from, const struct ommai_draft *drafts,
                                  int64_t n, struct omma_error *error) {
  struct ommai_fake_runner *fake = ommai_fake_inside(runner);
  const struct ommai_fake_row *rows = from == OMMAI_DRAW_FROM_CHUNK ? fake->chunk_rows : fake->step_rows;
  int64_t n_rows = from == OMMAI_DRAW_FROM_CHUNK ? fake->n_chunk_rows : fake->n_shown_rows,
          vocab = fake->network->facts.vocab_size;
  fake->now += n * fake->network->costs.draw;
  if (ommai_fake_fails(fake, OMMAI_FAKE_DRAFT)) return ommai_fail(error, OMMA_ERROR_MEMORY, "drafts that fail");
  for (int64_t i = 0; i < n; i++) {
    const struct ommai_draft *draft = &drafts[i];
    int32_t token = draft->next[draft->n_rows - 1];
    if (!check_draft(fake, draft, rows, n_rows)) return OMMA_OK;
    for (int64_t j = 0; j < draft->n_tokens; j++) {
      token = (int32_t)(ommai_fake_mix(2, (uint64_t)token) % (uint64_t)vocab);
      draft->tokens[j] = token;
    }
  }
  return OMMA_OK;
}

/* ---- readings ---- */

/* State or logits: from -1 to 1, of 16 bits of the hash each. */
static void fill(const struct ommai_fake_row *row, int64_t n, float *out) {
  for (int64_t i = 0; i < n; i++) out[i] = (float)(int16_t)ommai_fake_mix(row->hash, (uint64_t)i) / (1 << 15);
}

enum omma_status ommai_fake_read(struct ommai_runner *runner, const struct ommai_reading *readings, int64_t n,
                                 struct omma_error *error) {
  struct ommai_fake_runner *fake = ommai_fake_inside(runner);
  int64_t width = (int64_t)(fake->network->facts.state_bytes / sizeof(float)), end = 0;
  if (ommai_fake_fails(fake, OMMAI_FAKE_READ)) return ommai_fail(error, OMMA_ERROR_MEMORY, "a reading that fails");
  for (int64_t i = 0; i < n; i++) {
    const struct ommai_reading *reading = &readings[i];
    int64_t n_values = reading->n_tokens ? reading->n_tokens : width;
    if (reading->row < end || reading->row + reading->n_rows > fake->n_chunk_rows) {
      ommai_fake_complain(fake, "rows from %lld on of %lld are read after row %lld", (long long)reading->row,
                          (long long)fake->n_chunk_rows, (long long)end);
      continue;
    }
    end = reading->row + reading->n_rows;
    for (int64_t j = 0; j < reading->n_rows; j++) {
      if (fake->chunk_rows[reading->row + j].unread) {
        ommai_fake_complain(fake, "row %lld is read, which nothing was to be asked of", (long long)(reading->row + j));
      }
      fill(&fake->chunk_rows[reading->row + j], n_values, (float *)reading->out + j * n_values);
    }
  }
  return OMMA_OK;
}
