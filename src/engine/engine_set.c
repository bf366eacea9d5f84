#include "engine/engine_set.h"

#include <time.h>

#include "base/allocator.h"
#include "base/checked.h"
#include "base/clock.h"
#include "base/debug.h"
#include "base/error.h"
#include "engine/engine_route.h"
#include "request/request.h"

#define MILLISECOND INT64_C(1000000)
/* The engines are looked at this many times within the time that a turn may take, but not more
 * often than once in LOOK_MIN_NS and not less often than once in LOOK_MAX_NS. */
#define LOOKS 8
#define LOOK_MIN_NS (5 * MILLISECOND)
#define LOOK_MAX_NS (250 * MILLISECOND)

struct attempt;

/* A request until its on_finish. */
struct ticket {
  LIST_ENTRY(ticket) listed;
  uint64_t id;
  const struct omma_request *request;
  struct omma_callbacks callbacks;
  int64_t n_tokens, n_prompt_tokens; /* that the callbacks have had */
  bool has_rows;                     /* on_embeddings or on_vectors was called */
  /* Under the set's lock: NULL: it is between two engines. */
  struct attempt *attempt;
  bool cancelled;
};

/* A request at one engine. Freed by its last owner: the engine until on_finish, and whoever places
 * or moves it. */
struct attempt {
  struct ommai_engine_set *set;
  pthread_mutex_t mutex; /* of `ticket`, and held during its callbacks */
  struct ticket *ticket; /* NULL: its callbacks are no longer called from here */
  int engine;
  int64_t work;
  uint64_t id;                        /* the engine's; 0: not known yet. Under the set's lock, */
  int n_owners;                       /* as these: */
  bool cancelled, visited;            /* visited: by the watch since the engine is out */
  const struct omma_request *request; /* kept for an engine that is out; NULL: not */
};

struct ommai_engine_set {
  struct omma_allocator allocator;
  struct omma_log log;
  struct omma_engine *engines[OMMAI_MAX_ENGINES];
  int n;
  int64_t stuck_ns;
  void (*on_state)(void *context, int engine, bool answers);
  void *on_state_context;
  pthread_mutex_t lock; /* of all below */
  pthread_cond_t changed;
  LIST_HEAD(, ticket) tickets;
  int64_t load[OMMAI_MAX_ENGINES], n_sent[OMMAI_MAX_ENGINES];
  bool out[OMMAI_MAX_ENGINES];
  struct ommai_route_known *known;
  uint64_t next_id;
  bool stop;
  pthread_t watcher;
  bool has_watcher;
};

int ommai_engine_set_size(const struct ommai_engine_set *set) { return set->n; }

struct omma_engine *ommai_engine_set_at(const struct ommai_engine_set *set, int index) {
  return set->engines[index];
}

bool ommai_engine_set_is_out(struct ommai_engine_set *set, int index) {
  pthread_mutex_lock(&set->lock);
  bool out = set->out[index];
  pthread_mutex_unlock(&set->lock);
  return out;
}

/* ---- where a request goes; all under the lock ---- */

/* Pages of the prompt's beginning that an engine knows. */
static int64_t known_pages(const struct ommai_engine_set *set, const struct omma_request *request, int engine) {
  size_t n = 0;
  while (n < request->n_page_keys && ommai_engine_route_find(set->known, request->page_keys[n].bytes) >> engine & 1) n++;
  return (int64_t)n;
}

static int64_t missing_work(const struct ommai_engine_set *set, const struct omma_request *request, int engine) {
  int64_t work = (int64_t)request->n_tokens - known_pages(set, request, engine) * OMMA_ATTENTION_PAGE_TOKENS;
  for (size_t i = 0; i < request->n_images; i++) {
    bool known = ommai_engine_route_find(set->known, request->keys[i].bytes) >> engine & 1;
    if (!known) work += request->images[i].sizes.n_patches;
  }
  return work;
}

static void note_known(struct ommai_engine_set *set, const struct omma_request *request, int engine) {
  for (size_t i = 0; i < request->n_page_keys; i++) ommai_engine_route_note(set->known, request->page_keys[i].bytes, engine);
  for (size_t i = 0; i < request->n_images; i++) ommai_engine_route_note(set->known, request->keys[i].bytes, engine);
}

void ommai_engine_set_forget(struct ommai_engine_set *set) {
  pthread_mutex_lock(&set->lock);
  for (int i = 0; i < set->n; i++) ommai_engine_route_forget(set->known, i);
  pthread_mutex_unlock(&set->lock);
}

