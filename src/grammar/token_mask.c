/* A mask is made by one pass over the tree of tokens, with the recogniser's state at each depth; where that is dead the whole subtree is
 * passed over.
 *
 * Inside a JSON string nearly all tokens are allowed, and the pass would be long. So it is first seen how many plain characters may follow,
 * whichever they are: tokens of at most so many are allowed at once, and subtrees of nothing else are passed over. */
#include "grammar/token_mask.h"

#include <string.h>

#include "base/allocator.h"
#include "base/error.h"
#include "text/vocabulary.h"

/* Nodes below which looking for a shorter way takes longer than the way. */
enum { SMALL_SUBTREE = 4 };

struct kept_mask {
  int64_t generation; /* -1: free */
  int32_t state;
  bool goes_on;
};

struct ommai_token_masks {
  const struct ommai_token_trie *trie;
  struct ommai_recogniser *recogniser;
  uint32_t *words; /* [KEPT, n_words] */
  struct kept_mask kept[OMMAI_TOKEN_MASK_KEPT];
  int next_kept;                                        /* the one to be replaced */
  int32_t states[OMMAI_VOCABULARY_MAX_TOKEN_BYTES + 1]; /* by depth */
};

enum omma_status ommai_token_masks_create(const struct ommai_grammar *grammar, const struct ommai_token_trie *trie,
                                          struct ommai_token_masks **out, struct omma_error *error) {
  const struct omma_allocator *allocator = &grammar->allocator;
  size_t n_words = OMMAI_TOKEN_MASK_KEPT * (size_t)trie->n_words;
  struct ommai_token_masks *masks = ommai_allocate(allocator, 1, sizeof *masks);
  if (!masks) return ommai_fail_memory(error, "grammar", sizeof *masks);
  masks->trie = trie;
  enum omma_status status = ommai_recogniser_create(grammar, &masks->recogniser, error);
  if (status != OMMA_OK) {
    ommai_release(allocator, masks, 1, sizeof *masks);
    return status;
  }
  masks->words = ommai_allocate_uninitialised(allocator, n_words, sizeof *masks->words);
  if (!masks->words) {
    ommai_token_masks_destroy(masks);
    return ommai_fail_memory(error, "grammar", n_words * sizeof *masks->words);
  }
  for (int i = 0; i < OMMAI_TOKEN_MASK_KEPT; i++) masks->kept[i].generation = -1;
  *out = masks;
  return OMMA_OK;
}

void ommai_token_masks_destroy(struct ommai_token_masks *masks) {
  if (!masks) return;
  const struct omma_allocator *allocator = &masks->recogniser->grammar->allocator;
  ommai_release(allocator, masks->words, OMMAI_TOKEN_MASK_KEPT * (size_t)masks->trie->n_words, sizeof *masks->words);
  ommai_recogniser_destroy(masks->recogniser);
  ommai_release(allocator, masks, 1, sizeof *masks);
}

struct ommai_mask_position ommai_token_masks_start(struct ommai_token_masks *masks) {
  int32_t state = ommai_recogniser_start(masks->recogniser);
  if (state == OMMAI_STATE_FULL) {
    ommai_recogniser_flush(masks->recogniser, OMMAI_STATE_DEAD);
    state = ommai_recogniser_start(masks->recogniser);
  }
  return (struct ommai_mask_position){masks->recogniser->generation, state};
}

bool ommai_token_masks_know(const struct ommai_token_masks *masks, const struct ommai_mask_position *position) {
  return position->generation == masks->recogniser->generation;
}

static void flush(struct ommai_token_masks *masks, struct ommai_mask_position *position) {
  position->state = ommai_recogniser_flush(masks->recogniser, position->state);
  position->generation = masks->recogniser->generation;
}

bool ommai_token_masks_advance(struct ommai_token_masks *masks, struct ommai_mask_position *position, const char *bytes,
                               size_t size) {
  for (size_t i = 0; i < size && position->state >= 0; i++) {
    int32_t next = ommai_recogniser_next(masks->recogniser, position->state, (unsigned char)bytes[i]);
    if (next == OMMAI_STATE_FULL) {
      flush(masks, position);
      next = ommai_recogniser_next(masks->recogniser, position->state, (unsigned char)bytes[i]);
    }
    position->state = next;
  }
  return position->state >= 0;
}

