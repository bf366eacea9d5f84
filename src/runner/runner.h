/* What computes, as the engine sees it: images through a tower, prompts and generated tokens
 * through a decoder, and the choice of tokens. The engine decides what is computed when, and for
 * whom; a runner computes it and knows nothing of requests, queues and caches.
 *
 * What passes is handles and indices: an image's rows (runner/image_rows.h), slots, page numbers,
 * rows of the step or chunk at hand. Nothing points into a runner's memory, so that a runner may
 * compute elsewhere, or not at all (a table of functions that only count).
 *
 * A runner serves one thread. It takes all its memory when it is created, except for slots whose
 * request needs tables, and for an image that is larger than the patch budget. At any time there
 * may be one pass of images and one chunk of prompts in progress, which go on in slices, and steps
 * of generated tokens between their slices. */
#pragma once

#include "base/state_groups.h"
#include "base/tokens.h"
#include "model/prepared_image.h"
#include "runner/image_rows.h"

/* ---- what a network is, and what its runner takes ---- */

/* What drafts tokens in a runner (struct ommai_draft): a head, which goes on from the states of
 * rows, or a model, from tokens alone. */
enum ommai_drafter { OMMAI_NO_DRAFTER, OMMAI_DRAFT_HEAD, OMMAI_DRAFT_MODEL };

struct ommai_runner_facts {
  unsigned kinds;     /* of requests that it serves: bits 1 << enum omma_request_kind */
  int64_t vocab_size; /* 0: there is no decoder; then n_groups is 0 too */
  int n_workers;
  struct ommai_image_shape image;
  int n_groups;
  struct ommai_state_group groups[OMMAI_MAX_STATE_GROUPS]; /* of layers, by what they keep */
  /* Rows whose logits are there at a time. Rows of a step are best drawn in rising order, and all
   * draws among as many successive rows before the next ones: then nothing is computed twice. */
  int64_t draw_rows;
  size_t state_bytes; /* of a row's state (struct ommai_reading) */
  enum ommai_drafter drafter;
};

/* The most that a runner is to take at once. Everything but patch_budget and max_sequences is 0
 * where there is no decoder. */
struct ommai_runner_limits {
  int64_t n_pages[OMMAI_MAX_STATE_GROUPS];
  int64_t context;       /* positions of a sequence */
  int64_t prefill_chunk; /* tokens of a chunk, of all its pieces */
  int64_t patch_budget;  /* patches of a pass, unless one image has more */
  int64_t max_sequences; /* slots */
  int64_t max_rows;      /* of a step */
  int64_t drawn_rows;    /* of a step whose rows are drawn */
  /* what computes, of at most facts.n_workers workers; NULL: the runner makes one */
  const struct omma_team *team;
  int engine; /* which of several over the network, from 0 */
};

/* Bytes that a runner of these limits will take, besides its pages. */
struct ommai_runner_bytes {
  size_t prefill, decode, encode; /* workspaces */
  size_t tables;                  /* for draws and rows */
  size_t slot;                    /* of a slot whose request needs tables */
};

struct ommai_runner;

/* Where runners of one network come from: a table of functions over the network, which measures
 * before memory is taken. */
struct ommai_runner_source {
  const void *network;
  void (*facts)(const void *network, struct ommai_runner_facts *facts);
  /* Errors: LIMIT (field "patch_budget": a size does not fit into this machine's addresses). */
  enum omma_status (*measure)(const void *network, const struct ommai_runner_limits *limits, struct ommai_runner_bytes *bytes,
                              struct omma_error *error);
  /* Of one image of n_patches: the workspace of its pass (0: it overflows), and its pixels after
   * the resize together with its rows. */
  void (*measure_image)(const void *network, int64_t n_patches, size_t *workspace, int64_t *image_bytes);
  /* Errors: MEMORY, INTERNAL (threads). */
  enum omma_status (*create)(const void *network, const struct ommai_runner_limits *limits, struct ommai_runner **runner,
                             struct omma_error *error);
};

/* ---- what is handed to a runner ---- */

/* A chunk has pieces of different sequences, at most this number and no more than there are slots;
 * their pages end after at most `context` positions, rounded up to a page, in all. */
