/* Both go backwards from the nodes that end their rules. An edge has its say when the node that it
 * leads to is settled and, of a call, the start of the rule: so each has it once.
 *
 * Depths are settled in rising order: what is deeper cannot change what is not. */
#include "grammar/grammar_settle.h"

#include <string.h>

#define NO_WAY (OMMAI_GRAMMAR_MAX_DEPTH + 1)

struct settling {
  struct ommai_grammar *grammar;
  /* Edges by what they wait for: those of node i are edges[first[i] .. first[i + 1]). A call is
   * there twice. */
  int32_t *first, *edges;
  bool *empties;
  int32_t *list; /* [n_nodes] those that are empty; what they say is looked at in this order */
  /* nodes to be settled by depth, as lists; a node may be in several */
  int32_t heads[NO_WAY]; /* entry + 1, 0: none */
  int32_t *entry_node, *entry_next;
  int32_t n_entries;
};

static bool is_call(const struct ommai_grammar_edge *edge) { return edge->kind == OMMAI_EDGE_CALL; }

static void list_edges(struct settling *settling, struct ommai_scratch *scratch) {
  const struct ommai_grammar *grammar = settling->grammar;
  /* where the next edge of node i goes, next[i], becomes first[i + 1] when all are there */
  settling->first = ommai_scratch_take(scratch, grammar->n_nodes + 2, sizeof *settling->first);
  settling->edges = ommai_scratch_take(scratch, 2 * grammar->n_edges, sizeof *settling->edges);
  if (!settling->edges) return; /* the scratch has failed, maybe at the first */
  int32_t *next = settling->first + 1;
  for (size_t i = 0; i < grammar->n_edges; i++) {
    const struct ommai_grammar_edge *edge = &grammar->edges[i];
    next[edge->to + 1]++;
    if (is_call(edge)) next[ommai_grammar_start_of(grammar, edge) + 1]++;
  }
  for (size_t i = 1; i <= grammar->n_nodes; i++) next[i] += next[i - 1];
  for (size_t i = 0; i < grammar->n_edges; i++) {
    const struct ommai_grammar_edge *edge = &grammar->edges[i];
    settling->edges[next[edge->to]++] = (int32_t)i;
    if (is_call(edge)) settling->edges[next[ommai_grammar_start_of(grammar, edge)]++] = (int32_t)i;
  }
}

bool ommai_grammar_passes_empty(const struct ommai_grammar *grammar, const bool *empties,
                                const struct ommai_grammar_edge *edge) {
  if (edge->kind == OMMAI_EDGE_BYTES) return false;
  if (edge->kind == OMMAI_EDGE_EMPTY || edge->kind == OMMAI_EDGE_COUNT || edge->min == 0) return true;
  return is_call(edge) && empties[ommai_grammar_start_of(grammar, edge)];
}

static void add_empty(struct settling *settling, int32_t *n, int32_t node) {
  if (settling->empties[node]) return;
  settling->empties[node] = true;
  settling->list[(*n)++] = node;
}

static void settle_empties(struct settling *settling) {
  const struct ommai_grammar *grammar = settling->grammar;
  int32_t n = 0;
  for (size_t i = 0; i < grammar->n_nodes; i++) {
    if (grammar->nodes[i].ends) add_empty(settling, &n, (int32_t)i);
  }
  for (int32_t i = 0; i < n; i++) {
    for (int32_t j = settling->first[settling->list[i]]; j < settling->first[settling->list[i] + 1]; j++) {
      const struct ommai_grammar_edge *edge = &grammar->edges[settling->edges[j]];
      if (settling->empties[edge->to] && ommai_grammar_passes_empty(grammar, settling->empties, edge)) {
        add_empty(settling, &n, edge->from);
      }
    }
  }
}

static void add_entry(struct settling *settling, int32_t node, int depth) {
  int32_t entry = settling->n_entries++;
  settling->entry_node[entry] = node;
  settling->entry_next[entry] = settling->heads[depth];
  settling->heads[depth] = entry + 1;
}

/* The minimum depth that is needed beyond the edge's node, or NO_WAY. */
static int depth_by(const struct ommai_grammar *grammar, const struct ommai_grammar_edge *edge) {
  int after = grammar->nodes[edge->to].depth;
  if (!is_call(edge) || edge->min == 0) return after;
  int inside = grammar->nodes[ommai_grammar_start_of(grammar, edge)].depth + 1;
  return inside > after ? inside : after;
}

static void settle_node(struct settling *settling, int32_t index, int depth) {
  const struct ommai_grammar *grammar = settling->grammar;
  if (grammar->nodes[index].depth < NO_WAY) return;
  grammar->nodes[index].depth = (uint16_t)depth;
  for (int32_t i = settling->first[index]; i < settling->first[index + 1]; i++) {
    const struct ommai_grammar_edge *edge = &grammar->edges[settling->edges[i]];
    int by = depth_by(grammar, edge);
    if (by < NO_WAY && grammar->nodes[edge->from].depth == NO_WAY) add_entry(settling, edge->from, by);
  }
}

static void settle_depths(struct settling *settling) {
  const struct ommai_grammar *grammar = settling->grammar;
  for (size_t i = 0; i < grammar->n_nodes; i++) {
    grammar->nodes[i].depth = NO_WAY;
    if (grammar->nodes[i].ends) add_entry(settling, (int32_t)i, 0);
  }
  for (int depth = 0; depth < NO_WAY; depth++) {
    while (settling->heads[depth]) {
      int32_t entry = settling->heads[depth] - 1;
      settling->heads[depth] = settling->entry_next[entry];
      settle_node(settling, settling->entry_node[entry], depth);
    }
  }
}

enum omma_status ommai_grammar_settle(struct ommai_grammar *grammar, struct ommai_scratch *scratch, bool *empties,
                                      struct omma_error *error) {
  struct settling settling = {.grammar = grammar, .empties = empties};
  size_t n_entries = grammar->n_nodes + 2 * grammar->n_edges;
  list_edges(&settling, scratch);
  settling.list = ommai_scratch_take(scratch, grammar->n_nodes, sizeof *settling.list);
  settling.entry_node = ommai_scratch_take(scratch, n_entries, sizeof *settling.entry_node);
  settling.entry_next = ommai_scratch_take(scratch, n_entries, sizeof *settling.entry_next);
  if (!ommai_scratch_work(scratch, 4 * (int64_t)n_entries)) return ommai_scratch_fail(scratch, error);
  settle_empties(&settling);
  settle_depths(&settling);
  return OMMA_OK;
}
