/* Draws: logits of a few rows at a time, and the tables of slots whose requests look back. */
#include "base/allocator.h"
#include "base/assert.h"
#include "base/checked.h"
#include "base/error.h"
#include "runner/cpu_inside.h"

/* ---- slots ---- */

enum omma_status ommai_cpu_slot_begin(struct ommai_runner *runner, int64_t slot, const struct ommai_sampler_settings *settings,
                                      const int32_t *prompt, size_t n_prompt, struct omma_error *error) {
  struct ommai_cpu_runner *cpu = ommai_cpu_inside(runner);
  struct ommai_cpu_slot *tables = &cpu->tables.slots[slot];
  size_t vocab = (size_t)runner->facts.vocab_size;
  OMMAI_ASSERT(slot >= 0 && slot < cpu->limits.max_sequences && !tables->answer);
  if (!ommai_sampler_has_penalties(settings)) return OMMA_OK;
  tables->answer = ommai_allocate(&cpu->model->allocator, vocab, sizeof *tables->answer);
  tables->prompt = ommai_allocate(&cpu->model->allocator, vocab, sizeof *tables->prompt);
  if (!tables->answer || !tables->prompt) {
    ommai_cpu_slot_end(runner, slot);
    return ommai_fail_memory(error, "penalties", cpu->bytes.slot);
  }
  for (size_t i = 0; i < n_prompt; i++) tables->prompt[prompt[i]] = true;
  return OMMA_OK;
}

void ommai_cpu_slot_end(struct ommai_runner *runner, int64_t slot) {
  struct ommai_cpu_runner *cpu = ommai_cpu_inside(runner);
  struct ommai_cpu_slot *tables = &cpu->tables.slots[slot];
  size_t vocab = (size_t)runner->facts.vocab_size;
  ommai_release(&cpu->model->allocator, tables->answer, vocab, sizeof *tables->answer);
  ommai_release(&cpu->model->allocator, tables->prompt, vocab, sizeof *tables->prompt);
  *tables = (struct ommai_cpu_slot){0};
}

/* ---- logits ---- */

/* The row's logits; NULL: they are not there. */
static float *logits_of(const struct ommai_cpu_runner *cpu, enum ommai_draw_from from, int64_t row) {
  int64_t i = 0;
  while (i < cpu->n_logits && cpu->logits_of[i] != row) i++;
  if (from != cpu->logits_from || i == cpu->n_logits) return NULL;
  return cpu->tables.logits + i * cpu->runner.facts.vocab_size;
}

/* From the first draw's row on: all rows of a step, of which draft tokens may be drawn yet; of a
 * chunk those that are drawn. */
static int64_t choose_rows(const struct ommai_cpu_runner *cpu, enum ommai_draw_from from, const struct ommai_draw *draws,
                           int64_t n, int64_t *rows) {
  int64_t max_rows = ommai_cpu_logits_rows(&cpu->limits), count = 0;
  if (from == OMMAI_DRAW_FROM_STEP) {
    for (int64_t row = draws[0].row; row < cpu->n_step_rows && count < max_rows; row++) rows[count++] = row;
  } else {
    for (int64_t i = 0; i < n && count < max_rows; i++) {
      if (count == 0 || rows[count - 1] != draws[i].row) rows[count++] = draws[i].row;
    }
  }
  return count;
}

static enum omma_status compute_logits(struct ommai_cpu_runner *cpu, enum ommai_draw_from from, const struct ommai_draw *draws,
                                       int64_t n, struct omma_error *error) {
  const float *residuals[OMMAI_CPU_DRAW_ROWS];
  int64_t count = choose_rows(cpu, from, draws, n, cpu->logits_of), hidden = cpu->model->config.text.hidden_size;
  OMMAI_ASSERT(count > 0 && (from == OMMAI_DRAW_FROM_STEP ? cpu->tables.residual != NULL : ommai_prefill_done(cpu->chunk)));
  for (int64_t i = 0; i < count; i++) {
    int64_t row = cpu->logits_of[i];
    residuals[i] = from == OMMAI_DRAW_FROM_STEP ? cpu->tables.residual + row * hidden : ommai_prefill_residual(cpu->chunk, row);
  }
  cpu->n_logits = 0;
  OMMAI_TRY(ommai_decode_logits(&cpu->network->decoder, residuals, count, cpu->decode_workspace, cpu->bytes.decode,
                                cpu->threads, cpu->tables.logits, error));
  cpu->logits_from = from;
  cpu->n_logits = count;
  return OMMA_OK;
}

/* ---- draws ---- */

