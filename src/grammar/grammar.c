/* From a builder's graph: edges sorted by node -> what nodes lead to (grammar_settle.c) -> no rule
 * calls itself before a byte -> classes of bytes. */
#include "grammar/grammar.h"

#include <string.h>

#include "base/allocator.h"
#include "base/error.h"
#include "grammar/grammar_settle.h"

/* What only the compilation needs. */
struct compilation {
  struct ommai_grammar *grammar;
  struct ommai_scratch *scratch;
  bool *empties; /* [n_nodes] the rule's end can be reached without a byte */
};

static enum omma_status allocate(const struct ommai_grammar_builder *builder, struct ommai_grammar **out,
                                 struct omma_error *error) {
  struct ommai_grammar *grammar = ommai_allocate(builder->allocator, 1, sizeof *grammar);
  if (!grammar) return ommai_fail_memory(error, "grammar", sizeof *grammar);
  *out = grammar;
  grammar->allocator = *builder->allocator;
  grammar->n_nodes = (size_t)builder->n_nodes;
  grammar->n_edges = builder->n_edges;
  grammar->n_rules = builder->n_rules;
  grammar->nodes = ommai_allocate(builder->allocator, grammar->n_nodes, sizeof *grammar->nodes);
  grammar->edges = ommai_allocate(builder->allocator, grammar->n_edges, sizeof *grammar->edges);
  grammar->rules = ommai_allocate(builder->allocator, grammar->n_rules, sizeof *grammar->rules);
  if (grammar->nodes && grammar->edges && grammar->rules) return OMMA_OK;
  return ommai_fail_memory(error, "grammar", grammar->n_edges * sizeof *grammar->edges);
}

size_t ommai_grammar_bytes(const struct ommai_grammar *grammar) {
  return sizeof *grammar + grammar->n_nodes * sizeof *grammar->nodes + grammar->n_edges * sizeof *grammar->edges +
         grammar->n_rules * sizeof *grammar->rules;
}

void ommai_grammar_destroy(struct ommai_grammar *grammar) {
  if (!grammar) return;
  struct omma_allocator allocator = grammar->allocator;
  ommai_release(&allocator, grammar->nodes, grammar->n_nodes, sizeof *grammar->nodes);
  ommai_release(&allocator, grammar->edges, grammar->n_edges, sizeof *grammar->edges);
  ommai_release(&allocator, grammar->rules, grammar->n_rules, sizeof *grammar->rules);
  ommai_release(&allocator, grammar, 1, sizeof *grammar);
}

static void sort_edges(const struct ommai_grammar_builder *builder, struct ommai_grammar *grammar) {
  for (size_t i = 0; i < builder->n_edges; i++) grammar->nodes[builder->edges[i].from].n_edges++;
  int32_t at = 0;
  for (size_t i = 0; i < grammar->n_nodes; i++) {
    grammar->nodes[i].first_edge = at;
    at += grammar->nodes[i].n_edges;
    grammar->nodes[i].n_edges = 0;
  }
  for (size_t i = 0; i < builder->n_edges; i++) {
    struct ommai_grammar_node *node = &grammar->nodes[builder->edges[i].from];
    grammar->edges[node->first_edge + node->n_edges++] = builder->edges[i];
    node->has_bytes = node->has_bytes || builder->edges[i].kind == OMMAI_EDGE_BYTES;
  }
  for (size_t i = 0; i < grammar->n_rules; i++) {
    grammar->rules[i] = builder->rules[i];
    grammar->nodes[builder->rules[i].end].ends = true;
  }
}

/* ---- rules that call themselves before a byte ---- */

/* Strongly connected components of the nodes by edges that take no byte (Tarjan's algorithm,
 * without recursion): a call whose rule's start lies in the component of its own node is a rule
 * that calls itself first. */
struct component_search {
  const struct compilation *compilation;
  int32_t *order, *low, *component; /* [n_nodes]; order 0: not seen, component -1: open */
  int32_t *open, *path, *edge_at;   /* [n_nodes] */
  int32_t n_open, n_path, n_seen, n_components;
};

