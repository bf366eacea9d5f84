/* A step: every place of the state that takes the byte moves on; from there all calls and empty
 * edges are followed (a worklist); the places that wait for bytes, sorted, are the new state.
 * Stacks are shared: a frame is a call under way, how often its rule has been through (or what it
 * counts), and the frame below. Equal frames and equal states have equal numbers. */
#include "grammar/recogniser.h"

#include <stdlib.h>
#include <string.h>

#include "base/allocator.h"
#include "base/error.h"

enum {
  MAX_POOL = 1 << 18,    /* items of all states */
  MAX_WORK = 1 << 13,    /* places that one step looks at */
  MAX_BEGUN = 4,         /* places after the byte of a step that is remembered */
  FRAME_SLOTS = 1 << 17, /* powers of two */
  STATE_SLOTS = 1 << 14,
  SEEN_SLOTS = 1 << 15,
  EMPTY_STACK = -1,
  /* what takes a step of work: edges of a place that are looked at; and what a place takes that is
   * followed, sorted and kept */
  EDGES_A_STEP = 4,
  WORK_STEPS = 6
};

struct frame {
  /* the call, times its rule is through or what it counts, EMPTY_STACK or a frame */
  int32_t edge, count, below;
  int32_t depth; /* frames, this one included */
};

/* Where the grammar stands: a node in the upper half, frame + 1 in the lower. */
typedef uint64_t item;

struct ommai_recogniser_tables {
  struct frame frames[OMMAI_RECOGNISER_MAX_FRAMES];
  int32_t frame_slots[FRAME_SLOTS]; /* frame + 1, 0: free */
  int32_t state_slots[STATE_SLOTS]; /* state + 1, 0: free */
  item pool[MAX_POOL];
  int32_t n_frames, n_pool;
  item work[MAX_WORK], found[OMMAI_RECOGNISER_MAX_ITEMS];
  int32_t n_work, n_found;
  item seen[SEEN_SLOTS]; /* of this step, by `stamps` */
  uint32_t stamps[SEEN_SLOTS];
  uint32_t stamp;
  int32_t moved[OMMAI_RECOGNISER_MAX_FRAMES]; /* during a flush: a frame's new number, or -1 */
  bool accepts, full;                         /* of the step */
  /* The last step: most bytes of a state lead to the same places, before calls are followed. */
  struct {
    int32_t state, next, n;
    item begun[MAX_BEGUN];
  } last;
};

enum omma_status ommai_recogniser_create(const struct ommai_grammar *grammar, struct ommai_recogniser **out,
                                         struct omma_error *error) {
  const struct omma_allocator *allocator = &grammar->allocator;
  size_t n_next = (size_t)OMMAI_RECOGNISER_MAX_STATES * (size_t)grammar->n_classes;
  struct ommai_recogniser *recogniser = ommai_allocate(allocator, 1, sizeof *recogniser);
  if (!recogniser) return ommai_fail_memory(error, "grammar", sizeof *recogniser);
  recogniser->grammar = grammar;
  recogniser->states = ommai_allocate_uninitialised(allocator, OMMAI_RECOGNISER_MAX_STATES, sizeof *recogniser->states);
  recogniser->next = ommai_allocate_uninitialised(allocator, n_next, sizeof *recogniser->next);
  recogniser->tables = ommai_allocate_uninitialised(allocator, 1, sizeof *recogniser->tables);
  if (!recogniser->states || !recogniser->next || !recogniser->tables) {
    ommai_recogniser_destroy(recogniser);
    return ommai_fail_memory(error, "grammar", sizeof *recogniser->tables + n_next * sizeof *recogniser->next);
  }
  recogniser->limit = INT64_MAX;
  atomic_init(&recogniser->stop, false);
  recogniser->tables->n_frames = 0;
  recogniser->tables->stamp = 0;
  memset(recogniser->tables->stamps, 0, sizeof recogniser->tables->stamps);
  /* so that no answer waits for its pages */
  memset(recogniser->tables->seen, 0, sizeof recogniser->tables->seen);
  ommai_recogniser_flush(recogniser, OMMAI_STATE_DEAD);
  *out = recogniser;
  return OMMA_OK;
}

