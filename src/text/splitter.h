/* Cuts text into pieces by the regular expression of a tokenizer: every match is a piece, and so is
 * what lies between. */
#pragma once

#include <omma/host.h>
#include <omma/status.h>
#include <stddef.h>
#include <stdint.h>

struct ommai_splitter; /* immutable; any number of threads may use it */

/* Compiles a pattern in the dialect of tokenizer.json (pattern.h). Errors: UNSUPPORTED (syntax that
 * is not known to mean the same, or a pattern that may match nothing), FORMAT (does not compile),
 * LIMIT, MEMORY. */
enum omma_status ommai_splitter_create(const char *pattern, size_t size, struct ommai_splitter **splitter,
                                       struct omma_error *error);
void ommai_splitter_destroy(struct ommai_splitter *splitter);

/* One text being cut; owned by one thread. */
struct ommai_split {
  const struct ommai_splitter *splitter;
  void *match_data;
  void *match_context;
  const struct omma_allocator *allocator;
  /* the text with stand-ins (unicode.h), where it has characters that need them; [size] */
  char *renamed;
  const char *text; /* what the matcher sees: the caller's text, or renamed */
  size_t size;
  size_t at;                      /* everything before is handed out */
  size_t match_first, match_last; /* a match that waits after a gap; empty: none */
  uint64_t steps_left;
};

/* Prepares a thread's cutting; the allocator must stay until ommai_split_end, which gives all
 * memory back and allows a zeroed struct. Errors: MEMORY. */
enum omma_status ommai_split_begin(struct ommai_split *split, const struct ommai_splitter *splitter,
                                   const struct omma_allocator *allocator, struct omma_error *error);
void ommai_split_end(struct ommai_split *split);

/* Starts on a text of valid UTF-8, which must stay until the last piece is taken. Errors:
 * MEMORY. */
enum omma_status ommai_split_text(struct ommai_split *split, const char *text, size_t size, struct omma_error *error);

/* The next piece [*first, *last) of the text; *first == *last at the end. The steps of the matcher
 * are bounded by the size of the text: a pattern that needs more (it backtracks without end) gives
 * LIMIT. */
enum omma_status ommai_split_next(struct ommai_split *split, size_t *first, size_t *last, struct omma_error *error);
