/* A grammar while it is being written down: rules that are graphs. A rule is entered at its start
 * node and left at its end node; edges take a range of bytes, take nothing, or call a rule a
 * number of times. Any node may have any number of edges. A call that is asked for once has a count
 * next to it, at first 0, which edges inside its rule raise and look at.
 *
 * A builder remembers the first thing that went wrong and then ignores what follows, so that calls
 * need no checks; ommai_grammar_create reports it. Not thread-safe. */
#pragma once

#include <omma/host.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Limits of one grammar. */
#define OMMAI_GRAMMAR_MAX_NODES (1 << 18)
#define OMMAI_GRAMMAR_MAX_EDGES (1 << 19)
#define OMMAI_GRAMMAR_MAX_RULES (1 << 16)
/* Nodes of a character's last bytes that are remembered. */
#define OMMAI_GRAMMAR_TAILS 256
/* As a call's `max`: any number of times. */
#define OMMAI_GRAMMAR_NO_MAX INT32_MAX

enum ommai_edge_kind { OMMAI_EDGE_BYTES, OMMAI_EDGE_EMPTY, OMMAI_EDGE_CALL, OMMAI_EDGE_COUNT, OMMAI_EDGE_COUNTED };

struct ommai_grammar_edge {
  int32_t from, to;
  int32_t rule, min, max; /* CALL; min and max of COUNT and COUNTED */
  uint8_t kind;
  uint8_t low, high; /* BYTES */
};

struct ommai_grammar_rule {
  int32_t start, end;
};

/* A node from which n bytes lead to `to`. */
struct ommai_grammar_tail {
  int32_t to, node;
  uint8_t n; /* 0: none */
  char low[3], high[3], unused;
};

struct ommai_grammar_builder {
  const struct omma_allocator *allocator;
  struct ommai_grammar_edge *edges; /* [n_edges] */
  size_t n_edges, edges_capacity;
  struct ommai_grammar_rule *rules; /* [n_rules] */
  size_t n_rules, rules_capacity;
  int32_t n_nodes;
  bool no_memory, too_large;
  struct ommai_grammar_tail tails[OMMAI_GRAMMAR_TAILS]; /* char_ranges.c's: made lately */
};

void ommai_builder_init(struct ommai_grammar_builder *builder, const struct omma_allocator *allocator);
void ommai_builder_free(struct ommai_grammar_builder *builder);
bool ommai_builder_failed(const struct ommai_grammar_builder *builder);

/* A new rule; its start and end are there, nothing leads from one to the other. */
int32_t ommai_builder_rule(struct ommai_grammar_builder *builder);
/* A rule between two nodes that are there. */
int32_t ommai_builder_rule_of(struct ommai_grammar_builder *builder, struct ommai_grammar_rule ends);
struct ommai_grammar_rule ommai_builder_ends(const struct ommai_grammar_builder *builder, int32_t rule);
int32_t ommai_builder_node(struct ommai_grammar_builder *builder);

/* One byte from low to high. */
void ommai_builder_range(struct ommai_grammar_builder *builder, int32_t from, int low, int high, int32_t to);
void ommai_builder_empty(struct ommai_grammar_builder *builder, int32_t from, int32_t to);
/* `rule` min to max times. */
void ommai_builder_repeat(struct ommai_grammar_builder *builder, int32_t from, int32_t rule, int32_t min, int32_t max,
                          int32_t to);
void ommai_builder_call(struct ommai_grammar_builder *builder, int32_t from, int32_t rule, int32_t to);
/* Without a byte: raises the count of the call under way by one, where it is from min to max
 * then. */
void ommai_builder_count(struct ommai_grammar_builder *builder, int32_t from, int32_t min, int32_t max, int32_t to);
/* Without a byte, to the end of a rule that counts: passes where the count is from min to max. */
void ommai_builder_counted(struct ommai_grammar_builder *builder, int32_t from, int32_t min, int32_t max, int32_t to);

/* These bytes; returns the node after them. */
int32_t ommai_builder_bytes(struct ommai_grammar_builder *builder, int32_t from, const char *bytes, size_t size);
int32_t ommai_builder_text(struct ommai_grammar_builder *builder, int32_t from, const char *text);

/* A text of bytes, for ommai_builder_choice. */
struct ommai_literal {
  const char *bytes;
  size_t size;
};

/* One of the texts; common beginnings are shared. Sorts them. */
void ommai_builder_choice(struct ommai_grammar_builder *builder, int32_t from, struct ommai_literal *texts, size_t n,
                          int32_t to);
