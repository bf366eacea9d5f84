#include "server/api/batch_request.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/allocator.h"
#include "base/json_writer.h"
#include "server/core/job_queue.h"
#include "server/core/protocol.h"
#include "server/core/request_json.h"
#include "server/http/http_call.h"
#include "server/http/routes.h"
#include "server/state/server_state.h"

struct ommai_batch_request {
  struct ommai_server *server;
  int64_t number;
  json_t *custom_id; /* NULL: none */
  const struct ommai_route *route;
  char *body; /* JSON; by jansson's memory */
  bool is_bad;
  bool failed; /* before there was a reply: `error` states why */
  struct ommai_api_error error;
  struct ommai_http_call *call; /* NULL: not started */
};

static bool read_custom_id(struct ommai_batch_request *request, const json_t *root, struct ommai_api_error *error) {
  const char *id = NULL;
  if (!ommai_field_string(root, "custom_id", &id, error)) return false;
  if (!id || !*id) return ommai_api_fail(error, 400, "custom_id", "Field required: custom_id, a text.");
  request->custom_id = json_incref(json_object_get(root, "custom_id"));
  return true;
}

static bool read_route(struct ommai_batch_request *request, const json_t *root, struct ommai_api_error *error) {
  static const char *const paths[] = {"/v1/chat/completions", "/v1/completions", "/v1/responses",
                                      "/v1/embeddings",       "/v1/score",       "/score",
                                      "/v1/rerank",           "/rerank",         "/v2/rerank"};
  const char *method = NULL, *url = NULL, *rest;
  if (!ommai_field_string(root, "method", &method, error) || !ommai_field_string(root, "url", &url, error)) return false;
  if (!method) return ommai_api_fail(error, 400, "method", "Field required: method, \"POST\".");
  if (!url) return ommai_api_fail(error, 400, "url", "Field required: url, such as \"%s\".", paths[0]);
  if (strcmp(method, "POST") != 0) return ommai_api_fail(error, 400, "method", "method must be \"POST\".");
  for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
    if (strcmp(url, paths[i]) == 0) request->route = ommai_route_find(url, &rest);
  }
  return request->route ||
         ommai_api_fail(error, 400, "url",
                        "url must be \"%s\", \"%s\" or \"%s\", or with a model of vectors or scores "
                        "\"%s\", \"%s\", \"%s\", \"%s\", \"%s\" or \"%s\".",
                        paths[0], paths[1], paths[2], paths[3], paths[4], paths[5], paths[6], paths[7], paths[8]);
}

/* The seeds of lines are as far apart as the choices of one may reach. */
static bool add_seed(const struct ommai_batch_request *request, json_t *body) {
  const struct ommai_server *server = request->server;
  if (!server->config.settings.seed.given || ommai_field_get(body, "seed")) return true;
  uint64_t seed = (uint64_t)server->config.settings.seed.value + OMMAI_MAX_CHOICES * (uint64_t)(request->number - 1);
  return json_object_set_new(body, "seed", json_integer((json_int_t)(seed & INT64_MAX))) == 0;
}

static bool read_body(struct ommai_batch_request *request, const json_t *root, struct ommai_api_error *error) {
  json_t *body = ommai_field_get(root, "body");
  bool stream = false;
  if (!json_is_object(body)) return ommai_api_fail(error, 400, "body", "Field required: body, an object.");
  if (!ommai_field_boolean(body, "stream", &stream, error)) return false;
  if (stream) return ommai_api_fail(error, 400, "stream", "A request of a batch cannot be streamed.");
  const char *format = json_string_value(ommai_field_get(body, "encoding_format"));
  if (format && strcmp(format, "bytes_only") == 0) {
    return ommai_api_fail(error, 400, "encoding_format",
                          "A line of a batch holds no bytes: encoding_format must be \"float\" or \"base64\".");
  }
  if (add_seed(request, body)) request->body = ommai_json_dump_large(body, JSON_COMPACT);
  return request->body || ommai_api_fail_memory(error);
}

struct ommai_batch_request *ommai_batch_request_read(struct ommai_server *server, const char *line, size_t size,
                                                     int64_t number) {
  struct ommai_batch_request *request = ommai_allocate(server->config.allocator, 1, sizeof *request);
  if (!request) return NULL;
  request->server = server;
  request->number = number;
  json_t *root = ommai_request_parse(line, size, &request->error);
  request->is_bad = !root || !read_custom_id(request, root, &request->error) || !read_route(request, root, &request->error) ||
                    !read_body(request, root, &request->error);
  request->failed = request->is_bad;
  json_decref(root);
  return request;
}