/* Node `step` that the search goes to from an edge: into a call, and past it; -1: none. */
static int32_t target_of(const struct component_search *search, const struct ommai_grammar_edge *edge, int step) {
  const struct compilation *compilation = search->compilation;
  if (step == 0) return ommai_grammar_passes_empty(compilation->grammar, compilation->empties, edge) ? edge->to : -1;
  return edge->kind == OMMAI_EDGE_CALL ? ommai_grammar_start_of(compilation->grammar, edge) : -1;
}

static void enter_node(struct component_search *search, int32_t node) {
  search->order[node] = search->low[node] = ++search->n_seen;
  search->edge_at[node] = 0;
  search->open[search->n_open++] = node;
  search->path[search->n_path++] = node;
}

static void leave_node(struct component_search *search, int32_t node) {
  search->n_path--;
  if (search->n_path) {
    int32_t parent = search->path[search->n_path - 1];
    if (search->low[node] < search->low[parent]) search->low[parent] = search->low[node];
  }
  if (search->low[node] != search->order[node]) return;
  int32_t member;
  do {
    member = search->open[--search->n_open];
    search->component[member] = search->n_components;
  } while (member != node);
  search->n_components++;
}

static void search_from(struct component_search *search, int32_t first) {
  const struct ommai_grammar *grammar = search->compilation->grammar;
  enter_node(search, first);
  while (search->n_path) {
    int32_t node = search->path[search->n_path - 1], at = search->edge_at[node];
    if (at == 2 * grammar->nodes[node].n_edges) {
      leave_node(search, node);
      continue;
    }
    search->edge_at[node]++;
    int32_t target = target_of(search, &grammar->edges[grammar->nodes[node].first_edge + at / 2], at % 2);
    if (target < 0) continue;
    if (!search->order[target]) {
      enter_node(search, target);
    } else if (search->component[target] < 0 && search->order[target] < search->low[node]) {
      search->low[node] = search->order[target];
    }
  }
}

static enum omma_status check_recursion(struct component_search *search, struct omma_error *error) {
  const struct ommai_grammar *grammar = search->compilation->grammar;
  for (size_t i = 0; i < grammar->n_nodes; i++) search->component[i] = -1;
  for (size_t i = 0; i < grammar->n_nodes; i++) {
    if (!search->order[i]) search_from(search, (int32_t)i);
  }
  for (size_t i = 0; i < grammar->n_edges; i++) {
    const struct ommai_grammar_edge *edge = &grammar->edges[i];
    if (edge->kind != OMMAI_EDGE_CALL ||
        search->component[edge->from] != search->component[ommai_grammar_start_of(grammar, edge)])
      continue;
    return ommai_fail(error, OMMA_ERROR_FORMAT, "a rule refers to itself before it has taken anything (left recursion)");
  }
  return OMMA_OK;
}

static enum omma_status refuse_left_recursion(const struct compilation *compilation, struct omma_error *error) {
  enum { N_TABLES = 6 };
  size_t n = compilation->grammar->n_nodes;
  int32_t *tables = ommai_scratch_take(compilation->scratch, n, N_TABLES * sizeof *tables);
  if (!tables) return ommai_scratch_fail(compilation->scratch, error);
  struct component_search search = {.compilation = compilation,
                                    .order = tables,
                                    .low = tables + n,
                                    .component = tables + 2 * n,
                                    .open = tables + 3 * n,
                                    .path = tables + 4 * n,
                                    .edge_at = tables + 5 * n};
  return check_recursion(&search, error);
}

/* ---- the rest ---- */

