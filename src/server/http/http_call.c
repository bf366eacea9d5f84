#include "server/http/http_call.h"

#include <microhttpd.h>
#include <sodium.h>
#include <string.h>

#include "base/allocator.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/json_writer.h"
#include "server/core/protocol.h"
#include "server/state/server_state.h"

/* Unread events that a client may have while all of them have too many. */
#define FAIR_PENDING_BYTES ((size_t)64 << 10)

/* Calls that exist, so that the server's end can wait for the last. */
static void count_calls(struct ommai_server *server, int change) {
  pthread_mutex_lock(&server->list_lock);
  server->n_calls += change;
  OMMAI_ASSERT(server->n_calls >= 0);
  pthread_cond_broadcast(&server->list_changed);
  pthread_mutex_unlock(&server->list_lock);
}

struct ommai_http_call *ommai_http_call_create(struct ommai_server *server) {
  struct ommai_http_call *call = ommai_allocate(server->config.allocator, 1, sizeof *call);
  if (!call) return NULL;
  call->server = server;
  call->config = &server->config;
  call->allocator = server->config.allocator;
  call->protocol = &ommai_protocol_openai;
  call->created_ns = call->last_event_ns = ommai_clock_ns();
  atomic_init(&call->references, 1);
  atomic_init(&call->body_complete, false);
  pthread_mutex_init(&call->lock, NULL);
  call->body = ommai_text_of(server->config.allocator);
  call->reply.body = ommai_text_of(server->config.allocator);
  count_calls(server, 1);
  return call;
}

void ommai_http_call_list(struct ommai_http_call *call) {
  struct ommai_server *server = call->server;
  pthread_mutex_lock(&server->list_lock);
  call->number = server->next_number++;
  LIST_INSERT_HEAD(&server->calls, call, listed);
  server->n_listed++;
  pthread_mutex_unlock(&server->list_lock);
}

void ommai_http_call_unlist(struct ommai_http_call *call) {
  struct ommai_server *server = call->server;
  pthread_mutex_lock(&server->list_lock);
  LIST_REMOVE(call, listed);
  OMMAI_ASSERT(server->n_listed > 0);
  server->n_listed--;
  pthread_cond_broadcast(&server->list_changed);
  pthread_mutex_unlock(&server->list_lock);
}

void ommai_http_call_make_id(struct ommai_http_call *call) {
  unsigned char random[16];
  randombytes_buf(random, sizeof random);
  sodium_bin2hex(call->request_id, sizeof call->request_id, random, sizeof random);
}

void ommai_http_call_retain(struct ommai_http_call *call) {
  OMMAI_ASSERT(atomic_load(&call->references) > 0);
  atomic_fetch_add(&call->references, 1);
}

void ommai_http_call_free_event(struct ommai_http_call *call, struct ommai_event *event) {
  if (!event) return;
  ommai_release(call->allocator, event, sizeof *event + event->size, 1);
}

void ommai_http_call_release_body(struct ommai_http_call *call) {
  ommai_text_free(&call->body);
  OMMAI_ASSERT(atomic_load(&call->server->body_bytes) >= call->body_reserved);
  atomic_fetch_sub(&call->server->body_bytes, call->body_reserved);
  call->body_reserved = 0;
}

void ommai_http_call_report(struct ommai_http_call *call) {
  pthread_mutex_lock(&call->lock);
  const struct ommai_access access = call->access;
  const struct ommai_call_trace trace = call->trace;
  pthread_mutex_unlock(&call->lock);
  ommai_call_report_write(&(struct ommai_call_report){call->server, call->request_id, call->created_ns, &access, &trace});
}

void ommai_http_call_release(struct ommai_http_call *call) {
  OMMAI_ASSERT(!call || atomic_load(&call->references) > 0);
  if (!call || atomic_fetch_sub(&call->references, 1) != 1) return;
  struct ommai_server *server = call->server;
  if (call->access.aborted) ommai_http_call_report(call);
  atomic_fetch_sub(&server->pending_bytes, call->pending_bytes);
  while (call->head) {
    struct ommai_event *next = call->head->next;
    ommai_http_call_free_event(call, call->head);
    call->head = next;
  }
  ommai_http_call_release_body(call);
  ommai_text_free(&call->reply.body);
  pthread_mutex_destroy(&call->lock);
  ommai_release(call->allocator, call, 1, sizeof *call);
  count_calls(server, -1);
}

