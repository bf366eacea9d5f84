#include "text/bpe.h"

#include <string.h>

#include "base/allocator.h"
#include "base/error.h"
#include "text/utf8.h"
#include "text/vocabulary.h"

/* Pieces of at most that many bytes are encoded in stack memory. */
enum { SMALL_PIECE = 256 };

#define NO_RANK INT32_MAX

/* A symbol of the piece in a doubly linked list by index. */
struct symbol {
  int32_t id;   /* -1: joined to the one before it */
  int32_t rank; /* of the merge with the next symbol; NO_RANK: none */
  int32_t previous, next;
};

/* A min-heap of rank << 32 | index: lowest rank first, then leftmost. An entry is stale when the
 * symbol at its index has another rank by now; ranks are unique, so nothing else needs to be
 * compared. */
struct heap {
  uint64_t *entries;
  size_t count;
};

enum omma_status ommai_bpe_init(struct ommai_bpe *bpe, size_t n_merges, const struct omma_allocator *allocator,
                                struct omma_error *error) {
  bpe->n_slots = ommai_hash_slots(n_merges);
  bpe->slots = ommai_allocate(allocator, bpe->n_slots, sizeof *bpe->slots);
  if (!bpe->slots) return ommai_fail_memory(error, "merge table", bpe->n_slots * sizeof *bpe->slots);
  for (size_t i = 0; i < bpe->n_slots; i++) bpe->slots[i].left = -1;
  return OMMA_OK;
}

void ommai_bpe_clear(struct ommai_bpe *bpe, const struct omma_allocator *allocator) {
  ommai_release(allocator, bpe->slots, bpe->n_slots, sizeof *bpe->slots);
  *bpe = (struct ommai_bpe){0};
}

/* The slot of a pair, or the free one where it belongs; NULL after too many steps. */
static struct ommai_merge *find_slot(const struct ommai_bpe *bpe, int32_t left, int32_t right) {
  size_t mask = bpe->n_slots - 1, at = ommai_hash_mix((uint64_t)(uint32_t)left << 32 | (uint32_t)right);
  for (int step = 0; step < OMMAI_HASH_MAX_STEPS; step++, at++) {
    struct ommai_merge *slot = &bpe->slots[at & mask];
    if (slot->left < 0 || (slot->left == left && slot->right == right)) return slot;
  }
  return NULL;
}

bool ommai_bpe_add(struct ommai_bpe *bpe, struct ommai_merge merge) {
  struct ommai_merge *slot = find_slot(bpe, merge.left, merge.right);
  if (!slot) return false;
  *slot = merge;
  return true;
}

static const struct ommai_merge *find_merge(const struct ommai_bpe *bpe, int32_t left, int32_t right) {
  const struct ommai_merge *slot = find_slot(bpe, left, right);
  return slot && slot->left >= 0 ? slot : NULL;
}

static void heap_push(struct heap *heap, uint64_t entry) {
  size_t at = heap->count++;
  while (at > 0 && heap->entries[(at - 1) / 2] > entry) {
    heap->entries[at] = heap->entries[(at - 1) / 2];
    at = (at - 1) / 2;
  }
  heap->entries[at] = entry;
}

static uint64_t heap_pop(struct heap *heap) {
  uint64_t top = heap->entries[0], last = heap->entries[--heap->count];
  size_t at = 0;
  for (;;) {
    size_t child = 2 * at + 1;
    if (child >= heap->count) break;
    if (child + 1 < heap->count && heap->entries[child + 1] < heap->entries[child]) child++;
    if (heap->entries[child] >= last) break;
    heap->entries[at] = heap->entries[child];
    at = child;
  }
  heap->entries[at] = last;
  return top;
}

/* Looks up the merge of the symbol at `at` with its next one. */
static void rank_pair(const struct ommai_bpe *bpe, struct symbol *symbols, int32_t at, struct heap *heap) {
  struct symbol *symbol = &symbols[at];
  symbol->rank = NO_RANK;
  if (symbol->next < 0) return;
  const struct ommai_merge *merge = find_merge(bpe, symbol->id, symbols[symbol->next].id);
  if (!merge) return;
  symbol->rank = merge->rank;
  heap_push(heap, (uint64_t)merge->rank << 32 | (uint32_t)at);
}

