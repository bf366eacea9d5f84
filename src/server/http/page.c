#include "server/http/page.h"

#include <microhttpd.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "base/allocator.h"
#include "base/assert.h"
#include "base/error.h"
#include "server/http/endpoints.h"
#include "server/http/page_file.h"
#include "server/state/server_state.h"

static void hash(const void *data, size_t size, char out[OMMAI_PAGE_HASH_SIZE]) {
  unsigned char bytes[crypto_hash_sha256_BYTES];
  crypto_hash_sha256(bytes, data, size);
  sodium_bin2base64(out, OMMAI_PAGE_HASH_SIZE, bytes, sizeof bytes, sodium_base64_VARIANT_ORIGINAL);
}

/* Hashes what stands between two tags, as browsers do. The page, which is compiled in, has both. */
static void hash_element(const char *begin, const char *end, char out[OMMAI_PAGE_HASH_SIZE]) {
  const char *page = (const char *)ommai_page_file;
  const char *from = memmem(page, ommai_page_file_size, begin, strlen(begin));
  OMMAI_ASSERT(from);
  from += strlen(begin);
  const char *to = memmem(from, ommai_page_file_size - (size_t)(from - page), end, strlen(end));
  OMMAI_ASSERT(to);
  hash(from, (size_t)(to - from), out);
}

enum omma_status ommai_page_create(const struct omma_allocator *allocator, struct ommai_page **page, struct omma_error *error) {
  char style[OMMAI_PAGE_HASH_SIZE], script[OMMAI_PAGE_HASH_SIZE], whole[OMMAI_PAGE_HASH_SIZE];
  hash_element("<style>", "</style>", style);
  hash_element("<script>", "</script>", script);
  struct ommai_page *made = ommai_allocate(allocator, 1, sizeof *made);
  if (!made) return ommai_fail_memory(error, "page", sizeof *made);
  hash(ommai_page_file, ommai_page_file_size, whole);
  snprintf(made->etag, sizeof made->etag, "\"%s\"", whole);
  snprintf(
      made->policy, sizeof made->policy,
      "default-src 'none'; style-src 'sha256-%s'; script-src 'sha256-%s'; img-src blob: data:; connect-src 'self'; "
      "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
      style, script);
  const struct ommai_header headers[OMMAI_PAGE_HEADERS + 1] = {{"Content-Security-Policy", made->policy},
                                                               {MHD_HTTP_HEADER_ETAG, made->etag},
                                                               {MHD_HTTP_HEADER_CACHE_CONTROL, "no-cache"},
                                                               {"X-Content-Type-Options", "nosniff"},
                                                               {"Referrer-Policy", "no-referrer"}};
  memcpy(made->headers, headers, sizeof headers);
  *page = made;
  return OMMA_OK;
}

void ommai_page_destroy(struct ommai_page *page, const struct omma_allocator *allocator) {
  if (page) ommai_release(allocator, page, 1, sizeof *page);
}

bool ommai_page_is_known(const struct ommai_page *page, const char *if_none_match) {
  return if_none_match && (!strcmp(if_none_match, "*") || strstr(if_none_match, page->etag));
}

void ommai_endpoint_page(struct ommai_http_call *call) {
  const struct ommai_page *page = call->server->page;
  bool known =
      ommai_page_is_known(page, MHD_lookup_connection_value(call->mhd, MHD_HEADER_KIND, MHD_HTTP_HEADER_IF_NONE_MATCH));
  struct ommai_text body = ommai_text_of(call->allocator);
  if (!known) ommai_text_append(&body, (const char *)ommai_page_file, ommai_page_file_size);
  call->reply.headers = page->headers;
  ommai_http_call_reply(call, known ? 304 : 200, "text/html; charset=utf-8", &body);
}