void ommai_http_call_keep(struct ommai_http_call *call) {
  call->body_kept = call->body_reserved;
  call->body_reserved = 0;
  ommai_http_call_retain(call);
}

void ommai_http_call_let_go(struct ommai_http_call *call) {
  atomic_fetch_sub(&call->server->body_bytes, call->body_kept);
  ommai_http_call_release(call);
}

void ommai_http_call_begin_work(struct ommai_http_call *call) {
  ommai_sleep_work_begins(&call->server->sleep);
  pthread_mutex_lock(&call->lock);
  call->working = true;
  pthread_mutex_unlock(&call->lock);
}

/* Under the lock. */
static void end_work(struct ommai_http_call *call) {
  OMMAI_ASSERT_LOCKED(&call->lock);
  if (!call->working || !(call->ended || call->gone)) return;
  call->working = false;
  ommai_sleep_work_ends(&call->server->sleep);
}

/* A member of the call that others change. */
static bool look_at(struct ommai_http_call *call, const bool *member) {
  pthread_mutex_lock(&call->lock);
  bool value = *member;
  pthread_mutex_unlock(&call->lock);
  return value;
}

bool ommai_http_call_is_working(struct ommai_http_call *call) { return look_at(call, &call->working); }

bool ommai_http_call_has_reply(struct ommai_http_call *call) { return look_at(call, &call->replied); }

bool ommai_http_call_is_gone(struct ommai_http_call *call) { return look_at(call, &call->gone); }

void ommai_http_call_completed(struct ommai_http_call *call) {
  pthread_mutex_lock(&call->lock);
  call->mhd = NULL;
  call->gone = true;
  end_work(call);
  bool unfinished = !call->ended;
  pthread_mutex_unlock(&call->lock);
  if (unfinished) ommai_http_call_cancel_engine(call);
}

/* Under the lock. The IO thread then calls the access handler or the stream's reader again. */
static void resume(struct ommai_http_call *call) {
  OMMAI_ASSERT_LOCKED(&call->lock);
  end_work(call);
  if (call->on_news) call->on_news(call->on_news_context);
  if (!call->suspended) return;
  call->suspended = false;
  MHD_resume_connection(call->mhd);
}

bool ommai_http_call_hold(struct ommai_http_call *call, size_t size) {
  struct ommai_server *server = call->server;
  size_t all = atomic_fetch_add(&server->pending_bytes, size) + size;
  pthread_mutex_lock(&call->lock);
  bool fits = all <= server->config.max_total_pending_bytes || call->pending_bytes + size <= FAIR_PENDING_BYTES;
  if (fits) call->pending_bytes += size;
  pthread_mutex_unlock(&call->lock);
  if (!fits) atomic_fetch_sub(&server->pending_bytes, size);
  return fits;
}

void ommai_http_call_reply(struct ommai_http_call *call, int status, const char *content_type, struct ommai_text *body) {
  /* Small ones, that of a refusal among them, always have room. */
  if (body->capacity > FAIR_PENDING_BYTES && !ommai_http_call_hold(call, body->capacity)) {
    struct ommai_api_error error;
    ommai_text_free(body);
    ommai_api_refuse(&error, OMMAI_REFUSAL_REPLIES);
    ommai_http_call_fail(call, &error);
    return;
  }
  pthread_mutex_lock(&call->lock);
  bool taken = !call->replied && !call->streaming;
  if (taken) {
    if (body->failed) { /* an empty 503 needs no memory */
      ommai_text_free(body);
      status = 503;
    }
    call->reply.status = status;
    call->reply.content_type = content_type;
    call->reply.body = *body;
    *body = ommai_text_of(body->allocator);
    call->replied = call->ended = true;
    call->waiting = false;
    resume(call);
  }
  pthread_mutex_unlock(&call->lock);
  ommai_text_free(body);
}

void ommai_http_call_reply_json(struct ommai_http_call *call, json_t *document) {
  struct ommai_text body = ommai_text_of(call->allocator);
  ommai_put_value(&body, NULL, document, 0);
  json_decref(document);
  ommai_http_call_reply(call, 200, "application/json", &body);
}

static struct ommai_event *make_event(struct ommai_http_call *call, const char *data, size_t size) {
  struct ommai_event *event = ommai_allocate(call->allocator, sizeof *event + size, 1);
  if (!event) return NULL;
  event->size = size;
  memcpy(event->data, data, size);
  return event;
}

