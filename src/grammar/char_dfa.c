/* Subset construction over a non-deterministic automaton (Thompson's, of a pattern), and
 * products. */
#include "grammar/char_dfa.h"

#include <stdlib.h>
#include <string.h>

#include "text/utf8.h"

/* States of an automaton that is looked at for its lengths. */
enum { SHORT_STATES = 1024 };

static int32_t add_state(struct ommai_scratch *scratch, struct ommai_char_dfa *dfa, bool accepts) {
  if (dfa->n_states == OMMAI_CHAR_DFA_MAX_STATES) scratch->exhausted = true;
  if (scratch->exhausted ||
      !ommai_scratch_grow(scratch, (void **)&dfa->states, &dfa->states_capacity, dfa->n_states, sizeof *dfa->states)) {
    return -1;
  }
  dfa->states[dfa->n_states] = (struct ommai_dfa_state){.accepts = accepts};
  return (int32_t)dfa->n_states++;
}

/* After the last edge of the state, whose edges are added one after the other; neighbours that lead
 * to the same place are one. */
static bool add_edge(struct ommai_scratch *scratch, struct ommai_char_dfa *dfa, int32_t state, uint32_t low, uint32_t high,
                     int32_t to) {
  struct ommai_dfa_state *from = &dfa->states[state];
  if (!ommai_scratch_work(scratch, 1)) return false;
  if (from->n_edges == 0) from->first_edge = dfa->n_edges;
  struct ommai_dfa_edge *last = from->n_edges ? &dfa->edges[dfa->n_edges - 1] : NULL;
  if (last && last->to == to && last->high + 1 == low) {
    last->high = high;
    return true;
  }
  if (!ommai_scratch_grow(scratch, (void **)&dfa->edges, &dfa->edges_capacity, dfa->n_edges, sizeof *dfa->edges)) return false;
  dfa->edges[dfa->n_edges++] = (struct ommai_dfa_edge){low, high, to};
  from->n_edges++;
  return true;
}

/* ---- patterns ---- */

struct nfa_edge {
  uint32_t low, high;
  int32_t to, next; /* the next edge of the same node, or -1 */
  bool empty;
};

struct nfa {
  struct ommai_scratch *scratch;
  int32_t *first; /* [n_nodes] edge, or -1 */
  size_t n_nodes, nodes_capacity;
  struct nfa_edge *edges;
  size_t n_edges, edges_capacity;
};

static int32_t nfa_node(struct nfa *nfa) {
  if (!ommai_scratch_work(nfa->scratch, 1) ||
      !ommai_scratch_grow(nfa->scratch, (void **)&nfa->first, &nfa->nodes_capacity, nfa->n_nodes, sizeof *nfa->first)) {
    return 0;
  }
  nfa->first[nfa->n_nodes] = -1;
  return (int32_t)nfa->n_nodes++;
}

static void nfa_edge(struct nfa *nfa, int32_t from, struct nfa_edge edge) {
  if (!ommai_scratch_work(nfa->scratch, 1) ||
      !ommai_scratch_grow(nfa->scratch, (void **)&nfa->edges, &nfa->edges_capacity, nfa->n_edges, sizeof *nfa->edges)) {
    return;
  }
  edge.next = nfa->first[from];
  nfa->edges[nfa->n_edges] = edge;
  nfa->first[from] = (int32_t)nfa->n_edges++;
}

static int32_t nfa_add(struct nfa *nfa, int32_t from, const struct ommai_regex *regex);

/* Written out min times, then up to max times or in a loop. */
static int32_t nfa_repeat(struct nfa *nfa, int32_t from, const struct ommai_regex *regex) {
  for (int32_t i = 0; i < regex->min && !nfa->scratch->exhausted; i++) from = nfa_add(nfa, from, regex->first);
  int32_t end = nfa_node(nfa);
  if (regex->max == OMMAI_GRAMMAR_NO_MAX) {
    nfa_edge(nfa, from, (struct nfa_edge){.to = end, .empty = true});
    nfa_edge(nfa, nfa_add(nfa, end, regex->first), (struct nfa_edge){.to = end, .empty = true});
    return end;
  }
  for (int32_t i = regex->min; i < regex->max && !nfa->scratch->exhausted; i++) {
    nfa_edge(nfa, from, (struct nfa_edge){.to = end, .empty = true});
    from = nfa_add(nfa, from, regex->first);
  }
  nfa_edge(nfa, from, (struct nfa_edge){.to = end, .empty = true});
  return end;
}

