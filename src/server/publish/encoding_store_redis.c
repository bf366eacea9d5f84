/* The store in Redis or Valkey: connections and commands through hiredis, replies by our own
 * bounded reader. Calls of several threads have a connection each, of a few that are kept.
 *
 * Looking up a host's name and connecting to it, an address after the other, have no end that we
 * could set; a thread of its own does both, so that whoever wants a connection can stop waiting. */
#include <hiredis/hiredis.h>
#include <pthread.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "base/allocator.h"
#include "base/clock.h"
#include "base/error.h"
#include "server/publish/encoding_store.h"
#include "server/publish/encoding_value.h"
#include "server/publish/redis_reply.h"
#include "server/publish/redis_url.h"

#define MAX_KEPT_CONNECTIONS 8
/* Outputs that wait to be sent; what finds no room is dropped. */
#define MAX_QUEUE_BYTES (INT64_C(256) << 20)
/* After an error the store is left alone for this long, doubled with each one that follows. */
#define MIN_PAUSE_NS INT64_C(1000000000)
#define MAX_PAUSE_NS INT64_C(30000000000)
#define KEY_PREFIX "omma:encoding:"

enum { KEY_SIZE = sizeof KEY_PREFIX - 1 + 2 * sizeof(struct omma_encoding_key) };

/* A value that waits to be sent. */
struct outgoing {
  struct outgoing *next;
  char key[KEY_SIZE + 1];
  size_t n_values, size;
  char bytes[]; /* the values are there, the rest is made by the sender */
};

struct ommai_encoding_store {
  struct omma_allocator allocator;
  struct ommai_redis_url url;
  struct ommai_log log;
  pthread_t sender, connector;

  pthread_mutex_t lock; /* of all below */
  /* queued: there is a value, wanted: a connection is missing; connected: one was made, or it
   * failed */
  pthread_cond_t queued, wanted, connected;
  redisContext *kept[MAX_KEPT_CONNECTIONS];
  int n_kept, n_waiting;          /* threads that wait for a connection */
  int64_t pause_ns, pause_end_ns; /* pause_ns 0: it answers */
  struct outgoing *first, **last;
  int64_t queue_bytes;
  /* refuses: the last value was not taken, for example of a store that is full */
  bool stopping, refuses;
};

static void write_key(const struct omma_encoding_key *key, char out[KEY_SIZE + 1]) {
  memcpy(out, KEY_PREFIX, sizeof KEY_PREFIX - 1);
  sodium_bin2hex(out + sizeof KEY_PREFIX - 1, KEY_SIZE + 1 - (sizeof KEY_PREFIX - 1), key->bytes, sizeof key->bytes);
}

/* ---- whether it answers ---- */

/* Under the lock. `what` may be the store's own words. */
static void log_state(const struct ommai_encoding_store *store, const char *level, const char *what, const char *then) {
  if (!store->log.put) return;
  struct ommai_log_line line;
  ommai_log_line_begin(&line, &store->allocator, store->log.json, level, "encoder_cache");
  ommai_log_line_string(&line, "at", store->url.place);
  ommai_log_line_string(&line, "state", what);
  ommai_log_line_string(&line, "then", then);
  ommai_log_line_send(&line, &store->log);
}

static void note_failure(struct ommai_encoding_store *store, const char *what) {
  pthread_mutex_lock(&store->lock);
  if (!store->pause_ns) log_state(store, "error", what, "images are encoded here until it answers");
  store->pause_ns = store->pause_ns ? 2 * store->pause_ns : MIN_PAUSE_NS;
  if (store->pause_ns > MAX_PAUSE_NS) store->pause_ns = MAX_PAUSE_NS;
  store->pause_end_ns = ommai_clock_ns() + store->pause_ns;
  pthread_mutex_unlock(&store->lock);
}

static void note_success(struct ommai_encoding_store *store) {
  pthread_mutex_lock(&store->lock);
  if (store->pause_ns) log_state(store, "info", "it answers", "images are shared again");
  store->pause_ns = 0;
  pthread_mutex_unlock(&store->lock);
}

/* ---- connections ---- */

static struct timeval left_until(int64_t deadline_ns) {
  int64_t left = (deadline_ns - ommai_clock_ns()) / 1000;
  if (left < 1) left = 1; /* 0 would be no limit */
  return (struct timeval){.tv_sec = left / 1000000, .tv_usec = left % 1000000};
}

