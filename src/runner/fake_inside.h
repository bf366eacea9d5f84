/* The inside of the fake runner. */
#pragma once

#include "runner/fake_network.h"

/* A page of one group. cells[i] stands for positions 0 .. i of it, and for all before the page. A
 * snapshot has one cell, for as many positions. */
struct ommai_fake_page {
  int64_t n_written; /* cells from here on are somebody's of old; of a snapshot, its positions */
  uint64_t cells[OMMA_ATTENTION_PAGE_TOKENS];
};

struct ommai_fake_slot {
  bool used;
  int64_t n_drawn;
  int64_t head_end;        /* positions before it were shown to the draft head */
  uint64_t prompt, answer; /* regardless of the order of tokens, as counts are */
};

/* A pass or chunk in progress. */
struct ommai_fake_work {
  bool running;
  int64_t done_ns, total_ns;
};

/* A row that tokens may be drawn after. */
struct ommai_fake_row {
  int64_t slot;
  int32_t token;
  uint64_t hash;
  bool unread; /* nothing was to be asked of it */
};

struct ommai_fake_runner {
  struct ommai_runner runner; /* first: what the engine has */
  const struct ommai_fake_network *network;
  struct ommai_runner_limits limits;
  int64_t now;
  int64_t n_calls[OMMAI_FAKE_CALLS];
  char complaint[200];
  struct ommai_fake_slot *slots;                         /* [max_sequences] */
  struct ommai_fake_page *pages[OMMAI_MAX_STATE_GROUPS]; /* [n_pages] */

  struct ommai_fake_work pass, chunk;
  const struct ommai_prepared_image *images; /* of the pass */
  struct ommai_image_rows *const *rows;
  int64_t n_images;
  struct ommai_prompt_piece pieces[OMMAI_MAX_CHUNK_PIECES]; /* of the chunk */
  bool dropped[OMMAI_MAX_CHUNK_PIECES];
  int64_t n_pieces, n_all_pieces; /* of this chunk, and of all */

  struct ommai_fake_row *chunk_rows, *step_rows; /* [prefill_chunk], [max_rows] */
  int64_t n_chunk_rows, n_step_rows;             /* that may be drawn from */
  int64_t n_shown_rows;                          /* of the last step, drawn from or not */
};

static inline struct ommai_fake_runner *ommai_fake_inside(struct ommai_runner *runner) {
  return (struct ommai_fake_runner *)(void *)runner;
}

uint64_t ommai_fake_mix(uint64_t hash, uint64_t value);

/* Keeps the first one. */
__attribute__((format(printf, 2, 3))) void ommai_fake_complain(struct ommai_fake_runner *fake, const char *format, ...);

/* Counts the call; whether it fails. */
bool ommai_fake_fails(struct ommai_fake_runner *fake, enum ommai_fake_call call);

/* Whether the slot was begun. */
bool ommai_fake_knows_slot(struct ommai_fake_runner *fake, int64_t slot);

/* fake_state.c: rows into pages. Complains where the position has none. */
void ommai_fake_check_page(struct ommai_fake_runner *fake, int group, const struct ommai_state_pages *pages, int64_t position);
enum omma_status ommai_fake_prompt_begin(struct ommai_runner *runner, const struct ommai_prompt_piece *pieces, int64_t n_pieces,
                                         struct omma_error *error);
enum omma_status ommai_fake_prompt_advance(struct ommai_runner *runner, int64_t ns, bool *done, struct omma_error *error);
enum omma_status ommai_fake_decode(struct ommai_runner *runner, const struct ommai_step_row *rows, int64_t n, bool drawn,
                                   struct omma_error *error);
void ommai_fake_prompt_drop(struct ommai_runner *runner, int64_t slot);
void ommai_fake_copy_rows(struct ommai_runner *runner, int32_t from, int32_t to, int64_t n);
/* Goes on with the work for about `ns`; whether it is done. */
bool ommai_fake_work_for(struct ommai_fake_runner *fake, struct ommai_fake_work *work, int64_t ns);

/* fake_draw.c: slots and draws. */
enum omma_status ommai_fake_slot_begin(struct ommai_runner *runner, int64_t slot, const struct ommai_sampler_settings *settings,
                                       const int32_t *prompt, size_t n_prompt, struct omma_error *error);
void ommai_fake_slot_end(struct ommai_runner *runner, int64_t slot);
enum omma_status ommai_fake_draw(struct ommai_runner *runner, enum ommai_draw_from from, struct ommai_draw *draws, int64_t n,
                                 struct omma_error *error);
enum omma_status ommai_fake_draft(struct ommai_runner *runner, enum ommai_draw_from from, const struct ommai_draft *drafts,
                                  int64_t n, struct omma_error *error);
enum omma_status ommai_fake_read(struct ommai_runner *runner, const struct ommai_reading *readings, int64_t n,
                                 struct omma_error *error);
