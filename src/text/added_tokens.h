/* Added tokens: strings that are cut out of a text, leftmost and then longest first, before
 * anything else happens to it. */
#pragma once

#include <omma/host.h>
#include <omma/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OMMAI_ADDED_MAX_TOKENS ((size_t)1 << 14)

struct ommai_added_token {
  const char *content; /* owned by whoever fills the set */
  size_t size;         /* 1 or more */
  int32_t id;
  bool strip_left, strip_right; /* white space next to it belongs to it */
  bool normalized;              /* found in the normalised text instead of the text as given */
};

/* A set in byte order. Immutable after ommai_added_sort; any number of threads may use it. */
struct ommai_added_set {
  struct ommai_added_token *tokens; /* [capacity], the first n in use */
  size_t n, capacity;
  uint32_t first[257]; /* tokens that begin with byte b: first[b] .. first[b + 1] */
};

enum omma_status ommai_added_init(struct ommai_added_set *set, size_t capacity, const struct omma_allocator *allocator,
                                  struct omma_error *error);
void ommai_added_clear(struct ommai_added_set *set, const struct omma_allocator *allocator);

/* Sorts the tokens after the last of them is in place. */
void ommai_added_sort(struct ommai_added_set *set);

/* The token with exactly this content, or NULL. */
const struct ommai_added_token *ommai_added_find(const struct ommai_added_set *set, const char *content, size_t size);

/* The first token in text[from, size), with the white space that it takes along, as [*first,
 * *last); NULL when there is none (*first and *last are then `size`). Only tokens with
 * `normalized` as given count. */
const struct ommai_added_token *ommai_added_next(const struct ommai_added_set *set, bool normalized, const char *text,
                                                 size_t size, size_t from, size_t *first, size_t *last);
