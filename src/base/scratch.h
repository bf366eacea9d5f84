/* Memory of one compilation: taken piece by piece, given back all at once, and bounded, as is the
 * work, so that a hostile schema or pattern ends with a message. Not thread-safe. */
#pragma once

#include <omma/host.h>
#include <omma/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes, and steps of loops whose length the input chooses: about a second. */
#define OMMAI_SCRATCH_MAX_BYTES ((size_t)64 << 20)
#define OMMAI_SCRATCH_MAX_WORK (INT64_C(1) << 27)
/* Bytes that are zeroed in one step. */
#define OMMAI_SCRATCH_STEP_BYTES 64

#define OMMAI_SCRATCH_SLOTS (1 << 16)

struct ommai_scratch_chunk;

struct ommai_scratch {
  const struct omma_allocator *allocator;
  struct ommai_scratch_chunk *chunks;
  size_t used, bytes;     /* of the newest chunk, of all */
  int64_t work, max_work; /* steps booked; MAX_WORK at first */
  int32_t *slots;         /* [OMMAI_SCRATCH_SLOTS] for whoever needs a hash table for a while */
  bool no_memory, exhausted;
};

void ommai_scratch_init(struct ommai_scratch *scratch, const struct omma_allocator *allocator);
void ommai_scratch_free(struct ommai_scratch *scratch);

/* count * size zeroed bytes, booked as work, or NULL; then the scratch has failed, and so will all
 * that follows. */
void *ommai_scratch_take(struct ommai_scratch *scratch, size_t count, size_t size);

/* Room for one more after the `count` items of an array that grows by doubling. False when it
 * failed. */
bool ommai_scratch_grow(struct ommai_scratch *scratch, void **items, size_t *capacity, size_t count, size_t item_size);

/* The table of [OMMAI_SCRATCH_SLOTS] zeroes, the same one each time, or NULL. */
int32_t *ommai_scratch_slots(struct ommai_scratch *scratch);

/* Books steps. False when there were too many. */
bool ommai_scratch_work(struct ommai_scratch *scratch, int64_t steps);

/* OK; or MEMORY or LIMIT, where something has failed so far. */
enum omma_status ommai_scratch_check(const struct ommai_scratch *scratch, struct omma_error *error);

/* What went wrong: MEMORY or LIMIT. */
enum omma_status ommai_scratch_fail(const struct ommai_scratch *scratch, struct omma_error *error);