size_t ommai_recogniser_bytes(const struct ommai_recogniser *recogniser) {
  size_t per_state = sizeof *recogniser->states + (size_t)recogniser->grammar->n_classes * sizeof *recogniser->next;
  return sizeof *recogniser + sizeof *recogniser->tables + OMMAI_RECOGNISER_MAX_STATES * per_state;
}

void ommai_recogniser_destroy(struct ommai_recogniser *recogniser) {
  if (!recogniser) return;
  const struct ommai_grammar *grammar = recogniser->grammar;
  const struct omma_allocator *allocator = &grammar->allocator;
  size_t n_next = (size_t)OMMAI_RECOGNISER_MAX_STATES * (size_t)grammar->n_classes;
  ommai_release(allocator, recogniser->states, OMMAI_RECOGNISER_MAX_STATES, sizeof *recogniser->states);
  ommai_release(allocator, recogniser->next, n_next, sizeof *recogniser->next);
  ommai_release(allocator, recogniser->tables, 1, sizeof *recogniser->tables);
  ommai_release(allocator, recogniser, 1, sizeof *recogniser);
}

static uint64_t mix(uint64_t value) {
  value *= 0x9E3779B97F4A7C15u;
  value ^= value >> 32;
  value *= 0xD6E8FEB86659FD93u;
  return value ^ value >> 29;
}

static item make_item(int32_t node, int32_t stack) { return (uint64_t)(uint32_t)node << 32 | (uint32_t)(stack + 1); }
static int32_t node_of(item place) { return (int32_t)(place >> 32); }
static int32_t stack_of(item place) { return (int32_t)(uint32_t)place - 1; }

/* ---- frames ---- */

static uint64_t hash_frame(const struct frame *frame) {
  return mix(mix((uint64_t)(uint32_t)frame->edge << 32 | (uint32_t)frame->count) + (uint32_t)frame->below);
}

/* The slot that has the frame, or the free one where it belongs. */
static int32_t *find_frame(struct ommai_recogniser_tables *tables, const struct frame *frame) {
  uint64_t at = hash_frame(frame);
  for (;; at++) {
    int32_t *slot = &tables->frame_slots[at & (FRAME_SLOTS - 1)];
    if (*slot == 0) return slot;
    const struct frame *there = &tables->frames[*slot - 1];
    if (there->edge == frame->edge && there->count == frame->count && there->below == frame->below) return slot;
  }
}

static int32_t depth_of(const struct ommai_recogniser_tables *tables, int32_t stack) {
  return stack == EMPTY_STACK ? 0 : tables->frames[stack].depth;
}

/* The frame's number, or EMPTY_STACK when the table is full (and sets tables->full). */
static int32_t intern_frame(struct ommai_recogniser_tables *tables, int32_t edge, int32_t count, int32_t below) {
  struct frame frame = {edge, count, below, depth_of(tables, below) + 1};
  int32_t *slot = find_frame(tables, &frame);
  if (*slot) return *slot - 1;
  if (tables->n_frames == OMMAI_RECOGNISER_MAX_FRAMES) {
    tables->full = true;
    return EMPTY_STACK;
  }
  tables->frames[tables->n_frames++] = frame;
  *slot = tables->n_frames;
  return tables->n_frames - 1;
}

/* ---- one step ---- */

static bool was_seen(struct ommai_recogniser_tables *tables, item place) {
  for (uint64_t at = mix(place);; at++) {
    uint64_t slot = at & (SEEN_SLOTS - 1);
    if (tables->stamps[slot] != tables->stamp) {
      tables->stamps[slot] = tables->stamp;
      tables->seen[slot] = place;
      return false;
    }
    if (tables->seen[slot] == place) return true;
  }
}

static void begin_step(struct ommai_recogniser_tables *tables) {
  tables->n_work = tables->n_found = 0;
  tables->accepts = tables->full = false;
  if (++tables->stamp == 0) {
    memset(tables->stamps, 0, sizeof tables->stamps);
    tables->stamp = 1;
  }
}

static void add_work(struct ommai_recogniser *recogniser, int32_t node, int32_t stack) {
  struct ommai_recogniser_tables *tables = recogniser->tables;
  if (depth_of(tables, stack) + recogniser->grammar->nodes[node].depth > OMMAI_GRAMMAR_MAX_DEPTH) return;
  if (tables->n_work == MAX_WORK || was_seen(tables, make_item(node, stack))) return;
  tables->work[tables->n_work++] = make_item(node, stack);
}