/* The node after the pattern. */
static int32_t nfa_add(struct nfa *nfa, int32_t from, const struct ommai_regex *regex) {
  if (!ommai_scratch_work(nfa->scratch, 1) || nfa->scratch->no_memory) return from;
  if (regex->kind == OMMAI_REGEX_REPEAT) return nfa_repeat(nfa, from, regex);
  if (regex->kind == OMMAI_REGEX_SEQUENCE) {
    for (const struct ommai_regex *child = regex->first; child; child = child->next) from = nfa_add(nfa, from, child);
    return from;
  }
  int32_t end = nfa_node(nfa);
  if (regex->kind == OMMAI_REGEX_CHARS) {
    for (size_t i = 0; i < regex->chars.n; i++) {
      nfa_edge(nfa, from, (struct nfa_edge){.low = regex->chars.ranges[i].low, .high = regex->chars.ranges[i].high, .to = end});
    }
    return end;
  }
  for (const struct ommai_regex *child = regex->first; child; child = child->next) {
    int32_t begin = nfa_node(nfa); /* a loop that begins the child must not lead into the others */
    nfa_edge(nfa, from, (struct nfa_edge){.to = begin, .empty = true});
    nfa_edge(nfa, nfa_add(nfa, begin, child), (struct nfa_edge){.to = end, .empty = true});
  }
  return end;
}

/* A set of the automaton's nodes, sorted; each is a state. */
struct node_set {
  int32_t *nodes;
  size_t n;
};

struct subsets {
  struct nfa *nfa;
  struct ommai_char_dfa *dfa;
  struct node_set *sets; /* [n_states] */
  size_t sets_capacity;
  int32_t *slots; /* [N_SLOTS] state + 1, 0: free */
  int32_t *marks; /* [n_nodes] of the set that is being collected */
  int32_t mark;
  int32_t *collected; /* [n_nodes] */
  size_t n_collected;
  int32_t end, rest; /* the pattern's end; a node after which any text may follow, or -1 */
};

enum { N_SLOTS = OMMAI_SCRATCH_SLOTS }; /* more than MAX_STATES, so that one is always free */

static void collect(struct subsets *subsets, int32_t node) {
  if (subsets->marks[node] == subsets->mark) return;
  subsets->marks[node] = subsets->mark;
  subsets->collected[subsets->n_collected++] = node;
}

static void close_set(struct subsets *subsets) {
  const struct nfa *nfa = subsets->nfa;
  for (size_t i = 0; i < subsets->n_collected; i++) {
    for (int32_t edge = nfa->first[subsets->collected[i]]; edge >= 0; edge = nfa->edges[edge].next) {
      if (nfa->edges[edge].empty) collect(subsets, nfa->edges[edge].to);
    }
  }
}

/* Any text to the pattern's end: a loop of any character from which the end is reached without
 * one. */
static void find_rest(struct subsets *subsets) {
  const struct nfa *nfa = subsets->nfa;
  subsets->rest = -1;
  for (size_t node = 0; node < nfa->n_nodes && subsets->rest < 0; node++) {
    for (int32_t at = nfa->first[node]; at >= 0; at = nfa->edges[at].next) {
      const struct nfa_edge *edge = &nfa->edges[at], *back = &nfa->edges[nfa->first[edge->to] < 0 ? at : nfa->first[edge->to]];
      if (edge->empty || edge->low != 0 || edge->high != OMMAI_MAX_CODE_POINT) continue;
      if (!back->empty || back->to != (int32_t)node) continue;
      subsets->mark++;
      subsets->n_collected = 0;
      collect(subsets, (int32_t)node);
      close_set(subsets);
      if (subsets->marks[subsets->end] == subsets->mark) subsets->rest = (int32_t)node;
    }
  }
}