/* refused: bits of engines that had no room. *work is that of the request there. */
static int choose(const struct ommai_engine_set *set, const struct omma_request *request, uint64_t refused, int64_t *work) {
  struct ommai_route_engine engines[OMMAI_MAX_ENGINES];
  for (int i = 0; i < set->n; i++) {
    engines[i] = (struct ommai_route_engine){set->out[i] || refused >> i & 1, set->load[i], 0, set->n_sent[i]};
    if (request && !engines[i].out) engines[i].missing = missing_work(set, request, i);
  }
  int best = ommai_engine_route_choose(engines, set->n);
  if (best >= 0) *work = engines[best].missing + OMMAI_ENGINE_ROUTE_ANSWER_WORK;
  return best;
}

/* ---- attempts ---- */

/* Whoever had it is through with it. */
static void drop(struct attempt *attempt) {
  struct ommai_engine_set *set = attempt->set;
  pthread_mutex_lock(&set->lock);
  bool last = --attempt->n_owners == 0;
  pthread_mutex_unlock(&set->lock);
  if (!last) return;
  ommai_request_let_go(attempt->request);
  pthread_mutex_destroy(&attempt->mutex);
  ommai_release(&set->allocator, attempt, 1, sizeof *attempt);
}

static void on_progress(void *context, enum omma_stage stage, int64_t done, int64_t total) {
  struct attempt *attempt = context;
  pthread_mutex_lock(&attempt->mutex);
  const struct omma_callbacks *inner = attempt->ticket ? &attempt->ticket->callbacks : NULL;
  if (inner && inner->on_progress) inner->on_progress(inner->context, stage, done, total);
  pthread_mutex_unlock(&attempt->mutex);
}

static bool on_token(void *context, const struct omma_token_event *event) {
  struct attempt *attempt = context;
  pthread_mutex_lock(&attempt->mutex);
  struct ticket *ticket = attempt->ticket;
  bool go_on = ticket != NULL;
  if (ticket && event->index >= ticket->n_tokens) {
    const struct omma_callbacks *inner = &ticket->callbacks;
    struct omma_token_event found = *event;
    found.engine = attempt->engine;
    ticket->n_tokens = event->index + 1;
    go_on = !inner->on_token || inner->on_token(inner->context, &found);
  }
  pthread_mutex_unlock(&attempt->mutex);
  return go_on;
}

static void on_prompt_token(void *context, const struct omma_prompt_token_event *event) {
  struct attempt *attempt = context;
  pthread_mutex_lock(&attempt->mutex);
  struct ticket *ticket = attempt->ticket;
  if (ticket && event->index >= ticket->n_prompt_tokens) {
    const struct omma_callbacks *inner = &ticket->callbacks;
    ticket->n_prompt_tokens = event->index + 1;
    if (inner->on_prompt_token) inner->on_prompt_token(inner->context, event);
  }
  pthread_mutex_unlock(&attempt->mutex);
}

static void on_embeddings(void *context, struct omma_embeddings *embeddings) {
  struct attempt *attempt = context;
  pthread_mutex_lock(&attempt->mutex);
  struct ticket *ticket = attempt->ticket;
  bool wanted = ticket && !ticket->has_rows && ticket->callbacks.on_embeddings;
  if (wanted) {
    ticket->has_rows = true;
    ticket->callbacks.on_embeddings(ticket->callbacks.context, embeddings);
  }
  pthread_mutex_unlock(&attempt->mutex);
  if (!wanted) omma_embeddings_destroy(embeddings);
}

static void on_vectors(void *context, const struct omma_vectors *vectors) {
  struct attempt *attempt = context;
  pthread_mutex_lock(&attempt->mutex);
  struct ticket *ticket = attempt->ticket;
  if (ticket && !ticket->has_rows && ticket->callbacks.on_vectors) {
    ticket->has_rows = true;
    ticket->callbacks.on_vectors(ticket->callbacks.context, vectors);
  }
  pthread_mutex_unlock(&attempt->mutex);
}

/* The callbacks get nothing more from here; returns whose they are, NULL: they got the last one. */
static struct ticket *take_ticket(struct attempt *attempt) {
  pthread_mutex_lock(&attempt->mutex);
  struct ticket *ticket = attempt->ticket;
  attempt->ticket = NULL;
  pthread_mutex_unlock(&attempt->mutex);
  return ticket;
}

/* The last call of a ticket. */
static void finish(struct ommai_engine_set *set, struct ticket *ticket, const struct omma_result *result) {
  const struct omma_callbacks callbacks = ticket->callbacks;
  ommai_release(&set->allocator, ticket, 1, sizeof *ticket);
  if (callbacks.on_finish) callbacks.on_finish(callbacks.context, result);
}

