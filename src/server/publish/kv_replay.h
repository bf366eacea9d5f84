/* Published batches that are kept, and sent again to whoever asks. Used by the publisher's thread
 * alone, once it is made. */
#pragma once

#include <omma/host.h>
#include <omma/status.h>
#include <zmq.h>

struct ommai_kv_events_config;
struct ommai_kv_replay;

/* Of all batches that are kept; the oldest go first, also where buffer_steps would keep them. */
#define OMMAI_KV_REPLAY_BYTES ((size_t)256 << 20)

/* Listens at config->replay_endpoint; config and context must live as long as it. Errors: IO,
 * MEMORY. */
enum omma_status ommai_kv_replay_create(void *context, const struct ommai_kv_events_config *config,
                                        const struct omma_allocator *allocator, struct ommai_kv_replay **replay,
                                        struct omma_error *error);
/* NULL is allowed. */
void ommai_kv_replay_destroy(struct ommai_kv_replay *replay);

/* Keeps another reference to the batch with the next number, from 0 on. */
void ommai_kv_replay_keep(struct ommai_kv_replay *replay, zmq_msg_t *batch);

void *ommai_kv_replay_socket(const struct ommai_kv_replay *replay);

/* IDLE: nobody asks; MORE: call again at once; STALLED: who asked does not read, call again
 * soon. */
enum ommai_kv_replay_state { OMMAI_KV_REPLAY_IDLE, OMMAI_KV_REPLAY_MORE, OMMAI_KV_REPLAY_STALLED };

/* Reads a request or sends some batches, without waiting. What is kept until the next call belongs
 * to the replay of a request that was read. Requests are served one after the other; who reads
 * nothing for a second loses the rest. */
enum ommai_kv_replay_state ommai_kv_replay_advance(struct ommai_kv_replay *replay);
