/* Parsing that notices when memory runs out.
 *
 * jansson (2.14) drops a character of a long token in silence where the buffer for it cannot grow,
 * and takes other failed allocations for wrong JSON. Its hooks have no argument, so what they see
 * is kept in a mark of the thread; they pass every call on to the functions that were there
 * before, the C library's or a host program's. */
#include <pthread.h>

#include "base/json.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static json_malloc_t next_malloc;
static json_free_t next_free;
static _Thread_local bool failed;

static void *marking_malloc(size_t size) {
  void *memory = next_malloc(size);
  if (!memory) failed = true;
  return memory;
}

static void put_hooks(void) {
  json_get_alloc_funcs(&next_malloc, &next_free);
  json_set_alloc_funcs(marking_malloc, next_free);
}

json_t *ommai_json_parse(const char *text, size_t size, size_t flags, json_error_t *reason, bool *no_memory) {
  pthread_once(&once, put_hooks);
  failed = false;
  json_t *document = json_loadb(text, size, flags, reason);
  *no_memory = failed;
  if (!failed) return document;
  json_decref(document);
  return NULL;
}