static void join_next(const struct ommai_bpe *bpe, struct symbol *symbols, int32_t at, struct heap *heap) {
  struct symbol *symbol = &symbols[at], *next = &symbols[symbol->next];
  symbol->id = find_merge(bpe, symbol->id, next->id)->result;
  next->id = -1;
  next->rank = NO_RANK;
  symbol->next = next->next;
  if (symbol->next >= 0) symbols[symbol->next].previous = at;
  rank_pair(bpe, symbols, at, heap);
  if (symbol->previous >= 0) rank_pair(bpe, symbols, symbol->previous, heap);
}

/* The ids that joining begins with; returns their number, at most `size`. */
static int32_t first_ids(const struct ommai_bpe *bpe, const char *piece, size_t size, struct symbol *symbols) {
  int32_t n = 0;
  for (size_t at = 0, length = 1; at < size; at += length) {
    int32_t id = -1;
    if (bpe->characters) {
      ommai_utf8_decode(piece + at, &length);
      id = ommai_vocabulary_find(bpe->characters, piece + at, length);
    }
    if (id >= 0) symbols[n++].id = id;
    for (size_t i = 0; id < 0 && i < length; i++) symbols[n++].id = bpe->byte_ids[(unsigned char)piece[at + i]];
  }
  return n;
}

/* symbols: [size]; entries: [2 * size], for each of the size - 1 joins takes one entry out and puts
 * at most two in. */
static void encode(const struct ommai_bpe *bpe, const char *piece, size_t size, struct symbol *symbols, uint64_t *entries,
                   struct ommai_id_sink *sink) {
  struct heap heap = {entries, 0};
  int32_t n = first_ids(bpe, piece, size, symbols);
  for (int32_t i = 0; i < n; i++) {
    symbols[i] = (struct symbol){.id = symbols[i].id, .previous = i - 1, .next = i + 1 < n ? i + 1 : -1};
  }
  for (int32_t i = 0; i < n; i++) rank_pair(bpe, symbols, i, &heap);
  while (heap.count > 0) {
    uint64_t entry = heap_pop(&heap);
    int32_t at = (int32_t)(entry & UINT32_MAX);
    if (symbols[at].rank == (int32_t)(entry >> 32)) join_next(bpe, symbols, at, &heap);
  }
  for (int32_t at = 0; at >= 0; at = symbols[at].next) ommai_id_sink_put(sink, symbols[at].id);
}

enum omma_status ommai_bpe_encode(const struct ommai_bpe *bpe, const char *piece, size_t size,
                                  const struct omma_allocator *allocator, struct ommai_id_sink *sink,
                                  struct omma_error *error) {
  if (size == 0) return OMMA_OK;
  if (size <= SMALL_PIECE) {
    struct symbol symbols[SMALL_PIECE];
    uint64_t entries[2 * SMALL_PIECE];
    encode(bpe, piece, size, symbols, entries, sink);
    return OMMA_OK;
  }
  if (size > INT32_MAX) return ommai_fail(error, OMMA_ERROR_LIMIT, "text: a piece of %zu bytes is too long", size);
  enum omma_status status = OMMA_OK;
  struct symbol *symbols = ommai_allocate(allocator, size, sizeof *symbols);
  uint64_t *entries = ommai_allocate(allocator, size, 2 * sizeof *entries);
  if (symbols && entries) {
    encode(bpe, piece, size, symbols, entries, sink);
  } else {
    status = ommai_fail_memory(error, "a long piece of text", size * (sizeof *symbols + 2 * sizeof *entries));
  }
  ommai_release(allocator, entries, size, 2 * sizeof *entries);
  ommai_release(allocator, symbols, size, sizeof *symbols);
  return status;
}
