#include "grammar/token_trie.h"

#include <stdlib.h>
#include <string.h>

#include "base/allocator.h"
#include "base/error.h"
#include "text/utf8.h"
#include "text/vocabulary.h"

struct entry {
  const char *bytes;
  uint32_t size;
  int32_t token;
};

static int compare_entries(const void *left, const void *right) {
  const struct entry *a = left, *b = right;
  int order = memcmp(a->bytes, b->bytes, a->size < b->size ? a->size : b->size);
  if (order) return order;
  if (a->size != b->size) return a->size < b->size ? -1 : 1;
  return (a->token > b->token) - (a->token < b->token);
}

static size_t collect(const struct ommai_tokenizer *tokenizer, int64_t vocab_size, struct entry *entries) {
  size_t n = 0;
  for (int32_t token = 0; token < vocab_size; token++) {
    const char *bytes;
    size_t size;
    bool is_special;
    if (!ommai_tokenizer_token_bytes(tokenizer, token, &bytes, &size, &is_special) || is_special || size == 0) continue;
    entries[n++] = (struct entry){bytes, (uint32_t)size, token};
  }
  return n;
}

/* How many leading bytes of entry i are nodes already; tokens of the same bytes have a last node each. */
static uint32_t shared(const struct entry *entries, size_t i) {
  if (i == 0) return 0;
  const struct entry *a = &entries[i - 1], *b = &entries[i];
  uint32_t n = 0;
  while (n < a->size && n < b->size && a->bytes[n] == b->bytes[n]) n++;
  return n == b->size ? n - 1 : n;
}

/* Plain characters of a token, or NOT_PLAIN. */
static uint8_t count_plain(const struct entry *entry) {
  int count = 0;
  for (size_t at = 0, length; at < entry->size; at += length) {
    uint32_t code_point;
    if (ommai_utf8_next(entry->bytes + at, entry->size - at, &length, &code_point) != OMMAI_UTF8_VALID)
      return OMMAI_TRIE_NOT_PLAIN;
    if (code_point < 0x20 || code_point == '"' || code_point == '\\') return OMMAI_TRIE_NOT_PLAIN;
    if (code_point == 0x2028 || code_point == 0x2029) return OMMAI_TRIE_NOT_PLAIN;
    if (++count > OMMAI_TRIE_MAX_PLAIN) return OMMAI_TRIE_NOT_PLAIN;
  }
  return (uint8_t)count;
}

/* The nodes of the token under way, by depth, are closed down to `depth`. */
static void close_nodes(struct ommai_token_trie *trie, const uint32_t *path, uint32_t from, uint32_t depth, uint32_t n_nodes) {
  for (uint32_t i = from; i > depth; i--) {
    struct ommai_trie_node *node = &trie->nodes[path[i - 1]];
    node->end = n_nodes;
    if (i < 2) continue;
    struct ommai_trie_node *parent = &trie->nodes[path[i - 2]];
    if (node->max_plain > parent->max_plain) parent->max_plain = node->max_plain;
  }
}

static void fill_nodes(struct ommai_token_trie *trie, const struct entry *entries, size_t n) {
  uint32_t path[OMMAI_VOCABULARY_MAX_TOKEN_BYTES], open = 0, n_nodes = 0;
  for (size_t i = 0; i < n; i++) {
    uint32_t from = shared(entries, i);
    close_nodes(trie, path, open, from, n_nodes);
    for (open = from; open < entries[i].size; open++) {
      path[open] = n_nodes;
      trie->nodes[n_nodes++] =
          (struct ommai_trie_node){.token = -1, .depth = (uint16_t)open, .byte = (uint8_t)entries[i].bytes[open]};
    }
    struct ommai_trie_node *last = &trie->nodes[path[open - 1]];
    last->token = entries[i].token;
    last->max_plain = count_plain(&entries[i]);
    for (int plain = last->max_plain; plain <= OMMAI_TRIE_MAX_PLAIN; plain++) {
      ommai_mask_set(trie->plain + plain * trie->n_words, last->token);
    }
  }
  close_nodes(trie, path, open, 0, n_nodes);
}

static enum omma_status fill(struct ommai_token_trie *trie, const struct ommai_tokenizer *tokenizer, struct entry *entries,
                             struct omma_error *error) {
  size_t n = collect(tokenizer, trie->vocab_size, entries);
  qsort(entries, n, sizeof *entries, compare_entries);
  for (size_t i = 0; i < n; i++) trie->n_nodes += entries[i].size - shared(entries, i);
  trie->nodes = ommai_allocate(&trie->allocator, trie->n_nodes, sizeof *trie->nodes);
  if (!trie->nodes) return ommai_fail_memory(error, "token tree", trie->n_nodes * sizeof *trie->nodes);
  fill_nodes(trie, entries, n);
  return OMMA_OK;
}

enum omma_status ommai_token_trie_create(const struct ommai_tokenizer *tokenizer, int64_t vocab_size, const int32_t *end_tokens,
                                         size_t n_end_tokens, const struct omma_allocator *allocator,
                                         struct ommai_token_trie **out, struct omma_error *error) {
  enum omma_status status = OMMA_OK;
  struct ommai_token_trie *trie = ommai_allocate(allocator, 1, sizeof *trie);
  struct entry *entries = ommai_allocate(allocator, (size_t)vocab_size, sizeof *entries);
  if (!trie || !entries) status = ommai_fail_memory(error, "token tree", (size_t)vocab_size * sizeof *entries);
  if (trie) {
    *trie = (struct ommai_token_trie){.allocator = *allocator,
                                      .vocab_size = vocab_size,
                                      .n_words = ommai_mask_words(vocab_size),
                                      .n_end_tokens = n_end_tokens};
    trie->plain = ommai_allocate(allocator, (OMMAI_TRIE_MAX_PLAIN + 1) * (size_t)trie->n_words, sizeof *trie->plain);
    trie->end_tokens = ommai_allocate(allocator, n_end_tokens, sizeof *trie->end_tokens);
    if (!trie->plain || !trie->end_tokens) status = ommai_fail_memory(error, "token tree", (size_t)vocab_size);
  }
  if (status == OMMA_OK) {
    if (n_end_tokens) memcpy(trie->end_tokens, end_tokens, n_end_tokens * sizeof *end_tokens);
    status = fill(trie, tokenizer, entries, error);
  }
  ommai_release(allocator, entries, (size_t)vocab_size, sizeof *entries);
  if (status == OMMA_OK) {
    *out = trie;
  } else {
    ommai_token_trie_destroy(trie);
  }
  return status;
}

void ommai_token_trie_destroy(struct ommai_token_trie *trie) {
  if (!trie) return;
  struct omma_allocator allocator = trie->allocator;
  ommai_release(&allocator, trie->nodes, trie->n_nodes, sizeof *trie->nodes);
  ommai_release(&allocator, trie->plain, (OMMAI_TRIE_MAX_PLAIN + 1) * (size_t)trie->n_words, sizeof *trie->plain);
  ommai_release(&allocator, trie->end_tokens, trie->n_end_tokens, sizeof *trie->end_tokens);
  ommai_release(&allocator, trie, 1, sizeof *trie);
}
