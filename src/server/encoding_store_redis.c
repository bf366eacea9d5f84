/* The store in Redis or Valkey, through hiredis. Calls of several threads have a connection each,
 * of a few that are kept. */
#include <hiredis/hiredis.h>
#include <pthread.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "base/allocator.h"
#include "base/clock.h"
#include "base/error.h"
#include "server/encoding_store.h"
#include "server/encoding_value.h"
#include "server/redis_url.h"

#define MAX_KEPT_CONNECTIONS 8
/* Outputs that wait to be sent; what finds no room is dropped. */
#define MAX_QUEUE_BYTES (INT64_C(256) << 20)
/* After an error the store is left alone for this long, doubled with each one that follows. */
#define MIN_PAUSE_NS INT64_C(1000000000)
#define MAX_PAUSE_NS INT64_C(30000000000)
/* What a reply may have besides a value. */
#define REPLY_ROOM 4096
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
  pthread_t thread;

  pthread_mutex_t lock; /* of all below */
  pthread_cond_t changed;
  redisContext *kept[MAX_KEPT_CONNECTIONS];
  int n_kept;
  int64_t pause_ns, pause_end_ns; /* pause_ns 0: it answers */
  struct outgoing *first, **last;
  int64_t queue_bytes;
  /* refuses: the last value was not taken, for example of a store that is full */
  bool stopping, refuses;
  void (*log)(void *context, const char *line);
  void *log_context;
};

static void write_key(const struct omma_encoding_key *key, char out[KEY_SIZE + 1]) {
  memcpy(out, KEY_PREFIX, sizeof KEY_PREFIX - 1);
  sodium_bin2hex(out + sizeof KEY_PREFIX - 1, KEY_SIZE + 1 - (sizeof KEY_PREFIX - 1), key->bytes, sizeof key->bytes);
}

/* ---- whether it answers ---- */

/* Under the lock. */
static void log_state(const struct ommai_encoding_store *store, const char *what, const char *then) {
  char line[2 * OMMAI_REDIS_TEXT];
  snprintf(line, sizeof line, "encoder cache at %s: %.200s: %s", store->url.place, what, then);
  if (store->log) store->log(store->log_context, line);
}

static void note_failure(struct ommai_encoding_store *store, const char *what) {
  pthread_mutex_lock(&store->lock);
  if (!store->pause_ns) log_state(store, what, "images are encoded here until it answers");
  store->pause_ns = store->pause_ns ? 2 * store->pause_ns : MIN_PAUSE_NS;
  if (store->pause_ns > MAX_PAUSE_NS) store->pause_ns = MAX_PAUSE_NS;
  store->pause_end_ns = ommai_clock_ns() + store->pause_ns;
  pthread_mutex_unlock(&store->lock);
}

static void note_success(struct ommai_encoding_store *store) {
  pthread_mutex_lock(&store->lock);
  if (store->pause_ns) log_state(store, "it answers", "images are shared again");
  store->pause_ns = 0;
  pthread_mutex_unlock(&store->lock);
}

/* ---- connections ---- */

static struct timeval left_until(int64_t deadline_ns) {
  int64_t left = (deadline_ns - ommai_clock_ns()) / 1000;
  if (left < 1) left = 1; /* 0 would be no limit */
  return (struct timeval){.tv_sec = left / 1000000, .tv_usec = left % 1000000};
}

/* One call: sends what was appended and waits for its reply, of `room` bytes at most, until the
 * deadline. NULL: the connection is of no use any more. The caller frees the reply. */
static redisReply *call(redisContext *connection, size_t room, int64_t deadline_ns) {
  void *reply = NULL;
  int sent = 0;
  while (!sent) {
    if (ommai_clock_ns() >= deadline_ns || redisSetTimeout(connection, left_until(deadline_ns)) != REDIS_OK ||
        redisBufferWrite(connection, &sent) != REDIS_OK)
      return NULL;
  }
  while (redisGetReplyFromReader(connection, &reply) == REDIS_OK && !reply) {
    if (ommai_clock_ns() >= deadline_ns || connection->reader->len > room + REPLY_ROOM ||
        redisSetTimeout(connection, left_until(deadline_ns)) != REDIS_OK || redisBufferRead(connection) != REDIS_OK)
      return NULL;
  }
  return reply;
}