/* Under the lock. Takes the event over. */
static void append_event(struct ommai_http_call *call, struct ommai_event *event) {
  OMMAI_ASSERT_LOCKED(&call->lock);
  OMMAI_ASSERT(!call->ended && !call->gone);
  if (call->tail) {
    call->tail->next = event;
  } else {
    call->head = event;
  }
  call->tail = event;
  call->pending_bytes += event->size;
  atomic_fetch_add(&call->server->pending_bytes, event->size);
  call->last_event_ns = ommai_clock_ns();
  call->streaming = true;
  resume(call);
}

/* Under the lock. */
static void note_cause(struct ommai_http_call *call, const char *cause) {
  OMMAI_ASSERT_LOCKED(&call->lock);
  if (!call->access.cause) call->access.cause = cause;
}

/* Notes why a request is cut off that has no end yet: "shutdown", "client_slow". The first cause is
 * the one that is logged. */
static void cut(struct ommai_http_call *call, const char *cause) {
  pthread_mutex_lock(&call->lock);
  if (!call->ended && !call->gone) note_cause(call, cause);
  pthread_mutex_unlock(&call->lock);
}

/* Under the lock. Whether its reader, or all of them, leave too much unread for another event. */
static bool is_too_far_behind(const struct ommai_http_call *call, size_t size) {
  const struct ommai_server *server = call->server;
  size_t pending = call->pending_bytes + size, all = atomic_load(&server->pending_bytes) + size;
  return pending > server->config.max_pending_bytes ||
         (all > server->config.max_total_pending_bytes && pending > FAIR_PENDING_BYTES);
}

bool ommai_http_call_push(struct ommai_http_call *call, const char *data, size_t size) {
  struct ommai_event *event = make_event(call, data, size);
  pthread_mutex_lock(&call->lock);
  bool accepted = event && !call->gone && !call->ended;
  if (accepted && is_too_far_behind(call, size)) {
    call->gone = true; /* a reader this slow is not waited for */
    note_cause(call, "client_slow");
    accepted = false;
    resume(call);
  }
  if (accepted) append_event(call, event);
  pthread_mutex_unlock(&call->lock);
  if (event && !accepted) ommai_http_call_free_event(call, event);
  return accepted;
}

/* Ends the stream with `last` (when an error is to be reported) and the protocol's end. A stream
 * whose end does not fit into memory is broken off, so that nobody takes it for complete. */
static void end_stream(struct ommai_http_call *call, struct ommai_event *last, bool complete) {
  const char *end = call->protocol->done;
  struct ommai_event *done = complete && *end ? make_event(call, end, strlen(end)) : NULL;
  complete &= done || !*end;
  pthread_mutex_lock(&call->lock);
  bool open = !call->ended && !call->gone;
  bool kept = open && complete;
  if (kept && last) append_event(call, last);
  if (kept && done) append_event(call, done);
  if (open && !complete) call->gone = true;
  call->ended = true;
  call->waiting = false;
  resume(call);
  pthread_mutex_unlock(&call->lock);
  if (kept) return;
  ommai_http_call_free_event(call, last);
  ommai_http_call_free_event(call, done);
}

void ommai_http_call_end(struct ommai_http_call *call) { end_stream(call, NULL, true); }

/* A request that gets 503: others may wonder why, who see the status alone. */
static void note_refusal(struct ommai_http_call *call, const struct ommai_api_error *error) {
  pthread_mutex_lock(&call->lock);
  bool over = call->ended || call->gone || call->access.cause; /* the last is in its access line */
  pthread_mutex_unlock(&call->lock);
  if (over) return;
  ommai_metrics_count_refusal(&call->server->metrics, error->refusal);
  ommai_call_report_refusal(call->server, call->request_id, error);
}

/* One thread at a time decides about the end of a request (the worker, then the engine's); the
 * watcher may begin a stream with a comment in between, in which case ommai_http_call_reply leaves
 * things as they are and the error goes into the stream. */
void ommai_http_call_fail(struct ommai_http_call *call, const struct ommai_api_error *error) {
  if (error->status == 503) note_refusal(call, error);
  struct ommai_api_error renamed = *error;
  ommai_protocol_rename(call->protocol, &renamed);
  struct ommai_text text = ommai_text_of(call->allocator);
  call->protocol->write_error(&renamed, call->request_id, &text);
  ommai_http_call_reply(call, error->status, "application/json", &text);
  if (!look_at(call, &call->streaming)) return;
  call->protocol->write_error_event(&renamed, call->request_id, &text);
  struct ommai_event *last = text.failed ? NULL : make_event(call, text.data, text.size);
  end_stream(call, last, last != NULL);
  ommai_text_free(&text);
}