static void call(struct ommai_recogniser *recogniser, int32_t edge_index, int32_t count, int32_t below) {
  const struct ommai_grammar_edge *edge = &recogniser->grammar->edges[edge_index];
  int32_t start = recogniser->grammar->rules[edge->rule].start;
  struct ommai_recogniser_tables *tables = recogniser->tables;
  if (tables->n_work == MAX_WORK) return;
  if (depth_of(tables, below) + 1 + recogniser->grammar->nodes[start].depth > OMMAI_GRAMMAR_MAX_DEPTH) return;
  int32_t frame = intern_frame(tables, edge_index, count, below);
  if (!tables->full) add_work(recogniser, start, frame);
}

/* The rule of the topmost call is through once more. */
static void leave_rule(struct ommai_recogniser *recogniser, int32_t stack) {
  struct ommai_recogniser_tables *tables = recogniser->tables;
  if (stack == EMPTY_STACK) {
    tables->accepts = true;
    return;
  }
  const struct frame frame = tables->frames[stack];
  const struct ommai_grammar_edge *edge = &recogniser->grammar->edges[frame.edge];
  int32_t count = frame.count + 1;
  if (count >= edge->min) add_work(recogniser, edge->to, frame.below);
  if (count >= edge->max) return;
  bool enough = edge->max == OMMAI_GRAMMAR_NO_MAX && count > edge->min;
  call(recogniser, frame.edge, enough ? edge->min : count, frame.below);
}

/* The count of the topmost call goes up, or is through and 0 again. */
static void follow_count(struct ommai_recogniser *recogniser, const struct ommai_grammar_edge *edge, int32_t stack) {
  struct ommai_recogniser_tables *tables = recogniser->tables;
  const struct frame frame = tables->frames[stack];
  int32_t value = frame.count + (edge->kind == OMMAI_EDGE_COUNT);
  if (value < edge->min || value > edge->max) return;
  int32_t next = intern_frame(tables, frame.edge, edge->kind == OMMAI_EDGE_COUNT ? value : 0, frame.below);
  if (!tables->full) add_work(recogniser, edge->to, next);
}

static void follow_edge(struct ommai_recogniser *recogniser, int32_t index, int32_t stack) {
  const struct ommai_grammar_edge *edge = &recogniser->grammar->edges[index];
  switch (edge->kind) {
    case OMMAI_EDGE_CALL:
      call(recogniser, index, 0, stack);
      if (edge->min == 0) add_work(recogniser, edge->to, stack);
      break;
    case OMMAI_EDGE_EMPTY: add_work(recogniser, edge->to, stack); break;
    case OMMAI_EDGE_COUNT:
    case OMMAI_EDGE_COUNTED: follow_count(recogniser, edge, stack); break;
    default: break; /* a byte is the next step's */
  }
}

static void follow(struct ommai_recogniser *recogniser, item place) {
  const struct ommai_grammar *grammar = recogniser->grammar;
  struct ommai_recogniser_tables *tables = recogniser->tables;
  const struct ommai_grammar_node *node = &grammar->nodes[node_of(place)];
  int32_t stack = stack_of(place);
  recogniser->work += WORK_STEPS + node->n_edges / EDGES_A_STEP;
  if (node->has_bytes && tables->n_found < OMMAI_RECOGNISER_MAX_ITEMS) tables->found[tables->n_found++] = place;
  for (int32_t i = node->first_edge; i < node->first_edge + node->n_edges; i++) follow_edge(recogniser, i, stack);
  if (node->ends) leave_rule(recogniser, stack);
}

static int compare_items(const void *left, const void *right) {
  item a = *(const item *)left, b = *(const item *)right;
  return (a > b) - (a < b);
}

/* ---- states ---- */

static uint64_t hash_state(const item *items, int32_t n, bool accepts) {
  uint64_t hash = accepts;
  for (int32_t i = 0; i < n; i++) hash = mix(hash + items[i]);
  return hash;
}

static bool equals_found(const struct ommai_recogniser *recogniser, int32_t index) {
  const struct ommai_recogniser_tables *tables = recogniser->tables;
  const struct ommai_recogniser_state *state = &recogniser->states[index];
  return state->accepts == tables->accepts && state->n_items == tables->n_found &&
         !memcmp(tables->pool + state->first_item, tables->found, (size_t)tables->n_found * sizeof(item));
}

