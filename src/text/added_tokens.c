#include "text/added_tokens.h"

#include <stdlib.h>
#include <string.h>

#include "base/allocator.h"
#include "base/error.h"
#include "text/utf8.h"

enum omma_status ommai_added_init(struct ommai_added_set *set, size_t capacity, const struct omma_allocator *allocator,
                                  struct omma_error *error) {
  *set = (struct ommai_added_set){.capacity = capacity};
  set->tokens = ommai_allocate(allocator, capacity, sizeof *set->tokens);
  return set->tokens ? OMMA_OK : ommai_fail_memory(error, "added tokens", capacity * sizeof *set->tokens);
}

void ommai_added_clear(struct ommai_added_set *set, const struct omma_allocator *allocator) {
  ommai_release(allocator, set->tokens, set->capacity, sizeof *set->tokens);
  *set = (struct ommai_added_set){0};
}

static int compare(const char *a, size_t a_size, const char *b, size_t b_size) {
  int order = memcmp(a, b, a_size < b_size ? a_size : b_size);
  return order ? order : (a_size > b_size) - (a_size < b_size);
}

static int compare_tokens(const void *a, const void *b) {
  const struct ommai_added_token *left = a, *right = b;
  return compare(left->content, left->size, right->content, right->size);
}

void ommai_added_sort(struct ommai_added_set *set) {
  if (set->n > 1) qsort(set->tokens, set->n, sizeof *set->tokens, compare_tokens);
  memset(set->first, 0, sizeof set->first);
  for (size_t i = 0; i < set->n; i++) set->first[(unsigned char)set->tokens[i].content[0] + 1]++;
  for (size_t b = 0; b < 256; b++) set->first[b + 1] += set->first[b];
}

const struct ommai_added_token *ommai_added_find(const struct ommai_added_set *set, const char *content, size_t size) {
  struct ommai_added_token key = {.content = content, .size = size};
  if (set->n == 0) return NULL;
  return bsearch(&key, set->tokens, set->n, sizeof *set->tokens, compare_tokens);
}

/* The first token of [low, high) whose byte at `depth` is at least `byte`. All of them are longer
 * than `depth`. */
static size_t lower_bound(const struct ommai_added_set *set, size_t low, size_t high, size_t depth, unsigned byte) {
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if ((unsigned char)set->tokens[middle].content[depth] < byte) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

/* The longest token that text begins with. [low, high) shrinks to the tokens that share `depth`
 * bytes with it; the one that ends there stands first among them. */
static const struct ommai_added_token *longest(const struct ommai_added_set *set, bool normalized, const char *text,
                                               size_t size) {
  const struct ommai_added_token *best = NULL;
  size_t low = set->first[(unsigned char)text[0]], high = set->first[(unsigned char)text[0] + 1];
  for (size_t depth = 1; low < high; depth++) {
    if (set->tokens[low].size == depth) {
      if (set->tokens[low].normalized == normalized) best = &set->tokens[low];
      low++;
    }
    if (depth == size) break;
    unsigned byte = (unsigned char)text[depth];
    low = lower_bound(set, low, high, depth, byte);
    high = lower_bound(set, low, high, depth, byte + 1);
  }
  return best;
}

/* Where the white space that ends at `end` begins, but not before `from`. */
static size_t space_before(const char *text, size_t from, size_t end) {
  size_t at = end;
  while (at > from) {
    size_t start = at - 1, length;
    while (start > from && ((unsigned char)text[start] & 0xC0) == 0x80) start--;
    if (!ommai_utf8_white_space(ommai_utf8_decode(text + start, &length))) break;
    at = start;
  }
  return at;
}

static size_t space_after(const char *text, size_t size, size_t at) {
  size_t length;
  while (at < size && ommai_utf8_white_space(ommai_utf8_decode(text + at, &length))) at += length;
  return at;
}

const struct ommai_added_token *ommai_added_next(const struct ommai_added_set *set, bool normalized, const char *text,
                                                 size_t size, size_t from, size_t *first, size_t *last) {
  *first = *last = size;
  for (size_t at = from; at < size; at++) {
    unsigned char byte = (unsigned char)text[at];
    if (set->first[byte] == set->first[byte + 1]) continue;
    const struct ommai_added_token *token = longest(set, normalized, text + at, size - at);
    if (!token) continue;
    *first = token->strip_left ? space_before(text, from, at) : at;
    *last = at + token->size;
    if (token->strip_right) *last = space_after(text, size, *last);
    return token;
  }
  return NULL;
}
