/* A draft model's language model: it goes through the chunks of prompts after the model itself, in
 * pages of the same numbers, and through tokens when it drafts. */
#include "model/draft_model.h"

#include <float.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "runner/cpu_inside.h"

static const struct ommai_decoder *decoder_of(const struct ommai_cpu_runner *cpu) {
  return &cpu->model->draft->network.decoder;
}

/* ---- memory ---- */

size_t ommai_cpu_draft_page_bytes(const struct omma_model *model) {
  struct ommai_state_layout layout;
  ommai_state_layout_make(&model->draft->config.text, model->draft->network.decoder.kv_type, &layout);
  return layout.groups[0].state.page_bytes;
}

void ommai_cpu_draft_place(const struct omma_model *model, const struct ommai_runner_limits *limits, struct ommai_arena *arena,
                           struct ommai_cpu_draft_tables *tables) {
  const struct ommai_decoder *decoder = &model->draft->network.decoder;
  int n_threads = model->network.n_threads;
  tables->prefill_bytes =
      ommai_prefill_workspace_size(decoder, limits->prefill_chunk, ommai_cpu_max_pieces(limits), limits->context, n_threads);
  tables->decode_bytes = ommai_decode_workspace_size(decoder, limits->max_rows, limits->context, n_threads);
  if (!tables->prefill_bytes || !tables->decode_bytes) arena->failed = true;
  tables->prompt_rows = ommai_arena_take(arena, (size_t)limits->prefill_chunk, sizeof *tables->prompt_rows);
  tables->prefill = ommai_arena_take(arena, tables->prefill_bytes, 1);
  tables->decode = ommai_arena_take(arena, tables->decode_bytes, 1);
}

enum omma_status ommai_cpu_draft_create(struct ommai_cpu_runner *cpu, struct omma_error *error) {
  if (!cpu->model->draft) return OMMA_OK;
  return ommai_kv_cache_create(&cpu->model->draft->config.text, decoder_of(cpu)->kv_type, cpu->limits.n_pages,
                               &cpu->network->large_allocator, &cpu->draft_kv, error);
}

/* ---- prompts ---- */

/* The rows of a chunk as those of the model, whose pieces these are; of images their tokens. */
enum omma_status ommai_cpu_draft_prompt_begin(struct ommai_cpu_runner *cpu, int64_t n_rows, struct omma_error *error) {
  struct ommai_cpu_draft_tables *tables = &cpu->tables.draft;
  cpu->draft_chunk = NULL;
  if (!cpu->model->draft) return OMMA_OK;
  for (int64_t i = 0; i < n_rows; i++) {
    tables->prompt_rows[i] = cpu->tables.prompt_rows[i];
    tables->prompt_rows[i].image = NULL;
  }
  return ommai_prefill_start(decoder_of(cpu), cpu->draft_kv, cpu->tables.pieces, cpu->n_pieces, tables->prompt_rows,
                             tables->prefill, tables->prefill_bytes, cpu->threads, &cpu->draft_chunk, error);
}

/* ---- tokens ---- */

enum omma_status ommai_cpu_draft_run(struct ommai_cpu_runner *cpu, int64_t n_rows, struct omma_error *error) {
  const struct ommai_cpu_draft_tables *tables = &cpu->tables.draft;
  size_t size = (size_t)(n_rows * decoder_of(cpu)->config.hidden_size) * sizeof(float);
  OMMAI_TRY(ommai_decode_run(decoder_of(cpu), cpu->draft_kv, cpu->tables.step_rows, n_rows, tables->decode,
                             tables->decode_bytes, cpu->threads, NULL, error));
  memcpy(cpu->tables.draft_states, ommai_decode_residual(tables->decode), size);
  return OMMA_OK;
}

/* Tokens that the draft model has no row for are padding, which nobody draws; a row with infinities
 * would be drawn nothing from. */
static void widen(float *logits, int64_t n_rows, int64_t from, int64_t to) {
  for (int64_t i = n_rows - 1; i >= 0 && from < to; i--) {
    memmove(logits + i * to, logits + i * from, (size_t)from * sizeof *logits);
    for (int64_t j = from; j < to; j++) logits[i * to + j] = -FLT_MAX;
  }
}

enum omma_status ommai_cpu_draft_logits(struct ommai_cpu_runner *cpu, const float *states, int64_t n_rows,
                                        struct omma_error *error) {
  const struct ommai_cpu_draft_tables *tables = &cpu->tables.draft;
  const struct ommai_decoder_config *config = &decoder_of(cpu)->config;
  const float *rows[OMMAI_CPU_DRAW_ROWS];
  OMMAI_ASSERT(n_rows <= OMMAI_CPU_DRAW_ROWS);
  for (int64_t i = 0; i < n_rows; i++) rows[i] = states + i * config->hidden_size;
  OMMAI_TRY(ommai_decode_logits(decoder_of(cpu), rows, n_rows, tables->decode, tables->decode_bytes, cpu->threads,
                                cpu->tables.logits, error));
  widen(cpu->tables.logits, n_rows, config->vocab_size, cpu->runner.facts.vocab_size);
  return OMMA_OK;
}
