/* Generated tokens: a step gives every decoding sequence its next one. One thread. */
#pragma once

#include "engine/draft_gain.h"
#include "engine/mask_worker.h"
#include "engine/resources.h"
#include "engine/sequence.h"

/* A sequence in the step in progress. */
struct ommai_decode_entry {
  struct ommai_sequence *sequence;
  int64_t first_row, n_draft; /* its rows: the last token's, then the draft's */
  int64_t place;              /* of the last token, in prompt and answer */
  int32_t draft[OMMA_MAX_DRAFT_TOKENS];
  bool forced;   /* drafted by the answer's grammar */
  bool open;     /* its next row's logits are those of its next token */
  bool ended;    /* and the sequence is gone */
  bool sits_out; /* its mask was not made in time: nothing was drawn */
};

struct ommai_decode_lane {
  struct ommai_resources *resources;
  struct ommai_step_row *rows;         /* [max_rows] */
  struct ommai_decode_entry *entries;  /* [max_sequences] */
  struct ommai_draw *draws;            /* [max_sequences] */
  struct ommai_draft *drafts;          /* [max_sequences] */
  int64_t *drawn;                      /* [max_sequences] entries that draws are of */
  int32_t *banned;                     /* [max_sequences, OMMAI_SEQUENCE_MAX_BANNED] */
  struct ommai_mask_wish *mask_wishes; /* [max_sequences] */
  struct ommai_mask_worker mask_worker;
  int64_t step_ns; /* the last step took, as the caller says; 0: not known */
  /* Of a draft head: whether it pays, and what it took after the last step. */
  struct ommai_draft_gain gain;
  int64_t draft_ns;
};

/* Bytes of its tables. */
size_t ommai_decode_lane_bytes(const struct ommai_engine_sizes *sizes);
/* Errors: MEMORY; what was made stays for free. */
enum omma_status ommai_decode_lane_init(struct ommai_decode_lane *lane, struct ommai_resources *resources,
                                        struct omma_error *error);
void ommai_decode_lane_free(struct ommai_decode_lane *lane);

/* Before a step of the sequences in entries[0 .. n), all in stage DECODE: those that may be in it
 * come first; returns how many. Where layers keep snapshots, a row that is computed has to be drawn
 * from, as its state cannot be taken back: there the masks are made now, and who has none in time
 * is not in the step. Elsewhere all are: masks are made next to the network, and a row is computed
 * again where its mask was late. */
int64_t ommai_decode_lane_sort(struct ommai_decode_lane *lane, int64_t n);

/* Runs the last tokens of the sequences in entries[0 .. n), which come out of
 * ommai_decode_lane_sort, their pages in place, and what is drafted after them. Then every entry is
 * open whose mask was made in time. Errors: MEMORY, INTERNAL. */
enum omma_status ommai_decode_lane_step(struct ommai_decode_lane *lane, int64_t n, struct omma_error *error);

/* The end of the entries from `first` on, of n, whose rows are best drawn together. */
int64_t ommai_decode_lane_group(const struct ommai_decode_lane *lane, int64_t first, int64_t n);

/* Draws the next token of each open entry from `first` to before `end`, from its row `round`, into
 * draws; *n_drawn: how many, their entries are in drawn[]. The caller hands them to the sequences
 * and passes with ommai_decode_lane_close which sequences have ended. Errors: MEMORY. */
enum omma_status ommai_decode_lane_draw(struct ommai_decode_lane *lane, int64_t first, int64_t end, int64_t round,
                                        int64_t *n_drawn, struct omma_error *error);

/* After its token of this round was taken: the entry stays open where the draft was right and the
 * sequence goes on. */
void ommai_decode_lane_close(struct ommai_decode_lane *lane, struct ommai_decode_entry *entry, int64_t round, int32_t token,
                             bool ended);

/* After the last round, with the n that came before ommai_decode_lane_sort: answers whose masks
 * were not made in time sit out from now on. */
void ommai_decode_lane_end(struct ommai_decode_lane *lane, int64_t n);

/* After ommai_decode_lane_end of a step of n entries, which took `ns` for n_tokens: shows its rows
 * to the draft head and has the next tokens drafted, where the engine has a head.
 * Errors: MEMORY. */
enum omma_status ommai_decode_lane_draft(struct ommai_decode_lane *lane, int64_t n, int64_t n_tokens, int64_t ns,
                                         struct omma_error *error);

/* The same after ommai_decode_lane_first and the first tokens, for those of its n that go on. */
enum omma_status ommai_decode_lane_draft_first(struct ommai_decode_lane *lane, struct ommai_sequence *const *sequences,
                                               const int64_t *last_rows, int64_t n, struct omma_error *error);

/* The end of n prompts: draws the first token of sequences[i] from row last_rows[i] of their last
 * chunk, which rise, into draws[i]. Errors: MEMORY. */
enum omma_status ommai_decode_lane_first(struct ommai_decode_lane *lane, struct ommai_sequence *const *sequences,
                                         const int64_t *last_rows, int64_t n, struct omma_error *error);

/* After a preemption: up to OMMAI_REPLAY_ROWS generated tokens through decode again, whose pages
 * are in place. */
enum omma_status ommai_decode_lane_replay(struct ommai_decode_lane *lane, struct ommai_sequence *sequence,
                                          struct omma_error *error);
/* Tokens that a replay would take next; 0: all keys and values are there. */
int64_t ommai_decode_lane_replay_count(const struct ommai_sequence *sequence);
