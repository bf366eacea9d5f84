#include "grammar/token_trie.h"

#include <stdlib.h>
#include <string.h>

#include "base/allocator.h"
#include "base/error.h"
#include "text/utf8.h"
#include "text/vocabulary.h"

struct entry {
  const char *bytes;
  uint64_t classes; /* of its characters */
  uint32_t size;
  int32_t token;
  uint8_t n_chars, group;
};

static int compare_entries(const void *left, const void *right) {
  const struct entry *a = left, *b = right;
  if (a->group != b->group) return a->group < b->group ? -1 : 1;
  int order = memcmp(a->bytes, b->bytes, a->size < b->size ? a->size : b->size);
  if (order) return order;
  if (a->size != b->size) return a->size < b->size ? -1 : 1;
  return (a->token > b->token) - (a->token < b->token);
}

/* Blanks beyond ASCII, for ECMA-262 or for Python. */
static bool is_odd(uint32_t code) {
  static const uint16_t blanks[] = {0x85, 0xa0, 0x1680, 0x2028, 0x2029, 0x202f, 0x205f, 0x3000, 0xfeff};
  for (size_t i = 0; i < sizeof blanks / sizeof blanks[0]; i++) {
    if (code == blanks[i]) return true;
  }
  return code >= 0x2000 && code <= 0x200a;
}

int ommai_char_class(uint32_t code) {
  /* of the runs of marks between digits and letters */
  static const uint8_t firsts[] = {' ', ':', '[', '{'};
  static const uint8_t before[] = {0, 16, 23, 29};
  if (code >= 'a' && code <= 'z') return OMMAI_CLASS_SMALL;
  if (code >= 'A' && code <= 'Z') return OMMAI_CLASS_CAPITAL;
  if (code >= '0' && code <= '9') return OMMAI_CLASS_DIGIT;
  if (code == '\t') return OMMAI_CLASS_TAB;
  if (code == '\n') return OMMAI_CLASS_LINE_FEED;
  if (code == '\r') return OMMAI_CLASS_RETURN;
  if (code < ' ') return OMMAI_CLASS_CONTROL;
  if (code >= 0x80 && is_odd(code)) return OMMAI_CLASS_ODD;
  if (code >= 0x80) return code < 0x800 ? OMMAI_CLASS_2_BYTES : code < 0x10000 ? OMMAI_CLASS_3_BYTES : OMMAI_CLASS_4_BYTES;
  int run = code < ':' ? 0 : code < '[' ? 1 : code < '{' ? 2 : 3;
  return OMMAI_CLASS_MARKS + before[run] + (int)code - firsts[run];
}

static uint64_t bit(int class) { return UINT64_C(1) << class; }

/* By the classes that it has more than the groups before. */
static uint8_t group_of(uint64_t classes) {
  const uint64_t words =
      bit(OMMAI_CLASS_SMALL) | bit(OMMAI_CLASS_DIGIT) | bit(ommai_char_class(' ')) | bit(ommai_char_class('_'));
  const uint64_t capitals = words | bit(OMMAI_CLASS_CAPITAL);
  const uint64_t letters = capitals | bit(OMMAI_CLASS_2_BYTES) | bit(OMMAI_CLASS_3_BYTES) | bit(OMMAI_CLASS_4_BYTES);
  const uint64_t special = bit(OMMAI_CLASS_ODD) | bit(OMMAI_CLASS_TAB) | bit(OMMAI_CLASS_LINE_FEED) | bit(OMMAI_CLASS_RETURN) |
                           bit(OMMAI_CLASS_CONTROL) | bit(ommai_char_class('"')) | bit(ommai_char_class('\\'));
  if (classes & special) return OMMAI_GROUP_SPECIAL;
  if (classes & ~letters) return OMMAI_GROUP_MARKS;
  if (classes & ~capitals) return OMMAI_GROUP_LETTERS;
  return classes & ~words ? OMMAI_GROUP_CAPITALS : OMMAI_GROUP_WORDS;
}

/* Classes, number of characters and group of a token's text. */
static void look_at(struct entry *entry) {
  int count = 0;
  for (size_t at = 0, length; at < entry->size; at += length) {
    uint32_t code;
    bool valid = ommai_utf8_next(entry->bytes + at, entry->size - at, &length, &code) == OMMAI_UTF8_VALID;
    if (!valid) length = 1;
    entry->classes |= bit(valid ? ommai_char_class(code) : OMMAI_CLASS_ODD);
    count = valid ? count + 1 : OMMAI_TRIE_MAX_CHARS + 1;
  }
  entry->n_chars = (uint8_t)(count <= OMMAI_TRIE_MAX_CHARS ? count : OMMAI_TRIE_MORE_CHARS);
  entry->group = group_of(entry->classes);
}

