/* POST /v1/embeddings, /v2/embed, /pooling, /score and /rerank. Inputs go to the engine some at a
 * time, so that those of one request are computed together and never all of them wait in memory.
 *
 * A pump, which a worker runs, prepares inputs and submits them until enough of them are with the
 * engine; then it rests until half of these are done. The engine's thread copies results and wakes
 * it. At most one of pump and end is queued or runs; whoever sees that nothing is left queues or
 * runs the end. */
#include "server/api/vector_requests.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/allocator.h"
#include "server/api/request_log.h"
#include "server/http/access.h"
#include "server/http/endpoints.h"
#include "server/http/routes.h"
#include "server/state/server_state.h"

/* Inputs of a request that are with the engine: fewer where they have images, whose pixels take
 * memory. */
#define MAX_OPEN OMMAI_MAX_ENGINE_REQUESTS
#define MAX_OPEN_WITH_MEDIA 32
#define ID_SIZE (OMMAI_REQUEST_ID_SIZE + 16)

struct vector_answer;

struct place {
  struct vector_answer *answer;
  struct omma_request *request; /* the pump's to free when done */
  uint64_t id;
  bool done;
};

struct vector_answer {
  struct ommai_job job; /* first */
  struct ommai_http_call *call;
  const struct omma_allocator *allocator;
  json_t *root;
  const struct ommai_vector_rules *rules;
  struct ommai_vector_fields fields;
  struct ommai_vector_inputs inputs;
  char id[ID_SIZE];
  struct place *places;                /* [inputs.n] */
  struct ommai_vector_result *results; /* [inputs.n] */
  size_t n_freed;                      /* requests of the first places that are freed; the pump's */

  pthread_mutex_t lock;
  size_t next, n_open;   /* the first input that is not prepared; those with the engine */
  bool pumping;          /* the pump runs or is queued */
  bool failed, reported; /* an input failed; the client knows */
  struct omma_error error;
  bool too_much; /* there is, of replies that are not read */
};

static void free_answer(struct vector_answer *answer) {
  for (size_t i = 0; answer->places && i < answer->inputs.n; i++) omma_request_destroy(answer->places[i].request);
  for (size_t i = 0; answer->results && i < answer->inputs.n; i++) {
    const struct ommai_vector_result *result = &answer->results[i];
    ommai_release(answer->allocator, result->values, (size_t)(result->n_rows * result->width), sizeof *result->values);
  }
  ommai_release(answer->allocator, answer->places, answer->inputs.n, sizeof *answer->places);
  ommai_release(answer->allocator, answer->results, answer->inputs.n, sizeof *answer->results);
  ommai_vector_inputs_free(&answer->inputs);
  json_decref(answer->root);
  pthread_mutex_destroy(&answer->lock);
  ommai_http_call_let_go(answer->call);
  ommai_release(answer->allocator, answer, 1, sizeof *answer);
}

static void reply(struct vector_answer *answer) {
  const struct ommai_server *server = answer->call->server;
  const struct ommai_vector_reply content = {.id = answer->id,
                                             .model = answer->fields.model,
                                             .created = (int64_t)time(NULL),
                                             .rules = answer->rules,
                                             .has_token_vectors = server->config.info.token_vector_width > 0,
                                             .fields = &answer->fields,
                                             .inputs = &answer->inputs,
                                             .results = answer->results,
                                             .root = answer->root};
  struct ommai_api_error error;
  if (answer->rules->is_cohere && !ommai_cohere_embed_check(&content, &error)) {
    ommai_http_call_fail(answer->call, &error);
    return;
  }
  struct ommai_text out = ommai_text_of(answer->allocator);
  const char *type = ommai_vector_reply_write(&content, &out);
  ommai_http_call_reply(answer->call, 200, type, &out);
}

static void end(struct ommai_job *job) {
  struct vector_answer *answer = (struct vector_answer *)job;
  if (!answer->failed && !ommai_http_call_is_gone(answer->call)) reply(answer);
  free_answer(answer);
}

/* Under the lock. Whether nothing more will be prepared. */
static bool is_complete(const struct vector_answer *answer) {
  return answer->next == answer->inputs.n || answer->failed || ommai_http_call_is_gone(answer->call);
}