const char *ommai_batch_request_custom_id(const struct ommai_batch_request *request) {
  return json_string_value(request->custom_id);
}

void ommai_batch_request_refuse(struct ommai_batch_request *request, const char *param, const char *message) {
  ommai_api_fail(&request->error, 400, param, "%s", message);
  request->is_bad = request->failed = true;
}

int ommai_batch_request_status(const struct ommai_batch_request *request) {
  if (request->failed) return request->error.status;
  return request->call && ommai_http_call_has_reply(request->call) ? request->call->reply.status : 0;
}

bool ommai_batch_request_is_bad(const struct ommai_batch_request *request) { return request->is_bad; }

static void release_call(struct ommai_batch_request *request) {
  if (request->call) ommai_http_call_abandon(request->call);
  request->call = NULL;
}

bool ommai_batch_request_start(struct ommai_batch_request *request, void (*on_reply)(void *context), void *context) {
  release_call(request);
  struct ommai_http_call *call = request->call = ommai_http_call_create(request->server);
  request->failed = !call;
  if (!call) return ommai_api_fail_memory(&request->error);
  ommai_http_call_make_id(call);
  ommai_text_add(&call->body, request->body);
  call->route = request->route;
  call->protocol = ommai_protocol_of(request->route->path);
  call->on_news = on_reply;
  call->on_news_context = context;
  call->job.run = ommai_route_run;
  ommai_http_call_retain(call);
  if (!call->body.failed && ommai_job_queue_push(request->server->jobs, &call->job, 0)) return true;
  ommai_http_call_release(call);
  request->failed = true;
  return ommai_api_fail_memory(&request->error);
}

/* The member of {"error": {...}}, with the line's number where it is bad. */
static void add_error(struct ommai_text *out, const struct ommai_batch_request *request, const struct ommai_text *body) {
  json_t *root = json_loadb(body->data ? body->data : "", body->size, 0, NULL);
  json_t *inner = json_object_get(root, "error");
  if (inner && request->is_bad) json_object_set_new(inner, "line", json_integer(request->number));
  if (inner) {
    ommai_put_value(out, "error", inner, 0);
  } else {
    ommai_put_new(out, "error", json_pack("{s:s}", "message", "Internal server error."));
  }
  json_decref(root);
}

static void add_line(struct ommai_text *out, const struct ommai_batch_request *request, const char *id, int status,
                     const struct ommai_text *body) {
  ommai_put_begin(out, NULL, "{");
  ommai_put_format(out, "id", "batch_req_%s", id);
  if (request->custom_id) {
    ommai_put_text(out, "custom_id", json_string_value(request->custom_id), json_string_length(request->custom_id));
  } else {
    ommai_put_null(out, "custom_id");
  }
  ommai_put_begin(out, "response", "{");
  ommai_put_integer(out, "status_code", status);
  ommai_put_string(out, "request_id", id);
  ommai_put_raw_text(out, "body", body);
  ommai_put_end(out, "}");
  if (status == 200) {
    ommai_put_null(out, "error");
  } else {
    add_error(out, request, body);
  }
  ommai_put_end(out, "}\n");
}

char *ommai_batch_request_write(const struct ommai_batch_request *request, size_t *size) {
  struct ommai_text out = ommai_text_of(request->server->config.allocator);
  struct ommai_text error = ommai_text_of(request->server->config.allocator);
  if (request->failed) ommai_api_error_write(&request->error, &error);
  char line_id[32];
  snprintf(line_id, sizeof line_id, "line_%" PRId64, request->number);
  const struct ommai_http_call *call = request->failed ? NULL : request->call;
  add_line(&out, request, call ? call->request_id : line_id, ommai_batch_request_status(request),
           call ? &call->reply.body : &error);
  char *line = out.failed ? NULL : strndup(out.data, out.size);
  *size = out.size;
  ommai_text_free(&error);
  ommai_text_free(&out);
  return line;
}

void ommai_batch_request_destroy(struct ommai_batch_request *request) {
  if (!request) return;
  release_call(request);
  json_decref(request->custom_id);
  free(request->body);
  ommai_release(request->server->config.allocator, request, 1, sizeof *request);
}
