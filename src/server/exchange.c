#include "server/exchange.h"

#include <microhttpd.h>
#include <sodium.h>
#include <string.h>

#include "base/allocator.h"
#include "base/clock.h"
#include "server/protocol.h"
#include "server/server_state.h"

struct ommai_exchange *ommai_exchange_create(struct ommai_server *server) {
  struct ommai_exchange *exchange = ommai_allocate(server->allocator, 1, sizeof *exchange);
  if (!exchange) return NULL;
  exchange->server = server;
  exchange->allocator = server->allocator;
  exchange->protocol = &ommai_protocol_openai;
  exchange->created_ns = exchange->last_event_ns = ommai_clock_ns();
  atomic_init(&exchange->references, 1);
  atomic_init(&exchange->body_complete, false);
  pthread_mutex_init(&exchange->lock, NULL);
  ommai_text_init(&exchange->body, server->allocator);
  ommai_text_init(&exchange->reply.body, server->allocator);
  ommai_server_count_exchange(server, 1);
  return exchange;
}

void ommai_exchange_make_id(struct ommai_exchange *exchange) {
  unsigned char random[16];
  randombytes_buf(random, sizeof random);
  sodium_bin2hex(exchange->request_id, sizeof exchange->request_id, random, sizeof random);
}

void ommai_exchange_retain(struct ommai_exchange *exchange) { atomic_fetch_add(&exchange->references, 1); }

void ommai_exchange_free_event(struct ommai_exchange *exchange, struct ommai_event *event) {
  if (!event) return;
  ommai_release(exchange->allocator, event, sizeof *event + event->size, 1);
}

void ommai_exchange_release(struct ommai_exchange *exchange) {
  if (!exchange || atomic_fetch_sub(&exchange->references, 1) != 1) return;
  struct ommai_server *server = exchange->server;
  ommai_access_release(exchange);
  while (exchange->head) {
    struct ommai_event *next = exchange->head->next;
    ommai_exchange_free_event(exchange, exchange->head);
    exchange->head = next;
  }
  ommai_server_release_body(exchange);
  ommai_text_free(&exchange->reply.body);
  pthread_mutex_destroy(&exchange->lock);
  ommai_release(exchange->allocator, exchange, 1, sizeof *exchange);
  ommai_server_count_exchange(server, -1);
}

/* Under the lock. The IO thread then calls the access handler or the stream's reader again. */
static void resume(struct ommai_exchange *exchange) {
  if (!exchange->suspended) return;
  exchange->suspended = false;
  MHD_resume_connection(exchange->connection);
}

void ommai_exchange_reply(struct ommai_exchange *exchange, int status, const char *content_type, struct ommai_text *body) {
  pthread_mutex_lock(&exchange->lock);
  bool taken = !exchange->replied && !exchange->streaming;
  if (taken) {
    if (body->failed) { /* an empty 503 needs no memory */
      ommai_text_free(body);
      status = 503;
    }
    exchange->reply.status = status;
    exchange->reply.content_type = content_type;
    exchange->reply.body = *body;
    ommai_text_init(body, body->allocator);
    exchange->replied = exchange->ended = true;
    exchange->waiting = false;
    resume(exchange);
  }
  if (taken && exchange->on_reply) exchange->on_reply(exchange->on_reply_context);
  pthread_mutex_unlock(&exchange->lock);
  ommai_text_free(body);
}

static struct ommai_event *make_event(struct ommai_exchange *exchange, const char *data, size_t size) {
  struct ommai_event *event = ommai_allocate(exchange->allocator, sizeof *event + size, 1);
  if (!event) return NULL;
  event->size = size;
  memcpy(event->data, data, size);
  return event;
}

/* Under the lock. Takes the event over. */
static void append_event(struct ommai_exchange *exchange, struct ommai_event *event) {
  if (exchange->tail) {
    exchange->tail->next = event;
  } else {
    exchange->head = event;
  }
  exchange->tail = event;
  exchange->pending_bytes += event->size;
  exchange->last_event_ns = ommai_clock_ns();
  exchange->streaming = true;
  resume(exchange);
}

/* Under the lock. */
static void note_cause(struct ommai_exchange *exchange, const char *cause) {
  if (!exchange->access.cause) exchange->access.cause = cause;
}

void ommai_exchange_cut(struct ommai_exchange *exchange, const char *cause) {
  pthread_mutex_lock(&exchange->lock);
  if (!exchange->ended && !exchange->gone) note_cause(exchange, cause);
  pthread_mutex_unlock(&exchange->lock);
}

bool ommai_exchange_push(struct ommai_exchange *exchange, const char *data, size_t size) {
  struct ommai_event *event = make_event(exchange, data, size);
  pthread_mutex_lock(&exchange->lock);
  bool accepted = event && !exchange->gone && !exchange->ended;
  if (accepted && exchange->pending_bytes + size > exchange->server->max_pending_bytes) {
    exchange->gone = true; /* a reader this slow is not waited for */
    note_cause(exchange, "client_slow");
    accepted = false;
    resume(exchange);
  }
  if (accepted) append_event(exchange, event);
  pthread_mutex_unlock(&exchange->lock);
  if (event && !accepted) ommai_exchange_free_event(exchange, event);
  return accepted;
}