/* Room for a reply with a value of `room` bytes. */
static char *make_buffer(const struct ommai_encoding_store *store, size_t room) {
  return ommai_allocate_uninitialised(&store->allocator, room + OMMAI_REDIS_LINE, 1);
}

static void free_buffer(const struct ommai_encoding_store *store, char *buffer, size_t room) {
  ommai_release(&store->allocator, buffer, room + OMMAI_REDIS_LINE, 1);
}

/* One call: sends what was appended and waits for its reply, whose value has `room` bytes at most,
 * until the deadline. NULL, or what is the matter: the connection is of no use any more then. */
static const char *call(redisContext *connection, char *buffer, size_t room, int64_t deadline_ns,
                        struct ommai_redis_reply *reply) {
  int sent = 0;
  while (!sent) {
    if (ommai_clock_ns() >= deadline_ns) return "it does not take what is sent in time";
    if (redisSetTimeout(connection, left_until(deadline_ns)) != REDIS_OK || redisBufferWrite(connection, &sent) != REDIS_OK)
      return connection->errstr;
  }
  return ommai_redis_reply_receive(connection->fd, buffer, room, deadline_ns, reply);
}

/* A call whose reply is OK or an error of which only that it is one matters. */
static bool call_ok(redisContext *connection, int64_t deadline_ns) {
  char buffer[OMMAI_REDIS_LINE];
  struct ommai_redis_reply reply;
  return !call(connection, buffer, 0, deadline_ns, &reply) && reply.kind == OMMAI_REDIS_STATUS;
}

/* Who we are, and which database. */
static bool introduce(const struct ommai_redis_url *url, redisContext *connection, int64_t deadline_ns) {
  if (url->user[0]) {
    redisAppendCommand(connection, "AUTH %s %s", url->user, url->password);
  } else if (url->password[0]) {
    redisAppendCommand(connection, "AUTH %s", url->password);
  }
  if (url->password[0] && !call_ok(connection, deadline_ns)) return false;
  if (url->database == 0) return true;
  redisAppendCommand(connection, "SELECT %lld", (long long)url->database);
  return call_ok(connection, deadline_ns);
}

static redisContext *connect_new(struct ommai_encoding_store *store, int64_t deadline_ns) {
  const struct ommai_redis_url *url = &store->url;
  struct timeval left = left_until(deadline_ns);
  redisContext *connection =
      url->is_unix ? redisConnectUnixWithTimeout(url->place, left) : redisConnectWithTimeout(url->place, url->port, left);
  if (connection && !connection->err && introduce(url, connection, deadline_ns)) return connection;
  note_failure(store, !connection       ? "out of memory"
                      : connection->err ? connection->errstr
                                        : "the password or database is refused");
  if (connection) redisFree(connection);
  return NULL;
}

static int64_t deadline_of(const struct ommai_encoding_store *store) {
  return ommai_clock_ns() + store->url.timeout_ms * 1000000;
}

/* Under the lock. */
static bool is_left_alone(const struct ommai_encoding_store *store) {
  return store->stopping || (store->pause_ns && ommai_clock_ns() < store->pause_end_ns);
}

/* Makes connections for those who wait for one. */
static void *connector_main(void *argument) {
  struct ommai_encoding_store *store = argument;
  pthread_mutex_lock(&store->lock);
  while (!store->stopping) {
    if (store->n_waiting <= store->n_kept || is_left_alone(store)) {
      pthread_cond_wait(&store->wanted, &store->lock);
      continue;
    }
    pthread_mutex_unlock(&store->lock);
    redisContext *connection = connect_new(store, deadline_of(store));
    pthread_mutex_lock(&store->lock);
    if (connection && store->n_kept < MAX_KEPT_CONNECTIONS) {
      store->kept[store->n_kept++] = connection;
    } else if (connection) {
      redisFree(connection);
    }
    pthread_cond_broadcast(&store->connected);
  }
  pthread_mutex_unlock(&store->lock);
  return NULL;
}

/* A connection to use, or NULL: the store does not answer, or is left alone. */
static redisContext *take_connection(struct ommai_encoding_store *store, int64_t deadline_ns) {
  const struct timespec end = ommai_clock_timespec(deadline_ns);
  bool late = false;
  pthread_mutex_lock(&store->lock);
  store->n_waiting++;
  while (!store->n_kept && !late && !is_left_alone(store)) {
    pthread_cond_signal(&store->wanted);
    late = pthread_cond_timedwait(&store->connected, &store->lock, &end) != 0;
  }
  store->n_waiting--;
  redisContext *connection = store->n_kept && !is_left_alone(store) ? store->kept[--store->n_kept] : NULL;
  pthread_mutex_unlock(&store->lock);
  if (!connection && late) note_failure(store, "no connection in time");
  return connection;
}