void ommai_http_call_fail_from(struct ommai_http_call *call, const char *what, const struct omma_error *cause) {
  struct ommai_api_error error;
  ommai_server_fail(call->config, what, cause, &error);
  ommai_http_call_fail(call, &error);
}

void ommai_http_call_expect_stream(struct ommai_http_call *call) {
  pthread_mutex_lock(&call->lock);
  call->waiting = !call->ended;
  call->last_event_ns = ommai_clock_ns();
  pthread_mutex_unlock(&call->lock);
}

void ommai_http_call_keep_alive(struct ommai_http_call *call, int64_t before_ns) {
  pthread_mutex_lock(&call->lock);
  bool due = call->waiting && !call->head && call->last_event_ns < before_ns;
  pthread_mutex_unlock(&call->lock);
  if (due) ommai_http_call_push(call, call->protocol->keep_alive, strlen(call->protocol->keep_alive));
}

void ommai_http_call_add_engine_id(struct ommai_http_call *call, uint64_t id) {
  pthread_mutex_lock(&call->lock);
  bool gone = call->gone || call->ended;
  OMMAI_ASSERT(call->n_engine_ids < OMMAI_MAX_ENGINE_REQUESTS);
  call->engine_ids[call->n_engine_ids++] = id;
  pthread_mutex_unlock(&call->lock);
  if (gone) omma_engine_cancel(call->server->engine, id);
}

void ommai_http_call_drop_engine_id(struct ommai_http_call *call, uint64_t id) {
  pthread_mutex_lock(&call->lock);
  int index = 0;
  while (call->engine_ids[index] != id) index++;
  OMMAI_ASSERT(index < call->n_engine_ids);
  call->engine_ids[index] = call->engine_ids[--call->n_engine_ids];
  pthread_mutex_unlock(&call->lock);
}

/* The engine is called without our lock: its thread may be inside ommai_http_call_push at this
 * moment. */
void ommai_http_call_cancel_engine(struct ommai_http_call *call) {
  uint64_t ids[OMMAI_MAX_ENGINE_REQUESTS];
  pthread_mutex_lock(&call->lock);
  int n_ids = call->n_engine_ids;
  memcpy(ids, call->engine_ids, sizeof ids);
  pthread_mutex_unlock(&call->lock);
  for (int i = 0; i < n_ids; i++) omma_engine_cancel(call->server->engine, ids[i]);
}

bool ommai_http_call_is_over(struct ommai_http_call *call) {
  pthread_mutex_lock(&call->lock);
  bool over = call->gone || call->ended;
  pthread_mutex_unlock(&call->lock);
  return over;
}

void ommai_http_call_leave(struct ommai_http_call *call) {
  pthread_mutex_lock(&call->lock);
  call->gone = true;
  call->waiting = false;
  resume(call);
  pthread_mutex_unlock(&call->lock);
  ommai_http_call_cancel_engine(call);
}

void ommai_http_call_abort(struct ommai_http_call *call, const char *cause, const char *message) {
  struct ommai_api_error error;
  ommai_api_fail(&error, 503, NULL, "%s", message);
  cut(call, cause);
  ommai_http_call_fail(call, &error);
  ommai_http_call_cancel_engine(call);
}

void ommai_http_call_for_each(struct ommai_server *server, void (*act)(struct ommai_http_call *)) {
  uint64_t below = UINT64_MAX;
  for (;;) {
    pthread_mutex_lock(&server->list_lock);
    /* the newest comes first: numbers fall along the list */
    struct ommai_http_call *call = LIST_FIRST(&server->calls);
    while (call && call->number >= below) call = LIST_NEXT(call, listed);
    if (call) ommai_http_call_retain(call);
    pthread_mutex_unlock(&server->list_lock);
    if (!call) return;
    below = call->number;
    act(call);
    ommai_http_call_release(call);
  }
}

void ommai_http_call_abandon(struct ommai_http_call *call) {
  pthread_mutex_lock(&call->lock);
  bool over = call->ended;
  call->on_news = NULL;
  pthread_mutex_unlock(&call->lock);
  if (!over) ommai_http_call_leave(call);
  ommai_http_call_release(call);
}