/* Ends the stream with `last` (when an error is to be told) and the protocol's end. A stream whose end does not fit into memory is broken off,
 * so that nobody takes it for complete. */
static void end_stream(struct ommai_exchange *exchange, struct ommai_event *last, bool complete) {
  const char *end = exchange->protocol->done;
  struct ommai_event *done = complete && *end ? make_event(exchange, end, strlen(end)) : NULL;
  complete &= done || !*end;
  pthread_mutex_lock(&exchange->lock);
  bool open = !exchange->ended && !exchange->gone;
  bool kept = open && complete;
  if (kept && last) append_event(exchange, last);
  if (kept && done) append_event(exchange, done);
  if (open && !complete) exchange->gone = true;
  exchange->ended = true;
  exchange->waiting = false;
  resume(exchange);
  pthread_mutex_unlock(&exchange->lock);
  if (kept) return;
  ommai_exchange_free_event(exchange, last);
  ommai_exchange_free_event(exchange, done);
}

void ommai_exchange_end(struct ommai_exchange *exchange) { end_stream(exchange, NULL, true); }

static bool has_stream(struct ommai_exchange *exchange) {
  pthread_mutex_lock(&exchange->lock);
  bool streaming = exchange->streaming;
  pthread_mutex_unlock(&exchange->lock);
  return streaming;
}

/* One thread at a time decides about the end of a request (the worker, then the engine's); the watcher may begin a stream with a
 * comment in between, in which case ommai_exchange_reply leaves things as they are and the error goes into the stream. */
void ommai_exchange_fail(struct ommai_exchange *exchange, const struct ommai_api_error *error) {
  struct ommai_text text;
  struct ommai_api_error told = *error;
  ommai_protocol_rename(exchange->protocol, &told);
  ommai_text_init(&text, exchange->allocator);
  exchange->protocol->write_error(&told, exchange->request_id, &text);
  ommai_exchange_reply(exchange, error->status, "application/json", &text);
  if (!has_stream(exchange)) return;
  exchange->protocol->write_error_event(&told, exchange->request_id, &text);
  struct ommai_event *last = text.failed ? NULL : make_event(exchange, text.data, text.size);
  end_stream(exchange, last, last != NULL);
  ommai_text_free(&text);
}

void ommai_exchange_expect_stream(struct ommai_exchange *exchange) {
  pthread_mutex_lock(&exchange->lock);
  exchange->waiting = !exchange->ended;
  exchange->last_event_ns = ommai_clock_ns();
  pthread_mutex_unlock(&exchange->lock);
}

void ommai_exchange_keep_alive(struct ommai_exchange *exchange, int64_t before_ns) {
  pthread_mutex_lock(&exchange->lock);
  bool due = exchange->waiting && !exchange->head && exchange->last_event_ns < before_ns;
  pthread_mutex_unlock(&exchange->lock);
  if (due) ommai_exchange_push(exchange, exchange->protocol->keep_alive, strlen(exchange->protocol->keep_alive));
}

void ommai_exchange_add_engine_id(struct ommai_exchange *exchange, uint64_t id) {
  pthread_mutex_lock(&exchange->lock);
  bool gone = exchange->gone || exchange->ended;
  if (exchange->n_engine_ids < OMMAI_MAX_CHOICES) exchange->engine_ids[exchange->n_engine_ids++] = id;
  pthread_mutex_unlock(&exchange->lock);
  if (gone) omma_engine_cancel(exchange->server->engine, id);
}

/* The engine is called without our lock: its thread may be inside ommai_exchange_push at this moment. */
void ommai_exchange_cancel_engine(struct ommai_exchange *exchange) {
  uint64_t ids[OMMAI_MAX_CHOICES];
  pthread_mutex_lock(&exchange->lock);
  int n_ids = exchange->n_engine_ids;
  memcpy(ids, exchange->engine_ids, sizeof ids);
  pthread_mutex_unlock(&exchange->lock);
  for (int i = 0; i < n_ids; i++) omma_engine_cancel(exchange->server->engine, ids[i]);
}

bool ommai_exchange_has_reply(struct ommai_exchange *exchange) {
  pthread_mutex_lock(&exchange->lock);
  bool replied = exchange->replied;
  pthread_mutex_unlock(&exchange->lock);
  return replied;
}

bool ommai_exchange_is_gone(struct ommai_exchange *exchange) {
  pthread_mutex_lock(&exchange->lock);
  bool gone = exchange->gone;
  pthread_mutex_unlock(&exchange->lock);
  return gone;
}

void ommai_exchange_leave(struct ommai_exchange *exchange) {
  pthread_mutex_lock(&exchange->lock);
  exchange->gone = true;
  exchange->waiting = false;
  resume(exchange);
  pthread_mutex_unlock(&exchange->lock);
  ommai_exchange_cancel_engine(exchange);
}