static void on_finish(void *context, const struct omma_result *result) {
  struct attempt *attempt = context;
  struct ommai_engine_set *set = attempt->set;
  struct omma_result found = *result;
  struct ticket *ticket = take_ticket(attempt);
  pthread_mutex_lock(&set->lock);
  set->load[attempt->engine] -= attempt->work;
  if (ticket) LIST_REMOVE(ticket, listed);
  pthread_mutex_unlock(&set->lock);
  found.engine = attempt->engine;
  if (ticket) finish(set, ticket, &found);
  drop(attempt);
}

/* Under the lock. NULL: no memory. */
static struct attempt *begin_attempt(struct ommai_engine_set *set, struct ticket *ticket, int engine, int64_t work) {
  struct attempt *attempt = ommai_allocate(&set->allocator, 1, sizeof *attempt);
  if (!attempt) return NULL;
  *attempt = (struct attempt){
      .set = set, .ticket = ticket, .engine = engine, .work = work, .cancelled = ticket->cancelled, .n_owners = 2};
  pthread_mutex_init(&attempt->mutex, NULL);
  ticket->attempt = attempt;
  set->load[engine] += work;
  set->n_sent[engine]++;
  return attempt;
}

/* Under the lock, where the engine did not take it. */
static void take_back(struct ommai_engine_set *set, struct attempt *attempt) {
  attempt->ticket->attempt = NULL;
  set->load[attempt->engine] -= attempt->work;
  set->n_sent[attempt->engine]--;
  pthread_mutex_destroy(&attempt->mutex);
  ommai_release(&set->allocator, attempt, 1, sizeof *attempt);
}

static enum omma_status hand_over(struct attempt *attempt, uint64_t *id, struct omma_error *error) {
  const struct omma_callbacks callbacks = {.context = attempt,
                                           .on_progress = on_progress,
                                           .on_token = on_token,
                                           .on_finish = on_finish,
                                           .on_prompt_token = on_prompt_token,
                                           .on_embeddings = on_embeddings,
                                           .on_vectors = on_vectors};
  return ommai_engine_submit_alone(attempt->set->engines[attempt->engine], attempt->ticket->request, &callbacks, id, error);
}

/* Gives a listed ticket to the best engine that has room. Once an engine has it, it may end and be
 * freed at any time, and its request with it. Errors: as omma_engine_submit; INTERNAL (all are
 * out). */
static enum omma_status place(struct ommai_engine_set *set, struct ticket *ticket, struct omma_error *error) {
  const struct omma_request *request = ommai_request_hold(ticket->request);
  enum omma_status status = ommai_fail(error, OMMA_ERROR_INTERNAL, "engine: none of %d engines answers", set->n);
  struct attempt *placed = NULL;
  uint64_t refused = 0, id;
  int64_t work;
  pthread_mutex_lock(&set->lock);
  for (int engine; (engine = choose(set, request, refused, &work)) >= 0;) {
    struct attempt *attempt = begin_attempt(set, ticket, engine, work);
    if (!attempt) {
      status = ommai_fail_memory(error, "engine", sizeof *attempt);
      break;
    }
    pthread_mutex_unlock(&set->lock);
    status = hand_over(attempt, &id, error);
    pthread_mutex_lock(&set->lock);
    if (status == OMMA_OK) {
      attempt->id = id;
      note_known(set, request, engine);
      if (attempt->cancelled) ommai_request_queue_cancel(&set->engines[engine]->shared->queue, id);
      placed = attempt;
      break;
    }
    take_back(set, attempt);
    refused |= (uint64_t)1 << engine;
    if (status != OMMA_ERROR_BUSY) break;
  }
  pthread_mutex_unlock(&set->lock);
  if (placed) drop(placed);
  ommai_request_let_go(request);
  return status;
}

/* ---- calls ---- */

enum omma_status ommai_engine_set_submit(struct ommai_engine_set *set, const struct omma_request *request,
                                         const struct omma_callbacks *callbacks, uint64_t *id, struct omma_error *error) {
  struct ticket *ticket = ommai_allocate(&set->allocator, 1, sizeof *ticket);
  if (!ticket) return ommai_fail_memory(error, "engine", sizeof *ticket);
  *ticket = (struct ticket){.request = request, .callbacks = *callbacks};
  pthread_mutex_lock(&set->lock);
  ticket->id = set->next_id++;
  if (id) *id = ticket->id;
  LIST_INSERT_HEAD(&set->tickets, ticket, listed);
  pthread_mutex_unlock(&set->lock);
  enum omma_status status = place(set, ticket, error);
  if (status == OMMA_OK) return OMMA_OK;
  pthread_mutex_lock(&set->lock);
  LIST_REMOVE(ticket, listed);
  pthread_mutex_unlock(&set->lock);
  ommai_release(&set->allocator, ticket, 1, sizeof *ticket);
  return status;
}