#define OMMAI_MAX_CHUNK_PIECES 64

/* A piece of a sequence's prompt: n_tokens from position `first` on, which is a multiple of
 * OMMA_ATTENTION_PAGE_TOKENS unless rows of its page were copied there (copy_rows). `images` are
 * those that the tokens name; rows of them that the piece has are complete. Tokens, pages and rows
 * stay until the chunk is over, or the piece dropped. */
struct ommai_prompt_piece {
  int64_t slot;
  int64_t first, n_tokens;
  const struct ommai_prompt_token *tokens; /* [n_tokens] */
  struct ommai_image_rows *const *images;
  struct ommai_state_pages pages;
  struct ommai_prompt_token next; /* what follows them; token -1: that is not known yet */
  int64_t first_read; /* of its rows, the first that is drawn from or read; n_tokens: none */
};

/* A generated token on its way through the decoder: `index` is its place in the sequence,
 * `position` its rotary position in all three axes. */
struct ommai_step_row {
  int64_t slot;
  int32_t token, position;
  int64_t index;
  struct ommai_state_pages pages;
};

/* For a draft head: rows of the step or chunk that is done, of one sequence at successive indices,
 * and the tokens that follow them. The head keeps what it sees of each row, in the row's page, and
 * drafts the tokens that follow the last one. It must be shown every row of a sequence once, in
 * order; those of chunks it has seen where their next token was known.
 *
 * A draft model needs nothing of a row but its next token, which it keeps at that token's own
 * place: rows may be shown to it later, and the last one only where the page of its next token is
 * there. It has seen the tokens of chunks, but never those that follow them. */
struct ommai_draft {
  int64_t slot, row, n_rows; /* row: of the step or chunk; a draft model does not ask */
  const int32_t *next;       /* [n_rows] */
  /* of the first row in its sequence, and its rotary position; the next ones follow */
  int64_t index;
  int32_t position[3];
  /* those of index + n_rows + n_tokens - 1 positions are there, for a model of one more */
  struct ommai_state_pages pages;
  /* as tokens will be drawn after the answer's first `step`, but for what looks back or forbids */
  const struct ommai_sampler_settings *settings;
  int64_t step;
  int64_t n_tokens; /* at most OMMA_MAX_DRAFT_TOKENS; 0: nothing is drafted */
  int32_t *tokens;  /* [n_tokens] */
};

/* What is read of rows of a chunk, f32: their states after the final norm, projected where the
 * network projects them, state_bytes each, or the logits of a few tokens. */
struct ommai_reading {
  int64_t row, n_rows;
  const int32_t *tokens; /* [n_tokens] */
  int64_t n_tokens;      /* 0: states */
  void *out;             /* [n_rows] */
};

/* Seconds that parts of passes took, the mean of the workers. */
struct ommai_encode_times {
  double cut, embed, attention, linear;
};

#define OMMAI_MAX_PASS_IMAGES 64

enum ommai_draw_from { OMMAI_DRAW_FROM_CHUNK, OMMAI_DRAW_FROM_STEP };

/* ---- what a runner does ---- */

struct ommai_runner_functions {
  /* NULL is not allowed. Gives up what is in progress. */
  void (*destroy)(struct ommai_runner *runner);
  /* Nanoseconds since whenever, by the clock that its work takes time of. Any thread. */
  int64_t (*now)(const struct ommai_runner *runner);
  /* Of all workspaces as they are now. */
  size_t (*workspace_bytes)(const struct ommai_runner *runner);
  /* A hash of all that images' rows depend on besides the image: checkpoint, configuration, how the
   * tower computes, and this library's version. Reads about a KiB of each tensor. Errors: IO,
   * FORMAT (config.json), MEMORY. */
  enum omma_status (*name_encoder)(const struct ommai_runner *runner, uint8_t digest[32], struct omma_error *error);

