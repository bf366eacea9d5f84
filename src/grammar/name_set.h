/* Sets of names, each of an owner: which names a list has, without going through it for each
 * question. Lives in a scratch. Zero-initialised: empty. */
#pragma once

#include "base/scratch.h"

struct ommai_named {
  const void *owner; /* NULL: the slot is free */
  const char *text;  /* not copied */
  size_t size;
  size_t value; /* the caller's; 0 at first */
};

struct ommai_name_set {
  struct ommai_named *slots; /* [capacity], a power of two, at most half in use */
  size_t n, capacity;
};

/* The name's entry, or NULL. */
struct ommai_named *ommai_name_set_find(const struct ommai_name_set *set, const void *owner, const char *text, size_t size);
/* The same, made where it is missing; valid until the next one is made. NULL: the scratch has
 * failed. */
struct ommai_named *ommai_name_set_add(struct ommai_name_set *set, struct ommai_scratch *scratch, const void *owner,
                                       const char *text, size_t size);
