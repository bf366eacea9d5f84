/* What a grammar's nodes lead to: whether their rule can end from them without a byte, and how deep
 * a walk must go before it ends. */
#pragma once

#include "base/scratch.h"
#include "grammar/grammar.h"

/* Fills empties [n_nodes], zeroes before, and the nodes' depth. Each edge is looked at a few times,
 * however the rules are entangled. Errors: MEMORY; LIMIT (the scratch's). */
enum omma_status ommai_grammar_settle(struct ommai_grammar *grammar, struct ommai_scratch *scratch, bool *empties,
                                      struct omma_error *error);

/* Whether a walk may pass the edge without a byte; COUNTED: from the rule's start, where the count
 * is 0. */
bool ommai_grammar_passes_empty(const struct ommai_grammar *grammar, const bool *empties,
                                const struct ommai_grammar_edge *edge);

static inline int32_t ommai_grammar_start_of(const struct ommai_grammar *grammar, const struct ommai_grammar_edge *edge) {
  return grammar->rules[edge->rule].start;
}