/* Where any text may follow, nothing else matters: a pattern that was found is not looked for
 * again. */
static void leave_rest(struct subsets *subsets) {
  if (subsets->rest < 0 || subsets->marks[subsets->rest] != subsets->mark) return;
  subsets->mark++;
  subsets->n_collected = 0;
  collect(subsets, subsets->rest);
  close_set(subsets);
}

static int compare_ids(const void *left, const void *right) {
  int32_t a = *(const int32_t *)left, b = *(const int32_t *)right;
  return (a > b) - (a < b);
}

/* The state of the nodes collected, new or not; -1: the scratch has failed. */
static int32_t intern_set(struct subsets *subsets) {
  struct ommai_scratch *scratch = subsets->nfa->scratch;
  leave_rest(subsets);
  size_t n = subsets->n_collected, bytes = n * sizeof *subsets->collected;
  qsort(subsets->collected, n, sizeof *subsets->collected, compare_ids);
  if (!ommai_scratch_work(scratch, (int64_t)n)) return -1;
  uint64_t hash = n;
  for (size_t i = 0; i < n; i++) hash = (hash ^ (uint64_t)subsets->collected[i]) * 0x9E3779B97F4A7C15u ^ hash >> 29;
  int32_t *slot;
  for (hash ^= hash >> 32; *(slot = &subsets->slots[hash % N_SLOTS]); hash++) {
    const struct node_set *set = &subsets->sets[*slot - 1];
    if (set->n == n && !memcmp(set->nodes, subsets->collected, bytes)) return *slot - 1;
  }
  bool accepts = subsets->marks[subsets->end] == subsets->mark;
  int32_t *nodes = ommai_scratch_take(scratch, n, sizeof *nodes);
  if (!nodes || !ommai_scratch_grow(scratch, (void **)&subsets->sets, &subsets->sets_capacity, subsets->dfa->n_states,
                                    sizeof *subsets->sets)) {
    return -1;
  }
  memcpy(nodes, subsets->collected, bytes);
  subsets->sets[subsets->dfa->n_states] = (struct node_set){nodes, n};
  int32_t state = add_state(scratch, subsets->dfa, accepts);
  *slot = state + 1;
  return state;
}

static int compare_codes(const void *left, const void *right) {
  uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
  return (a > b) - (a < b);
}

static int compare_edges(const void *left, const void *right) {
  return compare_codes(&((const struct nfa_edge *)left)->low, &((const struct nfa_edge *)right)->low);
}

/* The edges out of a set, by their first characters; and where these change their meaning,
 * sorted: [2 * *n]. */
static bool find_edges(struct subsets *subsets, const struct node_set *set, struct nfa_edge **edges, uint32_t **borders,
                       size_t *n) {
  const struct nfa *nfa = subsets->nfa;
  size_t capacity = 0;
  *edges = NULL;
  *n = 0;
  for (size_t i = 0; i < set->n; i++) {
    for (int32_t at = nfa->first[set->nodes[i]]; at >= 0; at = nfa->edges[at].next) {
      if (nfa->edges[at].empty) continue;
      if (!ommai_scratch_grow(nfa->scratch, (void **)edges, &capacity, *n, sizeof **edges)) return false;
      (*edges)[(*n)++] = nfa->edges[at];
    }
  }
  *borders = ommai_scratch_take(nfa->scratch, 2 * *n + 1, sizeof **borders);
  if (!*borders) return false;
  for (size_t i = 0; i < *n; i++) {
    (*borders)[2 * i] = (*edges)[i].low;
    (*borders)[2 * i + 1] = (*edges)[i].high + 1;
  }
  if (*n) qsort(*edges, *n, sizeof **edges, compare_edges);
  if (*n) qsort(*borders, 2 * *n, sizeof **borders, compare_codes);
  return true;
}

