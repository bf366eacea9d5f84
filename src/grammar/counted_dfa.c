/* A state may be entered with a count only where the text can still come to an end between min and
 * max. From min on that is so up to max less the fewest characters to an end; below min it is
 * worked out for each count, backwards from min. */
#include "grammar/counted_dfa.h"

#define NEVER INT64_MAX

/* of a count in a state: a text has it there; such a text can be ended */
enum { COMES = 1, LEADS = 2 };

struct counts {
  struct ommai_scratch *scratch;
  const struct ommai_char_dfa *dfa;
  int64_t min, max;
  int64_t *distance; /* [n_states] characters to an end, or NEVER */
  uint8_t *reached;  /* [min + 1, n_states] COMES, LEADS */
};

/* Settled by rounds over all states, the last ones first, as most edges lead forward. */
static bool find_distances(struct counts *counts) {
  const struct ommai_char_dfa *dfa = counts->dfa;
  for (size_t i = 0; i < dfa->n_states; i++) counts->distance[i] = dfa->states[i].accepts ? 0 : NEVER;
  for (bool changed = true; changed;) {
    changed = false;
    if (!ommai_scratch_work(counts->scratch, (int64_t)(dfa->n_states + dfa->n_edges))) return false;
    for (size_t i = dfa->n_states; i-- > 0;) {
      for (size_t j = 0; j < dfa->states[i].n_edges; j++) {
        int64_t after = counts->distance[dfa->edges[dfa->states[i].first_edge + j].to];
        if (after == NEVER || after + 1 >= counts->distance[i]) continue;
        counts->distance[i] = after + 1;
        changed = true;
      }
    }
  }
  return true;
}

/* One character on from `count`: marks where texts come to, or where those can be ended that go
 * on. */
static bool mark_step(struct counts *counts, int64_t count, uint8_t mark) {
  const struct ommai_char_dfa *dfa = counts->dfa;
  uint8_t *here = counts->reached + (size_t)count * dfa->n_states, *after = here + dfa->n_states;
  for (size_t i = 0; i < dfa->n_states; i++) {
    for (size_t j = 0; j < dfa->states[i].n_edges; j++) {
      int32_t to = dfa->edges[dfa->states[i].first_edge + j].to;
      if (mark == COMES) after[to] |= here[i] & COMES;
      if (mark == LEADS) here[i] |= after[to] & LEADS;
    }
  }
  return ommai_scratch_work(counts->scratch, (int64_t)(dfa->n_states + dfa->n_edges));
}

static bool find_counts(struct counts *counts) {
  size_t n = counts->dfa->n_states;
  counts->distance = ommai_scratch_take(counts->scratch, n, sizeof *counts->distance);
  counts->reached = ommai_scratch_take(counts->scratch, (size_t)counts->min + 1, n);
  if (!counts->distance || !counts->reached || !find_distances(counts)) return false;
  counts->reached[0] = COMES;
  for (int64_t count = 0; count < counts->min; count++) {
    if (!mark_step(counts, count, COMES)) return false;
  }
  for (size_t i = 0; i < n; i++) {
    if (counts->distance[i] <= counts->max - counts->min) counts->reached[(size_t)counts->min * n + i] |= LEADS;
  }
  for (int64_t count = counts->min; count-- > 0;) {
    if (!mark_step(counts, count, LEADS)) return false;
  }
  return true;
}

/* Edges to the gate of a state for the counts that may enter it; those that no text has there break
 * no interval. */
static void add_entries(const struct counts *counts, struct ommai_grammar_builder *builder, int32_t from, size_t state,
                        int32_t to) {
  int64_t low = NEVER, high = 0;
  for (int64_t count = 0; count <= counts->min; count++) {
    uint8_t marks = counts->reached[(size_t)count * counts->dfa->n_states + state];
    if (marks & LEADS) {
      if (low == NEVER) low = count;
      high = count == counts->min ? counts->max - counts->distance[state] : count;
    } else if (marks & COMES && low != NEVER) {
      ommai_builder_count(builder, from, (int32_t)low, (int32_t)high, to);
      low = NEVER;
    }
  }
  if (low != NEVER) ommai_builder_count(builder, from, (int32_t)low, (int32_t)high, to);
}

/* A character is counted before its bytes, as no byte may be taken after which it could not end:
 * each pair of a state and one that its edges lead to has a node between the count and the bytes.
 * gates: [n_states] zeroes, this state's nodes + 1. */
static void add_edges(const struct counts *counts, struct ommai_grammar_builder *builder, int32_t first, size_t state,
                      enum ommai_char_encoding encoding, int32_t *gates) {
  const struct ommai_dfa_state *from = &counts->dfa->states[state];
  for (size_t i = from->first_edge; i < from->first_edge + from->n_edges; i++) {
    const struct ommai_dfa_edge *edge = &counts->dfa->edges[i];
    int32_t to = edge->to;
    if (counts->distance[to] == NEVER) continue;
    if (!gates[to]) {
      gates[to] = ommai_builder_node(builder) + 1;
      add_entries(counts, builder, first + (int32_t)state, (size_t)to, gates[to] - 1);
    }
    ommai_builder_chars(builder, gates[to] - 1, edge->low, edge->high, encoding, first + to);
  }
  for (size_t i = 0; i < from->n_edges; i++) gates[counts->dfa->edges[from->first_edge + i].to] = 0;
}

static int32_t add_rule(const struct counts *counts, struct ommai_grammar_builder *builder, enum ommai_char_encoding encoding) {
  const struct ommai_char_dfa *dfa = counts->dfa;
  int32_t *gates = ommai_scratch_take(counts->scratch, dfa->n_states, sizeof *gates), first = builder->n_nodes;
  for (size_t i = 0; i < dfa->n_states; i++) ommai_builder_node(builder);
  int32_t end = ommai_builder_node(builder);
  if (!gates || ommai_builder_failed(builder)) return 0;
  for (size_t i = 0; i < dfa->n_states; i++) {
    add_edges(counts, builder, first, i, encoding, gates);
    if (dfa->states[i].accepts) {
      ommai_builder_counted(builder, first + (int32_t)i, (int32_t)counts->min, (int32_t)counts->max, end);
    }
  }
  return ommai_builder_rule_of(builder, (struct ommai_grammar_rule){first, end});
}

bool ommai_builder_counted_dfa(struct ommai_scratch *scratch, struct ommai_grammar_builder *builder, int32_t from,
                               const struct ommai_char_dfa *dfa, int64_t min, int64_t max, enum ommai_char_encoding encoding,
                               int32_t to) {
  struct counts counts = {.scratch = scratch, .dfa = dfa, .min = min, .max = max};
  if (!find_counts(&counts)) return false;
  if (counts.reached[0] & LEADS) ommai_builder_call(builder, from, add_rule(&counts, builder, encoding), to);
  return ommai_scratch_work(scratch, 0);
}