static size_t collect(const struct ommai_tokenizer *tokenizer, int64_t vocab_size, struct entry *entries) {
  size_t n = 0;
  for (int32_t token = 0; token < vocab_size; token++) {
    const char *bytes;
    size_t size;
    bool is_special;
    if (!ommai_tokenizer_token_bytes(tokenizer, token, &bytes, &size, &is_special) || is_special || size == 0) continue;
    entries[n] = (struct entry){.bytes = bytes, .size = (uint32_t)size, .token = token};
    look_at(&entries[n++]);
  }
  return n;
}

/* How many leading bytes of entry i are nodes already; tokens of the same bytes have a last node
 * each. */
static uint32_t shared(const struct entry *entries, size_t i) {
  if (i == 0 || entries[i - 1].group != entries[i].group) return 0;
  const struct entry *a = &entries[i - 1], *b = &entries[i];
  uint32_t n = 0;
  while (n < a->size && n < b->size && a->bytes[n] == b->bytes[n]) n++;
  return n == b->size ? n - 1 : n;
}

/* The nodes of the token under way, by depth, are closed down to `depth`. */
static void close_nodes(struct ommai_token_trie *trie, const uint32_t *path, uint32_t from, uint32_t depth, uint32_t n_nodes) {
  for (uint32_t i = from; i > depth; i--) {
    struct ommai_trie_node *node = &trie->nodes[path[i - 1]];
    node->end = n_nodes;
    if (i < 2) continue;
    struct ommai_trie_node *parent = &trie->nodes[path[i - 2]];
    if (node->max_chars > parent->max_chars) parent->max_chars = node->max_chars;
    parent->classes |= node->classes;
  }
}

/* The token into its last node and the masks. */
static void add_token(struct ommai_token_trie *trie, struct ommai_trie_node *last, const struct entry *entry) {
  struct ommai_trie_node *group = &trie->groups[entry->group];
  trie->order[trie->n_tokens++] = last->token = entry->token;
  last->max_chars = entry->n_chars;
  last->classes = entry->classes;
  group->classes |= entry->classes;
  if (entry->n_chars > group->max_chars) group->max_chars = entry->n_chars;
  if (!(entry->classes & bit(OMMAI_CLASS_ODD))) {
    int n_chars = entry->n_chars <= OMMAI_TRIE_MAX_CHARS ? entry->n_chars : OMMAI_TRIE_MAX_CHARS + 1;
    ommai_mask_set(trie->shorter + n_chars * trie->n_words, entry->token);
  }
  for (int i = 0; i < OMMAI_N_CLASSES; i++) {
    if (entry->classes & bit(i)) ommai_mask_set(trie->having + i * trie->n_words, entry->token);
  }
}

static void fill_nodes(struct ommai_token_trie *trie, const struct entry *entries, size_t n) {
  uint32_t path[OMMAI_VOCABULARY_MAX_TOKEN_BYTES], open = 0, n_nodes = 0;
  for (size_t i = 0; i < n; i++) {
    uint32_t from = shared(entries, i);
    close_nodes(trie, path, open, from, n_nodes);
    for (open = from; open < entries[i].size; open++) {
      path[open] = n_nodes;
      trie->nodes[n_nodes++] = (struct ommai_trie_node){
          .first = (uint32_t)i, .token = -1, .depth = (uint16_t)open, .byte = (uint8_t)entries[i].bytes[open]};
    }
    add_token(trie, &trie->nodes[path[open - 1]], &entries[i]);
    for (int group = entries[i].group; group < OMMAI_N_GROUPS; group++) trie->groups[group].end = n_nodes;
  }
  close_nodes(trie, path, open, 0, n_nodes);
  for (int64_t i = trie->n_words; i < (OMMAI_TRIE_MAX_CHARS + 2) * trie->n_words; i++) {
    trie->shorter[i] |= trie->shorter[i - trie->n_words];
  }
  trie->nodes[n_nodes] = (struct ommai_trie_node){.first = (uint32_t)n, .token = -1};
}

