#include "grammar/grammar_builder.h"

#include <stdlib.h>
#include <string.h>

#include "base/growing.h"

void ommai_builder_init(struct ommai_grammar_builder *builder, const struct omma_allocator *allocator) {
  *builder = (struct ommai_grammar_builder){.allocator = allocator};
}

void ommai_builder_free(struct ommai_grammar_builder *builder) {
  if (!builder->allocator) return;
  ommai_release(builder->allocator, builder->edges, builder->edges_capacity, sizeof *builder->edges);
  ommai_release(builder->allocator, builder->rules, builder->rules_capacity, sizeof *builder->rules);
}

bool ommai_builder_failed(const struct ommai_grammar_builder *builder) { return builder->no_memory || builder->too_large; }

int32_t ommai_builder_node(struct ommai_grammar_builder *builder) {
  if (builder->n_nodes == OMMAI_GRAMMAR_MAX_NODES) builder->too_large = true;
  return ommai_builder_failed(builder) ? 0 : builder->n_nodes++;
}

int32_t ommai_builder_rule(struct ommai_grammar_builder *builder) {
  int32_t start = ommai_builder_node(builder), end = ommai_builder_node(builder);
  return ommai_builder_rule_of(builder, (struct ommai_grammar_rule){start, end});
}

int32_t ommai_builder_rule_of(struct ommai_grammar_builder *builder, struct ommai_grammar_rule ends) {
  if (builder->n_rules == OMMAI_GRAMMAR_MAX_RULES) builder->too_large = true;
  if (ommai_builder_failed(builder)) return 0;
  if (!ommai_grow((void **)&builder->rules, &builder->rules_capacity, builder->n_rules, 1, sizeof *builder->rules,
                  builder->allocator)) {
    builder->no_memory = true;
    return 0;
  }
  builder->rules[builder->n_rules] = ends;
  return (int32_t)builder->n_rules++;
}

struct ommai_grammar_rule ommai_builder_ends(const struct ommai_grammar_builder *builder, int32_t rule) {
  return builder->n_rules ? builder->rules[rule] : (struct ommai_grammar_rule){0};
}

static void add_edge(struct ommai_grammar_builder *builder, struct ommai_grammar_edge edge) {
  if (builder->n_edges == OMMAI_GRAMMAR_MAX_EDGES) builder->too_large = true;
  if (ommai_builder_failed(builder)) return;
  if (!ommai_grow((void **)&builder->edges, &builder->edges_capacity, builder->n_edges, 1, sizeof *builder->edges,
                  builder->allocator)) {
    builder->no_memory = true;
    return;
  }
  builder->edges[builder->n_edges++] = edge;
}

void ommai_builder_range(struct ommai_grammar_builder *builder, int32_t from, int low, int high, int32_t to) {
  add_edge(builder, (struct ommai_grammar_edge){
                        .from = from, .to = to, .kind = OMMAI_EDGE_BYTES, .low = (uint8_t)low, .high = (uint8_t)high});
}

void ommai_builder_empty(struct ommai_grammar_builder *builder, int32_t from, int32_t to) {
  add_edge(builder, (struct ommai_grammar_edge){.from = from, .to = to, .kind = OMMAI_EDGE_EMPTY});
}

void ommai_builder_repeat(struct ommai_grammar_builder *builder, int32_t from, int32_t rule, int32_t min, int32_t max,
                          int32_t to) {
  if (max == 0) {
    ommai_builder_empty(builder, from, to);
    return;
  }
  add_edge(builder,
           (struct ommai_grammar_edge){.from = from, .to = to, .kind = OMMAI_EDGE_CALL, .rule = rule, .min = min, .max = max});
}

void ommai_builder_call(struct ommai_grammar_builder *builder, int32_t from, int32_t rule, int32_t to) {
  ommai_builder_repeat(builder, from, rule, 1, 1, to);
}

void ommai_builder_count(struct ommai_grammar_builder *builder, int32_t from, int32_t min, int32_t max, int32_t to) {
  add_edge(builder, (struct ommai_grammar_edge){.from = from, .to = to, .kind = OMMAI_EDGE_COUNT, .min = min, .max = max});
}

void ommai_builder_counted(struct ommai_grammar_builder *builder, int32_t from, int32_t min, int32_t max, int32_t to) {
  add_edge(builder, (struct ommai_grammar_edge){.from = from, .to = to, .kind = OMMAI_EDGE_COUNTED, .min = min, .max = max});
}

int32_t ommai_builder_bytes(struct ommai_grammar_builder *builder, int32_t from, const char *bytes, size_t size) {
  for (size_t i = 0; i < size && !ommai_builder_failed(builder); i++) {
    int32_t next = ommai_builder_node(builder);
    ommai_builder_range(builder, from, (unsigned char)bytes[i], (unsigned char)bytes[i], next);
    from = next;
  }
  return from;
}

int32_t ommai_builder_text(struct ommai_grammar_builder *builder, int32_t from, const char *text) {
  return ommai_builder_bytes(builder, from, text, strlen(text));
}

static int compare_literals(const void *left, const void *right) {
  const struct ommai_literal *a = left, *b = right;
  int order = memcmp(a->bytes, b->bytes, a->size < b->size ? a->size : b->size);
  return order ? order : (a->size > b->size) - (a->size < b->size);
}

static size_t common_prefix(const struct ommai_literal *a, const struct ommai_literal *b) {
  size_t n = 0;
  while (n < a->size && n < b->size && a->bytes[n] == b->bytes[n]) n++;
  return n;
}

/* The node after the first `depth` bytes of the text that was added last is path[depth]. */
static void add_texts(struct ommai_grammar_builder *builder, int32_t from, const struct ommai_literal *texts, size_t n,
                      int32_t to, int32_t *path) {
  path[0] = from;
  for (size_t i = 0; i < n && !ommai_builder_failed(builder); i++) {
    for (size_t at = i ? common_prefix(&texts[i - 1], &texts[i]) : 0; at < texts[i].size; at++) {
      path[at + 1] = ommai_builder_bytes(builder, path[at], texts[i].bytes + at, 1);
    }
    ommai_builder_empty(builder, path[texts[i].size], to);
  }
}

void ommai_builder_choice(struct ommai_grammar_builder *builder, int32_t from, struct ommai_literal *texts, size_t n,
                          int32_t to) {
  size_t longest = 0;
  for (size_t i = 0; i < n; i++) longest = texts[i].size > longest ? texts[i].size : longest;
  int32_t *path = ommai_allocate(builder->allocator, longest + 1, sizeof *path);
  if (!path) {
    builder->no_memory = true;
    return;
  }
  qsort(texts, n, sizeof *texts, compare_literals);
  add_texts(builder, from, texts, n, to, path);
  ommai_release(builder->allocator, path, longest + 1, sizeof *path);
}
