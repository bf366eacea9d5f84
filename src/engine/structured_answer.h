/* The inside of omma_grammar, and where an answer stands in the grammar that it is held to. */
#ifndef OMMAI_ENGINE_STRUCTURED_ANSWER_H
#define OMMAI_ENGINE_STRUCTURED_ANSWER_H

#include <omma/omma.h>
#include <stdatomic.h>

#include "grammar/token_mask.h"

struct omma_grammar {
  atomic_int users; /* the creator, and every request that has it */
  const struct omma_model *model;
  struct ommai_grammar *grammar;
  struct ommai_token_masks *masks; /* the engine's thread alone; NULL until the first answer */
};

/* The tree of a model's tokens, made when the first grammar asks for it. */
struct ommai_shared_trie {
  _Atomic(struct ommai_token_trie *) trie;
};

void ommai_shared_trie_free(struct ommai_shared_trie *shared);

/* Where an answer stands. Zero-initialised: there is no grammar. */
struct ommai_structured_answer {
  struct omma_grammar *grammar; /* or NULL */
  struct ommai_mask_position position;
  bool ends, goes_on; /* the answer may end here; may go on */
};

/* Before the first token. Takes the grammar's tables where it has none yet. Errors: MEMORY. */
enum omma_status ommai_structured_answer_start(struct ommai_structured_answer *answer, struct omma_grammar *grammar,
                                               struct omma_error *error);

/* Takes the token that was drawn behind `generated` [n_generated], which are the answer so far, it included. Errors: ARGUMENT (the grammar
 * does not allow it, or nothing can follow). */
enum omma_status ommai_structured_answer_take(struct ommai_structured_answer *answer, const int32_t *generated,
                                              int64_t n_generated, struct omma_error *error);

/* Whether the answer is complete and nothing can tell so: it can only end, and no token ends answers. */
bool ommai_structured_answer_is_over(const struct ommai_structured_answer *answer, bool ignore_eos);

/* Copies the mask of the tokens that may come next to mask [ommai_mask_words(vocab_size)]; with ignore_eos without those that end answers. */
void ommai_structured_answer_mask(struct ommai_structured_answer *answer, const int32_t *generated, int64_t n_generated,
                                  bool ignore_eos, uint32_t *mask);

/* Whether the mask has a token beside n_banned ones. */
bool ommai_structured_answer_leaves(uint32_t *mask, int64_t n_words, const int32_t *banned, size_t n_banned);

#endif