/* A call whose reply is OK or an error of which only that it is one matters. */
static bool call_ok(redisContext *connection, int64_t deadline_ns) {
  redisReply *reply = call(connection, 0, deadline_ns);
  bool ok = reply && reply->type == REDIS_REPLY_STATUS;
  if (reply) freeReplyObject(reply);
  return ok;
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

/* A connection to use, or NULL: the store does not answer, or is left alone. */
static redisContext *take_connection(struct ommai_encoding_store *store, int64_t deadline_ns) {
  pthread_mutex_lock(&store->lock);
  bool paused = store->stopping || (store->pause_ns && ommai_clock_ns() < store->pause_end_ns);
  redisContext *connection = !paused && store->n_kept ? store->kept[--store->n_kept] : NULL;
  pthread_mutex_unlock(&store->lock);
  return connection || paused ? connection : connect_new(store, deadline_ns);
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

static bool find(void *context, const struct omma_encoding_key *key, float *values, size_t n_values) {
  struct ommai_encoding_store *store = context;
  int64_t deadline_ns = ommai_clock_ns() + store->url.timeout_ms * 1000000;
  size_t size = ommai_encoding_value_size(n_values);
  char name[KEY_SIZE + 1];
  redisContext *connection = take_connection(store, deadline_ns);
  if (!connection) return false;
  write_key(key, name);
  /* At most one byte more than there should be. */
  redisAppendCommand(connection, "GETRANGE %s 0 %lld", name, (long long)size);
  redisReply *reply = call(connection, size, deadline_ns);
  bool found =
      reply && reply->type == REDIS_REPLY_STRING && ommai_encoding_value_read(reply->str, reply->len, values, n_values);
  bool error = reply && reply->type == REDIS_REPLY_ERROR;
  if (!reply || error) {
    note_failure(store, error ? reply->str : connection->err ? connection->errstr : "no answer in time");
  } else {
    note_success(store);
  }
  if (reply) freeReplyObject(reply);
  give_back(store, connection, reply != NULL);
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
  pthread_cond_signal(&store->changed);
  pthread_mutex_unlock(&store->lock);
}

/* ---- the sender ---- */

/* A store that takes no more can still be read: it is not left alone. */
static void note_refusal(struct ommai_encoding_store *store, const char *what) {
  pthread_mutex_lock(&store->lock);
  if (what && !store->refuses) log_state(store, what, "new images are not shared until it takes them");
  store->refuses = what != NULL;
  pthread_mutex_unlock(&store->lock);
}

static void send_value(struct ommai_encoding_store *store, struct outgoing *value) {
  int64_t deadline_ns = ommai_clock_ns() + store->url.timeout_ms * 1000000;
  redisContext *connection = take_connection(store, deadline_ns);
  if (!connection) return;
  ommai_encoding_value_seal(value->bytes, value->n_values);
  if (store->url.ttl_seconds) {
    redisAppendCommand(connection, "SET %s %b EX %lld", value->key, value->bytes, value->size,
                       (long long)store->url.ttl_seconds);
  } else {
    redisAppendCommand(connection, "SET %s %b", value->key, value->bytes, value->size);
  }
  redisReply *reply = call(connection, 0, deadline_ns);
  if (reply) {
    note_success(store);
    note_refusal(store, reply->type == REDIS_REPLY_ERROR ? reply->str : NULL);
    freeReplyObject(reply);
  } else {
    note_failure(store, connection->err ? connection->errstr : "no answer in time");
  }
  give_back(store, connection, reply != NULL);
}

/* Waits for a value and takes it out of the queue; NULL at the end. */
static struct outgoing *next_value(struct ommai_encoding_store *store) {
  pthread_mutex_lock(&store->lock);
  while (!store->first && !store->stopping) pthread_cond_wait(&store->changed, &store->lock);
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

enum omma_status ommai_encoding_store_create(const char *url, const struct omma_allocator *allocator,
                                             struct ommai_encoding_store **out, struct omma_error *error) {
  struct ommai_redis_url parsed;
  OMMAI_TRY(ommai_redis_url_parse(url, &parsed, error));
  struct ommai_encoding_store *store = ommai_allocate(allocator, 1, sizeof *store);
  if (!store) return ommai_fail_memory(error, "encoder cache", sizeof *store);
  store->allocator = *allocator;
  store->url = parsed;
  store->last = &store->first;
  pthread_mutex_init(&store->lock, NULL);
  pthread_cond_init(&store->changed, NULL);
  if (pthread_create(&store->thread, NULL, sender_main, store) != 0) {
    pthread_cond_destroy(&store->changed);
    pthread_mutex_destroy(&store->lock);
    ommai_release(allocator, store, 1, sizeof *store);
    return ommai_fail(error, OMMA_ERROR_INTERNAL, "encoder cache: cannot start its thread");
  }
  *out = store;
  return OMMA_OK;
}

void ommai_encoding_store_destroy(struct ommai_encoding_store *store) {
  if (!store) return;
  pthread_mutex_lock(&store->lock);
  store->stopping = true;
  pthread_cond_signal(&store->changed);
  pthread_mutex_unlock(&store->lock);
  pthread_join(store->thread, NULL);
  while (store->first) {
    struct outgoing *value = store->first;
    store->first = value->next;
    free_value(store, value);
  }
  while (store->n_kept) redisFree(store->kept[--store->n_kept]);
  pthread_cond_destroy(&store->changed);
  pthread_mutex_destroy(&store->lock);
  sodium_memzero(store->url.password, sizeof store->url.password);
  struct omma_allocator allocator = store->allocator;
  ommai_release(&allocator, store, 1, sizeof *store);
}

struct omma_encoding_store ommai_encoding_store_interface(struct ommai_encoding_store *store) {
  return (struct omma_encoding_store){store, find, keep};
}

void ommai_encoding_store_set_log(struct ommai_encoding_store *store, void (*log)(void *context, const char *line),
                                  void *context) {
  pthread_mutex_lock(&store->lock);
  store->log = log;
  store->log_context = context;
  pthread_mutex_unlock(&store->lock);
}