/* As many of the n draws as the sampler takes at once and whose logits are there. */
static int64_t draw_some(struct ommai_cpu_runner *cpu, enum ommai_draw_from from, struct ommai_draw *draws, int64_t n) {
  int64_t max_rows = ommai_cpu_sampler_rows(&cpu->limits), count = 0;
  for (; count < n && count < max_rows; count++) {
    const struct ommai_cpu_slot *slot = &cpu->tables.slots[draws[count].slot];
    float *logits = logits_of(cpu, from, draws[count].row);
    if (!logits) break;
    cpu->tables.inputs[count] = (struct ommai_sampler_input){.logits = logits, .counts = {slot->answer, slot->prompt}};
  }
  ommai_sampler_run(cpu->sampler, draws, cpu->tables.inputs, count, cpu->threads);
  for (int64_t i = 0; i < count; i++) {
    int32_t *answer = cpu->tables.slots[draws[i].slot].answer;
    if (answer && draws[i].finite && draws[i].token >= 0 && !draws[i].is_given) answer[draws[i].token]++;
  }
  return count;
}

enum omma_status ommai_cpu_draw(struct ommai_runner *runner, enum ommai_draw_from from, struct ommai_draw *draws, int64_t n,
                                struct omma_error *error) {
  struct ommai_cpu_runner *cpu = ommai_cpu_inside(runner);
  for (int64_t i = 0; i < n;) {
    if (!logits_of(cpu, from, draws[i].row)) OMMAI_TRY(compute_logits(cpu, from, draws + i, n - i, error));
    i += draw_some(cpu, from, draws + i, n - i);
  }
  return OMMA_OK;
}

/* ---- readings ---- */

/* As many rows at a time as the workspace is for. */
static enum omma_status project_states(struct ommai_cpu_runner *cpu, const struct ommai_reading *reading,
                                       struct omma_error *error) {
  const struct ommai_decoder *decoder = &cpu->network->decoder;
  const float *residuals[OMMAI_CPU_DRAW_ROWS];
  int64_t max_rows = ommai_cpu_logits_rows(&cpu->limits), width = decoder->config.projected_state;
  for (int64_t first = 0; first < reading->n_rows; first += max_rows) {
    int64_t n = ommai_min_i64(max_rows, reading->n_rows - first);
    for (int64_t i = 0; i < n; i++) residuals[i] = ommai_prefill_residual(cpu->chunk, reading->row + first + i);
    OMMAI_TRY(ommai_decode_project(decoder, residuals, n, cpu->decode_workspace, cpu->bytes.decode, cpu->threads,
                                   (float *)reading->out + first * width, error));
  }
  return OMMA_OK;
}

static enum omma_status read_states(struct ommai_cpu_runner *cpu, const struct ommai_reading *reading,
                                    struct omma_error *error) {
  const struct ommai_decoder *decoder = &cpu->network->decoder;
  int64_t hidden = decoder->config.hidden_size;
  if (decoder->config.projected_state) return project_states(cpu, reading, error);
  for (int64_t i = 0; i < reading->n_rows; i++) {
    decoder->ops->rms_norm(ommai_prefill_residual(cpu->chunk, reading->row + i), decoder->final_norm, decoder->config.norm_eps,
                           hidden, (float *)reading->out + i * hidden, OMMA_F32);
  }
  return OMMA_OK;
}

static enum omma_status read_logits(struct ommai_cpu_runner *cpu, const struct ommai_reading *reading,
                                    const struct ommai_draw *rows, int64_t n, struct omma_error *error) {
  const float *logits = logits_of(cpu, OMMAI_DRAW_FROM_CHUNK, reading->row);
  float *out = reading->out;
  if (!logits) OMMAI_TRY(compute_logits(cpu, OMMAI_DRAW_FROM_CHUNK, rows, n, error));
  logits = logits_of(cpu, OMMAI_DRAW_FROM_CHUNK, reading->row);
  for (int64_t i = 0; i < reading->n_tokens; i++) out[i] = logits[reading->tokens[i]];
  return OMMA_OK;
}

enum omma_status ommai_cpu_read(struct ommai_runner *runner, const struct ommai_reading *readings, int64_t n,
                                struct omma_error *error) {
  struct ommai_cpu_runner *cpu = ommai_cpu_inside(runner);
  struct ommai_draw rows[OMMAI_MAX_CHUNK_PIECES]; /* those with logits that are left */
  int64_t n_rows = 0, first = 0;
  OMMAI_ASSERT(n <= OMMAI_MAX_CHUNK_PIECES && ommai_prefill_done(cpu->chunk));
  for (int64_t i = 0; i < n; i++) {
    if (readings[i].n_tokens) rows[n_rows++] = (struct ommai_draw){.row = readings[i].row};
  }
  for (int64_t i = 0; i < n; i++) {
    if (readings[i].n_tokens) {
      OMMAI_ASSERT(readings[i].n_rows == 1);
      OMMAI_TRY(read_logits(cpu, &readings[i], rows + first, n_rows - first, error));
      first++;
    } else {
      OMMAI_TRY(read_states(cpu, &readings[i], error));
    }
  }
  return OMMA_OK;
}
