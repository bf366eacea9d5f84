/* In a build without ZeroMQ or msgpack. */
#include "base/error.h"
#include "server/publish/kv_events_config.h"
#include "server/publish/kv_publisher.h"

enum omma_status ommai_kv_publisher_create(const char *config, const struct omma_allocator *allocator,
                                           struct ommai_kv_publisher **publisher, struct omma_error *error) {
  struct ommai_kv_events_config parsed;
  (void)allocator;
  *publisher = NULL;
  OMMAI_TRY(ommai_kv_events_config_parse(config, &parsed, error));
  if (!parsed.enabled) return OMMA_OK;
  return ommai_fail_field(error, OMMA_ERROR_UNSUPPORTED, "kv_events_config",
                          "this program was built without KV events: install ZeroMQ and msgpack for C (Debian: libzmq3-dev "
                          "libmsgpack-dev) and build again");
}

void ommai_kv_publisher_destroy(struct ommai_kv_publisher *publisher) { (void)publisher; }

void ommai_kv_publisher_interfaces(struct ommai_kv_publisher *publisher, int n_engines, struct omma_kv_events *events) {
  (void)publisher;
  for (int i = 0; i < n_engines; i++) events[i] = (struct omma_kv_events){0};
}

const char *ommai_kv_publisher_address(const struct ommai_kv_publisher *publisher) {
  (void)publisher;
  return "";
}

void ommai_kv_publisher_counts(const struct ommai_kv_publisher *publisher, int64_t *n_batches, int64_t *n_lost) {
  (void)publisher;
  *n_batches = *n_lost = 0;
}
