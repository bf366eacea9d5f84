/* Walks texts through a grammar, byte by byte. A state is the set of all places in the grammar
 * where the bytes so far may have led, each with its stack of calls; states and stacks are made
 * when they are first met, kept, and looked up again, so that most steps are one look into a
 * table.
 *
 * Everything has a fixed size. When a table is full, ommai_recogniser_flush forgets all states but
 * one, and whoever holds another sees by `generation` that it is gone. A state keeps at most
 * OMMAI_RECOGNISER_MAX_ITEMS places; more are dropped, which only forbids.
 *
 * Work is counted in steps of about 10 ns. Beyond a limit everything that would make a state gives
 * FULL; what was made stays, so that the next call goes on from there. One thread, but for
 * `stop`. */
#pragma once

#include <stdatomic.h>

#include "grammar/grammar.h"

#define OMMAI_RECOGNISER_MAX_STATES (1 << 13)
#define OMMAI_RECOGNISER_MAX_ITEMS (1 << 11)
#define OMMAI_RECOGNISER_MAX_FRAMES (1 << 16)

/* Results of a step that are not states. */
enum { OMMAI_STATE_DEAD = -1, OMMAI_STATE_FULL = -2, OMMAI_STATE_UNKNOWN = -3 };
enum { OMMAI_FORCED_NO_BYTE = -1, OMMAI_FORCED_UNKNOWN = -3 };

struct ommai_recogniser_state {
  int32_t first_item, n_items;
  bool accepts; /* the text may end here */
  /* the one byte that may follow; NO_BYTE: none or several, UNKNOWN: not looked for */
  int16_t forced;
  /* token_mask.c's, by classes of characters: the state that most of them lead to, whichever of its
   * characters it is; or DEAD, or UNKNOWN where it was not looked for. Then which classes do, and
   * which lead nowhere; and how often the former do so one after the other, plus 1, or 0 where it
   * was not looked for. */
  int32_t after;
  uint8_t run;
  uint64_t to_after, dead;
};

struct ommai_recogniser {
  const struct ommai_grammar *grammar;
  int64_t generation;
  int32_t n_states;
  struct ommai_recogniser_state *states; /* [MAX_STATES] */
  int32_t *next;                         /* [MAX_STATES, n_classes] */
  struct ommai_recogniser_tables *tables;
  int64_t work, limit; /* steps done; and where they end: INT64_MAX at first */
  atomic_bool stop;    /* as if the limit were reached */
  bool is_late;        /* a FULL was for these; whoever sets a limit clears it */
};

/* Errors: MEMORY. The grammar must outlive it. */
enum omma_status ommai_recogniser_create(const struct ommai_grammar *grammar, struct ommai_recogniser **recogniser,
                                         struct omma_error *error);
/* Bytes that it takes. */
size_t ommai_recogniser_bytes(const struct ommai_recogniser *recogniser);
void ommai_recogniser_destroy(struct ommai_recogniser *recogniser);

/* Whether the limit of work is reached, or it is to stop. */
bool ommai_recogniser_is_late(struct ommai_recogniser *recogniser);

/* The state before the first byte, or FULL. */
int32_t ommai_recogniser_start(struct ommai_recogniser *recogniser);

/* The state after `byte`, DEAD or FULL. */
int32_t ommai_recogniser_step(struct ommai_recogniser *recogniser, int32_t state, unsigned char byte);

/* The one byte that may follow the state, where the text cannot end there; or NO_BYTE. */
int ommai_recogniser_forced(struct ommai_recogniser *recogniser, int32_t state);

/* Forgets all states but this one (DEAD: none), and returns its new number. */
int32_t ommai_recogniser_flush(struct ommai_recogniser *recogniser, int32_t state);

static inline int32_t ommai_recogniser_next(struct ommai_recogniser *recogniser, int32_t state, unsigned char byte) {
  const struct ommai_grammar *grammar = recogniser->grammar;
  int32_t next = recogniser->next[(int64_t)state * grammar->n_classes + grammar->class_of[byte]];
  return next == OMMAI_STATE_UNKNOWN ? ommai_recogniser_step(recogniser, state, byte) : next;
}