static void list_tokens(struct ommai_token_trie *trie, const struct entry *entries, size_t n) {
  size_t n_listed = 0;
  uint32_t at = 0;
  for (int n_chars = 0; n_chars <= OMMAI_TRIE_MAX_CHARS; n_chars++) {
    trie->lists[n_chars] = n_listed;
    for (size_t i = 0; i < n; i++) {
      const struct entry *entry = &entries[i];
      if (entry->n_chars != n_chars) continue;
      struct ommai_listed_token *listed = &trie->listed[n_listed++];
      *listed = (struct ommai_listed_token){.token = entry->token, .bytes = at, .size = (uint16_t)entry->size};
      memcpy(trie->texts + at, entry->bytes, entry->size);
      at += entry->size;
      if (n_listed - 1 == trie->lists[n_chars]) continue;
      const char *before = trie->texts + listed[-1].bytes;
      while (listed->shared < entry->size && listed->shared < listed[-1].size &&
             entry->bytes[listed->shared] == before[listed->shared]) {
        listed->shared++;
      }
    }
  }
  trie->lists[OMMAI_TRIE_MAX_CHARS + 1] = n_listed;
}

static enum omma_status fill(struct ommai_token_trie *trie, const struct ommai_tokenizer *tokenizer, struct entry *entries,
                             struct omma_error *error) {
  size_t n = collect(tokenizer, trie->vocab_size, entries);
  qsort(entries, n, sizeof *entries, compare_entries);
  for (size_t i = 0; i < n; i++) {
    trie->n_nodes += entries[i].size - shared(entries, i);
    trie->n_text_bytes += entries[i].size;
  }
  trie->texts = ommai_allocate_uninitialised(&trie->allocator, trie->n_text_bytes, 1);
  if (!trie->texts) return ommai_fail_memory(error, "token tree", trie->n_text_bytes);
  trie->nodes = ommai_allocate(&trie->allocator, trie->n_nodes + 1, sizeof *trie->nodes);
  if (!trie->nodes) return ommai_fail_memory(error, "token tree", trie->n_nodes * sizeof *trie->nodes);
  fill_nodes(trie, entries, n);
  list_tokens(trie, entries, n);
  return OMMA_OK;
}

/* What does not depend on the tokens' texts. */
static enum omma_status allocate_tables(struct ommai_token_trie *trie, struct omma_error *error) {
  const struct omma_allocator *allocator = &trie->allocator;
  size_t n_words = (size_t)trie->n_words;
  trie->shorter = ommai_allocate(allocator, (OMMAI_TRIE_MAX_CHARS + 2) * n_words, sizeof *trie->shorter);
  trie->having = ommai_allocate(allocator, OMMAI_N_CLASSES * n_words, sizeof *trie->having);
  trie->listed = ommai_allocate(allocator, (size_t)trie->vocab_size, sizeof *trie->listed);
  trie->order = ommai_allocate(allocator, (size_t)trie->vocab_size, sizeof *trie->order);
  trie->end_tokens = ommai_allocate(allocator, trie->n_end_tokens, sizeof *trie->end_tokens);
  if (trie->shorter && trie->having && trie->listed && trie->order && trie->end_tokens) return OMMA_OK;
  return ommai_fail_memory(error, "token tree", (OMMAI_TRIE_MAX_CHARS + 2 + OMMAI_N_CLASSES) * n_words * sizeof(uint32_t));
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
  }
  if (status == OMMA_OK) status = allocate_tables(trie, error);
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
  size_t n_words = (size_t)trie->n_words;
  ommai_release(&allocator, trie->nodes, trie->n_nodes + 1, sizeof *trie->nodes);
  ommai_release(&allocator, trie->listed, (size_t)trie->vocab_size, sizeof *trie->listed);
  ommai_release(&allocator, trie->texts, trie->n_text_bytes, 1);
  ommai_release(&allocator, trie->shorter, (OMMAI_TRIE_MAX_CHARS + 2) * n_words, sizeof *trie->shorter);
  ommai_release(&allocator, trie->having, OMMAI_N_CLASSES * n_words, sizeof *trie->having);
  ommai_release(&allocator, trie->order, (size_t)trie->vocab_size, sizeof *trie->order);
  ommai_release(&allocator, trie->end_tokens, trie->n_end_tokens, sizeof *trie->end_tokens);
  ommai_release(&allocator, trie, 1, sizeof *trie);
}