/* ---- on the engine's thread ---- */

static void on_vectors(void *context, const struct omma_vectors *vectors) {
  struct place *place = context;
  struct vector_answer *answer = place->answer;
  struct ommai_vector_result *result = &answer->results[place - answer->places];
  size_t n = (size_t)(vectors->n_rows * vectors->width);
  if (!ommai_http_call_hold(answer->call, n * sizeof *result->values)) {
    pthread_mutex_lock(&answer->lock);
    answer->too_much = true;
    pthread_mutex_unlock(&answer->lock);
    return;
  }
  result->values = ommai_allocate_uninitialised(answer->allocator, n, sizeof *result->values);
  if (!result->values) return;
  memcpy(result->values, vectors->values, n * sizeof *result->values);
  result->n_rows = vectors->n_rows;
  result->width = vectors->width;
}

static void on_progress(void *context, enum omma_stage stage, int64_t done, int64_t total) {
  const struct place *place = context;
  if (stage != OMMA_STAGE_QUEUED) ommai_access_log_progress(place->answer->call, stage, done, total, 1);
}

/* Under the lock. Keeps the first failure. */
static void take_failure(struct vector_answer *answer, const struct place *place, const struct omma_result *result) {
  bool has_values = answer->results[place - answer->places].values != NULL;
  if ((result->finish == OMMA_FINISH_STOP && has_values) || answer->failed) return;
  answer->failed = true;
  answer->error = (struct omma_error){.status = OMMA_ERROR_CANCELLED};
  if (result->finish == OMMA_FINISH_ERROR) answer->error = result->error;
  if (result->finish == OMMA_FINISH_STOP) answer->error.status = OMMA_ERROR_MEMORY;
}

static void pump(struct ommai_job *job);

/* Under the lock. Whether it is time for the pump: to prepare more, or to tell of a failure. */
static bool needs_pump(const struct vector_answer *answer) {
  size_t limit = answer->inputs.has_media ? MAX_OPEN_WITH_MEDIA : MAX_OPEN;
  if (answer->pumping) return false;
  return is_complete(answer) ? answer->n_open == 0 || (answer->failed && !answer->reported) : answer->n_open <= limit / 2;
}

static void queue_pump(struct vector_answer *answer) {
  answer->job.run = pump;
  bool loads = answer->inputs.has_media && answer->next < answer->inputs.n;
  (loads ? ommai_job_queue_push_media : ommai_job_queue_push_again)(answer->call->server->jobs, &answer->job);
}

static void on_finish(void *context, const struct omma_result *result) {
  struct place *place = context;
  struct vector_answer *answer = place->answer;
  ommai_access_add(answer->call, result, true, 0);
  pthread_mutex_lock(&answer->lock);
  answer->results[place - answer->places].n_tokens = result->n_prompt_tokens;
  /* without an id it was not added */
  if (place->id) ommai_http_call_drop_engine_id(answer->call, place->id);
  place->done = true;
  answer->n_open--;
  take_failure(answer, place, result);
  bool wake = needs_pump(answer);
  answer->pumping |= wake;
  if (wake) queue_pump(answer);
  pthread_mutex_unlock(&answer->lock);
}

/* ---- the pump ---- */

static void tell(struct vector_answer *answer, const struct ommai_api_error *error) {
  ommai_http_call_fail(answer->call, error);
  ommai_http_call_cancel_engine(answer->call);
}

static void tell_of_result(struct vector_answer *answer) {
  struct ommai_api_error error;
  pthread_mutex_lock(&answer->lock);
  bool too_much = answer->too_much;
  pthread_mutex_unlock(&answer->lock);
  if (too_much) {
    ommai_api_refuse(&error, OMMAI_REFUSAL_REPLIES);
  } else {
    ommai_server_fail(answer->call->config, "computing vectors", &answer->error, &error);
  }
  tell(answer, &error);
}