void ommai_engine_set_cancel(struct ommai_engine_set *set, uint64_t id) {
  struct ticket *ticket;
  pthread_mutex_lock(&set->lock);
  LIST_FOREACH(ticket, &set->tickets, listed) {
    if (ticket->id != id) continue;
    struct attempt *attempt = ticket->attempt;
    ticket->cancelled = true;
    if (attempt) attempt->cancelled = true;
    if (attempt && attempt->id) ommai_request_queue_cancel(&set->engines[attempt->engine]->shared->queue, attempt->id);
    break;
  }
  pthread_mutex_unlock(&set->lock);
}

struct omma_engine *ommai_engine_set_begin_encode(struct ommai_engine_set *set, int64_t work) {
  int64_t ignored;
  pthread_mutex_lock(&set->lock);
  int engine = choose(set, NULL, 0, &ignored);
  if (engine >= 0) {
    set->load[engine] += work;
    set->n_sent[engine]++;
  }
  pthread_mutex_unlock(&set->lock);
  return engine < 0 ? NULL : set->engines[engine];
}

void ommai_engine_set_end_encode(struct ommai_engine_set *set, const struct omma_engine *engine, int64_t work) {
  pthread_mutex_lock(&set->lock);
  set->load[engine->index] -= work;
  pthread_mutex_unlock(&set->lock);
}

/* ---- the watch ---- */

/* One of the engine's that was not looked at since it is out; the caller is one more owner. */
static struct attempt *next_at(struct ommai_engine_set *set, int engine) {
  struct ticket *ticket;
  struct attempt *found = NULL;
  pthread_mutex_lock(&set->lock);
  LIST_FOREACH(ticket, &set->tickets, listed) {
    struct attempt *attempt = ticket->attempt;
    if (!attempt || attempt->engine != engine || attempt->visited || !attempt->id) continue;
    found = attempt;
    found->visited = true;
    found->n_owners++;
    break;
  }
  pthread_mutex_unlock(&set->lock);
  return found;
}

/* Ends a listed ticket that no engine has. */
static void give_up(struct ommai_engine_set *set, struct ticket *ticket, int engine, const struct omma_error *error) {
  struct omma_result result = {.finish = error->status == OMMA_ERROR_CANCELLED ? OMMA_FINISH_CANCELLED : OMMA_FINISH_ERROR,
                               .n_prompt_tokens = (int64_t)ticket->request->n_tokens,
                               .n_completion_tokens = ticket->n_tokens,
                               .stop_token = -1,
                               .engine = engine,
                               .error = *error};
  pthread_mutex_lock(&set->lock);
  LIST_REMOVE(ticket, listed);
  pthread_mutex_unlock(&set->lock);
  finish(set, ticket, &result);
}

static void go_on_elsewhere(struct ommai_engine_set *set, struct ticket *ticket, int engine) {
  struct omma_error error;
  pthread_mutex_lock(&set->lock);
  ticket->attempt = NULL;
  bool cancelled = ticket->cancelled;
  pthread_mutex_unlock(&set->lock);
  if (cancelled) {
    ommai_fail(&error, OMMA_ERROR_CANCELLED, "engine %d: it was cancelled", engine);
    give_up(set, ticket, engine, &error);
  } else if (place(set, ticket, &error) != OMMA_OK) {
    give_up(set, ticket, engine, &error);
  }
}

/* Where the engine is stuck in a callback itself, only whoever it called can help. */
static void move(struct ommai_engine_set *set, struct attempt *attempt) {
  struct ticket *ticket = NULL;
  if (pthread_mutex_trylock(&attempt->mutex) == 0) {
    ticket = attempt->ticket;
    attempt->ticket = NULL;
    if (ticket) attempt->request = ommai_request_hold(ticket->request);
    pthread_mutex_unlock(&attempt->mutex);
  }
  if (ticket) {
    ommai_request_queue_cancel(&set->engines[attempt->engine]->shared->queue, attempt->id);
    go_on_elsewhere(set, ticket, attempt->engine);
  }
  drop(attempt);
}

