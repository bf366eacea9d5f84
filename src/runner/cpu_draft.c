/* The draft head or model: what it keeps of rows whose next tokens are known, and its drafts after
 * them. */
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "model/draft_model.h"
#include "runner/cpu_inside.h"

/* A row of a head is a token at the place of the row before it; one of a model at its own. */
static struct ommai_decode_row draft_row(const struct ommai_cpu_runner *cpu, const struct ommai_draft *draft, int64_t ahead,
                                         int32_t token) {
  if (cpu->model->draft) ahead++;
  struct ommai_decode_row row = {.token = token, .index = draft->index + ahead, .pages = draft->pages};
  for (int axis = 0; axis < 3; axis++) row.position[axis] = draft->position[axis] + (int32_t)ahead;
  return row;
}

/* The next tokens of all rows, and for a head their states after the final norm. Returns how many
 * rows. */
static int64_t lay_out(struct ommai_cpu_runner *cpu, enum ommai_draw_from from, const struct ommai_draft *drafts, int64_t n) {
  const struct ommai_decoder *decoder = &cpu->network->decoder;
  int64_t hidden = decoder->config.hidden_size, count = 0;
  for (int64_t i = 0; i < n; i++) {
    OMMAI_ASSERT(count + drafts[i].n_rows <= cpu->limits.max_rows);
    for (int64_t j = 0; j < drafts[i].n_rows; j++, count++) {
      int64_t row = drafts[i].row + j;
      cpu->tables.step_rows[count] = draft_row(cpu, &drafts[i], j, drafts[i].next[j]);
      if (cpu->model->draft) continue;
      const float *residual =
          from == OMMAI_DRAW_FROM_STEP ? cpu->tables.residual + row * hidden : ommai_prefill_residual(cpu->chunk, row);
      decoder->ops->rms_norm(residual, decoder->final_norm, decoder->config.norm_eps, hidden,
                             cpu->tables.draft_states + count * hidden, OMMA_F32);
    }
  }
  return count;
}

/* Replaces states by those of the rows. */
static enum omma_status run_rows(struct ommai_cpu_runner *cpu, int64_t n_rows, struct omma_error *error) {
  if (cpu->model->draft) return ommai_cpu_draft_run(cpu, n_rows, error);
  return ommai_decode_draft(&cpu->network->decoder, cpu->kv, cpu->tables.step_rows, cpu->tables.draft_states, n_rows,
                            cpu->decode_workspace, cpu->bytes.decode, cpu->threads, error);
}

/* The first draft from i on of which more than `place` tokens are wanted; n: there is none. */
static int64_t next_wanting(const struct ommai_draft *drafts, int64_t n, int64_t i, int64_t place) {
  while (i < n && drafts[i].n_tokens <= place) i++;
  return i;
}

static enum omma_status make_logits(struct ommai_cpu_runner *cpu, const float *states, int64_t n_rows,
                                    struct omma_error *error) {
  if (cpu->model->draft) return ommai_cpu_draft_logits(cpu, states, n_rows, error);
  return ommai_decode_draft_logits(&cpu->network->decoder, states, n_rows, cpu->decode_workspace, cpu->bytes.decode,
                                   cpu->threads, cpu->tables.logits, error);
}

static size_t state_width(const struct ommai_cpu_runner *cpu) {
  const struct omma_model *model = cpu->model;
  return (size_t)(model->draft ? model->draft->config.text.hidden_size : model->config.text.hidden_size);
}

static float *state_of(const struct ommai_cpu_runner *cpu, int64_t row) {
  return cpu->tables.draft_states + (size_t)row * state_width(cpu);
}

/* States keep their order, so that none is overwritten before it has moved. */
static void move_state(const struct ommai_cpu_runner *cpu, int64_t from, int64_t to) {
  memmove(state_of(cpu, to), state_of(cpu, from), state_width(cpu) * sizeof(float));
}

/* States that drafts go on from come first: of each that wants some, that of its last row. */
static void gather_states(struct ommai_cpu_runner *cpu, const struct ommai_draft *drafts, int64_t n) {
  int64_t end = 0, count = 0;
  for (int64_t i = 0; i < n; i++) {
    end += drafts[i].n_rows;
    if (drafts[i].n_tokens) move_state(cpu, end - 1, count++);
  }
}

/* Token `place` of as many drafts from *at on as logits are kept of, from the states from `row`
 * on; returns how many, and *at goes on. */
static enum omma_status draw_some(struct ommai_cpu_runner *cpu, const struct ommai_draft *drafts, int64_t n, int64_t place,
                                  int64_t row, int64_t *at, int64_t *count, struct omma_error *error) {
  int64_t vocab = cpu->runner.facts.vocab_size, max_rows = ommai_cpu_sampler_rows(&cpu->limits);
  struct ommai_draw draws[OMMAI_CPU_DRAW_ROWS];
  int32_t *to[OMMAI_CPU_DRAW_ROWS];
  int64_t k = 0;
  for (; *at < n && k < max_rows; *at = next_wanting(drafts, n, *at + 1, place), k++) {
    const struct ommai_draft *draft = &drafts[*at];
    const struct ommai_cpu_slot *slot = &cpu->tables.slots[draft->slot];
    draws[k] = (struct ommai_draw){.settings = draft->settings, .step = draft->step + place};
    cpu->tables.inputs[k] =
        (struct ommai_sampler_input){.logits = cpu->tables.logits + k * vocab, .counts = {slot->answer, slot->prompt}};
    to[k] = &draft->tokens[place];
  }
  OMMAI_TRY(make_logits(cpu, state_of(cpu, row), k, error));
  ommai_sampler_run(cpu->sampler, draws, cpu->tables.inputs, k, cpu->threads);
  for (int64_t i = 0; i < k; i++) *to[i] = draws[i].finite && draws[i].token >= 0 ? draws[i].token : 0;
  *count = k;
  return OMMA_OK;
}

/* Rows for those that want another token after `place`; their states come first. */
static int64_t go_on(struct ommai_cpu_runner *cpu, const struct ommai_draft *drafts, int64_t n, int64_t place) {
  int64_t from = 0, count = 0;
  for (int64_t i = next_wanting(drafts, n, 0, place); i < n; i = next_wanting(drafts, n, i + 1, place), from++) {
    if (drafts[i].n_tokens <= place + 1) continue;
    cpu->tables.step_rows[count] = draft_row(cpu, &drafts[i], drafts[i].n_rows + place, drafts[i].tokens[place]);
    move_state(cpu, from, count++);
  }
  return count;
}

enum omma_status ommai_cpu_draft(struct ommai_runner *runner, enum ommai_draw_from from, const struct ommai_draft *drafts,
                                 int64_t n, struct omma_error *error) {
  struct ommai_cpu_runner *cpu = ommai_cpu_inside(runner);
  int64_t n_rows = lay_out(cpu, from, drafts, n), place = 0;
  cpu->n_logits = 0;
  if (n_rows == 0) return OMMA_OK;
  OMMAI_TRY(run_rows(cpu, n_rows, error));
  gather_states(cpu, drafts, n);
  for (;; place++) {
    int64_t at = next_wanting(drafts, n, 0, place), count = 0;
    for (int64_t row = 0; at < n; row += count) {
      OMMAI_TRY(draw_some(cpu, drafts, n, place, row, &at, &count, error));
    }
    n_rows = go_on(cpu, drafts, n, place);
    if (n_rows == 0) return OMMA_OK;
    OMMAI_TRY(run_rows(cpu, n_rows, error));
  }
}
