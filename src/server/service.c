#include <omma/service.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/allocator.h"
#include "base/error.h"
#include "base/sized.h"
#include "server/core/job_queue.h"
#include "server/core/protocol.h"
#include "server/http/http_call.h"
#include "server/http/routes.h"
#include "server/server.h"
#include "server/state/server_state.h"

/* Events that were not taken yet; nobody is slow in the process. */
#define MAX_PENDING_BYTES (INT64_C(1) << 40)

struct omma_service {
  struct ommai_server *server;
};

struct omma_service_call {
  struct ommai_http_call *call;
  int descriptor;
  struct ommai_text taken;
};

/* 0 is the server's default in the service's options, and a negative limit of media none. */
static void take_options(const struct omma_service_options *options, struct omma_server_options *chosen) {
  ommai_server_options_default(chosen);
  chosen->offline = true;
  if (options->model_name) chosen->served_model_names = (struct ommai_strings){(const char **)&options->model_name, 1, 0};
  chosen->reasoning_parser = options->reasoning_parser;
  chosen->tool_call_parser = options->tool_call_parser;
  chosen->enable_auto_tool_choice = options->tool_call_parser != NULL;
  chosen->settings.image_options = options->image_options;
  if (options->max_images) chosen->settings.limit_images_per_prompt = options->max_images < 0 ? 0 : options->max_images;
  if (options->max_videos) chosen->settings.limit_videos_per_prompt = options->max_videos < 0 ? 0 : options->max_videos;
  if (options->seeded) chosen->settings.seed = (struct ommai_optional_integer)OMMAI_GIVEN((int64_t)options->seed);
  chosen->allowed_media_domains =
      (struct ommai_strings){(const char **)options->allowed_media_domains, options->n_allowed_media_domains, 0};
  if (options->n_workers > 0)
    chosen->n_workers = options->n_workers < 2 ? 2 : options->n_workers > 64 ? 64 : options->n_workers;
  chosen->max_pending_bytes = chosen->max_total_pending_bytes = MAX_PENDING_BYTES;
  chosen->allocator = options->allocator;
}

enum omma_status omma_service_create(const struct omma_service_options *options, const struct omma_model *model,
                                     struct omma_engine *engine, struct omma_service **service, struct omma_error *error) {
  OMMAI_TAKE_OPTIONS(omma_service_options, options, error);
  const struct omma_allocator *allocator = options->allocator ? options->allocator : &ommai_default_allocator;
  struct omma_server_options chosen;
  take_options(options, &chosen);
  struct omma_service *made = ommai_allocate(allocator, 1, sizeof *made);
  if (!made) return ommai_fail_memory(error, "service", sizeof *made);
  enum omma_status status = ommai_server_create(&chosen, model, engine, &made->server, error);
  if (status == OMMA_OK) {
    *service = made;
  } else {
    ommai_release(allocator, made, 1, sizeof *made);
  }
  return status;
}

void omma_service_destroy(struct omma_service *service) {
  if (!service) return;
  const struct omma_allocator *allocator = service->server->config.allocator;
  ommai_server_destroy(service->server);
  ommai_release(allocator, service, 1, sizeof *service);
}

static void ring(void *context) {
  const struct omma_service_call *made = context;
  eventfd_write(made->descriptor, 1);
}

static const struct ommai_route *find_route(const char *path, struct omma_error *error) {
  const char *rest;
  const struct ommai_route *route = path ? ommai_route_find(path, &rest) : NULL;
  if (route && route->answer) return route;
  ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "path", "path: expected an endpoint that takes JSON, found %.80s",
                   path ? path : "NULL");
  return NULL;
}

enum omma_status omma_service_begin(struct omma_service *service, const char *path, const char *body, size_t size,
                                    int descriptor, struct omma_service_call **call, struct omma_error *error) {
  struct ommai_server *server = service->server;
  const struct ommai_route *route = find_route(path, error);
  if (!route) return OMMA_ERROR_ARGUMENT;
  struct omma_service_call *made = ommai_allocate(server->config.allocator, 1, sizeof *made);
  struct ommai_http_call *begun = made ? ommai_http_call_create(server) : NULL;
  if (begun) ommai_text_append(&begun->body, body, size);
  if (!begun || begun->body.failed) {
    ommai_http_call_release(begun);
    ommai_release(server->config.allocator, made, 1, sizeof *made);
    return ommai_fail_memory(error, "request", size);
  }
  *made = (struct omma_service_call){.call = begun, .descriptor = descriptor, .taken = ommai_text_of(server->config.allocator)};
  ommai_http_call_make_id(begun);
  begun->route = route;
  begun->protocol = ommai_protocol_of(route->path);
  begun->on_news = descriptor >= 0 ? ring : NULL;
  begun->on_news_context = made;
  begun->job.run = ommai_route_run;
  ommai_http_call_retain(begun);
  if (!ommai_job_queue_push(server->jobs, &begun->job, 0)) {
    ommai_http_call_release(begun);
    omma_service_end(made);
    return ommai_fail(error, OMMA_ERROR_BUSY, "too many requests wait");
  }
  *call = made;
  return OMMA_OK;
}

/* Under the lock. */
static void take_events(struct omma_service_call *call) {
  struct ommai_http_call *of = call->call;
  while (of->head) {
    struct ommai_event *event = of->head;
    ommai_text_append(&call->taken, event->data, event->size);
    of->head = event->next;
    of->pending_bytes -= event->size;
    atomic_fetch_sub(&of->server->pending_bytes, event->size);
    ommai_http_call_free_event(of, event);
  }
  of->tail = NULL;
}

enum omma_status omma_service_take(struct omma_service_call *call, struct omma_service_news *news, struct omma_error *error) {
  struct ommai_http_call *of = call->call;
  call->taken.size = 0;
  pthread_mutex_lock(&of->lock);
  if (of->replied && of->reply.body.size) {
    ommai_text_append(&call->taken, of->reply.body.data, of->reply.body.size);
    of->reply.body.size = 0;
  }
  take_events(call);
  bool cut = of->gone;
  const struct omma_service_news found = {.status = of->replied     ? of->reply.status
                                                    : of->streaming ? 200
                                                                    : 0,
                                          .stream = of->streaming,
                                          .ended = of->ended,
                                          .text = call->taken.data,
                                          .size = call->taken.size};
  pthread_mutex_unlock(&of->lock);
  if (call->taken.failed) return ommai_fail_memory(error, "reply", call->taken.size);
  if (cut) return ommai_fail(error, OMMA_ERROR_CANCELLED, "the request was broken off");
  *news = found;
  return OMMA_OK;
}

void omma_service_end(struct omma_service_call *call) {
  if (!call) return;
  const struct omma_allocator *allocator = call->taken.allocator;
  ommai_http_call_abandon(call->call);
  ommai_text_free(&call->taken);
  ommai_release(allocator, call, 1, sizeof *call);
}
