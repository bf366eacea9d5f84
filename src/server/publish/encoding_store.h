/* Outputs of the tower that replicas share through Redis or Valkey: omma_encoding_store over the
 * network.
 *
 * A value is a safetensors file in memory with one tensor, whose header names its size and carries
 * a hash of its bytes; anything else under a key, truncated or foreign, is taken for nothing.
 * Requests wait for the store for a bounded time, and after an error it is left alone for a while,
 * so that a store that is slow, full or gone costs little more than encoding. Keeping is done by a
 * thread of its own. */
#pragma once

#include <omma/omma.h>

#include "server/core/log_line.h"

struct ommai_encoding_store;

/* url: redis://[[USER]:PASSWORD@]HOST[:PORT][/DATABASE] or unix://[[USER]:PASSWORD@]PATH, then "?"
 * and settings with "&" between: ttl=SECONDS until a value is forgotten (0: never, the default),
 * timeout=MILLISECONDS that a request may wait (500). Nothing is connected yet. The log gets a line
 * when the store begins to fail and when it answers again. Errors: ARGUMENT (field
 * "encoder_cache_url"), UNSUPPORTED in a build without hiredis, MEMORY. */
enum omma_status ommai_encoding_store_create(const char *url, const struct ommai_log *log,
                                             const struct omma_allocator *allocator, struct ommai_encoding_store **store,
                                             struct omma_error *error);
/* Waits for what is being sent, for the timeout at most, and for a name that is being looked up;
 * what waits behind it is dropped. NULL is allowed. */
void ommai_encoding_store_destroy(struct ommai_encoding_store *store);

/* What an engine is given. The store must live as long as the engine. */
struct omma_encoding_store ommai_encoding_store_interface(struct ommai_encoding_store *store);
