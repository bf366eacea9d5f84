/* Events of the KV cache in the form of vLLM 0.32's EventBatch, as msgpack: [time, [events], rank],
 * each event a map whose key "type" names it. */
#pragma once

#include <stddef.h>

#include "server/publish/kv_event_queue.h"

/* One batch, at `seconds` since 1970: where cleared, AllBlocksCleared first; pages of a prompt that
 * follow on each other are one BlockStored. A hash is the last 64 bits of a page's key as a
 * number, an image is named by its key in hexadecimal digits. *data is for free(). False: no
 * memory. */
bool ommai_kv_event_message(const struct ommai_kv_event *events, bool cleared, int rank, double seconds, char **data,
                            size_t *size);
