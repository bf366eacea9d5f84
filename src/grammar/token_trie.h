/* The texts of all tokens of a vocabulary as a tree of bytes, laid out so that a walk is one pass over an array. Made once for a model;
 * read-only afterwards. */
#ifndef OMMAI_GRAMMAR_TOKEN_TRIE_H
#define OMMAI_GRAMMAR_TOKEN_TRIE_H

#include <omma/status.h>

#include "text/tokenizer.h"

/* Tokens of at most so many plain characters have masks by their length. A plain character is whole UTF-8 and may stand in a JSON string as it
 * is: at least U+0020, no quotation mark, no backslash, and not U+2028 or U+2029, which end lines in some places. */
#define OMMAI_TRIE_MAX_PLAIN 32
#define OMMAI_TRIE_NOT_PLAIN 255

struct ommai_trie_node {
  uint32_t end;   /* the node behind its subtree */
  int32_t token;  /* or -1 */
  uint16_t depth; /* of its parent */
  uint8_t byte;
  uint8_t max_plain; /* of the tokens in the subtree: the most plain characters; NOT_PLAIN: one is not plain, or longer */
};

struct ommai_token_trie {
  struct omma_allocator allocator;
  struct ommai_trie_node *nodes; /* [n_nodes], children behind their parent, in the order of bytes */
  size_t n_nodes;
  int64_t vocab_size, n_words;
  uint32_t *plain;     /* [MAX_PLAIN + 1, n_words]: tokens of at most so many plain characters and nothing else */
  int32_t *end_tokens; /* [n_end_tokens], those that end an answer */
  size_t n_end_tokens;
};

/* Takes the tokenizer's tokens but for special ones and those without bytes. Errors: MEMORY. */
enum omma_status ommai_token_trie_create(const struct ommai_tokenizer *tokenizer, int64_t vocab_size, const int32_t *end_tokens,
                                         size_t n_end_tokens, const struct omma_allocator *allocator,
                                         struct ommai_token_trie **trie, struct omma_error *error);
void ommai_token_trie_destroy(struct ommai_token_trie *trie);

/* Words of a mask of so many tokens. */
static inline int64_t ommai_mask_words(int64_t vocab_size) { return (vocab_size + 31) / 32; }
static inline void ommai_mask_set(uint32_t *mask, int32_t token) { mask[token / 32] |= 1u << token % 32; }
static inline void ommai_mask_clear(uint32_t *mask, int32_t token) { mask[token / 32] &= ~(1u << token % 32); }
static inline bool ommai_mask_has(const uint32_t *mask, int32_t token) { return mask[token / 32] >> token % 32 & 1; }

#endif
