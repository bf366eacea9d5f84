/* Reports to routers what the prefix cache holds: KV events as vLLM publishes them, over ZeroMQ.
 *
 * A PUB socket sends batches of three frames: the topic, the batch's number in 8 bytes, big end
 * first, from 0 on without a gap, and the batch (kv_event_message.h). Batch 0 begins with
 * AllBlocksCleared; so does one after events were lost, or after an engine forgot all pages. With
 * several engines each has batches of its own, with its number as their rank. A ROUTER socket
 * replays: whoever sends an empty frame and a number in 8 bytes gets the batches that are kept from
 * that number on, then one numbered -1. A thread of its own does all of that; neither a subscriber
 * that does not read nor hostile requests slow the engine. */
#pragma once

#include <omma/omma.h>

struct ommai_kv_publisher;

/* config: the JSON of --kv-events-config. *publisher is NULL where it does not enable events.
 * Errors: FORMAT and ARGUMENT (field "kv_events_config"), IO (an endpoint cannot be had),
 * UNSUPPORTED in a build without ZeroMQ and msgpack, MEMORY. */
enum omma_status ommai_kv_publisher_create(const char *config, const struct omma_allocator *allocator,
                                           struct ommai_kv_publisher **publisher, struct omma_error *error);
/* What waits is published first. NULL is allowed. */
void ommai_kv_publisher_destroy(struct ommai_kv_publisher *publisher);

/* What n_engines in one are given: events[n_engines]. Called once. The publisher must live as long
 * as the engine. */
void ommai_kv_publisher_interfaces(struct ommai_kv_publisher *publisher, int n_engines, struct omma_kv_events *events);

/* "at tcp://0.0.0.0:5557, replayed at tcp://0.0.0.0:5558": where it really is. Lives with the
 * publisher. */
const char *ommai_kv_publisher_address(const struct ommai_kv_publisher *publisher);

/* Batches that were published, and events that no subscriber got. NULL is allowed: none.
 * Thread-safe. */
void ommai_kv_publisher_counts(const struct ommai_kv_publisher *publisher, int64_t *n_batches, int64_t *n_lost);
