#include "server/access/cross_origin.h"

#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/allocator.h"
#include "base/error.h"

#define ORIGIN "Origin"
#define REQUEST_METHOD "Access-Control-Request-Method"
#define REQUEST_HEADERS "Access-Control-Request-Headers"
/* from a public page to a private address: never allowed */
#define REQUEST_PRIVATE "Access-Control-Request-Private-Network"
#define ALLOW_ORIGIN "Access-Control-Allow-Origin"
#define MAX_AGE "600" /* seconds that a browser keeps the answer to a preflight */
#define BETWEEN ", "

/* "*" as a method. */
static const char *const ALL_METHODS[] = {"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"};
/* What browsers may send without asking. */
static const char *const SAFE_HEADERS[] = {"Accept", "Accept-Language", "Content-Language", "Content-Type"};

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static const char *header(struct MHD_Connection *mhd, const char *name) {
  return MHD_lookup_connection_value(mhd, MHD_HEADER_KIND, name);
}

static bool has_star(const char *const *words, size_t n_words) {
  for (size_t i = 0; i < n_words; i++) {
    if (!strcmp(words[i], "*")) return true;
  }
  return false;
}

/* Whether one of the list's words is word[size]. */
static bool lists(const struct ommai_text *list, const char *word, size_t size, bool any_case) {
  const char *at = list->data, *end = at ? at + list->size : NULL;
  while (at && at < end) {
    const char *comma = memmem(at, (size_t)(end - at), BETWEEN, sizeof BETWEEN - 1);
    size_t length = (size_t)((comma ? comma : end) - at);
    if (length == size && !(any_case ? strncasecmp(at, word, size) : strncmp(at, word, size))) return true;
    at = comma ? comma + sizeof BETWEEN - 1 : NULL;
  }
  return false;
}

static void add_words(struct ommai_text *list, const char *const *words, size_t n_words) {
  for (size_t i = 0; i < n_words; i++) {
    if (lists(list, words[i], strlen(words[i]), false)) continue;
    if (list->size) ommai_text_add(list, BETWEEN);
    ommai_text_add(list, words[i]);
  }
}

