/* Beginnings that prompts share and that are no whole page, such as a short instruction before each
 * image: which pages have them, to copy their first rows from.
 *
 * A beginning is kept when two prompts in a row have shown it, in the page of the second one: under
 * that page's key where it is full and published, else under a key of its own. One thread. */
#pragma once

#include <omma/attention.h>
#include <omma/kv_events.h>
#include <stdbool.h>

#include "base/tokens.h"

struct omma_request;

/* Fewer tokens are not worth a copy. */
enum { OMMAI_MIN_BEGINNING = 8, OMMAI_MAX_BEGINNINGS = 4 };

struct ommai_beginning {
  struct ommai_prompt_token tokens[OMMA_ATTENTION_PAGE_TOKENS]; /* up to the first image */
  int64_t n_tokens;                                             /* 0: there is none */
  struct omma_kv_page_key key;                                  /* of the page */
  int64_t last_use;
};

/* Zero-initialised: none. */
struct ommai_beginnings {
  struct ommai_beginning kept[OMMAI_MAX_BEGINNINGS], previous; /* previous: the last prompt's */
  int64_t n_uses;
};

/* Finds the kept beginning that shares most tokens with the request's prompt, not counting the
 * prompt's last token. Returns the number of shared tokens, at least OMMAI_MIN_BEGINNING, or 0 with
 * *found NULL. The caller drops a beginning by setting its n_tokens to 0. */
int64_t ommai_beginnings_find(struct ommai_beginnings *beginnings, const struct omma_request *request,
                              struct ommai_beginning **found);
/* The number of tokens that the prompt shares with the one before it. Remembers this prompt for the
 * next call. */
int64_t ommai_beginnings_see(struct ommai_beginnings *beginnings, const struct omma_request *request);
/* Keeps the beginning of a prompt, in the place of the least recently used one; the caller sets its
 * key. */
struct ommai_beginning *ommai_beginnings_keep(struct ommai_beginnings *beginnings, const struct omma_request *request);
