/* One request from beginning to end, on top of the client for many. */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/growing.h"
#include "bench_client/http_client.h"

#define MAX_BYTES ((size_t)64 << 20)

struct fetch {
  const struct omma_allocator *allocator;
  char *body;
  size_t size, capacity;
  int status;
  bool ended;
};

static bool append(struct fetch *fetch, const char *bytes, size_t size) {
  if (fetch->size + size > MAX_BYTES) return false;
  if (!ommai_grow((void **)&fetch->body, &fetch->capacity, fetch->size, size, 1, fetch->allocator)) return false;
  memcpy(fetch->body + fetch->size, bytes, size);
  fetch->size += size;
  return true;
}

static bool take_data(void *context, int status, const char *bytes, size_t size) {
  (void)status;
  return append(context, bytes, size);
}

static void take_end(void *context, const struct ommai_http_end *end) {
  struct fetch *fetch = context;
  fetch->ended = true;
  fetch->status = end->failure ? 0 : end->status;
  if (!end->failure) return;
  fetch->size = 0;
  append(fetch, end->failure, strlen(end->failure));
}

enum omma_status ommai_http_fetch(struct ommai_http *http, const struct ommai_http_request *request,
                                  const struct omma_allocator *allocator, int *status, char **body, size_t *size,
                                  struct omma_error *error) {
  struct fetch fetch = {.allocator = allocator};
  struct ommai_http_request own = *request;
  own.timeout_seconds = OMMAI_FETCH_SECONDS;
  own.on_data = take_data;
  own.on_end = take_end;
  own.context = &fetch;
  enum omma_status result = ommai_http_send(http, &own, error);
  double slow = request->on_slow ? ommai_clock_seconds() + OMMAI_FETCH_SLOW_SECONDS : INFINITY;
  while (result == OMMA_OK && !fetch.ended) {
    result = ommai_http_wait(http, slow, -1, error);
    if (fetch.ended || ommai_clock_seconds() < slow) continue;
    request->on_slow(request->url);
    slow = INFINITY;
  }
  *status = fetch.status;
  *size = fetch.size;
  *body = result == OMMA_OK ? ommai_duplicate(allocator, fetch.body ? fetch.body : "", fetch.size) : NULL;
  ommai_release(allocator, fetch.body, fetch.capacity, 1);
  if (result == OMMA_OK && !*body) result = ommai_fail_memory(error, request->url, fetch.size);
  return result;
}
