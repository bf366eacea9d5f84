/* Which tokens may come next in an answer that is held to a grammar. One of these for each grammar
 * in use; its tables are shared by all answers that are held to it. One thread.
 *
 * A mask has a bit for each token of the vocabulary: set where the grammar goes on through all of
 * its bytes. The tokens that end an answer are allowed exactly where the text may end. */
#pragma once

#include "grammar/recogniser.h"
#include "grammar/token_trie.h"

/* Masks that are remembered. */
#define OMMAI_TOKEN_MASK_KEPT 64

struct ommai_token_masks;

/* How far an answer is. */
struct ommai_mask_position {
  int64_t generation;
  int32_t state; /* or OMMAI_STATE_DEAD */
};

/* Takes all its memory and makes the first mask, which may take some milliseconds, and at most
 * max_work steps (0: any). Both must outlive it. Errors: MEMORY, LIMIT. */
enum omma_status ommai_token_masks_create(const struct ommai_grammar *grammar, const struct ommai_token_trie *trie,
                                          int64_t max_work, struct ommai_token_masks **masks, struct omma_error *error);
/* Bytes that it takes, the recogniser's included. */
size_t ommai_token_masks_bytes(const struct ommai_token_masks *masks);
void ommai_token_masks_destroy(struct ommai_token_masks *masks);

/* Before the first token. */
struct ommai_mask_position ommai_token_masks_start(struct ommai_token_masks *masks);
/* Whether the tables still know the position: else it must be found again from the start. */
bool ommai_token_masks_know(const struct ommai_token_masks *masks, const struct ommai_mask_position *position);
/* Moves a known position over bytes; it is known afterwards, and DEAD where the grammar forbids
 * them. False, and nothing has changed: the limit of work is reached, or without may_flush the
 * tables are full. */
bool ommai_token_masks_try_advance(struct ommai_token_masks *masks, struct ommai_mask_position *position, const char *bytes,
                                   size_t size, bool may_flush);
/* The same, whatever that takes. False, and the position is DEAD: the grammar forbids them. */
bool ommai_token_masks_advance(struct ommai_token_masks *masks, struct ommai_mask_position *position, const char *bytes,
                               size_t size);

/* Whether the text may end at a known position that is not dead; whether bytes may follow. Makes no
 * mask. */
bool ommai_token_masks_ends(const struct ommai_token_masks *masks, const struct ommai_mask_position *position);
bool ommai_token_masks_goes_on(const struct ommai_token_masks *masks, const struct ommai_mask_position *position);
/* Whether its mask is remembered. */
bool ommai_token_masks_remember(const struct ommai_token_masks *masks, const struct ommai_mask_position *position);
/* States that the tables hold. */
int64_t ommai_token_masks_n_states(const struct ommai_token_masks *masks);
/* The bytes that must follow a known position, whatever is written: as far as there is one way and
 * the text cannot end, at most `capacity`. Returns how many. */
size_t ommai_token_masks_forced(struct ommai_token_masks *masks, const struct ommai_mask_position *position, char *bytes,
                                size_t capacity);

/* A mask [n_words], valid until the next one is made. */
struct ommai_mask_view {
  const uint32_t *words;
  bool ends, goes_on; /* the text may end here; may also go on */
};

/* The mask before the first token, which is kept for ever. */
struct ommai_mask_view ommai_token_masks_first(const struct ommai_token_masks *masks);
/* That of a known position, if it is remembered: else words is NULL. */
struct ommai_mask_view ommai_token_masks_recall(const struct ommai_token_masks *masks,
                                                const struct ommai_mask_position *position);

/* Until ommai_token_masks_unlimited, calls end when they have taken that many more steps of work;
 * what they found is kept, so that the same call goes on from there. */
void ommai_token_masks_limit(struct ommai_token_masks *masks, int64_t max_work);
/* Returns the steps since the limit was set. */
int64_t ommai_token_masks_unlimited(struct ommai_token_masks *masks);
/* Ends a call that another thread is in, and those that follow; or lets them go on again. */
void ommai_token_masks_stop(struct ommai_token_masks *masks, bool stop);

/* Makes the mask of a known position that is not dead, to be remembered. False: the limit is
 * reached, or without may_flush the tables are full. With it they are emptied, and other answers'
 * positions are no longer known. */
bool ommai_token_masks_make(struct ommai_token_masks *masks, struct ommai_mask_position *position, bool may_flush);

/* Makes it and gives it, whatever that takes. */
const uint32_t *ommai_token_masks_get(struct ommai_token_masks *masks, struct ommai_mask_position *position, bool *ends,
                                      bool *goes_on);
