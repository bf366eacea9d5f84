/* Pages of documents as a command line names them: "1-3,7,10-". */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { OMMAI_MAX_PAGE_RANGES = 64 };

struct ommai_page_list {
  struct {
    int64_t first, last; /* from 1 */
  } ranges[OMMAI_MAX_PAGE_RANGES];
  size_t n;
};

/* text: numbers from 1 and ranges of them, in any order, also of the same pages; a range may lack
 * its end. NULL: all pages. False where it is something else, or has more than
 * OMMAI_MAX_PAGE_RANGES. */
bool ommai_page_list_read(const char *text, struct ommai_page_list *list);

/* The first page from `from` on, of n_pages, that the list has; 0: there is none. */
int64_t ommai_page_list_next(const struct ommai_page_list *list, int64_t from, int64_t n_pages);

/* How many of n_pages it has. */
int64_t ommai_page_list_count(const struct ommai_page_list *list, int64_t n_pages);