/* From border to border: edges[0 to n_open) are those that have the characters between. */
static bool expand(struct subsets *subsets, int32_t state) {
  struct ommai_scratch *scratch = subsets->nfa->scratch;
  const struct node_set set = subsets->sets[state];
  struct nfa_edge *edges;
  uint32_t *borders;
  size_t n, n_open = 0, next = 0;
  if (!find_edges(subsets, &set, &edges, &borders, &n)) return false;
  for (size_t i = 0; i + 1 < 2 * n; i++) {
    size_t n_before = n_open;
    if (borders[i] == borders[i + 1]) continue;
    n_open = 0;
    for (size_t j = 0; j < n_before; j++) {
      if (edges[j].high >= borders[i]) edges[n_open++] = edges[j];
    }
    while (next < n && edges[next].low <= borders[i]) edges[n_open++] = edges[next++];
    if (!ommai_scratch_work(scratch, (int64_t)set.n)) return false;
    if (n_open == 0) continue;
    subsets->mark++;
    subsets->n_collected = 0;
    for (size_t j = 0; j < n_open; j++) collect(subsets, edges[j].to);
    close_set(subsets);
    int32_t to = intern_set(subsets);
    if (to < 0 || !add_edge(scratch, subsets->dfa, state, borders[i], borders[i + 1] - 1, to)) return false;
  }
  return true;
}

bool ommai_dfa_from_regex(struct ommai_scratch *scratch, const struct ommai_regex *regex, struct ommai_char_dfa *dfa) {
  bool whole;
  return ommai_dfa_try_regex(scratch, regex, OMMAI_CHAR_DFA_MAX_STATES, dfa, &whole);
}

bool ommai_dfa_try_regex(struct ommai_scratch *scratch, const struct ommai_regex *regex, size_t max_states,
                         struct ommai_char_dfa *dfa, bool *whole) {
  struct nfa nfa = {.scratch = scratch};
  struct subsets subsets = {.nfa = &nfa, .dfa = dfa};
  *dfa = (struct ommai_char_dfa){0};
  int32_t start = nfa_node(&nfa);
  subsets.end = nfa_add(&nfa, start, regex);
  subsets.slots = ommai_scratch_slots(scratch);
  subsets.marks = ommai_scratch_take(scratch, nfa.n_nodes, sizeof *subsets.marks);
  subsets.collected = ommai_scratch_take(scratch, nfa.n_nodes, sizeof *subsets.collected);
  if (!subsets.slots || !subsets.marks || !subsets.collected || !ommai_scratch_work(scratch, 0)) return false;
  find_rest(&subsets);
  subsets.mark++;
  subsets.n_collected = 0;
  collect(&subsets, start);
  close_set(&subsets);
  if (intern_set(&subsets) < 0) return false;
  size_t i = 0;
  for (; i < dfa->n_states && dfa->n_states <= max_states; i++) {
    if (!expand(&subsets, (int32_t)i)) return false;
  }
  *whole = i == dfa->n_states;
  return true;
}

/* ---- lengths and texts ---- */

bool ommai_dfa_from_length(struct ommai_scratch *scratch, int64_t min, int64_t max, struct ommai_char_dfa *dfa) {
  *dfa = (struct ommai_char_dfa){0};
  int64_t last = max == OMMAI_GRAMMAR_NO_MAX ? min : max;
  if (last >= OMMAI_CHAR_DFA_MAX_STATES) scratch->exhausted = true;
  for (int64_t i = 0; i <= last && !scratch->exhausted; i++) {
    if (add_state(scratch, dfa, i >= min) < 0) return false;
  }
  for (int64_t i = 0; i <= last && !scratch->exhausted; i++) {
    int64_t to = i < last ? i + 1 : i;
    if (i == last && max != OMMAI_GRAMMAR_NO_MAX) break;
    if (!add_edge(scratch, dfa, (int32_t)i, 0, OMMAI_MAX_CODE_POINT, (int32_t)to)) return false;
  }
  return !scratch->exhausted;
}

