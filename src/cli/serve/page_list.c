#include "cli/serve/page_list.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>

/* A number at *text, which is moved behind it. */
static bool read_number(const char **text, int64_t *number) {
  char *end;
  if (!isdigit((unsigned char)**text)) return false;
  errno = 0;
  *number = strtoll(*text, &end, 10);
  *text = end;
  return errno == 0 && *number >= 1;
}

bool ommai_page_list_read(const char *text, struct ommai_page_list *list) {
  *list = (struct ommai_page_list){.ranges = {{1, INT64_MAX}}, .n = 1};
  if (!text) return true;
  for (list->n = 0; list->n < OMMAI_MAX_PAGE_RANGES; text++) {
    int64_t first, last;
    if (!read_number(&text, &first)) return false;
    last = first;
    if (*text == '-') {
      text++;
      last = INT64_MAX;
      if (*text && *text != ',' && !read_number(&text, &last)) return false;
    }
    if (last < first) return false;
    list->ranges[list->n].first = first;
    list->ranges[list->n++].last = last;
    if (!*text) return true;
    if (*text != ',') return false;
  }
  return false;
}

int64_t ommai_page_list_next(const struct ommai_page_list *list, int64_t from, int64_t n_pages) {
  int64_t next = 0;
  for (size_t i = 0; i < list->n; i++) {
    int64_t first = list->ranges[i].first > from ? list->ranges[i].first : from;
    if (first <= list->ranges[i].last && first <= n_pages && (!next || first < next)) next = first;
  }
  return next;
}

int64_t ommai_page_list_count(const struct ommai_page_list *list, int64_t n_pages) {
  int64_t n = 0;
  for (int64_t page = 0; (page = ommai_page_list_next(list, page + 1, n_pages)) != 0;) n++;
  return n;
}