/* Requests that are over; freeing them is no work for the engine's thread. */
static void free_requests(struct vector_answer *answer) {
  struct omma_request *over[MAX_OPEN];
  size_t n = 0, first = answer->n_freed;
  pthread_mutex_lock(&answer->lock);
  for (size_t i = first; i < answer->next && n < MAX_OPEN; i++) {
    struct place *place = &answer->places[i];
    if (place->done && place->request) over[n++] = place->request;
    if (place->done) place->request = NULL;
    if (place->done && i == answer->n_freed) answer->n_freed++;
  }
  pthread_mutex_unlock(&answer->lock);
  for (size_t i = 0; i < n; i++) omma_request_destroy(over[i]);
}

static bool submit(struct vector_answer *answer, struct place *place, struct ommai_api_error *error) {
  const struct omma_callbacks callbacks = {
      .context = place, .on_progress = on_progress, .on_vectors = on_vectors, .on_finish = on_finish};
  struct omma_error cause = {0};
  uint64_t id = 0;
  if (omma_engine_submit(answer->call->server->engine, place->request, &callbacks, &id, &cause) != OMMA_OK) {
    return ommai_api_fail_from(error, &cause);
  }
  /* It may be over by now. */
  pthread_mutex_lock(&answer->lock);
  place->id = id;
  if (!place->done) ommai_http_call_add_engine_id(answer->call, id);
  pthread_mutex_unlock(&answer->lock);
  return true;
}

/* Takes the next input to prepare; false where there is none now. */
static bool take_next(struct vector_answer *answer, size_t *index) {
  size_t limit = answer->inputs.has_media ? MAX_OPEN_WITH_MEDIA : MAX_OPEN;
  pthread_mutex_lock(&answer->lock);
  bool taken = !is_complete(answer) && answer->n_open < limit;
  if (taken) {
    *index = answer->next++;
    answer->n_open++;
  }
  pthread_mutex_unlock(&answer->lock);
  return taken;
}

/* The input never reached the engine: it failed, or its client left. */
static void give_up(struct vector_answer *answer, const struct ommai_api_error *error) {
  pthread_mutex_lock(&answer->lock);
  answer->n_open--;
  bool tells = error && !answer->failed;
  if (error) answer->failed = true;
  if (tells) answer->reported = true;
  pthread_mutex_unlock(&answer->lock);
  if (tells) tell(answer, error);
}

static void prepare(struct vector_answer *answer, size_t index) {
  struct place *place = &answer->places[index];
  struct ommai_api_error error;
  bool good =
      ommai_vector_input_prepare(answer->call, answer->root, &answer->fields, &answer->inputs, index, &place->request, &error);
  if (good && !place->request) {
    give_up(answer, NULL);
  } else if (!good || !submit(answer, place, &error)) {
    give_up(answer, &error);
  }
}

static void pump(struct ommai_job *job) {
  struct vector_answer *answer = (struct vector_answer *)job;
  size_t index;
  free_requests(answer);
  while (take_next(answer, &index)) prepare(answer, index);
  pthread_mutex_lock(&answer->lock);
  bool tells = answer->failed && !answer->reported;
  answer->reported |= tells;
  pthread_mutex_unlock(&answer->lock);
  if (tells && !ommai_http_call_is_gone(answer->call)) tell_of_result(answer);
  pthread_mutex_lock(&answer->lock);
  answer->pumping = false;
  bool over = is_complete(answer) && answer->n_open == 0;
  /* what came to an end meanwhile */
  bool again = !over && needs_pump(answer);
  answer->pumping = over || again;
  if (again) queue_pump(answer);
  pthread_mutex_unlock(&answer->lock);
  if (over) end(&answer->job);
}

/* ---- the beginning ---- */

/* By the library's own words, which name models that could. */
static bool fail_task(const struct ommai_server *server, bool scores, struct ommai_api_error *error) {
  const struct omma_request_options options = {.kind = scores ? OMMA_REQUEST_SCORE : OMMA_REQUEST_EMBED};
  struct omma_request *request = NULL;
  struct omma_error cause = {0};
  enum omma_status status =
      scores ? omma_request_create_score(server->config.model, NULL, NULL, 0, NULL, 0, &options, &request, &cause)
             : omma_request_create_embed(server->config.model, NULL, NULL, 0, &options, &request, &cause);
  omma_request_destroy(request);
  return status == OMMA_OK ? ommai_api_fail(error, 400, "model", "The model does not support this API.")
                           : ommai_api_fail_from(error, &cause);
}