/* One of the texts as a pattern. */
bool ommai_dfa_from_texts(struct ommai_scratch *scratch, struct ommai_literal *texts, size_t n, struct ommai_char_dfa *dfa) {
  struct ommai_regex *choice = ommai_scratch_take(scratch, 1, sizeof *choice);
  if (!choice) return false;
  choice->kind = OMMAI_REGEX_CHOICE;
  for (size_t i = 0; i < n; i++) {
    struct ommai_regex *sequence = ommai_scratch_take(scratch, 1, sizeof *sequence);
    if (!sequence) return false;
    sequence->kind = OMMAI_REGEX_SEQUENCE;
    sequence->next = choice->first;
    choice->first = sequence;
    struct ommai_regex **link = &sequence->first;
    for (size_t at = 0, length; at < texts[i].size; at += length, link = &(*link)->next) {
      uint32_t code = ommai_utf8_decode(texts[i].bytes + at, &length);
      *link = ommai_scratch_take(scratch, 1, sizeof **link);
      if (!*link) return false;
      ommai_chars_add(scratch, &(*link)->chars, code, code);
      (*link)->kind = OMMAI_REGEX_CHARS;
    }
  }
  return ommai_dfa_from_regex(scratch, choice, dfa);
}

/* ---- products ---- */

bool ommai_dfa_complement(struct ommai_scratch *scratch, const struct ommai_char_dfa *dfa, struct ommai_char_dfa *out) {
  *out = (struct ommai_char_dfa){0};
  for (size_t i = 0; i < dfa->n_states; i++) {
    if (add_state(scratch, out, !dfa->states[i].accepts) < 0) return false;
  }
  int32_t rest = add_state(scratch, out, true);
  if (rest < 0) return false;
  for (size_t i = 0; i < dfa->n_states; i++) {
    uint32_t next = 0;
    for (size_t j = 0; j < dfa->states[i].n_edges; j++) {
      const struct ommai_dfa_edge *edge = &dfa->edges[dfa->states[i].first_edge + j];
      if (edge->low > next && !add_edge(scratch, out, (int32_t)i, next, edge->low - 1, rest)) return false;
      if (!add_edge(scratch, out, (int32_t)i, edge->low, edge->high, edge->to)) return false;
      next = edge->high + 1;
    }
    if (next <= OMMAI_MAX_CODE_POINT && !add_edge(scratch, out, (int32_t)i, next, OMMAI_MAX_CODE_POINT, rest)) return false;
  }
  return add_edge(scratch, out, rest, 0, OMMAI_MAX_CODE_POINT, rest);
}

struct product {
  struct ommai_scratch *scratch;
  const struct ommai_char_dfa *a, *b;
  struct ommai_char_dfa *out;
  int32_t (*pairs)[2]; /* [n_states] */
  size_t pairs_capacity;
  int32_t *slots; /* [N_SLOTS] state + 1 */
};

static int32_t intern_pair(struct product *product, int32_t a, int32_t b) {
  uint64_t hash = ((uint64_t)(uint32_t)a << 32 | (uint32_t)b) * 0x9E3779B97F4A7C15u;
  int32_t *slot;
  for (hash ^= hash >> 32; *(slot = &product->slots[hash % N_SLOTS]); hash++) {
    if (product->pairs[*slot - 1][0] == a && product->pairs[*slot - 1][1] == b) return *slot - 1;
  }
  if (!ommai_scratch_grow(product->scratch, (void **)&product->pairs, &product->pairs_capacity, product->out->n_states,
                          sizeof *product->pairs)) {
    return -1;
  }
  product->pairs[product->out->n_states][0] = a;
  product->pairs[product->out->n_states][1] = b;
  int32_t state = add_state(product->scratch, product->out, product->a->states[a].accepts && product->b->states[b].accepts);
  *slot = state + 1;
  return state;
}