static int32_t add_state(struct ommai_recogniser *recogniser) {
  struct ommai_recogniser_tables *tables = recogniser->tables;
  int n_classes = recogniser->grammar->n_classes;
  if (recogniser->n_states == OMMAI_RECOGNISER_MAX_STATES || MAX_POOL - tables->n_pool < tables->n_found)
    return OMMAI_STATE_FULL;
  int32_t index = recogniser->n_states++;
  recogniser->states[index] = (struct ommai_recogniser_state){.first_item = tables->n_pool,
                                                              .n_items = tables->n_found,
                                                              .accepts = tables->accepts,
                                                              .forced = OMMAI_FORCED_UNKNOWN,
                                                              .after = OMMAI_STATE_UNKNOWN};
  memcpy(tables->pool + tables->n_pool, tables->found, (size_t)tables->n_found * sizeof(item));
  tables->n_pool += tables->n_found;
  for (int i = 0; i < n_classes; i++) recogniser->next[(int64_t)index * n_classes + i] = OMMAI_STATE_UNKNOWN;
  return index;
}

/* The state of the places found. */
static int32_t intern_state(struct ommai_recogniser *recogniser) {
  struct ommai_recogniser_tables *tables = recogniser->tables;
  qsort(tables->found, (size_t)tables->n_found, sizeof(item), compare_items);
  for (uint64_t at = hash_state(tables->found, tables->n_found, tables->accepts);; at++) {
    int32_t *slot = &tables->state_slots[at & (STATE_SLOTS - 1)];
    if (*slot && equals_found(recogniser, *slot - 1)) return *slot - 1;
    if (*slot) continue;
    int32_t index = add_state(recogniser);
    if (index >= 0) *slot = index + 1;
    return index;
  }
}

bool ommai_recogniser_is_late(struct ommai_recogniser *recogniser) {
  if (recogniser->work < recogniser->limit && !atomic_load_explicit(&recogniser->stop, memory_order_relaxed)) return false;
  return recogniser->is_late = true;
}

static int32_t end_step(struct ommai_recogniser *recogniser) {
  struct ommai_recogniser_tables *tables = recogniser->tables;
  for (int32_t i = 0; i < tables->n_work; i++) {
    follow(recogniser, tables->work[i]);
    if (ommai_recogniser_is_late(recogniser)) return OMMAI_STATE_FULL;
  }
  if (tables->full) return OMMAI_STATE_FULL;
  return tables->n_found || tables->accepts ? intern_state(recogniser) : OMMAI_STATE_DEAD;
}

int32_t ommai_recogniser_start(struct ommai_recogniser *recogniser) {
  begin_step(recogniser->tables);
  add_work(recogniser, recogniser->grammar->rules[recogniser->grammar->root].start, EMPTY_STACK);
  return end_step(recogniser);
}

/* Where the byte leads, before calls are followed. False: it takes too long. */
static bool move(struct ommai_recogniser *recogniser, int32_t index, unsigned char byte) {
  const struct ommai_grammar *grammar = recogniser->grammar;
  const struct ommai_recogniser_state *state = &recogniser->states[index];
  for (int32_t i = 0; i < state->n_items; i++) {
    item place = recogniser->tables->pool[state->first_item + i];
    const struct ommai_grammar_node *node = &grammar->nodes[node_of(place)];
    recogniser->work += 1 + node->n_edges / EDGES_A_STEP;
    if (ommai_recogniser_is_late(recogniser)) return false;
    for (int32_t j = node->first_edge; j < node->first_edge + node->n_edges; j++) {
      const struct ommai_grammar_edge *edge = &grammar->edges[j];
      if (edge->kind != OMMAI_EDGE_BYTES || byte < edge->low || byte > edge->high) continue;
      add_work(recogniser, edge->to, stack_of(place));
    }
  }
  return true;
}

static bool is_last(const struct ommai_recogniser_tables *tables, int32_t index) {
  return tables->last.state == index && tables->last.n == tables->n_work && tables->n_work <= MAX_BEGUN &&
         !memcmp(tables->last.begun, tables->work, (size_t)tables->n_work * sizeof(item));
}

