/* In a build without hiredis. */
#include "base/error.h"
#include "server/publish/encoding_store.h"

enum omma_status ommai_encoding_store_create(const char *url, const struct ommai_log *log,
                                             const struct omma_allocator *allocator, struct ommai_encoding_store **store,
                                             struct omma_error *error) {
  (void)url;
  (void)log;
  (void)allocator;
  (void)store;
  return ommai_fail_field(
      error, OMMA_ERROR_UNSUPPORTED, "encoder_cache_url",
      "this program was built without a client for Redis: install hiredis (Debian: libhiredis-dev) and build "
      "again");
}

void ommai_encoding_store_destroy(struct ommai_encoding_store *store) { (void)store; }

struct omma_encoding_store ommai_encoding_store_interface(struct ommai_encoding_store *store) {
  (void)store;
  return (struct omma_encoding_store){0};
}
