#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

#include "base/allocator.h"
#include "base/error.h"
#include "server/publish/kv_event_message.h"
#include "server/publish/kv_event_queue.h"
#include "server/publish/kv_events_config.h"
#include "server/publish/kv_publisher.h"
#include "server/publish/kv_replay.h"
#include "server/publish/kv_socket.h"

#define EVENTS_PER_BATCH 1024
/* How long a replay whose reader is behind is left alone. */
#define STALL_MS 10
/* Of what subscribers send: their topics. */
#define MAX_SUBSCRIPTION_BYTES 4096

/* What an engine calls with. */
struct rank {
  struct ommai_kv_publisher *publisher;
  int number;
};

struct ommai_kv_publisher {
  struct omma_allocator allocator;
  struct ommai_kv_events_config config;
  struct ommai_kv_event_queue queue;
  struct rank ranks[OMMA_MAX_ENGINES];
  atomic_int n_ranks;
  int wake; /* an eventfd: there is something to do */
  void *context, *socket;
  struct ommai_kv_replay *replay; /* NULL: nothing is replayed */
  char address[3 * OMMAI_KV_EVENTS_TEXT];
  pthread_t thread;
  bool has_thread;
  atomic_bool stopping;
  atomic_int_least64_t n_batches; /* the next one's number */
};

/* ---- what an engine calls ---- */

static void wake(struct ommai_kv_publisher *publisher) {
  static const uint64_t one = 1;
  if (write(publisher->wake, &one, sizeof one) < 0) return; /* it is awake as it is */
}

static void stored(void *context, const struct omma_kv_page *page) {
  const struct rank *rank = context;
  if (ommai_kv_event_queue_store(&rank->publisher->queue, rank->number, page)) wake(rank->publisher);
}

static void removed(void *context, const struct omma_kv_page_key *key) {
  const struct rank *rank = context;
  if (ommai_kv_event_queue_remove(&rank->publisher->queue, rank->number, key)) wake(rank->publisher);
}

static void cleared(void *context) {
  const struct rank *rank = context;
  ommai_kv_event_queue_clear(&rank->publisher->queue);
  wake(rank->publisher);
}

void ommai_kv_publisher_interfaces(struct ommai_kv_publisher *publisher, int n_engines, struct omma_kv_events *events) {
  for (int i = 0; i < n_engines; i++) {
    publisher->ranks[i] = (struct rank){publisher, i};
    events[i] = (struct omma_kv_events){&publisher->ranks[i], stored, removed, cleared};
  }
  if (n_engines == 1) return;
  atomic_store(&publisher->n_ranks, n_engines);
  ommai_kv_event_queue_lose(&publisher->queue, NULL); /* what batch 0 says holds for all */
  wake(publisher);
}

/* ---- the thread ---- */

static double seconds_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void free_data(void *data, void *hint) {
  (void)hint;
  free(data);
}

static bool make_batch(const struct ommai_kv_event *events, bool cleared, int rank, zmq_msg_t *batch) {
  char *data;
  size_t size;
  if (!ommai_kv_event_message(events, cleared, rank, seconds_now(), &data, &size)) return false;
  if (zmq_msg_init_data(batch, data, size, free_data, NULL) == 0) return true;
  free(data);
  return false;
}

/* Subscribers that are behind by more than the high-water mark miss it: no call waits. */
static void publish(struct ommai_kv_publisher *publisher, zmq_msg_t *batch) {
  uint8_t number[8];
  const char *topic = publisher->config.topic;
  ommai_kv_socket_number((uint64_t)atomic_load(&publisher->n_batches), number);
  if (publisher->replay) ommai_kv_replay_keep(publisher->replay, batch);
  zmq_send(publisher->socket, topic, strlen(topic), ZMQ_SNDMORE);
  zmq_send(publisher->socket, number, sizeof number, ZMQ_SNDMORE);
  if (zmq_msg_send(batch, publisher->socket, 0) < 0) zmq_msg_close(batch);
  atomic_fetch_add(&publisher->n_batches, 1);
}

/* For all ranks but the one whose next batch says so itself. */
static bool publish_cleared(struct ommai_kv_publisher *publisher, int besides) {
  zmq_msg_t batch;
  for (int rank = 0; rank < atomic_load(&publisher->n_ranks); rank++) {
    if (rank == besides) continue;
    if (!make_batch(NULL, true, rank, &batch)) return false;
    publish(publisher, &batch);
  }
  return true;
}

/* A batch of what waits; false: nothing does. */
static bool publish_some(struct ommai_kv_publisher *publisher) {
  bool cleared;
  zmq_msg_t batch;
  struct ommai_kv_event *events = ommai_kv_event_queue_take(&publisher->queue, EVENTS_PER_BATCH, &cleared);
  if (!events && !cleared) return false;
  int rank = events ? events->rank : 0;
  bool made = (!cleared || publish_cleared(publisher, rank)) && make_batch(events, cleared, rank, &batch);
  if (made) publish(publisher, &batch);
  if (!made) ommai_kv_event_queue_lose(&publisher->queue, events);
  ommai_kv_events_free(&publisher->queue, events);
  return made;
}

