/* The page at /, for people with a browser: one file with its style and its script inside, which
 * uses this server's API. */
#pragma once

#include <omma/host.h>
#include <stdbool.h>
#include <stddef.h>

#include "server/http/http_call.h"

#define OMMAI_PAGE_HEADERS 5
#define OMMAI_PAGE_HASH_SIZE 45 /* 32 bytes in base64, and the end */

struct ommai_page {
  char etag[OMMAI_PAGE_HASH_SIZE + 2]; /* in quotes */
  char policy[640];                    /* Content-Security-Policy */
  struct ommai_header headers[OMMAI_PAGE_HEADERS + 1];
};

/* The page's headers; the policy lets its own style and script in, by their hashes, and nothing
 * else. Errors: MEMORY. */
enum omma_status ommai_page_create(const struct omma_allocator *allocator, struct ommai_page **page, struct omma_error *error);
/* NULL is allowed. */
void ommai_page_destroy(struct ommai_page *page, const struct omma_allocator *allocator);

/* True when a client that sent this If-None-Match header (NULL: none) has the page. */
bool ommai_page_is_known(const struct ommai_page *page, const char *if_none_match);