static bool expand_pair(struct product *product, int32_t state) {
  const struct ommai_dfa_state *a = &product->a->states[product->pairs[state][0]];
  const struct ommai_dfa_state *b = &product->b->states[product->pairs[state][1]];
  for (size_t i = 0, j = 0; i < a->n_edges && j < b->n_edges;) {
    const struct ommai_dfa_edge *left = &product->a->edges[a->first_edge + i], *right = &product->b->edges[b->first_edge + j];
    uint32_t low = left->low > right->low ? left->low : right->low;
    uint32_t high = left->high < right->high ? left->high : right->high;
    if (low <= high) {
      int32_t to = intern_pair(product, left->to, right->to);
      if (to < 0 || !add_edge(product->scratch, product->out, state, low, high, to)) return false;
    }
    if (left->high == high) i++;
    if (right->high == high) j++;
  }
  return true;
}

bool ommai_dfa_intersect(struct ommai_scratch *scratch, const struct ommai_char_dfa *a, const struct ommai_char_dfa *b,
                         struct ommai_char_dfa *out) {
  struct product product = {.scratch = scratch, .a = a, .b = b, .out = out};
  *out = (struct ommai_char_dfa){0};
  product.slots = ommai_scratch_slots(scratch);
  if (!product.slots || intern_pair(&product, 0, 0) < 0) return false;
  for (size_t i = 0; i < out->n_states; i++) {
    if (!expand_pair(&product, (int32_t)i)) return false;
  }
  return true;
}

/* ---- use ---- */

static int32_t next_state(const struct ommai_char_dfa *dfa, int32_t state, uint32_t code) {
  for (size_t i = 0; i < dfa->states[state].n_edges; i++) {
    const struct ommai_dfa_edge *edge = &dfa->edges[dfa->states[state].first_edge + i];
    if (edge->low <= code && code <= edge->high) return edge->to;
  }
  return -1;
}

/* Marks the states that one more character leads to. */
static size_t step_all(const struct ommai_char_dfa *dfa, const bool *from, bool *to) {
  size_t n = 0;
  memset(to, 0, SHORT_STATES * sizeof *to);
  for (size_t i = 0; i < dfa->n_states; i++) {
    for (size_t j = 0; from[i] && j < dfa->states[i].n_edges; j++) {
      int32_t next = dfa->edges[dfa->states[i].first_edge + j].to;
      n += !to[next];
      to[next] = true;
    }
  }
  return n;
}

bool ommai_dfa_is_within(const struct ommai_char_dfa *dfa, int64_t min, int64_t max) {
  bool sets[2][SHORT_STATES] = {{true}};
  if (dfa->n_states > SHORT_STATES) return false;
  /* longer ones go round in a circle */
  for (int64_t length = 0; length <= (int64_t)dfa->n_states; length++) {
    const bool *set = sets[length % 2];
    for (size_t i = 0; i < dfa->n_states; i++) {
      if (set[i] && dfa->states[i].accepts && (length < min || length > max)) return false;
    }
    if (step_all(dfa, set, sets[(length + 1) % 2]) == 0) return true;
  }
  return false;
}

bool ommai_dfa_accepts(const struct ommai_char_dfa *dfa, const char *text, size_t size) {
  int32_t state = 0;
  for (size_t at = 0, length; at < size && state >= 0; at += length) {
    state = next_state(dfa, state, ommai_utf8_decode(text + at, &length));
  }
  return state >= 0 && dfa->states[state].accepts;
}

void ommai_builder_dfa(struct ommai_grammar_builder *builder, int32_t from, const struct ommai_char_dfa *dfa,
                       enum ommai_char_encoding encoding, int32_t to) {
  int32_t first = builder->n_nodes;
  for (size_t i = 0; i < dfa->n_states; i++) ommai_builder_node(builder);
  if (ommai_builder_failed(builder)) return;
  ommai_builder_empty(builder, from, first);
  for (size_t i = 0; i < dfa->n_states; i++) {
    for (size_t j = 0; j < dfa->states[i].n_edges; j++) {
      const struct ommai_dfa_edge *edge = &dfa->edges[dfa->states[i].first_edge + j];
      ommai_builder_chars(builder, first + (int32_t)i, edge->low, edge->high, encoding, first + edge->to);
    }
    if (dfa->states[i].accepts) ommai_builder_empty(builder, first + (int32_t)i, to);
  }
}