static void wait_for_work(struct ommai_kv_publisher *publisher, enum ommai_kv_replay_state state) {
  static const int waits[] = {[OMMAI_KV_REPLAY_IDLE] = -1, [OMMAI_KV_REPLAY_MORE] = 0, [OMMAI_KV_REPLAY_STALLED] = STALL_MS};
  uint64_t count;
  zmq_pollitem_t items[] = {{.fd = publisher->wake, .events = ZMQ_POLLIN}, {.events = ZMQ_POLLIN}};
  bool replays = publisher->replay && state == OMMAI_KV_REPLAY_IDLE;
  if (replays) items[1].socket = ommai_kv_replay_socket(publisher->replay);
  if (zmq_poll(items, replays ? 2 : 1, waits[state]) > 0 && items[0].revents) {
    if (read(publisher->wake, &count, sizeof count) < 0) return;
  }
}

static void *publisher_main(void *argument) {
  struct ommai_kv_publisher *publisher = argument;
  enum ommai_kv_replay_state state = OMMAI_KV_REPLAY_IDLE;
  pthread_setname_np(pthread_self(), "omma-kv-events");
  for (;;) {
    bool stopping = atomic_load(&publisher->stopping);
    while (publish_some(publisher)) continue;
    if (stopping) return NULL;
    if (publisher->replay) state = ommai_kv_replay_advance(publisher->replay);
    wait_for_work(publisher, state);
  }
}

/* ---- its life ---- */

static enum omma_status open_sockets(struct ommai_kv_publisher *publisher, struct omma_error *error) {
  const struct ommai_kv_events_config *config = &publisher->config;
  const struct ommai_kv_socket_option options[] = {{ZMQ_SNDHWM, config->hwm}, {ZMQ_MAXMSGSIZE, MAX_SUBSCRIPTION_BYTES}};
  char address[OMMAI_KV_EVENTS_TEXT], replayed[OMMAI_KV_EVENTS_TEXT];
  bool binds = ommai_kv_events_config_binds(config->endpoint);
  publisher->context = zmq_ctx_new();
  if (!publisher->context) return ommai_fail_memory(error, "KV events", 0);
  OMMAI_TRY(ommai_kv_socket_open(publisher->context, ZMQ_PUB, options, sizeof options / sizeof options[0], config->endpoint,
                                 binds, &publisher->socket, error));
  ommai_kv_socket_address(publisher->socket, address, sizeof address);
  snprintf(publisher->address, sizeof publisher->address, binds ? "at %s" : "to %s, where the subscriber must listen", address);
  if (!config->replay_endpoint[0]) return OMMA_OK;
  OMMAI_TRY(ommai_kv_replay_create(publisher->context, config, &publisher->allocator, &publisher->replay, error));
  ommai_kv_socket_address(ommai_kv_replay_socket(publisher->replay), replayed, sizeof replayed);
  size_t length = strlen(publisher->address);
  snprintf(publisher->address + length, sizeof publisher->address - length, ", replayed at %s", replayed);
  return OMMA_OK;
}

static enum omma_status start(struct ommai_kv_publisher *publisher, struct omma_error *error) {
  publisher->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (publisher->wake < 0) return ommai_fail(error, OMMA_ERROR_IO, "KV events: %s", strerror(errno));
  OMMAI_TRY(open_sockets(publisher, error));
  publisher->has_thread = pthread_create(&publisher->thread, NULL, publisher_main, publisher) == 0;
  return publisher->has_thread ? OMMA_OK : ommai_fail(error, OMMA_ERROR_INTERNAL, "KV events: cannot start their thread");
}

enum omma_status ommai_kv_publisher_create(const char *config, const struct omma_allocator *allocator,
                                           struct ommai_kv_publisher **out, struct omma_error *error) {
  struct ommai_kv_events_config parsed;
  *out = NULL;
  OMMAI_TRY(ommai_kv_events_config_parse(config, &parsed, error));
  if (!parsed.enabled) return OMMA_OK;
  struct ommai_kv_publisher *publisher = ommai_allocate(allocator, 1, sizeof *publisher);
  if (!publisher) return ommai_fail_memory(error, "KV events", sizeof *publisher);
  publisher->allocator = *allocator;
  publisher->config = parsed;
  publisher->n_ranks = 1;
  ommai_kv_event_queue_init(&publisher->queue, parsed.max_queue_size, allocator);
  enum omma_status status = start(publisher, error);
  if (status != OMMA_OK) {
    ommai_kv_publisher_destroy(publisher);
    return status;
  }
  *out = publisher;
  return OMMA_OK;
}

void ommai_kv_publisher_destroy(struct ommai_kv_publisher *publisher) {
  if (!publisher) return;
  struct omma_allocator allocator = publisher->allocator;
  atomic_store(&publisher->stopping, true);
  if (publisher->has_thread) {
    wake(publisher);
    pthread_join(publisher->thread, NULL);
  }
  ommai_kv_replay_destroy(publisher->replay);
  if (publisher->socket) zmq_close(publisher->socket);
  if (publisher->context) zmq_ctx_term(publisher->context);
  if (publisher->wake >= 0) close(publisher->wake);
  ommai_kv_event_queue_free(&publisher->queue);
  ommai_release(&allocator, publisher, 1, sizeof *publisher);
}

const char *ommai_kv_publisher_address(const struct ommai_kv_publisher *publisher) { return publisher->address; }

void ommai_kv_publisher_counts(const struct ommai_kv_publisher *publisher, int64_t *n_batches, int64_t *n_lost) {
  *n_batches = publisher ? atomic_load(&publisher->n_batches) : 0;
  *n_lost = publisher ? ommai_kv_event_queue_lost(&publisher->queue) : 0;
}
