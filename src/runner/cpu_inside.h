/* The inside of the CPU's runner: memory that was measured before, and what is in progress. */
#pragma once

#include "base/team.h"
#include "language/decode.h"
#include "language/kv_cache.h"
#include "language/prefill.h"
#include "language/sampler.h"
#include "model/model.h"
#include "runner/runner.h"
#include "vision/vision_run.h"

/* Rows whose logits are there at a time: enough that reading the output layer's weights again for
 * the next ones costs little, and few enough that many sequences take no more memory than these. */
#define OMMAI_CPU_DRAW_ROWS 32

/* What penalties look at, of a slot whose request has some; else NULL. */
struct ommai_cpu_slot {
  int32_t *answer; /* [vocab] */
  bool *prompt;    /* [vocab] */
};

/* What a draft model computes in. */
struct ommai_cpu_draft_tables {
  struct ommai_prompt_row *prompt_rows; /* [prefill_chunk] */
  void *prefill, *decode;               /* workspaces */
  size_t prefill_bytes, decode_bytes;
};

/* Everything of the runner that depends on its limits, besides pages and workspaces. */
struct ommai_cpu_tables {
  struct ommai_cpu_slot *slots;          /* [max_sequences] */
  struct ommai_vision_profile *profiles; /* [n_workers] */
  struct ommai_prompt_row *prompt_rows;  /* [prefill_chunk] */
  struct ommai_prefill_piece *pieces;    /* [max_pieces], of the chunk; and their slots */
  int64_t *piece_slots;
  struct ommai_decode_row *step_rows; /* [max_rows] */
  float *residual;                    /* [max_rows, hidden]; NULL: logits_rows are as many */
  float *draft_states;                /* [max_rows, its hidden], of a draft head or model */
  struct ommai_cpu_draft_tables draft;
  float *logits;                      /* [logits_rows, vocab] */
  struct ommai_sampler_input *inputs; /* [sampler_rows] */
  void *sampler_memory;
};

struct ommai_cpu_runner {
  struct ommai_runner runner; /* first: what the engine has */
  const struct omma_model *model;
  const struct ommai_network *network; /* the model's copy for this engine */
  struct ommai_runner_limits limits;
  struct ommai_runner_bytes bytes; /* `encode` as it is now */
  struct ommai_team *team;
  const struct omma_team *threads;
  struct ommai_kv_cache *kv, *draft_kv; /* under the same page numbers; NULL: no draft model */
  void *prefill_workspace, *decode_workspace, *vision_workspace, *table_memory;
  struct ommai_cpu_tables tables;
  struct ommai_sampler *sampler;

  /* The pass in progress; NULL: none. */
  struct ommai_vision_run *pass;
  struct ommai_vision_input inputs[OMMAI_MAX_PASS_IMAGES];
  struct ommai_encode_times *times;

  struct ommai_prefill *chunk;       /* in progress, or done; NULL: none */
  struct ommai_prefill *draft_chunk; /* the same through a draft model, after it */
  int64_t n_pieces;
  struct ommai_prefill_pace pace, draft_pace;

  /* The rows whose logits are there, in rising order, and how many the step has. */
  enum ommai_draw_from logits_from;
  int64_t n_logits, logits_of[OMMAI_CPU_DRAW_ROWS], n_step_rows;
};

/* Pieces of a chunk, rows of logits, and of the sampler, of a runner with these limits. */
int64_t ommai_cpu_max_pieces(const struct ommai_runner_limits *limits);
int64_t ommai_cpu_logits_rows(const struct ommai_runner_limits *limits);
int64_t ommai_cpu_sampler_rows(const struct ommai_runner_limits *limits);

static inline struct ommai_cpu_runner *ommai_cpu_inside(struct ommai_runner *runner) {
  return (struct ommai_cpu_runner *)(void *)runner;
}
static inline const struct ommai_cpu_runner *ommai_cpu_inside_const(const struct ommai_runner *runner) {
  return (const struct ommai_cpu_runner *)(const void *)runner;
}

/* A draft model's part (cpu_draft_model.c); of a runner without one, create and prompt_begin do
 * nothing, and the others are not called. */
struct ommai_arena;
size_t ommai_cpu_draft_page_bytes(const struct omma_model *model);
void ommai_cpu_draft_place(const struct omma_model *model, const struct ommai_runner_limits *limits, struct ommai_arena *arena,
                           struct ommai_cpu_draft_tables *tables);
enum omma_status ommai_cpu_draft_create(struct ommai_cpu_runner *cpu, struct omma_error *error);
/* After the model's own rows and pieces were laid out. */
enum omma_status ommai_cpu_draft_prompt_begin(struct ommai_cpu_runner *cpu, int64_t n_rows, struct omma_error *error);
/* step_rows through its layers; leaves their residual rows in draft_states. */
enum omma_status ommai_cpu_draft_run(struct ommai_cpu_runner *cpu, int64_t n_rows, struct omma_error *error);
/* Of such rows, at most OMMAI_CPU_DRAW_ROWS, into the runner's logits. */
enum omma_status ommai_cpu_draft_logits(struct ommai_cpu_runner *cpu, const float *states, int64_t n_rows,
                                        struct omma_error *error);

/* The functions of the table, by what they are about. */
enum omma_status ommai_cpu_name_encoder(const struct ommai_runner *runner, uint8_t digest[32], struct omma_error *error);

enum omma_status ommai_cpu_encode_begin(struct ommai_runner *runner, const struct ommai_prepared_image *images,
                                        struct ommai_image_rows *const *rows, int64_t n, struct ommai_encode_times *times,
                                        struct omma_error *error);
enum omma_status ommai_cpu_encode_advance(struct ommai_runner *runner, int64_t ns, bool *done, struct omma_error *error);
void ommai_cpu_encode_progress(const struct ommai_runner *runner, int64_t *done, int64_t *total);
void ommai_cpu_encode_end(struct ommai_runner *runner);

enum omma_status ommai_cpu_prompt_begin(struct ommai_runner *runner, const struct ommai_prompt_piece *pieces, int64_t n_pieces,
                                        struct omma_error *error);
enum omma_status ommai_cpu_prompt_advance(struct ommai_runner *runner, int64_t ns, bool *done, struct omma_error *error);
void ommai_cpu_prompt_drop(struct ommai_runner *runner, int64_t slot);
void ommai_cpu_copy_rows(struct ommai_runner *runner, int32_t from, int32_t to, int64_t n);
enum omma_status ommai_cpu_read(struct ommai_runner *runner, const struct ommai_reading *readings, int64_t n,
                                struct omma_error *error);
enum omma_status ommai_cpu_decode(struct ommai_runner *runner, const struct ommai_step_row *rows, int64_t n, bool drawn,
                                  struct omma_error *error);

enum omma_status ommai_cpu_slot_begin(struct ommai_runner *runner, int64_t slot, const struct ommai_sampler_settings *settings,
                                      const int32_t *prompt, size_t n_prompt, struct omma_error *error);
void ommai_cpu_slot_end(struct ommai_runner *runner, int64_t slot);
enum omma_status ommai_cpu_draft(struct ommai_runner *runner, enum ommai_draw_from from, const struct ommai_draft *drafts,
                                 int64_t n, struct omma_error *error);
enum omma_status ommai_cpu_draw(struct ommai_runner *runner, enum ommai_draw_from from, struct ommai_draw *draws, int64_t n,
                                struct omma_error *error);
