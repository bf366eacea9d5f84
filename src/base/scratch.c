#include "base/scratch.h"

#include <string.h>

#include "base/allocator.h"
#include "base/checked.h"
#include "base/error.h"

enum { CHUNK_BYTES = 1 << 16, ALIGNMENT = 16 };

struct ommai_scratch_chunk {
  struct ommai_scratch_chunk *before;
  size_t size; /* of all, this head included */
};

#define HEAD_BYTES ((sizeof(struct ommai_scratch_chunk) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT)

void ommai_scratch_init(struct ommai_scratch *scratch, const struct omma_allocator *allocator) {
  *scratch = (struct ommai_scratch){.allocator = allocator, .max_work = OMMAI_SCRATCH_MAX_WORK};
}

void ommai_scratch_free(struct ommai_scratch *scratch) {
  while (scratch->chunks) {
    struct ommai_scratch_chunk *chunk = scratch->chunks;
    scratch->chunks = chunk->before;
    ommai_release(scratch->allocator, chunk, chunk->size, 1);
  }
}

static bool add_chunk(struct ommai_scratch *scratch, size_t bytes) {
  size_t size = bytes + HEAD_BYTES > CHUNK_BYTES ? bytes + HEAD_BYTES : CHUNK_BYTES;
  if (size > OMMAI_SCRATCH_MAX_BYTES - scratch->bytes) {
    scratch->exhausted = true;
    return false;
  }
  struct ommai_scratch_chunk *chunk = ommai_allocate_uninitialised(scratch->allocator, size, 1);
  if (!chunk) {
    scratch->no_memory = true;
    return false;
  }
  *chunk = (struct ommai_scratch_chunk){scratch->chunks, size};
  scratch->chunks = chunk;
  scratch->used = HEAD_BYTES;
  scratch->bytes += size;
  return true;
}

void *ommai_scratch_take(struct ommai_scratch *scratch, size_t count, size_t size) {
  size_t bytes;
  if (scratch->no_memory || scratch->exhausted) return NULL;
  if (!ommai_mul_size(count, size, &bytes) || bytes > OMMAI_SCRATCH_MAX_BYTES) {
    scratch->exhausted = true;
    return NULL;
  }
  /* one byte at least: no two pieces are the same */
  bytes = (bytes + ALIGNMENT) / ALIGNMENT * ALIGNMENT;
  if (!ommai_scratch_work(scratch, (int64_t)(bytes / OMMAI_SCRATCH_STEP_BYTES))) return NULL;
  if ((!scratch->chunks || bytes > scratch->chunks->size - scratch->used) && !add_chunk(scratch, bytes)) return NULL;
  void *piece = (char *)scratch->chunks + scratch->used;
  scratch->used += bytes;
  return memset(piece, 0, bytes);
}

bool ommai_scratch_grow(struct ommai_scratch *scratch, void **items, size_t *capacity, size_t count, size_t item_size) {
  if (count < *capacity) return true;
  size_t larger = *capacity ? 2 * *capacity : 8;
  void *moved = ommai_scratch_take(scratch, larger, item_size);
  if (!moved) return false;
  if (count) memcpy(moved, *items, count * item_size);
  *items = moved;
  *capacity = larger;
  return true;
}

int32_t *ommai_scratch_slots(struct ommai_scratch *scratch) {
  if (!scratch->slots) scratch->slots = ommai_scratch_take(scratch, OMMAI_SCRATCH_SLOTS, sizeof *scratch->slots);
  const size_t bytes = OMMAI_SCRATCH_SLOTS * sizeof *scratch->slots;
  if (!scratch->slots || !ommai_scratch_work(scratch, (int64_t)(bytes / OMMAI_SCRATCH_STEP_BYTES))) return NULL;
  return memset(scratch->slots, 0, bytes);
}

bool ommai_scratch_work(struct ommai_scratch *scratch, int64_t steps) {
  scratch->work += steps;
  if (scratch->work > scratch->max_work) scratch->exhausted = true;
  return !scratch->exhausted && !scratch->no_memory;
}

enum omma_status ommai_scratch_check(const struct ommai_scratch *scratch, struct omma_error *error) {
  return scratch->no_memory || scratch->exhausted ? ommai_scratch_fail(scratch, error) : OMMA_OK;
}

enum omma_status ommai_scratch_fail(const struct ommai_scratch *scratch, struct omma_error *error) {
  if (scratch->no_memory) return ommai_fail_memory(error, "grammar", scratch->bytes);
  return ommai_fail(error, OMMA_ERROR_LIMIT, "it takes too much work to compile: use smaller bounds, fewer alternatives");
}