static void set_state(struct ommai_engine_set *set, int index, bool out) {
  struct ticket *ticket;
  pthread_mutex_lock(&set->lock);
  set->out[index] = out;
  if (out) ommai_engine_route_forget(set->known, index);
  LIST_FOREACH(ticket, &set->tickets, listed) {
    if (ticket->attempt && ticket->attempt->engine == index) ticket->attempt->visited = false;
  }
  pthread_mutex_unlock(&set->lock);
  OMMAI_DEBUG(&set->log, "engine %d: %s", index, out ? "does not answer: taken out" : "answers again");
  if (set->on_state) set->on_state(set->on_state_context, index, !out);
}

void ommai_engine_set_watch(struct ommai_engine_set *set) {
  for (int i = 0; i < set->n; i++) {
    int64_t began = atomic_load(&set->engines[i]->turn_began);
    bool out = began && ommai_clock_ns() - began > set->stuck_ns;
    if (out != ommai_engine_set_is_out(set, i)) set_state(set, i, out);
    struct attempt *attempt;
    while (out && (attempt = next_at(set, i))) move(set, attempt);
  }
}

static void *watcher_main(void *argument) {
  pthread_setname_np(pthread_self(), "omma-engines");
  struct ommai_engine_set *set = argument;
  int64_t step = ommai_min_i64(ommai_max_i64(set->stuck_ns / LOOKS, LOOK_MIN_NS), LOOK_MAX_NS);
  pthread_mutex_lock(&set->lock);
  while (!set->stop) {
    int64_t until = ommai_clock_ns() + step;
    const struct timespec deadline = ommai_clock_timespec(until);
    pthread_cond_timedwait(&set->changed, &set->lock, &deadline);
    pthread_mutex_unlock(&set->lock);
    ommai_engine_set_watch(set);
    pthread_mutex_lock(&set->lock);
  }
  pthread_mutex_unlock(&set->lock);
  return NULL;
}

/* ---- its life ---- */

static void free_set(struct ommai_engine_set *set) {
  struct omma_allocator allocator = set->allocator;
  ommai_release(&allocator, set->known, 1, sizeof *set->known);
  pthread_cond_destroy(&set->changed);
  pthread_mutex_destroy(&set->lock);
  ommai_release(&allocator, set, 1, sizeof *set);
}

enum omma_status ommai_engine_set_create(struct omma_engine *const *engines, int n, const struct omma_engine_options *options,
                                         struct ommai_engine_set **out, struct omma_error *error) {
  const struct omma_allocator *allocator = &engines[0]->allocator;
  struct ommai_engine_set *set = ommai_allocate(allocator, 1, sizeof *set);
  if (!set) return ommai_fail_memory(error, "engines", sizeof *set);
  set->allocator = *allocator;
  set->log = engines[0]->model->log;
  set->n = n;
  set->next_id = 1;
  set->stuck_ns = (options->stuck_ms ? options->stuck_ms : OMMAI_DEFAULT_STUCK_MS) * MILLISECOND;
  set->on_state = options->on_engine_state;
  set->on_state_context = options->on_engine_state_context;
  for (int i = 0; i < n; i++) set->engines[i] = engines[i];
  pthread_mutex_init(&set->lock, NULL);
  ommai_clock_condition_init(&set->changed);
  set->known = ommai_allocate(allocator, 1, sizeof *set->known);
  if (!set->known) {
    free_set(set);
    return ommai_fail_memory(error, "engines", sizeof *set->known);
  }
  set->has_watcher = pthread_create(&set->watcher, NULL, watcher_main, set) == 0;
  if (!set->has_watcher) {
    free_set(set);
    return ommai_fail(error, OMMA_ERROR_INTERNAL, "engines: cannot start the thread that watches over them");
  }
  for (int i = 0; i < n; i++) {
    engines[i]->set = set;
    engines[i]->index = i;
  }
  *out = set;
  return OMMA_OK;
}

bool ommai_engine_set_destroy(struct ommai_engine_set *set) {
  bool ended[OMMAI_MAX_ENGINES], some_left = false;
  for (int i = 0; i < set->n; i++) ommai_engine_begin_stop(set->engines[i]);
  /* The watch goes on, so that the requests of an engine that gets stuck now end too. */
  for (int i = 0; i < set->n; i++) {
    ended[i] = ommai_engine_end_stop(set->engines[i], ommai_engine_set_is_out(set, i) ? 0 : set->stuck_ns);
    some_left = some_left || !ended[i];
  }
  pthread_mutex_lock(&set->lock);
  set->stop = true;
  pthread_cond_signal(&set->changed);
  pthread_mutex_unlock(&set->lock);
  pthread_join(set->watcher, NULL);
  for (int i = 0; i < set->n; i++) {
    if (ended[i]) ommai_engine_free(set->engines[i]);
  }
  if (!some_left) free_set(set);
  return some_left;
}