static int compare_words(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

/* The headers given and those that are always safe, in order. */
static void add_headers(struct ommai_text *list, const char *const *words, size_t n_words,
                        const struct omma_allocator *allocator) {
  size_t n_all = n_words + COUNT(SAFE_HEADERS);
  const char **all = ommai_allocate(allocator, n_all, sizeof *all);
  if (!all) {
    list->failed = true;
    return;
  }
  for (size_t i = 0; i < n_all; i++) all[i] = i < n_words ? words[i] : SAFE_HEADERS[i - n_words];
  qsort(all, n_all, sizeof *all, compare_words);
  add_words(list, all, n_all);
  ommai_release(allocator, all, n_all, sizeof *all);
}

/* Texts are handed to libmicrohttpd as C strings. */
static bool end_text(struct ommai_text *text) {
  if (text->failed || !ommai_text_reserve(text, 1)) return false;
  text->data[text->size] = '\0';
  return true;
}

enum omma_status ommai_cross_origin_take(const struct omma_cross_origin_options *options,
                                         const struct omma_allocator *allocator, struct ommai_cross_origin *rules,
                                         struct omma_error *error) {
  bool all_methods = has_star(options->methods, options->n_methods);
  *rules = (struct ommai_cross_origin){.origins = ommai_text_of(allocator),
                                       .methods = ommai_text_of(allocator),
                                       .headers = ommai_text_of(allocator),
                                       .enabled = options->n_origins > 0,
                                       .all_origins = has_star(options->origins, options->n_origins),
                                       .all_headers = has_star(options->headers, options->n_headers),
                                       .credentials = options->credentials};
  add_words(&rules->origins, options->origins, options->n_origins);
  add_words(&rules->methods, all_methods ? ALL_METHODS : options->methods,
            all_methods ? COUNT(ALL_METHODS) : options->n_methods);
  add_headers(&rules->headers, options->headers, options->n_headers, allocator);
  if (end_text(&rules->origins) && end_text(&rules->methods) && end_text(&rules->headers)) return OMMA_OK;
  return ommai_fail_memory(error, "rules for other origins", 1);
}

void ommai_cross_origin_free(struct ommai_cross_origin *rules) {
  ommai_text_free(&rules->origins);
  ommai_text_free(&rules->methods);
  ommai_text_free(&rules->headers);
}

bool ommai_cross_origin_is_preflight(const struct ommai_cross_origin *rules, struct MHD_Connection *mhd, const char *method) {
  return rules->enabled && !strcmp(method, MHD_HTTP_METHOD_OPTIONS) && header(mhd, ORIGIN) && header(mhd, REQUEST_METHOD);
}

static bool is_allowed_origin(const struct ommai_cross_origin *rules, const char *origin) {
  return rules->all_origins || lists(&rules->origins, origin, strlen(origin), false);
}

/* Whether all of "X-A, x-b" may be sent; capitals do not count. */
static bool are_allowed_headers(const struct ommai_cross_origin *rules, const char *asked) {
  if (!asked || rules->all_headers) return true;
  for (const char *at = asked;; at++) {
    at += strspn(at, " \t");
    size_t length = strcspn(at, ","), used = length;
    while (used && strchr(" \t", at[used - 1])) used--;
    if (!lists(&rules->headers, at, used, true)) return false;
    at += length;
    if (!*at) return true;
  }
}

int ommai_cross_origin_preflight(const struct ommai_cross_origin *rules, struct MHD_Connection *mhd, struct ommai_text *text) {
  const char *method = header(mhd, REQUEST_METHOD);
  const struct {
    const char *name;
    bool allowed;
  } checks[] = {{"origin", is_allowed_origin(rules, header(mhd, ORIGIN))},
                {"method", lists(&rules->methods, method, strlen(method), false)},
                {"headers", are_allowed_headers(rules, header(mhd, REQUEST_HEADERS))},
                {"private-network", !header(mhd, REQUEST_PRIVATE)}};
  size_t n_refused = 0;
  for (size_t i = 0; i < COUNT(checks); i++) {
    if (checks[i].allowed) continue;
    ommai_text_add(text, n_refused++ ? BETWEEN : "Disallowed CORS ");
    ommai_text_add(text, checks[i].name);
  }
  if (n_refused) return 400;
  ommai_text_add(text, "OK");
  return 200;
}

static void add_header(struct MHD_Response *response, const char *name, const char *value) {
  MHD_add_response_header(response, name, value);
}

/* Every page gets the same answer. */
static bool is_same_for_all(const struct ommai_cross_origin *rules) { return rules->all_origins && !rules->credentials; }

static void add_preflight(const struct ommai_cross_origin *rules, struct MHD_Connection *mhd, struct MHD_Response *response) {
  const char *asked = header(mhd, REQUEST_HEADERS), *listed = rules->all_headers ? asked : rules->headers.data;
  add_header(response, MHD_HTTP_HEADER_VARY, ORIGIN BETWEEN REQUEST_METHOD BETWEEN REQUEST_HEADERS BETWEEN REQUEST_PRIVATE);
  add_header(response, "Access-Control-Allow-Methods", rules->methods.data);
  add_header(response, "Access-Control-Max-Age", MAX_AGE);
  if (listed) add_header(response, "Access-Control-Allow-Headers", listed);
}

void ommai_cross_origin_add(const struct ommai_cross_origin *rules, struct MHD_Connection *mhd, bool preflight,
                            struct MHD_Response *response) {
  const char *origin = header(mhd, ORIGIN);
  if (!rules->enabled) return;
  if (preflight) {
    add_preflight(rules, mhd, response);
  } else if (!is_same_for_all(rules)) {
    add_header(response, MHD_HTTP_HEADER_VARY, ORIGIN);
  }
  if (!origin) return;
  if (is_same_for_all(rules)) {
    add_header(response, ALLOW_ORIGIN, "*");
  } else if (is_allowed_origin(rules, origin)) {
    add_header(response, ALLOW_ORIGIN, origin);
  }
  if (rules->credentials) add_header(response, "Access-Control-Allow-Credentials", "true");
}