static bool check_task(const struct ommai_server *server, const struct ommai_vector_rules *rules,
                       struct ommai_api_error *error) {
  enum omma_model_task task = server->config.info.task;
  if (server->config.info.token_vector_width) {
    return rules->is_scoring || rules->is_pooling ||
           ommai_api_fail(error, 400, "model", "The model gives a vector for each token: ask /pooling, /score or /rerank.");
  }
  if (task == OMMA_TASK_EMBED || (task == OMMA_TASK_SCORE && (rules->is_scoring || rules->is_pooling))) return true;
  return fail_task(server, rules->is_scoring, error);
}

/* The request in the form in which it is read on, with a reference; NULL with *error filled. */
static json_t *own_form(const struct ommai_server *server, const json_t *root, const struct ommai_vector_rules *rules,
                        struct ommai_api_error *error) {
  return rules->is_cohere ? ommai_cohere_embed_read(&server->config, root, error) : json_incref((json_t *)root);
}

bool ommai_vector_request_check(struct ommai_server *server, const json_t *root, const struct ommai_vector_rules *rules,
                                struct ommai_api_error *error) {
  struct ommai_vector_fields fields;
  struct ommai_vector_inputs inputs = {0};
  json_t *read = own_form(server, root, rules, error);
  bool good = read && ommai_vector_fields_read(server, read, rules, &fields, error) &&
              ommai_vector_inputs_read(&server->config, read, rules, &fields, &inputs, error);
  ommai_vector_inputs_free(&inputs);
  json_decref(read);
  return good;
}

static bool make_places(struct vector_answer *answer, struct ommai_api_error *error) {
  answer->places = ommai_allocate(answer->allocator, answer->inputs.n, sizeof *answer->places);
  answer->results = ommai_allocate(answer->allocator, answer->inputs.n, sizeof *answer->results);
  if (!answer->places || !answer->results) return ommai_api_fail_memory(error);
  for (size_t i = 0; i < answer->inputs.n; i++) answer->places[i].answer = answer;
  return true;
}

static void set_id(struct vector_answer *answer) {
  const struct ommai_http_call *call = answer->call;
  const char *wanted = answer->fields.request_id;
  bool own_id = !call->id_given && wanted && strlen(wanted) < OMMAI_REQUEST_ID_SIZE;
  snprintf(answer->id, sizeof answer->id, "%s%s", answer->rules->id_prefix, own_id ? wanted : call->request_id);
}

static bool read_request(struct vector_answer *answer, struct ommai_api_error *error) {
  struct ommai_server *server = answer->call->server;
  if (!check_task(server, answer->rules, error)) return false;
  json_t *read = own_form(server, answer->root, answer->rules, error);
  if (!read) return false;
  json_decref(answer->root);
  answer->root = read;
  return ommai_vector_fields_read(server, answer->root, answer->rules, &answer->fields, error) &&
         ommai_vector_inputs_read(&server->config, answer->root, answer->rules, &answer->fields, &answer->inputs, error) &&
         make_places(answer, error);
}

bool ommai_endpoint_vectors(struct ommai_http_call *call, json_t *root, struct ommai_api_error *error) {
  struct vector_answer *answer = ommai_allocate(call->allocator, 1, sizeof *answer);
  if (!answer) {
    json_decref(root);
    return ommai_api_fail_memory(error);
  }
  answer->call = call;
  answer->allocator = answer->inputs.allocator = call->allocator;
  answer->root = root;
  ommai_http_call_keep(call);
  answer->rules = ommai_vector_rules_of(call->route->path);
  pthread_mutex_init(&answer->lock, NULL);
  if (!read_request(answer, error)) {
    free_answer(answer);
    return false;
  }
  set_id(answer);
  ommai_request_log_inputs(call, answer->fields.model, answer->inputs.n);
  answer->pumping = true;
  if (answer->inputs.has_media) {
    queue_pump(answer);
  } else {
    pump(&answer->job);
  }
  return true;
}
