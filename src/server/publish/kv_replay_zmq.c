#include <errno.h>
#include <string.h>

#include "base/allocator.h"
#include "base/clock.h"
#include "base/error.h"
#include "server/publish/kv_events_config.h"
#include "server/publish/kv_replay.h"
#include "server/publish/kv_socket.h"

/* Messages of one call, so that the publisher goes on publishing meanwhile. */
#define MESSAGES_PER_CALL 256
#define STALL_NS INT64_C(1000000000)
/* Of a request: its longest frame, and how many of a client wait. */
#define MAX_FRAME_BYTES 256
#define MAX_WAITING_REQUESTS 64
#define END_OF_REPLAY UINT64_MAX

struct ommai_kv_replay {
  struct omma_allocator allocator;
  const struct ommai_kv_events_config *config;
  void *socket;
  zmq_msg_t *batches;              /* ring [buffer_steps], number n at n % buffer_steps */
  uint64_t first, end;             /* numbers that are kept, and the next one */
  size_t bytes;                    /* of these */
  uint8_t client[MAX_FRAME_BYTES]; /* who is served */
  size_t client_size;              /* 0: nobody */
  uint64_t next;                   /* what it gets next */
  int64_t deadline_ns;
};

enum omma_status ommai_kv_replay_create(void *context, const struct ommai_kv_events_config *config,
                                        const struct omma_allocator *allocator, struct ommai_kv_replay **out,
                                        struct omma_error *error) {
  struct ommai_kv_replay *replay = ommai_allocate(allocator, 1, sizeof *replay);
  if (!replay) return ommai_fail_memory(error, "KV events", sizeof *replay);
  replay->allocator = *allocator;
  replay->config = config;
  replay->batches = ommai_allocate_uninitialised(allocator, (size_t)config->buffer_steps, sizeof *replay->batches);
  enum omma_status status = OMMA_OK;
  if (!replay->batches) status = ommai_fail_memory(error, "KV events", (size_t)config->buffer_steps * sizeof *replay->batches);
  const struct ommai_kv_socket_option options[] = {
      {ZMQ_ROUTER_MANDATORY, 1}, {ZMQ_RCVHWM, MAX_WAITING_REQUESTS}, {ZMQ_MAXMSGSIZE, MAX_FRAME_BYTES}};
  if (status == OMMA_OK) {
    status = ommai_kv_socket_open(context, ZMQ_ROUTER, options, sizeof options / sizeof options[0], config->replay_endpoint,
                                  true, &replay->socket, error);
  }
  if (status != OMMA_OK) {
    ommai_kv_replay_destroy(replay);
    return status;
  }
  *out = replay;
  return OMMA_OK;
}

static zmq_msg_t *batch_at(const struct ommai_kv_replay *replay, uint64_t number) {
  return &replay->batches[number % (uint64_t)replay->config->buffer_steps];
}

static void release_first(struct ommai_kv_replay *replay) {
  zmq_msg_t *batch = batch_at(replay, replay->first++);
  replay->bytes -= zmq_msg_size(batch);
  zmq_msg_close(batch);
}

void ommai_kv_replay_destroy(struct ommai_kv_replay *replay) {
  if (!replay) return;
  struct omma_allocator allocator = replay->allocator;
  while (replay->first < replay->end) release_first(replay);
  if (replay->socket) zmq_close(replay->socket);
  ommai_release(&allocator, replay->batches, (size_t)replay->config->buffer_steps, sizeof *replay->batches);
  ommai_release(&allocator, replay, 1, sizeof *replay);
}

void ommai_kv_replay_keep(struct ommai_kv_replay *replay, zmq_msg_t *batch) {
  size_t size = zmq_msg_size(batch);
  while (replay->first < replay->end && (replay->end - replay->first == (uint64_t)replay->config->buffer_steps ||
                                         replay->bytes + size > OMMAI_KV_REPLAY_BYTES)) {
    release_first(replay);
  }
  zmq_msg_t *kept = batch_at(replay, replay->end++);
  zmq_msg_init(kept);
  zmq_msg_copy(kept, batch);
  replay->bytes += size;
}

void *ommai_kv_replay_socket(const struct ommai_kv_replay *replay) { return replay->socket; }

