/* Chunks of prompts and steps of generated tokens through the decoder. */
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "runner/cpu_inside.h"

/* ---- prompts ---- */

static struct ommai_prompt_row row_of(const struct ommai_cpu_runner *cpu, const struct ommai_prompt_piece *piece,
                                      const struct ommai_prompt_token *token) {
  int64_t width = cpu->runner.facts.image.width;
  struct ommai_prompt_row row = {.token = token->token};
  memcpy(row.position, token->position, sizeof row.position);
  if (token->token < 0 || token->image < 0) return row;
  struct ommai_image_rows *image = piece->images[token->image];
  row.image = (const float *)ommai_image_rows_data(image) + token->image_row * width;
  row.image_stride = ommai_image_rows_tokens(image) * width;
  return row;
}

enum omma_status ommai_cpu_prompt_begin(struct ommai_runner *runner, const struct ommai_prompt_piece *pieces, int64_t n_pieces,
                                        struct omma_error *error) {
  struct ommai_cpu_runner *cpu = ommai_cpu_inside(runner);
  OMMAI_ASSERT(n_pieces >= 1 && n_pieces <= ommai_cpu_max_pieces(&cpu->limits));
  cpu->n_logits = 0;
  cpu->chunk = cpu->draft_chunk = NULL;
  cpu->n_pieces = n_pieces;
  int64_t n_rows = 0;
  for (int64_t i = 0; i < n_pieces; i++) {
    OMMAI_ASSERT(n_rows + pieces[i].n_tokens <= cpu->limits.prefill_chunk);
    for (int64_t j = 0; j < pieces[i].n_tokens; j++) {
      cpu->tables.prompt_rows[n_rows + j] = row_of(cpu, &pieces[i], &pieces[i].tokens[j]);
    }
    cpu->tables.pieces[i] = (struct ommai_prefill_piece){.first = pieces[i].first,
                                                         .n_rows = pieces[i].n_tokens,
                                                         .next = row_of(cpu, &pieces[i], &pieces[i].next),
                                                         .pages = pieces[i].pages,
                                                         .first_read = pieces[i].first_read};
    cpu->tables.piece_slots[i] = pieces[i].slot;
    n_rows += pieces[i].n_tokens;
  }
  OMMAI_TRY(ommai_prefill_start(&cpu->network->decoder, cpu->kv, cpu->tables.pieces, n_pieces, cpu->tables.prompt_rows,
                                cpu->prefill_workspace, cpu->bytes.prefill, cpu->threads, &cpu->chunk, error));
  return ommai_cpu_draft_prompt_begin(cpu, n_rows, error);
}

/* Its rows become those of tokens, as its images may go. */
void ommai_cpu_prompt_drop(struct ommai_runner *runner, int64_t slot) {
  struct ommai_cpu_runner *cpu = ommai_cpu_inside(runner);
  struct ommai_prompt_row *row = cpu->tables.prompt_rows;
  for (int64_t i = 0; cpu->chunk && i < cpu->n_pieces; row += cpu->tables.pieces[i++].n_rows) {
    if (cpu->tables.piece_slots[i] != slot) continue;
    ommai_prefill_drop(cpu->chunk, i);
    if (cpu->draft_chunk) ommai_prefill_drop(cpu->draft_chunk, i);
    for (int64_t j = 0; j < cpu->tables.pieces[i].n_rows; j++) row[j].image = NULL;
  }
}

void ommai_cpu_copy_rows(struct ommai_runner *runner, int32_t from, int32_t to, int64_t n) {
  ommai_kv_copy_rows(ommai_cpu_inside(runner)->kv, 0, from, to, n);
}

enum omma_status ommai_cpu_prompt_advance(struct ommai_runner *runner, int64_t ns, bool *done, struct omma_error *error) {
  struct ommai_cpu_runner *cpu = ommai_cpu_inside(runner);
  bool drafts = cpu->draft_chunk && ommai_prefill_done(cpu->chunk);
  OMMAI_TRY(drafts ? ommai_prefill_advance_for(cpu->draft_chunk, ns, &cpu->draft_pace, error)
                   : ommai_prefill_advance_for(cpu->chunk, ns, &cpu->pace, error));
  *done = ommai_prefill_done(cpu->chunk) && (!cpu->draft_chunk || ommai_prefill_done(cpu->draft_chunk));
  return OMMA_OK;
}

/* ---- generated tokens ---- */

static enum omma_status run(struct ommai_cpu_runner *cpu, int64_t n, float *logits, struct omma_error *error) {
  return ommai_decode_run(&cpu->network->decoder, cpu->kv, cpu->tables.step_rows, n, cpu->decode_workspace, cpu->bytes.decode,
                          cpu->threads, logits, error);
}

/* The logits of a large step are computed as its rows are drawn. */
enum omma_status ommai_cpu_decode(struct ommai_runner *runner, const struct ommai_step_row *rows, int64_t n, bool drawn,
                                  struct omma_error *error) {
  struct ommai_cpu_runner *cpu = ommai_cpu_inside(runner);
  int64_t hidden = cpu->model->config.text.hidden_size;
  bool at_once = drawn && n <= ommai_cpu_logits_rows(&cpu->limits);
  OMMAI_ASSERT(n <= (drawn ? cpu->limits.drawn_rows : cpu->limits.max_rows));
  for (int64_t i = 0; i < n; i++) {
    int32_t position = rows[i].position;
    cpu->tables.step_rows[i] = (struct ommai_decode_row){
        .token = rows[i].token, .position = {position, position, position}, .index = rows[i].index, .pages = rows[i].pages};
  }
  cpu->n_logits = cpu->n_step_rows = 0;
  OMMAI_TRY(run(cpu, n, at_once ? cpu->tables.logits : NULL, error));
  if ((drawn && !at_once) || cpu->model->config.text.n_draft_layers) {
    memcpy(cpu->tables.residual, ommai_decode_residual(cpu->decode_workspace), (size_t)(n * hidden) * sizeof(float));
  }
  if (!drawn) return OMMA_OK;
  cpu->n_step_rows = n;
  cpu->logits_from = OMMAI_DRAW_FROM_STEP;
  for (int64_t i = 0; at_once && i < n; i++) cpu->logits_of[cpu->n_logits++] = i;
  return OMMA_OK;
}
