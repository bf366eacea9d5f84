/* Arrays that grow by doubling. */
#pragma once

#include <omma/host.h>
#include <stdbool.h>
#include <string.h>

#include "base/allocator.h"
#include "base/checked.h"

/* Makes room for `more` items after the `count` that *items holds; *capacity is the size of its
 * memory in items, which is released with ommai_release(allocator, *items, *capacity, item_size).
 * NULL with capacity 0 is an empty array. False when memory is out: nothing has changed then. */
static inline bool ommai_grow(void **items, size_t *capacity, size_t count, size_t more, size_t item_size,
                              const struct omma_allocator *allocator) {
  size_t needed, doubled;
  if (!ommai_add_size(count, more, &needed)) return false;
  if (needed <= *capacity) return true;
  if (!ommai_mul_size(*capacity, 2, &doubled)) return false;
  size_t larger = doubled > needed ? doubled : needed < 16 ? 16 : needed;
  void *moved = ommai_allocate_uninitialised(allocator, larger, item_size);
  if (!moved) return false;
  if (count) memcpy(moved, *items, count * item_size);
  ommai_release(allocator, *items, *capacity, item_size);
  *items = moved;
  *capacity = larger;
  return true;
}