/* ---- requests ---- */

/* Takes the next frame; false: there is none. Its bytes go to out where they fit. */
static bool take_frame(void *socket, uint8_t *out, size_t room, size_t *size, bool *more) {
  zmq_msg_t frame;
  zmq_msg_init(&frame);
  bool taken = zmq_msg_recv(&frame, socket, ZMQ_DONTWAIT) >= 0;
  if (taken) {
    *size = zmq_msg_size(&frame);
    *more = zmq_msg_more(&frame);
    if (*size <= room) memcpy(out, zmq_msg_data(&frame), *size);
  }
  zmq_msg_close(&frame);
  return taken;
}

/* Three frames: who asks, an empty one, the first number in 8 bytes. What has another form is
 * answered with the end alone where it can be known who asked for what, else not at all. False: no
 * request waits. */
static bool take_request(struct ommai_kv_replay *replay) {
  uint8_t number[sizeof replay->next], nothing[1];
  size_t size, n_frames = 1, empty = 1;
  bool more;
  if (!take_frame(replay->socket, replay->client, sizeof replay->client, &replay->client_size, &more)) return false;
  for (size = 0; more; n_frames++) {
    bool second = n_frames == 1;
    size_t *where = second ? &empty : &size;
    if (!take_frame(replay->socket, second ? nothing : number, second ? sizeof nothing : sizeof number, where, &more)) break;
  }
  if (n_frames != 3 || empty != 0 || replay->client_size > sizeof replay->client) replay->client_size = 0;
  replay->next = 0;
  for (size_t i = 0; size == sizeof number && i < sizeof number; i++) replay->next = replay->next << 8 | number[i];
  if (size != sizeof number) replay->next = END_OF_REPLAY;
  replay->deadline_ns = ommai_clock_ns() + STALL_NS;
  return true;
}

/* ---- replies ---- */

/* The batch, or the end where it is NULL. 0: done, -1: errno states why not. */
static int send_batch(struct ommai_kv_replay *replay, uint64_t number, zmq_msg_t *batch) {
  uint8_t bytes[sizeof number];
  const char *topic = batch ? replay->config->topic : "";
  zmq_msg_t copy;
  ommai_kv_socket_number(number, bytes);
  if (zmq_send(replay->socket, replay->client, replay->client_size, ZMQ_DONTWAIT | ZMQ_SNDMORE) < 0) return -1;
  zmq_send(replay->socket, "", 0, ZMQ_SNDMORE);
  zmq_send(replay->socket, topic, strlen(topic), ZMQ_SNDMORE);
  zmq_send(replay->socket, bytes, sizeof bytes, ZMQ_SNDMORE);
  zmq_msg_init(&copy);
  if (batch) zmq_msg_copy(&copy, batch);
  if (zmq_msg_send(&copy, replay->socket, 0) < 0) zmq_msg_close(&copy);
  return 0;
}

/* One message to who is served, who is let go at the end or when it is gone or stalls for too
 * long. */
static enum ommai_kv_replay_state serve(struct ommai_kv_replay *replay) {
  if (replay->next < replay->first) replay->next = replay->first;
  bool is_end = replay->next >= replay->end;
  int failed = send_batch(replay, is_end ? END_OF_REPLAY : replay->next, is_end ? NULL : batch_at(replay, replay->next));
  if (failed && errno == EAGAIN && ommai_clock_ns() < replay->deadline_ns) return OMMAI_KV_REPLAY_STALLED;
  if (failed || is_end) replay->client_size = 0;
  replay->next++;
  replay->deadline_ns = ommai_clock_ns() + STALL_NS;
  return OMMAI_KV_REPLAY_MORE;
}

enum ommai_kv_replay_state ommai_kv_replay_advance(struct ommai_kv_replay *replay) {
  for (int i = 0; i < MESSAGES_PER_CALL; i++) {
    if (!replay->client_size) return take_request(replay) ? OMMAI_KV_REPLAY_MORE : OMMAI_KV_REPLAY_IDLE;
    enum ommai_kv_replay_state state = serve(replay);
    if (state == OMMAI_KV_REPLAY_STALLED) return state;
  }
  return OMMAI_KV_REPLAY_MORE;
}
