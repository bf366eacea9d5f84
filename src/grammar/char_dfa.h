/* Sets of strings as deterministic automata over characters: what must hold together (a pattern and
 * a length, a key that is none of these) is worked out here before it becomes part of a grammar.
 * Everything lives in a scratch; functions return false when that has failed. */
#pragma once

#include "grammar/regex.h"

/* States of one automaton. */
#define OMMAI_CHAR_DFA_MAX_STATES (1 << 15)

struct ommai_dfa_edge {
  uint32_t low, high;
  int32_t to;
};

struct ommai_dfa_state {
  /* sorted by character, without overlaps; a character of none of them leads nowhere */
  size_t first_edge, n_edges;
  bool accepts;
};

/* State 0 is the start. */
struct ommai_char_dfa {
  struct ommai_dfa_state *states;
  size_t n_states, states_capacity;
  struct ommai_dfa_edge *edges;
  size_t n_edges, edges_capacity;
};

bool ommai_dfa_from_regex(struct ommai_scratch *scratch, const struct ommai_regex *regex, struct ommai_char_dfa *dfa);
/* The same, but it gives up where that takes more than `max_states` states: then *whole is
 * false. */
bool ommai_dfa_try_regex(struct ommai_scratch *scratch, const struct ommai_regex *regex, size_t max_states,
                         struct ommai_char_dfa *dfa, bool *whole);
/* min to max characters; max may be OMMAI_GRAMMAR_NO_MAX. */
bool ommai_dfa_from_length(struct ommai_scratch *scratch, int64_t min, int64_t max, struct ommai_char_dfa *dfa);
/* These texts, valid UTF-8. Sorts them. */
bool ommai_dfa_from_texts(struct ommai_scratch *scratch, struct ommai_literal *texts, size_t n, struct ommai_char_dfa *dfa);

/* What both have. */
bool ommai_dfa_intersect(struct ommai_scratch *scratch, const struct ommai_char_dfa *a, const struct ommai_char_dfa *b,
                         struct ommai_char_dfa *out);
bool ommai_dfa_complement(struct ommai_scratch *scratch, const struct ommai_char_dfa *dfa, struct ommai_char_dfa *out);

/* Whether all its texts have from min to max characters, as far as a short look at them
 * shows. */
bool ommai_dfa_is_within(const struct ommai_char_dfa *dfa, int64_t min, int64_t max);

bool ommai_dfa_accepts(const struct ommai_char_dfa *dfa, const char *text, size_t size);

/* Edges from `from` to `to` for its texts. */
void ommai_builder_dfa(struct ommai_grammar_builder *builder, int32_t from, const struct ommai_char_dfa *dfa,
                       enum ommai_char_encoding encoding, int32_t to);