static void give_back(struct ommai_encoding_store *store, redisContext *connection, bool usable) {
  if (usable) {
    pthread_mutex_lock(&store->lock);
    if (store->n_kept < MAX_KEPT_CONNECTIONS) {
      store->kept[store->n_kept++] = connection;
      connection = NULL;
    }
    pthread_mutex_unlock(&store->lock);
  }
  if (connection) redisFree(connection);
}

/* ---- what an engine calls ---- */

/* Whether the store has the value, with the connection and the buffer at hand. */
static bool look_up(struct ommai_encoding_store *store, const struct omma_encoding_key *key, redisContext *connection,
                    char *buffer, size_t size, int64_t deadline_ns, struct ommai_redis_reply *reply) {
  char name[KEY_SIZE + 1];
  write_key(key, name);
  /* At most one byte more than there should be. */
  redisAppendCommand(connection, "GETRANGE %s 0 %lld", name, (long long)size);
  const char *failure = call(connection, buffer, size + 1, deadline_ns, reply);
  char error[OMMAI_REDIS_LINE];
  if (!failure && reply->kind != OMMAI_REDIS_VALUE) {
    snprintf(error, sizeof error, "%.*s", (int)reply->size, reply->data);
    note_failure(store, error);
  } else if (failure) {
    note_failure(store, failure);
  } else {
    note_success(store);
  }
  return !failure;
}

static bool find(void *context, const struct omma_encoding_key *key, float *values, size_t n_values) {
  struct ommai_encoding_store *store = context;
  int64_t deadline_ns = deadline_of(store);
  size_t size = ommai_encoding_value_size(n_values);
  redisContext *connection = take_connection(store, deadline_ns);
  if (!connection) return false;
  struct ommai_redis_reply reply = {.kind = OMMAI_REDIS_FOREIGN};
  char *buffer = make_buffer(store, size + 1);
  bool usable = buffer && look_up(store, key, connection, buffer, size, deadline_ns, &reply);
  bool found = usable && reply.kind == OMMAI_REDIS_VALUE && ommai_encoding_value_read(reply.data, reply.size, values, n_values);
  free_buffer(store, buffer, size + 1);
  give_back(store, connection, usable || !buffer);
  return found;
}

static void keep(void *context, const struct omma_encoding_key *key, const float *values, size_t n_values) {
  struct ommai_encoding_store *store = context;
  size_t size = ommai_encoding_value_size(n_values);
  pthread_mutex_lock(&store->lock);
  bool room = !store->stopping && !store->pause_ns && store->queue_bytes + (int64_t)size <= MAX_QUEUE_BYTES;
  pthread_mutex_unlock(&store->lock);
  struct outgoing *value = room ? ommai_allocate_uninitialised(&store->allocator, sizeof *value + size, 1) : NULL;
  if (!value) return;
  value->next = NULL;
  value->n_values = n_values;
  value->size = size;
  write_key(key, value->key);
  memcpy(ommai_encoding_value_data(value->bytes), values, n_values * sizeof *values);
  pthread_mutex_lock(&store->lock);
  *store->last = value;
  store->last = &value->next;
  store->queue_bytes += (int64_t)size;
  pthread_cond_signal(&store->queued);
  pthread_mutex_unlock(&store->lock);
}

/* ---- the sender ---- */

/* A store that takes no more can still be read: it is not left alone. */
static void note_refusal(struct ommai_encoding_store *store, const char *what) {
  pthread_mutex_lock(&store->lock);
  if (what && !store->refuses) log_state(store, "error", what, "new images are not shared until it takes them");
  store->refuses = what != NULL;
  pthread_mutex_unlock(&store->lock);
}