  /* Begins a pass of 1 to OMMAI_MAX_PASS_IMAGES images into rows of their numbers of tokens; both
   * stay until the pass is over. Adds to `times` (may be NULL), which stays likewise. Errors: LIMIT
   * (field "image"), MEMORY; then there is no pass. */
  enum omma_status (*encode_begin)(struct ommai_runner *runner, const struct ommai_prepared_image *images,
                                   struct ommai_image_rows *const *rows, int64_t n, struct ommai_encode_times *times,
                                   struct omma_error *error);
  /* Goes on for about `ns` nanoseconds. *done: the rows are complete. Errors: INTERNAL. */
  enum omma_status (*encode_advance)(struct ommai_runner *runner, int64_t ns, bool *done, struct omma_error *error);
  /* Work of the pass done and in all. */
  void (*encode_progress)(const struct ommai_runner *runner, int64_t *done, int64_t *total);
  /* Ends the pass, done or not. Nothing happens where there is none. */
  void (*encode_end)(struct ommai_runner *runner);

  /* A sequence begins in a free slot, with a prompt and settings that stay until its end. Takes
   * memory only where the settings need tables. Errors: MEMORY; then the slot is free. */
  enum omma_status (*slot_begin)(struct ommai_runner *runner, int64_t slot, const struct ommai_sampler_settings *settings,
                                 const int32_t *prompt, size_t n_prompt, struct omma_error *error);
  /* Nothing happens to a free slot. */
  void (*slot_end)(struct ommai_runner *runner, int64_t slot);

  /* Begins a chunk of n_pieces, each of another slot. Its rows are their tokens, piece after piece,
   * and may be drawn from until the next chunk begins. A chunk in progress is given up.
   * Errors: MEMORY. */
  enum omma_status (*prompt_begin)(struct ommai_runner *runner, const struct ommai_prompt_piece *pieces, int64_t n_pieces,
                                   struct omma_error *error);
  /* Goes on for about `ns` nanoseconds. *done: state and rows of all its tokens are there, and stay
   * there however often it is called. Errors: INTERNAL. */
  enum omma_status (*prompt_advance)(struct ommai_runner *runner, int64_t ns, bool *done, struct omma_error *error);

  /* The slot's piece leaves the chunk in progress: nothing of it is written or needed from here on,
   * and none of its rows is drawn from. Nothing happens where there is none. */
  void (*prompt_drop)(struct ommai_runner *runner, int64_t slot);

  /* The state of the first n positions of a page of the first group becomes that of another page.
   * Of a runner with that one group, of kind PAGES, and no drafter; not while a chunk writes either
   * page. */
  void (*copy_rows)(struct ommai_runner *runner, int32_t from, int32_t to, int64_t n);

  /* Reads of the chunk that is done; the readings stand in rising order of rows. Errors: MEMORY. */
  enum omma_status (*read)(struct ommai_runner *runner, const struct ommai_reading *readings, int64_t n,
                           struct omma_error *error);

  /* A step: the rows' state goes into the pages. Rows of one sequence stand at successive indices,
   * and each sees those before it. `drawn`: its rows may be drawn from until the next step or a
   * draw from a chunk. Errors: MEMORY, INTERNAL. */
  enum omma_status (*decode)(struct ommai_runner *runner, const struct ommai_step_row *rows, int64_t n, bool drawn,
                             struct omma_error *error);

  /* Chooses a token for each draw; they stand in rising order of rows. A chosen token counts as the
   * slot's next one. Errors: MEMORY. */
  enum omma_status (*draw)(struct ommai_runner *runner, enum ommai_draw_from from, struct ommai_draw *draws, int64_t n,
                           struct omma_error *error);

  /* What a draft head makes of rows of the last step or chunk, after the draws from them; of a
   * runner that has one. Rows and draft tokens in all are no more than a step has. Errors: MEMORY.
   * */
  enum omma_status (*draft)(struct ommai_runner *runner, enum ommai_draw_from from, const struct ommai_draft *drafts,
                            int64_t n, struct omma_error *error);

  /* What pages hold is lost, and the memory of pages and workspaces is the system's until it is
   * needed again. All slots are free, and there is no pass; a chunk in progress is given up. */
  void (*give_back)(struct ommai_runner *runner);
};

/* The beginning of every runner. */
struct ommai_runner {
  const struct ommai_runner_functions *functions;
  struct ommai_runner_facts facts;
};
