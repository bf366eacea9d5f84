#include "base/arena.h"

#include <stdint.h>

#include "base/allocator.h"
#include "base/checked.h"

#if defined(__SANITIZE_ADDRESS__)
#define ARENA_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ARENA_ASAN 1
#endif
#endif

#ifdef ARENA_ASAN
#include <sanitizer/asan_interface.h>
#define RED_ZONE OMMAI_ALIGNMENT
#define POISON(pointer, size) __asan_poison_memory_region(pointer, size)
#define UNPOISON(pointer, size) __asan_unpoison_memory_region(pointer, size)
#else
#define RED_ZONE 0
#define POISON(pointer, size) ((void)(pointer), (void)(size))
#define UNPOISON(pointer, size) ((void)(pointer), (void)(size))
#endif

void ommai_arena_measure(struct ommai_arena *arena) { *arena = (struct ommai_arena){.size = SIZE_MAX}; }

void ommai_arena_init(struct ommai_arena *arena, void *memory, size_t size) {
  *arena = (struct ommai_arena){.base = memory, .size = size};
}

void *ommai_arena_take(struct ommai_arena *arena, size_t count, size_t size) {
  size_t bytes, padded, end;
  if (!ommai_mul_size(count, size, &bytes) || !ommai_add_size(bytes, OMMAI_ALIGNMENT - 1 + RED_ZONE, &padded) ||
      !ommai_add_size(arena->used, padded / OMMAI_ALIGNMENT * OMMAI_ALIGNMENT, &end) || end > arena->size) {
    arena->failed = true;
    return NULL;
  }
  size_t start = arena->used;
  arena->used = end;
  if (end > arena->peak) arena->peak = end;
  if (!arena->base) return NULL;
  UNPOISON(arena->base + start, bytes);
  POISON(arena->base + start + bytes, end - start - bytes);
  return arena->base + start;
}

size_t ommai_arena_mark(const struct ommai_arena *arena) { return arena->used; }

void ommai_arena_reset(struct ommai_arena *arena, size_t mark) {
  if (arena->base) UNPOISON(arena->base + mark, arena->used - mark);
  arena->used = mark;
}
