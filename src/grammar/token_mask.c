/* A mask is made by one pass over the tree of tokens, with the recogniser's state at each depth;
 * where that is dead the whole subtree is passed over.
 *
 * Inside strings nearly all tokens are allowed, and the pass would be long. So it is first seen
 * which classes of characters lead on, whichever of them it is, and how often: tokens of that many
 * characters of these classes are allowed at once, from masks that were made with the tree, and
 * the pass leaves their subtrees out; where no character of them can follow the last one, those of
 * longer tokens too. */
#include "grammar/token_mask.h"

#include <string.h>

#include "base/allocator.h"
#include "base/error.h"
#include "text/vocabulary.h"

/* Nodes below which looking for a shorter way takes longer than the way; and where it was not
 * looked for yet. */
enum { SMALL_SUBTREE = 6, LARGE_SUBTREE = 64 };
/* Nodes of the tree, a step of work each, after which the limit is looked at. */
enum { VISITS_A_CHECK = 1024 };

struct kept_mask {
  int64_t generation; /* -1: free */
  int32_t state;
  bool goes_on;
};

struct ommai_token_masks {
  const struct ommai_token_trie *trie;
  struct ommai_recogniser *recogniser;
  uint32_t *words; /* [KEPT + 1, n_words]; the last is the first mask */
  struct kept_mask kept[OMMAI_TOKEN_MASK_KEPT + 1];
  int next_kept;                                        /* the one to be replaced */
  int32_t states[OMMAI_VOCABULARY_MAX_TOKEN_BYTES + 1]; /* by depth */
  int64_t limited_from;                                 /* work when a limit was set */
  /* The tables were emptied for a mask, and since then only it was worked at: they can be full of
   * nothing else. The generation; or -1. */
  int64_t emptied;
  bool first_ends; /* the text may be empty */
};

size_t ommai_token_masks_bytes(const struct ommai_token_masks *masks) {
  return sizeof *masks + ommai_recogniser_bytes(masks->recogniser) +
         (OMMAI_TOKEN_MASK_KEPT + 1) * (size_t)masks->trie->n_words * sizeof *masks->words;
}

void ommai_token_masks_destroy(struct ommai_token_masks *masks) {
  if (!masks) return;
  const struct omma_allocator *allocator = &masks->recogniser->grammar->allocator;
  ommai_release(allocator, masks->words, (OMMAI_TOKEN_MASK_KEPT + 1) * (size_t)masks->trie->n_words, sizeof *masks->words);
  ommai_recogniser_destroy(masks->recogniser);
  ommai_release(allocator, masks, 1, sizeof *masks);
}

