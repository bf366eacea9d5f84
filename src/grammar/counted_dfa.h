/* Texts of an automaton that have from min to max characters: the characters are counted while a
 * text is walked through, so that the grammar is as large as the automaton, whatever the bounds
 * are. */
#pragma once

#include "grammar/char_dfa.h"

/* Edges from `from` to `to`; none where no text has such a length. 0 <= min <= max <
 * OMMAI_GRAMMAR_NO_MAX. False: the scratch has failed. */
bool ommai_builder_counted_dfa(struct ommai_scratch *scratch, struct ommai_grammar_builder *builder, int32_t from,
                               const struct ommai_char_dfa *dfa, int64_t min, int64_t max, enum ommai_char_encoding encoding,
                               int32_t to);