int32_t ommai_recogniser_step(struct ommai_recogniser *recogniser, int32_t index, unsigned char byte) {
  const struct ommai_grammar *grammar = recogniser->grammar;
  struct ommai_recogniser_tables *tables = recogniser->tables;
  int32_t *next = &recogniser->next[(int64_t)index * grammar->n_classes + grammar->class_of[byte]];
  begin_step(tables);
  if (!move(recogniser, index, byte)) return OMMAI_STATE_FULL;
  if (is_last(tables, index)) return *next = tables->last.next;
  tables->last.state = OMMAI_STATE_DEAD;
  tables->last.n = tables->n_work;
  if (tables->n_work <= MAX_BEGUN) memcpy(tables->last.begun, tables->work, (size_t)tables->n_work * sizeof(item));
  int32_t found = end_step(recogniser);
  if (found == OMMAI_STATE_FULL) return found;
  tables->last.state = index;
  tables->last.next = found;
  return *next = found;
}

/* NO_BYTE too where the tables are full, and then it is not kept. */
int ommai_recogniser_forced(struct ommai_recogniser *recogniser, int32_t index) {
  const struct ommai_grammar *grammar = recogniser->grammar;
  int only = OMMAI_FORCED_NO_BYTE;
  if (recogniser->states[index].forced != OMMAI_FORCED_UNKNOWN) return recogniser->states[index].forced;
  for (int class = 0; class < grammar->n_classes && !recogniser->states[index].accepts; class ++) {
    int32_t next = ommai_recogniser_next(recogniser, index, grammar->byte_of[class]);
    int last = class + 1 < grammar->n_classes ? grammar->byte_of[class + 1] - 1 : 255;
    if (next == OMMAI_STATE_FULL) return OMMAI_FORCED_NO_BYTE;
    if (next == OMMAI_STATE_DEAD) continue;
    bool another = only != OMMAI_FORCED_NO_BYTE || last > grammar->byte_of[class];
    only = another ? OMMAI_FORCED_NO_BYTE : grammar->byte_of[class];
    if (another) break;
  }
  recogniser->states[index].forced = (int16_t)only;
  return only;
}

/* ---- forgetting ---- */

/* Keeps the frames that the places found stand on, in their order, and gives them new numbers. */
static void keep_frames(struct ommai_recogniser_tables *tables) {
  int32_t n = tables->n_frames;
  for (int32_t i = 0; i < n; i++) tables->moved[i] = -1;
  for (int32_t i = 0; i < tables->n_found; i++) {
    for (int32_t at = stack_of(tables->found[i]); at != EMPTY_STACK && tables->moved[at] < 0; at = tables->frames[at].below) {
      tables->moved[at] = 0;
    }
  }
  tables->n_frames = 0;
  memset(tables->frame_slots, 0, sizeof tables->frame_slots);
  for (int32_t i = 0; i < n; i++) {
    if (tables->moved[i] < 0) continue;
    int32_t below = tables->frames[i].below;
    tables->moved[i] = intern_frame(tables, tables->frames[i].edge, tables->frames[i].count,
                                    below == EMPTY_STACK ? below : tables->moved[below]);
  }
  for (int32_t i = 0; i < tables->n_found; i++) {
    int32_t stack = stack_of(tables->found[i]);
    if (stack != EMPTY_STACK) tables->found[i] = make_item(node_of(tables->found[i]), tables->moved[stack]);
  }
}

int32_t ommai_recogniser_flush(struct ommai_recogniser *recogniser, int32_t index) {
  struct ommai_recogniser_tables *tables = recogniser->tables;
  begin_step(tables);
  if (index >= 0) {
    const struct ommai_recogniser_state *state = &recogniser->states[index];
    tables->n_found = state->n_items;
    tables->accepts = state->accepts;
    memcpy(tables->found, tables->pool + state->first_item, (size_t)state->n_items * sizeof(item));
  }
  keep_frames(tables);
  memset(tables->state_slots, 0, sizeof tables->state_slots);
  tables->n_pool = recogniser->n_states = 0;
  tables->last.state = OMMAI_STATE_DEAD;
  recogniser->generation++;
  return index >= 0 ? intern_state(recogniser) : OMMAI_STATE_DEAD;
}
