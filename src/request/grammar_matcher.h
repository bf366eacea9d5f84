/* The inside of omma_grammar, and the position of an answer in its grammar. */
#pragma once

#include <omma/omma.h>
#include <stdatomic.h>

#include "base/cpu_share.h"
#include "grammar/token_mask.h"

struct omma_grammar {
  atomic_int users; /* the creator, and every request that has it */
  const struct omma_model *model;
  struct ommai_grammar *grammar;
  int64_t max_work; /* steps for a first mask */
  /* Once it is created, the engine's thread alone, or a thread of its masks that it waits for; or
   * with is_late one that it does not wait for. */
  struct ommai_token_masks *masks;
  bool is_late; /* the engine's thread alone */
  /* Of several engines in one, those after the first have tables of their own over the same
   * grammar: NULL until one is needed. */
  _Atomic(struct omma_grammar *) of_engine[OMMAI_MAX_ENGINES];
};

/* The grammar's tables for the index-th of several engines in one, made before a request with it
 * goes there, and then found; the grammar has them until it is destroyed. NULL is allowed: no
 * grammar. Thread-safe. Errors: MEMORY. */
enum omma_status ommai_grammar_prepare(struct omma_grammar *grammar, int index, struct omma_error *error);
struct omma_grammar *ommai_grammar_of_engine(struct omma_grammar *grammar, int index);

/* Where an answer stands in its grammar. Zero-initialised: there is no grammar. */
struct ommai_grammar_matcher {
  struct omma_grammar *grammar; /* or NULL */
  struct ommai_mask_position position;
  /* while the position is looked for again, after n_found tokens */
  struct ommai_mask_position found;
  int64_t n_found;
  bool ends, goes_on; /* the answer may end here; may go on */
  bool stuck;         /* no token can follow, though bytes could */
  bool begun;         /* it has a token */
  bool has_copy;      /* its next mask is in the wish's place already */
  bool too_hard;      /* its next mask takes more work than any may */
};

/* Before the first token. `grammar` may be NULL. */
void ommai_grammar_matcher_start(struct ommai_grammar_matcher *matcher, struct omma_grammar *grammar);

/* Whether its next mask is made, so that a token may be drawn and taken. */
bool ommai_grammar_matcher_is_ready(const struct ommai_grammar_matcher *matcher);

/* Takes the token that was drawn after `generated` [n_generated], which are the answer so far, it
 * included. Errors: ARGUMENT (no token could follow, so that this one is not of the grammar). */
enum omma_status ommai_grammar_matcher_take(struct ommai_grammar_matcher *matcher, const int32_t *generated,
                                            int64_t n_generated, struct omma_error *error);

/* Whether the answer is complete and cannot continue, where no end token is generated: with
 * ignore_eos, or for a model without end tokens. */
bool ommai_grammar_matcher_is_over(const struct ommai_grammar_matcher *matcher, bool ignore_eos);

/* Copies the mask of the tokens that may come next to mask [ommai_mask_words(vocab_size)]; with
 * ignore_eos without those that end answers. Where that leaves none, the mask has all, and the
 * answer is stuck. The answer is ready and has no copy. */
void ommai_grammar_matcher_mask(struct ommai_grammar_matcher *matcher, bool ignore_eos, uint32_t *mask);

/* Whether the mask has a token besides n_banned ones. */
bool ommai_grammar_matcher_leaves(uint32_t *mask, int64_t n_words, const int32_t *banned, size_t n_banned);

/* Drafts up to `max_tokens` next tokens where the grammar leaves one way to go on over some bytes
 * (a key, punctuation): as the tokenizer cuts these bytes after the answer so far. Returns how
 * many. What is drawn does not depend on it. */
int64_t ommai_grammar_matcher_draft(struct ommai_grammar_matcher *matcher, const int32_t *generated, int64_t n_generated,
                                    int64_t max_tokens, int32_t *tokens);

/* Whether the next mask has to be made, or may have to be after a draft. */
bool ommai_grammar_matcher_needs_mask(const struct ommai_grammar_matcher *matcher, int64_t n_draft);

/* What an answer's next masks are made of. */
struct ommai_mask_wish {
  struct ommai_grammar_matcher *matcher;
  const int32_t *generated; /* [n_generated] of the answer, as to take */
  int64_t n_generated;
  const int32_t *draft; /* [n_draft] that may follow */
  int64_t n_draft;
  bool ignore_eos;
  uint32_t *mask; /* where it is copied, as by ommai_grammar_matcher_mask; or NULL */
};

/* Makes the next mask, so that the answer is ready, and those after each draft token as far as they
 * are easy. It ends after max_work steps (grammar/recogniser.h), and adds those it took to *work.
 * `alone`: nobody draws from the grammar's other answers meanwhile, which need not be ready any
 * more afterwards. False: it is not done; another call goes on from there. On any thread that has
 * the grammar for itself. */
bool ommai_grammar_matcher_make(const struct ommai_mask_wish *wish, int64_t max_work, bool alone, int64_t *work);