/* ---- plain characters ---- */

/* The state behind every byte from low to high, quotation mark and backslash left out, or DEAD where they differ; FULL. */
static int32_t common_next(struct ommai_recogniser *recogniser, int32_t state, int low, int high) {
  int32_t common = OMMAI_STATE_UNKNOWN;
  if (state < 0) return state;
  for (int byte = low; byte <= high; byte++) {
    if (byte == '"' || byte == '\\') continue;
    int32_t next = ommai_recogniser_next(recogniser, state, (unsigned char)byte);
    if (next == OMMAI_STATE_FULL) return next;
    if (common != OMMAI_STATE_UNKNOWN && next != common) return OMMAI_STATE_DEAD;
    common = next;
  }
  return common;
}

/* The plain characters in UTF-8: ranges of each of their bytes; U+2028 and U+2029, which `.` of a pattern leaves out, are not among them. */
static const struct {
  int n_bytes;
  uint8_t low[4], high[4];
} FORMS[] = {{1, {0x20}, {0x7f}},
             {2, {0xc2, 0x80}, {0xdf, 0xbf}},
             {3, {0xe0, 0xa0, 0x80}, {0xe0, 0xbf, 0xbf}},
             {3, {0xe1, 0x80, 0x80}, {0xe1, 0xbf, 0xbf}},
             {3, {0xe2, 0x80, 0x80}, {0xe2, 0x80, 0xa7}},
             {3, {0xe2, 0x80, 0xaa}, {0xe2, 0x80, 0xbf}},
             {3, {0xe2, 0x81, 0x80}, {0xe2, 0xbf, 0xbf}},
             {3, {0xe3, 0x80, 0x80}, {0xec, 0xbf, 0xbf}},
             {3, {0xed, 0x80, 0x80}, {0xed, 0x9f, 0xbf}},
             {3, {0xee, 0x80, 0x80}, {0xef, 0xbf, 0xbf}},
             {4, {0xf0, 0x90, 0x80, 0x80}, {0xf0, 0xbf, 0xbf, 0xbf}},
             {4, {0xf1, 0x80, 0x80, 0x80}, {0xf3, 0xbf, 0xbf, 0xbf}},
             {4, {0xf4, 0x80, 0x80, 0x80}, {0xf4, 0x8f, 0xbf, 0xbf}}};

/* The one state behind each plain character, DEAD where there is none, or FULL. */
static int32_t find_after_char(struct ommai_recogniser *recogniser, int32_t state) {
  int32_t common = OMMAI_STATE_UNKNOWN;
  for (size_t i = 0; i < sizeof FORMS / sizeof FORMS[0]; i++) {
    int32_t next = state;
    for (int j = 0; j < FORMS[i].n_bytes; j++) next = common_next(recogniser, next, FORMS[i].low[j], FORMS[i].high[j]);
    if (next < 0) return next;
    if (common != OMMAI_STATE_UNKNOWN && next != common) return OMMAI_STATE_DEAD;
    common = next;
  }
  return common;
}

/* How many plain characters may follow, whichever they are, up to MAX_PLAIN; or FULL. */
static int32_t count_free_chars(struct ommai_recogniser *recogniser, int32_t state) {
  for (int32_t n = 0; n < OMMAI_TRIE_MAX_PLAIN; n++) {
    int32_t *after = &recogniser->states[state].after_char;
    if (*after == OMMAI_STATE_UNKNOWN) {
      int32_t found = find_after_char(recogniser, state);
      if (found == OMMAI_STATE_FULL) return found;
      *after = found;
    }
    if (*after < 0) return n;
    if (*after == state) return OMMAI_TRIE_MAX_PLAIN;
    state = *after;
  }
  return OMMAI_TRIE_MAX_PLAIN;
}

/* ---- masks ---- */

/* Whether every plain character leads back to the state, so that subtrees of plain tokens are allowed as a whole. */
static bool find_absorbs(struct ommai_recogniser *recogniser, int32_t state) {
  bool absorbs = ommai_recogniser_next(recogniser, state, ' ') == state && find_after_char(recogniser, state) == state;
  recogniser->states[state].absorbs = absorbs ? 2 : 1;
  return absorbs;
}