static enum omma_status check_repeats(const struct compilation *compilation, struct omma_error *error) {
  const struct ommai_grammar *grammar = compilation->grammar;
  for (size_t i = 0; i < grammar->n_edges; i++) {
    const struct ommai_grammar_edge *edge = &grammar->edges[i];
    if (edge->kind != OMMAI_EDGE_CALL || !compilation->empties[ommai_grammar_start_of(grammar, edge)]) continue;
    int32_t asked = edge->max == OMMAI_GRAMMAR_NO_MAX ? edge->min : edge->max;
    if (asked <= OMMAI_GRAMMAR_MAX_EMPTY_REPEATS) continue;
    return ommai_fail(error, OMMA_ERROR_LIMIT, "what may be empty can be repeated %d times at most, found %d",
                      OMMAI_GRAMMAR_MAX_EMPTY_REPEATS, asked);
  }
  return OMMA_OK;
}

static enum omma_status check_root(const struct ommai_grammar *grammar, struct omma_error *error) {
  if (grammar->nodes[grammar->rules[grammar->root].start].depth <= OMMAI_GRAMMAR_MAX_DEPTH) return OMMA_OK;
  return ommai_fail(error, OMMA_ERROR_FORMAT, "no text meets it, or none that is at most %d rules deep",
                    OMMAI_GRAMMAR_MAX_DEPTH);
}

static void make_classes(struct ommai_grammar *grammar) {
  bool begins[257] = {true};
  for (size_t i = 0; i < grammar->n_edges; i++) {
    if (grammar->edges[i].kind != OMMAI_EDGE_BYTES) continue;
    begins[grammar->edges[i].low] = begins[grammar->edges[i].high + 1] = true;
  }
  for (int byte = 0; byte < 256; byte++) {
    if (begins[byte]) grammar->byte_of[grammar->n_classes++] = (uint8_t)byte;
    grammar->class_of[byte] = (uint8_t)(grammar->n_classes - 1);
  }
}

static enum omma_status compile(struct compilation *compilation, struct omma_error *error) {
  struct ommai_grammar *grammar = compilation->grammar;
  compilation->empties = ommai_scratch_take(compilation->scratch, grammar->n_nodes, sizeof *compilation->empties);
  if (!compilation->empties) return ommai_scratch_fail(compilation->scratch, error);
  OMMAI_TRY(ommai_grammar_settle(grammar, compilation->scratch, compilation->empties, error));
  OMMAI_TRY(check_repeats(compilation, error));
  OMMAI_TRY(refuse_left_recursion(compilation, error));
  OMMAI_TRY(check_root(grammar, error));
  make_classes(grammar);
  return OMMA_OK;
}

static enum omma_status check_builder(const struct ommai_grammar_builder *builder, struct omma_error *error) {
  if (builder->no_memory) return ommai_fail_memory(error, "grammar", builder->n_edges * sizeof *builder->edges);
  if (!builder->too_large) return OMMA_OK;
  return ommai_fail(error, OMMA_ERROR_LIMIT, "the grammar is too large: at most %d nodes, %d edges and %d rules are allowed",
                    OMMAI_GRAMMAR_MAX_NODES, OMMAI_GRAMMAR_MAX_EDGES, OMMAI_GRAMMAR_MAX_RULES);
}

enum omma_status ommai_grammar_create(const struct ommai_grammar_builder *builder, int32_t root, struct ommai_scratch *scratch,
                                      struct ommai_grammar **out, struct omma_error *error) {
  OMMAI_TRY(check_builder(builder, error));
  struct ommai_grammar *grammar = NULL;
  enum omma_status status;
  /* they were written, and are sorted and looked through */
  if (!ommai_scratch_work(scratch, 4 * (int64_t)builder->n_edges + 4 * builder->n_nodes)) {
    return ommai_scratch_fail(scratch, error);
  }
  OMMAI_TRY_GOTO(allocate(builder, &grammar, error), done);
  grammar->root = root;
  sort_edges(builder, grammar);
  struct compilation compilation = {.grammar = grammar, .scratch = scratch};
  OMMAI_TRY_GOTO(compile(&compilation, error), done);
  *out = grammar;
  grammar = NULL;
done:
  ommai_grammar_destroy(grammar);
  return status;
}