struct ommai_mask_position ommai_token_masks_start(struct ommai_token_masks *masks) {
  masks->emptied = -1;
  int32_t state = ommai_recogniser_start(masks->recogniser);
  if (state == OMMAI_STATE_FULL && !masks->recogniser->is_late) {
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

/* Steps over the bytes; the result of the last one. */
static int32_t step_over(struct ommai_token_masks *masks, struct ommai_mask_position *at, const char *bytes, size_t size,
                         bool may_flush) {
  for (size_t i = 0; i < size && at->state >= 0; i++) {
    int32_t next = ommai_recogniser_next(masks->recogniser, at->state, (unsigned char)bytes[i]);
    if (next == OMMAI_STATE_FULL && may_flush && !masks->recogniser->is_late) {
      flush(masks, at);
      next = ommai_recogniser_next(masks->recogniser, at->state, (unsigned char)bytes[i]);
    }
    if (next == OMMAI_STATE_FULL) return next;
    at->state = next;
  }
  return at->state;
}

bool ommai_token_masks_try_advance(struct ommai_token_masks *masks, struct ommai_mask_position *position, const char *bytes,
                                   size_t size, bool may_flush) {
  struct ommai_mask_position at = *position;
  masks->emptied = -1;
  int32_t last = step_over(masks, &at, bytes, size, false);
  if (last == OMMAI_STATE_FULL && may_flush && !masks->recogniser->is_late) {
    flush(masks, position); /* so that it stays known, should this be interrupted */
    at = *position;
    last = step_over(masks, &at, bytes, size, true);
  }
  if (last == OMMAI_STATE_FULL && (masks->recogniser->is_late || !may_flush)) return false;
  if (last == OMMAI_STATE_FULL) at.state = OMMAI_STATE_DEAD;
  *position = at;
  return true;
}

bool ommai_token_masks_advance(struct ommai_token_masks *masks, struct ommai_mask_position *position, const char *bytes,
                               size_t size) {
  return ommai_token_masks_try_advance(masks, position, bytes, size, true) && position->state >= 0;
}

bool ommai_token_masks_ends(const struct ommai_token_masks *masks, const struct ommai_mask_position *position) {
  return masks->recogniser->states[position->state].accepts;
}

bool ommai_token_masks_goes_on(const struct ommai_token_masks *masks, const struct ommai_mask_position *position) {
  return masks->recogniser->states[position->state].n_items > 0;
}

int64_t ommai_token_masks_n_states(const struct ommai_token_masks *masks) { return masks->recogniser->n_states; }

size_t ommai_token_masks_forced(struct ommai_token_masks *masks, const struct ommai_mask_position *position, char *bytes,
                                size_t capacity) {
  int32_t state = position->state;
  size_t n = 0;
  while (n < capacity && state >= 0) {
    int byte = ommai_recogniser_forced(masks->recogniser, state);
    if (byte < 0) break;
    bytes[n++] = (char)byte;
    state = ommai_recogniser_next(masks->recogniser, state, (unsigned char)byte);
  }
  return n;
}

/* ---- classes of characters ---- */

enum { MIXED = -4 /* the characters of a class lead to different states */ };

/* The state after every byte from low to high, or MIXED; FULL. Bytes that the grammar does not
 * distinguish apart lie side by side. */
static int32_t common_next(struct ommai_recogniser *recogniser, int32_t state, uint8_t low, uint8_t high) {
  const struct ommai_grammar *grammar = recogniser->grammar;
  if (state < 0) return state;
  int32_t common = ommai_recogniser_next(recogniser, state, low);
  for (int class = grammar->class_of[low] + 1; class <= grammar->class_of[high] && common != OMMAI_STATE_FULL; class ++) {
    int32_t next = ommai_recogniser_next(recogniser, state, grammar->byte_of[class]);
    if (next != common) return next == OMMAI_STATE_FULL ? next : MIXED;
  }
  return common;
}

/* The characters of a class as ranges of each of their bytes in UTF-8. */
static const struct form {
  int class, n_bytes;
  uint8_t low[4], high[4];
} FORMS[] = {{OMMAI_CLASS_SMALL, 1, {'a'}, {'z'}},
             {OMMAI_CLASS_CAPITAL, 1, {'A'}, {'Z'}},
             {OMMAI_CLASS_DIGIT, 1, {'0'}, {'9'}},
             {OMMAI_CLASS_CONTROL, 1, {0x00}, {0x08}},
             {OMMAI_CLASS_CONTROL, 1, {0x0b}, {0x0c}},
             {OMMAI_CLASS_CONTROL, 1, {0x0e}, {0x1f}},
             {OMMAI_CLASS_2_BYTES, 2, {0xc2, 0x80}, {0xc2, 0x84}},
             {OMMAI_CLASS_2_BYTES, 2, {0xc2, 0x86}, {0xc2, 0x9f}},
             {OMMAI_CLASS_2_BYTES, 2, {0xc2, 0xa1}, {0xc2, 0xbf}},
             {OMMAI_CLASS_2_BYTES, 2, {0xc3, 0x80}, {0xdf, 0xbf}},
             {OMMAI_CLASS_3_BYTES, 3, {0xe0, 0xa0, 0x80}, {0xe0, 0xbf, 0xbf}},
             {OMMAI_CLASS_3_BYTES, 3, {0xe1, 0x80, 0x80}, {0xe1, 0x99, 0xbf}},
             {OMMAI_CLASS_3_BYTES, 3, {0xe1, 0x9a, 0x81}, {0xe1, 0x9a, 0xbf}},
             {OMMAI_CLASS_3_BYTES, 3, {0xe1, 0x9b, 0x80}, {0xe1, 0xbf, 0xbf}},
             {OMMAI_CLASS_3_BYTES, 3, {0xe2, 0x80, 0x8b}, {0xe2, 0x80, 0xa7}},
             {OMMAI_CLASS_3_BYTES, 3, {0xe2, 0x80, 0xaa}, {0xe2, 0x80, 0xae}},
             {OMMAI_CLASS_3_BYTES, 3, {0xe2, 0x80, 0xb0}, {0xe2, 0x80, 0xbf}},
             {OMMAI_CLASS_3_BYTES, 3, {0xe2, 0x81, 0x80}, {0xe2, 0x81, 0x9e}},
             {OMMAI_CLASS_3_BYTES, 3, {0xe2, 0x81, 0xa0}, {0xe2, 0x81, 0xbf}},
             {OMMAI_CLASS_3_BYTES, 3, {0xe2, 0x82, 0x80}, {0xe2, 0xbf, 0xbf}},
             {OMMAI_CLASS_3_BYTES, 3, {0xe3, 0x80, 0x81}, {0xe3, 0x80, 0xbf}},
             {OMMAI_CLASS_3_BYTES, 3, {0xe3, 0x81, 0x80}, {0xe3, 0xbf, 0xbf}},
             {OMMAI_CLASS_3_BYTES, 3, {0xe4, 0x80, 0x80}, {0xec, 0xbf, 0xbf}},
             {OMMAI_CLASS_3_BYTES, 3, {0xed, 0x80, 0x80}, {0xed, 0x9f, 0xbf}},
             {OMMAI_CLASS_3_BYTES, 3, {0xee, 0x80, 0x80}, {0xee, 0xbf, 0xbf}},
             {OMMAI_CLASS_3_BYTES, 3, {0xef, 0x80, 0x80}, {0xef, 0xba, 0xbf}},
             {OMMAI_CLASS_3_BYTES, 3, {0xef, 0xbb, 0x80}, {0xef, 0xbb, 0xbe}},
             {OMMAI_CLASS_3_BYTES, 3, {0xef, 0xbc, 0x80}, {0xef, 0xbf, 0xbf}},
             {OMMAI_CLASS_4_BYTES, 4, {0xf0, 0x90, 0x80, 0x80}, {0xf0, 0xbf, 0xbf, 0xbf}},
             {OMMAI_CLASS_4_BYTES, 4, {0xf1, 0x80, 0x80, 0x80}, {0xf3, 0xbf, 0xbf, 0xbf}},
             {OMMAI_CLASS_4_BYTES, 4, {0xf4, 0x80, 0x80, 0x80}, {0xf4, 0x8f, 0xbf, 0xbf}}};

/* The state after any character of each class, DEAD or MIXED. False: the recogniser is full. */
static bool find_targets(struct ommai_recogniser *recogniser, int32_t state, int32_t targets[OMMAI_N_CLASSES]) {
  for (int i = 0; i < OMMAI_N_CLASSES; i++) targets[i] = OMMAI_STATE_UNKNOWN;
  targets[OMMAI_CLASS_ODD] = MIXED;
  for (int code = '\t'; code <= 0x7f; code++) {
    int class = ommai_char_class((uint32_t)code);
    if (class < OMMAI_CLASS_MARKS || class == OMMAI_CLASS_CONTROL) continue;
    targets[class] = ommai_recogniser_next(recogniser, state, (unsigned char)code);
    if (targets[class] == OMMAI_STATE_FULL) return false;
  }
  for (size_t i = 0; i < sizeof FORMS / sizeof FORMS[0]; i++) {
    const struct form *form = &FORMS[i];
    int32_t next = state, *target = &targets[form->class];
    for (int j = 0; j < form->n_bytes; j++) next = common_next(recogniser, next, form->low[j], form->high[j]);
    if (next == OMMAI_STATE_FULL) return false;
    *target = *target == OMMAI_STATE_UNKNOWN || *target == next ? next : MIXED;
  }
  return true;
}

/* Fills what the state knows about classes, once. False: the recogniser is full. */
static bool look_at_classes(struct ommai_recogniser *recogniser, int32_t index) {
  int32_t targets[OMMAI_N_CLASSES];
  int n_largest = 0;
  if (recogniser->states[index].after != OMMAI_STATE_UNKNOWN) return true;
  if (!find_targets(recogniser, index, targets)) return false;
  struct ommai_recogniser_state *state = &recogniser->states[index];
  state->after = OMMAI_STATE_DEAD;
  for (int i = 0; i < OMMAI_N_CLASSES; i++) {
    uint64_t same = 0;
    for (int j = 0; j < OMMAI_N_CLASSES; j++) same |= (uint64_t)(targets[j] == targets[i]) << j;
    if (targets[i] == OMMAI_STATE_DEAD) state->dead = same;
    if (targets[i] < 0 || __builtin_popcountll(same) <= n_largest) continue;
    n_largest = __builtin_popcountll(same);
    state->after = targets[i];
    state->to_after = same;
  }
  return true;
}

/* ---- masks ---- */

#define LETTERS_AND_DIGITS \
  (UINT64_C(1) << OMMAI_CLASS_SMALL | UINT64_C(1) << OMMAI_CLASS_CAPITAL | UINT64_C(1) << OMMAI_CLASS_DIGIT)
/* Classes that a shortcut is worth the while for. */
#define MANY_TOKENS (LETTERS_AND_DIGITS | UINT64_C(1) << OMMAI_CLASS_2_BYTES | UINT64_C(1) << OMMAI_CLASS_3_BYTES)
/* States that a cycle may go through. */
enum { MAX_REACHED = 160, ANY_NUMBER = OMMAI_TRIE_MAX_CHARS + 1 };

/* What is known about tokens of some classes without a walk. */
struct shortcut {
  uint64_t classes;
  int32_t n_chars; /* allowed where they have at most that many characters; or ANY_NUMBER */
  bool final;      /* longer ones are not */
  /* but for those of that many characters, as bits, which may be: they are looked at one by one */
  uint32_t rest;
};

/* The states that characters of some classes lead to from one state, in the order in which they are
 * met. */
struct reach {
  int32_t states[MAX_REACHED];
  int n, level; /* [0, level) were reached with fewer characters */
  bool again;   /* one of these was met again */
};

/* False: it is no state, or there are too many. */
static bool add_reached(struct reach *reach, int32_t state) {
  int at = 0;
  if (state < 0) return false;
  while (at < reach->n && reach->states[at] != state) at++;
  if (at == MAX_REACHED) return false;
  reach->again |= at < reach->level;
  reach->states[at] = state;
  reach->n += at == reach->n;
  return true;
}

static bool reach_all(struct ommai_recogniser *recogniser, int32_t index, const struct form *form, struct reach *reach) {
  const struct ommai_grammar *grammar = recogniser->grammar;
  int first = grammar->class_of[form->low[0]], last = grammar->class_of[form->high[0]];
  for (int class = first; class <= last; class ++) {
    unsigned char byte = class == first ? form->low[0] : grammar->byte_of[class];
    if (!add_reached(reach, ommai_recogniser_next(recogniser, index, byte))) return false;
  }
  return true;
}

/* The classes among `wanted` of which every character leads on from the state; the states after
 * them are reached. */
static uint64_t reach_classes(struct ommai_recogniser *recogniser, int32_t index, uint64_t wanted, struct reach *reach) {
  if (!look_at_classes(recogniser, index)) return 0;
  const struct ommai_recogniser_state state = recogniser->states[index];
  uint64_t live = state.to_after & wanted;
  if (live && !add_reached(reach, state.after)) live = 0;
  /* letters and digits, which come first in the table */
  for (int i = 0; i < OMMAI_CLASS_MARKS; i++) {
    if ((wanted & ~live) >> i & 1 && reach_all(recogniser, index, &FORMS[i], reach)) live |= UINT64_C(1) << i;
  }
  return live;
}

/* Classes that lead from the state to few states again and again, though not to one: where a
 * pattern looks for something anywhere in a string. 0: there are none. */
static uint64_t find_cycle(struct ommai_recogniser *recogniser, int32_t index) {
  struct reach reach = {.states = {index}, .n = 1};
  uint64_t classes = ~UINT64_C(0);
  for (int i = 0; i < reach.n && classes; i++) classes &= reach_classes(recogniser, reach.states[i], ~UINT64_C(0), &reach);
  return classes;
}

/* The states after any character of the classes that leads on. False where that cannot be known. */
static bool reach_any(struct ommai_recogniser *recogniser, int32_t index, uint64_t classes, struct reach *reach) {
  const struct ommai_grammar *grammar = recogniser->grammar;
  if (!look_at_classes(recogniser, index)) return false;
  const struct ommai_recogniser_state state = recogniser->states[index];
  uint64_t left = classes & ~state.to_after & ~state.dead;
  if (left & ~LETTERS_AND_DIGITS) return false;
  if (classes & state.to_after && !add_reached(reach, state.after)) return false;
  for (int i = 0; i < OMMAI_CLASS_MARKS; i++) {
    if (!(left >> i & 1)) continue;
    for (int class = grammar->class_of[FORMS[i].low[0]]; class <= grammar->class_of[FORMS[i].high[0]]; class ++) {
      unsigned char byte = grammar->byte_of[class] < FORMS[i].low[0] ? FORMS[i].low[0] : grammar->byte_of[class];
      int32_t next = ommai_recogniser_next(recogniser, index, byte);
      if (next != OMMAI_STATE_DEAD && !add_reached(reach, next)) return false;
    }
  }
  return true;
}

/* Which numbers of characters above n_chars tokens may have that lead through the states from
 * `first` on, as bits; all bits where that cannot be known. */
static uint32_t find_rest(struct ommai_recogniser *recogniser, const struct shortcut *shortcut, int first,
                          struct reach *reach) {
  uint32_t rest = 0;
  for (int n_chars = shortcut->n_chars + 1; first < reach->n; n_chars++) {
    int end = reach->n;
    bool live = false;
    for (int i = first; i < end; i++) {
      if (n_chars >= OMMAI_TRIE_MAX_CHARS || !reach_any(recogniser, reach->states[i], shortcut->classes, reach))
        return ~UINT32_C(0);
      live = live || shortcut->classes & ~recogniser->states[reach->states[i]].dead;
    }
    if (live) rest |= UINT32_C(1) << n_chars;
    first = end;
  }
  return rest;
}

/* The same for a string that ends: the classes that lead on from the state, and how often they do
 * from all states that they lead to. */
static struct shortcut find_layers(struct ommai_recogniser *recogniser, int32_t index) {
  struct reach reach = {.states = {index}, .n = 1, .level = 1};
  struct shortcut shortcut = {.classes = reach_classes(recogniser, index, ~UINT64_C(0), &reach), .n_chars = 1};
  for (int first = 1; shortcut.n_chars < OMMAI_TRIE_MAX_CHARS && first < reach.n; shortcut.n_chars++) {
    int end = reach.n;
    bool dead = !reach.again;
    for (int i = first; i < end && dead; i++) {
      dead = look_at_classes(recogniser, reach.states[i]) && !(shortcut.classes & ~recogniser->states[reach.states[i]].dead);
    }
    shortcut.final = dead;
    reach.again = false;
    reach.level = end;
    for (int i = first; i < end; i++) {
      if (reach_classes(recogniser, reach.states[i], shortcut.classes, &reach) == shortcut.classes) continue;
      uint32_t rest = reach.again || shortcut.final ? 0 : find_rest(recogniser, &shortcut, first, &reach);
      if (__builtin_popcount(rest) == 1) {
        shortcut.final = true;
        shortcut.rest = rest;
      }
      return shortcut;
    }
    first = end;
  }
  shortcut.final = false;
  return shortcut;
}

/* As long as the classes that lead on from the first state do so from the next ones. False: the
 * recogniser is full. */
static bool find_chain(struct ommai_recogniser *recogniser, int32_t index, struct shortcut *shortcut) {
  for (; shortcut->n_chars < OMMAI_TRIE_MAX_CHARS; shortcut->n_chars++) {
    if (!look_at_classes(recogniser, index)) return false;
    const struct ommai_recogniser_state *state = &recogniser->states[index];
    if (shortcut->n_chars == 0) shortcut->classes = state->to_after;
    if (!(shortcut->classes & MANY_TOKENS)) return *shortcut = (struct shortcut){0}, true;
    if (state->after < 0 || shortcut->classes & ~state->to_after) {
      shortcut->final = shortcut->n_chars && !(shortcut->classes & ~state->dead);
      return true;
    }
    if (state->after == index) {
      *shortcut = (struct shortcut){.classes = shortcut->classes, .n_chars = ANY_NUMBER, .final = true};
      return true;
    }
    index = state->after;
  }
  return true;
}

static bool find_shortcut(struct ommai_recogniser *recogniser, int32_t index, struct shortcut *shortcut) {
  *shortcut = (struct shortcut){0};
  if (!find_chain(recogniser, index, shortcut)) return false;
  uint64_t left = LETTERS_AND_DIGITS & ~shortcut->classes & ~recogniser->states[index].dead;
  uint64_t cycle = left ? find_cycle(recogniser, index) : 0;
  if (cycle & left) *shortcut = (struct shortcut){.classes = cycle, .n_chars = ANY_NUMBER, .final = true};
  if (!left || cycle & left) return true;
  struct shortcut layers = find_layers(recogniser, index);
  if (layers.classes & left) *shortcut = layers;
  return true;
}

static void allow_shortcut(const struct ommai_token_trie *trie, const struct shortcut *shortcut, uint32_t *mask) {
  memcpy(mask, trie->shorter + shortcut->n_chars * trie->n_words, (size_t)trie->n_words * sizeof *mask);
  if (shortcut->n_chars == 0) return;
  for (int i = 0; i < OMMAI_N_CLASSES; i++) {
    const uint32_t *having = trie->having + i * trie->n_words;
    if (shortcut->classes >> i & 1) continue;
    for (int64_t j = 0; j < trie->n_words; j++) mask[j] &= ~having[j];
  }
}

static inline bool is_known(const struct ommai_trie_node *node, const struct shortcut *shortcut) {
  return !(node->classes & ~shortcut->classes) && (shortcut->final || node->max_chars <= shortcut->n_chars);
}

static void find_run(struct ommai_recogniser *recogniser, int32_t index) {
  struct shortcut chain = {0};
  bool good = find_chain(recogniser, index, &chain);
  if (good || !recogniser->is_late) recogniser->states[index].run = (uint8_t)(good ? chain.n_chars + 1 : 1);
}

/* Whether the grammar allows all of the subtree after the state, by their classes and number of
 * characters. */
static inline bool absorbs(struct ommai_recogniser *recogniser, int32_t index, const struct ommai_trie_node *node,
                           size_t n_nodes) {
  const struct ommai_recogniser_state *state = &recogniser->states[index];
  if (node->classes >> OMMAI_CLASS_ODD || n_nodes < SMALL_SUBTREE || (!state->run && n_nodes < LARGE_SUBTREE)) return false;
  if (!state->run) find_run(recogniser, index);
  if (node->classes & ~state->to_after) return false;
  return node->max_chars < state->run || state->run == ANY_NUMBER + 1;
}

static void add_subtree(const struct ommai_token_trie *trie, const struct ommai_trie_node *node, uint32_t *mask) {
  uint32_t end = trie->nodes[node->end].first;
  for (uint32_t i = node->first; i < end; i++) ommai_mask_set(mask, trie->order[i]);
}

/* Counts a node or token that a pass comes to. False: the limit of work is reached. */
static inline bool count_visit(struct ommai_recogniser *recogniser, int64_t *n_visits) {
  if (++*n_visits % VISITS_A_CHECK) return true;
  recogniser->work += VISITS_A_CHECK;
  return !ommai_recogniser_is_late(recogniser);
}

/* Adds the tokens among the nodes [first, end) that the shortcut does not know. False when the
 * recogniser is full. */
static bool walk(struct ommai_token_masks *masks, size_t first, size_t end, const struct shortcut *shortcut, uint32_t *mask) {
  const struct ommai_trie_node *nodes = masks->trie->nodes;
  struct ommai_recogniser *recogniser = masks->recogniser;
  int32_t *states = masks->states;
  int64_t n_visits = 0;
  for (size_t i = first; i < end;) {
    const struct ommai_trie_node *node = &nodes[i];
    if (!count_visit(recogniser, &n_visits)) return false;
    int32_t next =
        is_known(node, shortcut) ? OMMAI_STATE_DEAD : ommai_recogniser_next(recogniser, states[node->depth], node->byte);
    if (next == OMMAI_STATE_FULL) return false;
    if (next < 0) {
      i = node->end;
      continue;
    }
    if (absorbs(recogniser, next, node, node->end - i)) {
      add_subtree(masks->trie, node, mask);
      i = node->end;
      continue;
    }
    states[node->depth + 1] = next;
    if (node->token >= 0) ommai_mask_set(mask, node->token);
    i++;
  }
  return true;
}

/* Adds the whole tokens of that many characters that the grammar allows. False when the recogniser
 * is full. */
static bool walk_list(struct ommai_token_masks *masks, int n_chars, uint32_t *mask) {
  const struct ommai_token_trie *trie = masks->trie;
  int live = 0; /* bytes of the token before that led on */
  int64_t n_visits = 0;
  for (size_t i = trie->lists[n_chars]; i < trie->lists[n_chars + 1]; i++) {
    const struct ommai_listed_token *token = &trie->listed[i];
    if (!count_visit(masks->recogniser, &n_visits)) return false;
    if (token->shared > live) continue;
    for (live = token->shared; live < token->size; live++) {
      unsigned char byte = (unsigned char)trie->texts[token->bytes + (uint32_t)live];
      int32_t next = ommai_recogniser_next(masks->recogniser, masks->states[live], byte);
      if (next == OMMAI_STATE_FULL) return false;
      if (next < 0) break;
      masks->states[live + 1] = next;
    }
    if (live == token->size) ommai_mask_set(mask, token->token);
  }
  return true;
}

static bool make_mask(struct ommai_token_masks *masks, int32_t state, uint32_t *mask) {
  const struct ommai_trie_node *groups = masks->trie->groups;
  struct shortcut shortcut;
  if (!find_shortcut(masks->recogniser, state, &shortcut)) shortcut = (struct shortcut){0};
  allow_shortcut(masks->trie, &shortcut, mask);
  masks->states[0] = state;
  if (shortcut.rest && !walk_list(masks, __builtin_ctz(shortcut.rest), mask)) return false;
  for (int i = 0; i < OMMAI_N_GROUPS; i++) {
    size_t first = i ? groups[i - 1].end : 0;
    if (!is_known(&groups[i], &shortcut) && !walk(masks, first, groups[i].end, &shortcut, mask)) return false;
  }
  return true;
}

static bool is_empty(const uint32_t *mask, int64_t n_words) {
  uint32_t any = 0;
  for (int64_t i = 0; i < n_words; i++) any |= mask[i];
  return any == 0;
}

/* Makes the words of a mask. A walk that does not even fit into empty tables forbids the tokens
 * that it did not come to. False: as ommai_token_masks_make. */
static bool make_words(struct ommai_token_masks *masks, struct ommai_mask_position *position, bool may_flush, uint32_t *mask) {
  struct ommai_recogniser *recogniser = masks->recogniser;
  bool only = masks->emptied == recogniser->generation && position->state == 0;
  if (!only) masks->emptied = -1;
  if (make_mask(masks, position->state, mask)) return true;
  if (recogniser->is_late || only) return !recogniser->is_late;
  if (!may_flush) return false;
  flush(masks, position);
  masks->emptied = recogniser->generation;
  return make_mask(masks, position->state, mask) || !recogniser->is_late;
}

static bool fill_slot(struct ommai_token_masks *masks, int index, struct ommai_mask_position *position, bool may_flush) {
  const struct ommai_token_trie *trie = masks->trie;
  uint32_t *mask = masks->words + index * trie->n_words;
  masks->kept[index].generation = -1;
  if (!make_words(masks, position, may_flush, mask)) return false;
  masks->emptied = -1;
  bool goes_on = !is_empty(mask, trie->n_words);
  for (size_t i = 0; i < trie->n_end_tokens && masks->recogniser->states[position->state].accepts; i++) {
    ommai_mask_set(mask, trie->end_tokens[i]);
  }
  masks->kept[index] = (struct kept_mask){position->generation, position->state, goes_on};
  return true;
}

/* The slot of its mask, or KEPT. */
static int find_kept(const struct ommai_token_masks *masks, const struct ommai_mask_position *position) {
  int index = 0;
  while (index < OMMAI_TOKEN_MASK_KEPT &&
         (masks->kept[index].generation != position->generation || masks->kept[index].state != position->state)) {
    index++;
  }
  return index;
}

bool ommai_token_masks_remember(const struct ommai_token_masks *masks, const struct ommai_mask_position *position) {
  return find_kept(masks, position) < OMMAI_TOKEN_MASK_KEPT;
}

struct ommai_mask_view ommai_token_masks_first(const struct ommai_token_masks *masks) {
  return (struct ommai_mask_view){masks->words + OMMAI_TOKEN_MASK_KEPT * masks->trie->n_words, masks->first_ends,
                                  masks->kept[OMMAI_TOKEN_MASK_KEPT].goes_on};
}

struct ommai_mask_view ommai_token_masks_recall(const struct ommai_token_masks *masks,
                                                const struct ommai_mask_position *position) {
  int index = find_kept(masks, position);
  if (index == OMMAI_TOKEN_MASK_KEPT) return (struct ommai_mask_view){.words = NULL};
  return (struct ommai_mask_view){masks->words + index * masks->trie->n_words,
                                  masks->recogniser->states[position->state].accepts, masks->kept[index].goes_on};
}

void ommai_token_masks_limit(struct ommai_token_masks *masks, int64_t max_work) {
  struct ommai_recogniser *recogniser = masks->recogniser;
  masks->limited_from = recogniser->work;
  recogniser->limit = recogniser->work + max_work;
  recogniser->is_late = false;
}

int64_t ommai_token_masks_unlimited(struct ommai_token_masks *masks) {
  masks->recogniser->limit = INT64_MAX;
  masks->recogniser->is_late = false;
  return masks->recogniser->work - masks->limited_from;
}

void ommai_token_masks_stop(struct ommai_token_masks *masks, bool stop) { atomic_store(&masks->recogniser->stop, stop); }

bool ommai_token_masks_make(struct ommai_token_masks *masks, struct ommai_mask_position *position, bool may_flush) {
  int index = masks->next_kept;
  if (ommai_token_masks_remember(masks, position)) return true;
  if (!fill_slot(masks, index, position, may_flush)) return false;
  masks->next_kept = (index + 1) % OMMAI_TOKEN_MASK_KEPT;
  return true;
}

const uint32_t *ommai_token_masks_get(struct ommai_token_masks *masks, struct ommai_mask_position *position, bool *ends,
                                      bool *goes_on) {
  (void)ommai_token_masks_make(masks, position, true);
  struct ommai_mask_view view = ommai_token_masks_recall(masks, position);
  *ends = view.ends;
  *goes_on = view.goes_on;
  return view.words;
}

/* Touches the tables that every mask needs and makes the first one, so that no answer waits for
 * them or their pages. */
static bool make_first(struct ommai_token_masks *masks, int64_t max_work) {
  memset(masks->words, 0, (OMMAI_TOKEN_MASK_KEPT + 1) * (size_t)masks->trie->n_words * sizeof *masks->words);
  ommai_token_masks_limit(masks, max_work ? max_work : INT64_MAX / 2);
  struct ommai_mask_position position = ommai_token_masks_start(masks);
  bool good =
      position.state == OMMAI_STATE_DEAD || (position.state >= 0 && fill_slot(masks, OMMAI_TOKEN_MASK_KEPT, &position, true));
  masks->first_ends = good && position.state >= 0 && masks->recogniser->states[position.state].accepts;
  ommai_token_masks_unlimited(masks);
  return good;
}

enum omma_status ommai_token_masks_create(const struct ommai_grammar *grammar, const struct ommai_token_trie *trie,
                                          int64_t max_work, struct ommai_token_masks **out, struct omma_error *error) {
  const struct omma_allocator *allocator = &grammar->allocator;
  size_t n_words = (OMMAI_TOKEN_MASK_KEPT + 1) * (size_t)trie->n_words;
  struct ommai_token_masks *masks = ommai_allocate(allocator, 1, sizeof *masks);
  if (!masks) return ommai_fail_memory(error, "grammar", sizeof *masks);
  masks->trie = trie;
  masks->emptied = -1;
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
  for (int i = 0; i <= OMMAI_TOKEN_MASK_KEPT; i++) masks->kept[i].generation = -1;
  if (!make_first(masks, max_work)) {
    ommai_token_masks_destroy(masks);
    return ommai_fail(error, OMMA_ERROR_LIMIT,
                      "it takes too much work to find the tokens that an answer may begin with: use smaller bounds, fewer "
                      "alternatives");
  }
  *out = masks;
  return OMMA_OK;
}
