#include "grammar/name_set.h"

#include <string.h>

enum { FIRST_CAPACITY = 16 };

/* Mixed well, as names are from outside. */
static uint64_t hash_name(const void *owner, const char *text, size_t size) {
  uint64_t hash = (uintptr_t)owner * 0x9E3779B97F4A7C15u;
  for (size_t i = 0; i < size; i++) hash = (hash ^ (unsigned char)text[i]) * 0x100000001B3u;
  hash ^= hash >> 32;
  hash *= 0xD6E8FEB86659FD93u;
  return hash ^ hash >> 29;
}

/* Its slot, or the free one where it belongs. */
static struct ommai_named *find_slot(const struct ommai_name_set *set, const void *owner, const char *text, size_t size) {
  for (uint64_t at = hash_name(owner, text, size);; at++) {
    struct ommai_named *slot = &set->slots[at & (set->capacity - 1)];
    if (!slot->owner || (slot->owner == owner && slot->size == size && !memcmp(slot->text, text, size))) return slot;
  }
}

struct ommai_named *ommai_name_set_find(const struct ommai_name_set *set, const void *owner, const char *text, size_t size) {
  struct ommai_named *slot = set->n ? find_slot(set, owner, text, size) : NULL;
  return slot && slot->owner ? slot : NULL;
}

static bool grow(struct ommai_name_set *set, struct ommai_scratch *scratch) {
  struct ommai_name_set larger = {.n = set->n, .capacity = set->capacity ? 2 * set->capacity : FIRST_CAPACITY};
  larger.slots = ommai_scratch_take(scratch, larger.capacity, sizeof *larger.slots);
  if (!larger.slots) return false;
  for (size_t i = 0; i < set->capacity; i++) {
    const struct ommai_named *named = &set->slots[i];
    if (named->owner) *find_slot(&larger, named->owner, named->text, named->size) = *named;
  }
  *set = larger;
  return true;
}

struct ommai_named *ommai_name_set_add(struct ommai_name_set *set, struct ommai_scratch *scratch, const void *owner,
                                       const char *text, size_t size) {
  if (!ommai_scratch_work(scratch, 1 + (int64_t)(size / 8))) return NULL;
  if (2 * (set->n + 1) > set->capacity && !grow(set, scratch)) return NULL;
  struct ommai_named *slot = find_slot(set, owner, text, size);
  if (slot->owner) return slot;
  *slot = (struct ommai_named){.owner = owner, .text = text, .size = size};
  set->n++;
  return slot;
}