static inline bool absorbs_plain(struct ommai_recogniser *recogniser, int32_t state) {
  uint8_t known = recogniser->states[state].absorbs;
  return known ? known == 2 : find_absorbs(recogniser, state);
}

static void add_subtree(const struct ommai_trie_node *nodes, size_t first, size_t end, uint32_t *mask) {
  for (size_t i = first; i < end; i++) {
    if (nodes[i].token >= 0) ommai_mask_set(mask, nodes[i].token);
  }
}

/* Adds the tokens that are not among those of n_free plain characters. False when the recogniser is full. */
static bool walk(struct ommai_token_masks *masks, int32_t state, int32_t n_free, uint32_t *mask) {
  const struct ommai_trie_node *nodes = masks->trie->nodes;
  struct ommai_recogniser *recogniser = masks->recogniser;
  int32_t *states = masks->states;
  states[0] = state;
  for (size_t i = 0; i < masks->trie->n_nodes;) {
    const struct ommai_trie_node *node = &nodes[i];
    int32_t next =
        node->max_plain <= n_free ? OMMAI_STATE_DEAD : ommai_recogniser_next(recogniser, states[node->depth], node->byte);
    if (next == OMMAI_STATE_FULL) return false;
    if (next < 0) {
      i = node->end;
      continue;
    }
    if (node->max_plain != OMMAI_TRIE_NOT_PLAIN && node->end > i + SMALL_SUBTREE && absorbs_plain(recogniser, next)) {
      add_subtree(nodes, i, node->end, mask);
      i = node->end;
      continue;
    }
    states[node->depth + 1] = next;
    if (node->token >= 0) ommai_mask_set(mask, node->token);
    i++;
  }
  return true;
}

static bool make_mask(struct ommai_token_masks *masks, int32_t state, uint32_t *mask) {
  const struct ommai_token_trie *trie = masks->trie;
  int32_t n_free = count_free_chars(masks->recogniser, state);
  if (n_free == OMMAI_STATE_FULL) n_free = 0;
  memcpy(mask, trie->plain + n_free * trie->n_words, (size_t)trie->n_words * sizeof *mask);
  return walk(masks, state, n_free, mask);
}

static bool is_empty(const uint32_t *mask, int64_t n_words) {
  uint32_t any = 0;
  for (int64_t i = 0; i < n_words; i++) any |= mask[i];
  return any == 0;
}

/* Makes the mask in slot `index`. A walk that does not even fit into empty tables forbids the tokens that it did not come to. */
static void fill_slot(struct ommai_token_masks *masks, int index, struct ommai_mask_position *position) {
  const struct ommai_token_trie *trie = masks->trie;
  uint32_t *mask = masks->words + index * trie->n_words;
  if (!make_mask(masks, position->state, mask)) {
    flush(masks, position);
    (void)make_mask(masks, position->state, mask);
  }
  bool goes_on = !is_empty(mask, trie->n_words);
  for (size_t i = 0; i < trie->n_end_tokens && masks->recogniser->states[position->state].accepts; i++) {
    ommai_mask_set(mask, trie->end_tokens[i]);
  }
  masks->kept[index] = (struct kept_mask){position->generation, position->state, goes_on};
}

const uint32_t *ommai_token_masks_get(struct ommai_token_masks *masks, struct ommai_mask_position *position, bool *ends,
                                      bool *goes_on) {
  int index = 0;
  while (index < OMMAI_TOKEN_MASK_KEPT &&
         (masks->kept[index].generation != position->generation || masks->kept[index].state != position->state)) {
    index++;
  }
  if (index == OMMAI_TOKEN_MASK_KEPT) {
    index = masks->next_kept;
    masks->next_kept = (index + 1) % OMMAI_TOKEN_MASK_KEPT;
    fill_slot(masks, index, position);
  }
  *ends = masks->recogniser->states[position->state].accepts;
  *goes_on = masks->kept[index].goes_on;
  return masks->words + index * masks->trie->n_words;
}