static void send_value(struct ommai_encoding_store *store, struct outgoing *value) {
  int64_t deadline_ns = deadline_of(store);
  redisContext *connection = take_connection(store, deadline_ns);
  if (!connection) return;
  ommai_encoding_value_seal(value->bytes, value->n_values);
  if (store->url.ttl_seconds) {
    redisAppendCommand(connection, "SET %s %b EX %lld", value->key, value->bytes, value->size,
                       (long long)store->url.ttl_seconds);
  } else {
    redisAppendCommand(connection, "SET %s %b", value->key, value->bytes, value->size);
  }
  char buffer[OMMAI_REDIS_LINE], error[OMMAI_REDIS_LINE];
  struct ommai_redis_reply reply;
  const char *failure = call(connection, buffer, 0, deadline_ns, &reply);
  if (!failure) {
    note_success(store);
    snprintf(error, sizeof error, "%.*s", (int)reply.size, reply.data);
    note_refusal(store, reply.kind == OMMAI_REDIS_STATUS ? NULL : error);
  } else {
    note_failure(store, failure);
  }
  give_back(store, connection, !failure);
}

/* Waits for a value and takes it out of the queue; NULL at the end. */
static struct outgoing *next_value(struct ommai_encoding_store *store) {
  pthread_mutex_lock(&store->lock);
  while (!store->first && !store->stopping) pthread_cond_wait(&store->queued, &store->lock);
  struct outgoing *value = store->stopping ? NULL : store->first;
  if (value) {
    store->first = value->next;
    if (!store->first) store->last = &store->first;
    store->queue_bytes -= (int64_t)value->size;
  }
  pthread_mutex_unlock(&store->lock);
  return value;
}

static void free_value(struct ommai_encoding_store *store, struct outgoing *value) {
  ommai_release(&store->allocator, value, sizeof *value + value->size, 1);
}

static void *sender_main(void *argument) {
  struct ommai_encoding_store *store = argument;
  struct outgoing *value;
  while ((value = next_value(store))) {
    send_value(store, value);
    free_value(store, value);
  }
  return NULL;
}

/* ---- its life ---- */

/* Ends the first n of its two threads, and frees all. */
static void end_store(struct ommai_encoding_store *store, int n_threads) {
  const pthread_t threads[] = {store->sender, store->connector};
  pthread_mutex_lock(&store->lock);
  store->stopping = true;
  pthread_cond_broadcast(&store->queued);
  pthread_cond_broadcast(&store->wanted);
  pthread_cond_broadcast(&store->connected);
  pthread_mutex_unlock(&store->lock);
  for (int i = 0; i < n_threads; i++) pthread_join(threads[i], NULL);
  while (store->first) {
    struct outgoing *value = store->first;
    store->first = value->next;
    free_value(store, value);
  }
  while (store->n_kept) redisFree(store->kept[--store->n_kept]);
  pthread_cond_destroy(&store->queued);
  pthread_cond_destroy(&store->wanted);
  pthread_cond_destroy(&store->connected);
  pthread_mutex_destroy(&store->lock);
  sodium_memzero(store->url.password, sizeof store->url.password);
  struct omma_allocator allocator = store->allocator;
  ommai_release(&allocator, store, 1, sizeof *store);
}

enum omma_status ommai_encoding_store_create(const char *url, const struct ommai_log *log,
                                             const struct omma_allocator *allocator, struct ommai_encoding_store **out,
                                             struct omma_error *error) {
  struct ommai_redis_url parsed;
  OMMAI_TRY(ommai_redis_url_parse(url, &parsed, error));
  struct ommai_encoding_store *store = ommai_allocate(allocator, 1, sizeof *store);
  if (!store) return ommai_fail_memory(error, "encoder cache", sizeof *store);
  store->allocator = *allocator;
  store->url = parsed;
  store->log = *log;
  store->last = &store->first;
  pthread_mutex_init(&store->lock, NULL);
  ommai_clock_condition_init(&store->queued);
  ommai_clock_condition_init(&store->wanted);
  ommai_clock_condition_init(&store->connected);
  int n_threads = 0;
  if (pthread_create(&store->sender, NULL, sender_main, store) == 0) n_threads++;
  if (n_threads && pthread_create(&store->connector, NULL, connector_main, store) == 0) n_threads++;
  if (n_threads < 2) {
    end_store(store, n_threads);
    return ommai_fail(error, OMMA_ERROR_INTERNAL, "encoder cache: cannot start its threads");
  }
  *out = store;
  return OMMA_OK;
}

void ommai_encoding_store_destroy(struct ommai_encoding_store *store) {
  if (store) end_store(store, 2);
}

struct omma_encoding_store ommai_encoding_store_interface(struct ommai_encoding_store *store) {
  return (struct omma_encoding_store){store, find, keep};
}
