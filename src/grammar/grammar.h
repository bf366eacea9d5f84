/* A grammar in the form that answers are held to: immutable, its edges sorted by node. What
 * ommai_grammar_create makes of a builder's graph.
 *
 * A text is walked through with a stack of calls that are under way. Nodes know how many more calls
 * deep a walk must go from them, at least, before its rule ends, so that a walk never goes where
 * the limit of depth would not let it out again. */
#pragma once

#include <omma/status.h>

#include "base/scratch.h"
#include "grammar/grammar_builder.h"

/* Calls inside calls; an array or object takes about four. */
#define OMMAI_GRAMMAR_MAX_DEPTH 256
/* How often a call may be asked for whose rule may be empty. */
#define OMMAI_GRAMMAR_MAX_EMPTY_REPEATS 256
/* Steps of a second of processor time, as measured: docs/structured-output.md. */
#define OMMAI_GRAMMAR_STEPS_PER_SECOND INT64_C(100000000)
/* Steps of one compilation, unless another limit is given: 0.2 seconds. */
#define OMMAI_GRAMMAR_MAX_WORK (OMMAI_GRAMMAR_STEPS_PER_SECOND / 5)

struct ommai_grammar_node {
  int32_t first_edge, n_edges;
  /* minimum further depth to the rule's end; above OMMAI_GRAMMAR_MAX_DEPTH: there is no way */
  uint16_t depth;
  bool ends;      /* its rule may end here */
  bool has_bytes; /* among the edges */
};

struct ommai_grammar {
  struct omma_allocator allocator;
  struct ommai_grammar_node *nodes; /* [n_nodes] */
  struct ommai_grammar_edge *edges; /* [n_edges] */
  struct ommai_grammar_rule *rules; /* [n_rules] */
  size_t n_nodes, n_edges, n_rules;
  int32_t root;          /* rule */
  uint8_t class_of[256]; /* bytes that no edge distinguishes have the same class */
  uint8_t byte_of[256];  /* [n_classes] one of each */
  int n_classes;
  int64_t work; /* steps that the compilation took */
};

/* Compiles what the builder holds; texts are those of rule `root`. The builder stays the caller's;
 * the scratch has the work. Errors: MEMORY; LIMIT (too large, too deep, too much work); FORMAT (a
 * rule that calls itself before it has taken a byte; no text at all). */
enum omma_status ommai_grammar_create(const struct ommai_grammar_builder *builder, int32_t root, struct ommai_scratch *scratch,
                                      struct ommai_grammar **grammar, struct omma_error *error);
/* Bytes that it takes. */
size_t ommai_grammar_bytes(const struct ommai_grammar *grammar);
void ommai_grammar_destroy(struct ommai_grammar *grammar);
