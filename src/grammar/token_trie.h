/* The texts of all tokens of a vocabulary as trees of bytes, laid out so that a walk is one pass
 * over an array. Made once for a model; read-only afterwards.
 *
 * Tokens are in groups by what they are made of, a tree each, so that a pass may leave out a group
 * as a whole and those that are looked for in strings (with quotation marks and the like) lie
 * close together. */
#pragma once

#include <omma/status.h>

#include "text/tokenizer.h"

/* Characters of a token that is whole UTF-8: it has masks by their number up to that many. */
#define OMMAI_TRIE_MAX_CHARS 32
/* as a number of characters: more than these, or it is not whole UTF-8 */
#define OMMAI_TRIE_MORE_CHARS 255

/* Characters by what patterns set apart: small letters, capitals, digits; each other ASCII
 * character, but most controls are one; then by their bytes in UTF-8. ODD: bytes that are not a
 * whole character, and blanks beyond ASCII, which patterns leave out. A set of classes is a word of
 * bits. */
enum {
  OMMAI_CLASS_SMALL,
  OMMAI_CLASS_CAPITAL,
  OMMAI_CLASS_DIGIT,
  OMMAI_CLASS_MARKS, /* blank, punctuation and U+007F in their order */
  OMMAI_CLASS_TAB = OMMAI_CLASS_MARKS + 34,
  OMMAI_CLASS_LINE_FEED,
  OMMAI_CLASS_RETURN,
  OMMAI_CLASS_CONTROL,
  OMMAI_CLASS_2_BYTES,
  OMMAI_CLASS_3_BYTES,
  OMMAI_CLASS_4_BYTES,
  OMMAI_CLASS_ODD,
  OMMAI_N_CLASSES
};

/* The class of a code point. */
int ommai_char_class(uint32_t code);

struct ommai_trie_node {
  uint64_t classes; /* of all characters of the tokens in the subtree, from their beginning on */
  uint32_t end;     /* the node after its subtree */
  /* of the tokens in the order of the tree: those of the subtree are [first, nodes[end].first) */
  uint32_t first;
  int32_t token;  /* or -1 */
  uint16_t depth; /* of its parent */
  uint8_t byte;
  uint8_t max_chars; /* maximum characters of a token in the subtree */
};

/* A token in a list. */
struct ommai_listed_token {
  int32_t token;
  uint32_t bytes;        /* index in `texts` */
  uint16_t size, shared; /* bytes; how many of the first ones are those of the token before it */
};

enum ommai_token_group {
  OMMAI_GROUP_WORDS,    /* small letters, digits, blanks, underscores */
  OMMAI_GROUP_CAPITALS, /* these and capitals */
  OMMAI_GROUP_LETTERS,  /* these and what is beyond ASCII */
  OMMAI_GROUP_MARKS,    /* these and punctuation */
  OMMAI_GROUP_SPECIAL,  /* these and quotation marks, backslashes, controls, what is odd */
  OMMAI_N_GROUPS
};

struct ommai_token_trie {
  struct omma_allocator allocator;
  /* [n_nodes + 1], children after their parent, in the order of bytes; the last one ends the
   * tokens */
  struct ommai_trie_node *nodes;
  size_t n_nodes;
  /* as roots: `classes`, `end` and `max_chars` of all */
  struct ommai_trie_node groups[OMMAI_N_GROUPS];
  int32_t *order; /* [n_tokens] in the order of the tree */
  size_t n_tokens;
  /* Whole tokens by their number of characters: those of n are [lists[n], lists[n + 1]), in the
   * order of the tree; for a pass over few of them. */
  struct ommai_listed_token *listed; /* [n_tokens] */
  char *texts;                       /* [n_text_bytes] theirs */
  size_t n_text_bytes;
  size_t lists[OMMAI_TRIE_MAX_CHARS + 2];
  int64_t vocab_size, n_words;
  /* [MAX_CHARS + 2, n_words]: whole tokens of at most that many characters; the last: all whole
   * ones */
  uint32_t *shorter;
  uint32_t *having;    /* [N_CLASSES, n_words]: tokens with a character of the class */
  int32_t *end_tokens; /* [n_end_tokens], those that end an answer */
  size_t n_end_tokens;
};

/* Takes the tokenizer's tokens but for special ones and those without bytes. Errors: MEMORY. */
enum omma_status ommai_token_trie_create(const struct ommai_tokenizer *tokenizer, int64_t vocab_size, const int32_t *end_tokens,
                                         size_t n_end_tokens, const struct omma_allocator *allocator,
                                         struct ommai_token_trie **trie, struct omma_error *error);
void ommai_token_trie_destroy(struct ommai_token_trie *trie);

/* Words of a mask of that many tokens. */
static inline int64_t ommai_mask_words(int64_t vocab_size) { return (vocab_size + 31) / 32; }
static inline void ommai_mask_set_all(uint32_t *mask, int64_t vocab_size) {
  for (int64_t i = 0; i < vocab_size / 32; i++) mask[i] = UINT32_MAX;
  if (vocab_size % 32) mask[vocab_size / 32] = (1u << vocab_size % 32) - 1;
}
static inline void ommai_mask_set(uint32_t *mask, int32_t token) { mask[token / 32] |= 1u << token % 32; }
static inline void ommai_mask_clear(uint32_t *mask, int32_t token) { mask[token / 32] &= ~(1u << token % 32); }
static inline bool ommai_mask_has(const uint32_t *mask, int32_t token) { return mask[token / 32] >> token % 32 & 1; }
