/* One block of memory laid out once: the same placing function runs first over an empty arena to
 * measure the size, then over the real block. Nothing is freed one by one; a reset to a mark frees
 * everything placed after it. Not thread-safe. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct ommai_arena {
  unsigned char *base; /* NULL while measuring */
  size_t size;         /* bytes at base; SIZE_MAX while measuring */
  size_t used;
  size_t peak;
  bool failed; /* something did not fit; stays set until the next init */
};

/* An arena that only measures: every take returns NULL and counts. */
void ommai_arena_measure(struct ommai_arena *arena);

/* An arena over `size` bytes at `memory` (64-aligned, caller's). */
void ommai_arena_init(struct ommai_arena *arena, void *memory, size_t size);

/* `count` elements of `size` bytes at a 64-byte border; content undefined. NULL while measuring and
 * when it does not fit or the product overflows (then `failed` is set). Under AddressSanitizer a
 * red zone follows each piece. */
void *ommai_arena_take(struct ommai_arena *arena, size_t count, size_t size);

/* The present fill level, to come back to. */
size_t ommai_arena_mark(const struct ommai_arena *arena);
void ommai_arena_reset(struct ommai_arena *arena, size_t mark);
