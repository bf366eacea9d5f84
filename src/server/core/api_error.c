#include "server/core/api_error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/json_writer.h"

static const char *type_of(int status) {
  switch (status) {
    case 400: return "BadRequestError";
    case 401: return "AuthenticationError";
    case 404: return "NotFoundError";
    case 405: return "Method Not Allowed";
    case 408: return "Request Timeout";
    case 413: return "Request Entity Too Large";
    case 422: return "UnprocessableEntityError";
    case 503: return "ServiceUnavailableError";
    default: return "InternalServerError";
  }
}

static const struct {
  const char *reason, *message;
} refusals[] = {
    [OMMAI_REFUSAL_QUEUED_REQUESTS] = {"max_num_queued_reqs",
                                       "The server is busy: its queue is full: as many requests wait as may."},
    [OMMAI_REFUSAL_QUEUED_BYTES] = {"max_queued_bytes",
                                    "The server is busy: its queue is full: requests take all the memory for those that wait."},
    [OMMAI_REFUSAL_BODIES] =
        {"max_total_body_bytes",
         "The server is busy: it holds too many request bodies, and this one came more slowly than others."},
    [OMMAI_REFUSAL_CONNECTIONS] = {"max_connections", "The server is busy: too many connections are open."},
    [OMMAI_REFUSAL_REPLIES] = {"unread_replies", "The server is busy: it holds too much of replies that are not read yet."},
    [OMMAI_REFUSAL_ASLEEP] = {"sleeping", "The server is sleeping; POST /wake_up."},
};

const char *ommai_refusal_reason(enum ommai_refusal refusal) { return refusals[refusal].reason; }

static void fill(struct ommai_api_error *error, int status, const char *type, const char *param, const char *format,
                 va_list arguments) {
  error->status = status;
  error->refusal = OMMAI_REFUSAL_NONE;
  error->type = type;
  snprintf(error->param, sizeof error->param, "%s", param ? param : "");
  vsnprintf(error->message, sizeof error->message, format, arguments);
}

bool ommai_api_fail(struct ommai_api_error *error, int status, const char *param, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fill(error, status, type_of(status), param, format, arguments);
  va_end(arguments);
  return false;
}

bool ommai_api_fail_body(struct ommai_api_error *error, const char *param, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fill(error, 400, "Bad Request", param, format, arguments);
  va_end(arguments);
  return false;
}

bool ommai_api_refuse(struct ommai_api_error *error, enum ommai_refusal refusal) {
  ommai_api_fail(error, 503, NULL, "%s", refusals[refusal].message);
  error->refusal = refusal;
  return false;
}

bool ommai_api_fail_memory(struct ommai_api_error *error) {
  return ommai_api_fail(error, 503, NULL, "The server has no memory for this request now.");
}

/* By the field of BUSY. */
static enum ommai_refusal refusal_of(const char *field) {
  if (!strcmp(field, "asleep")) return OMMAI_REFUSAL_ASLEEP;
  return strcmp(field, "queue_bytes") ? OMMAI_REFUSAL_QUEUED_REQUESTS : OMMAI_REFUSAL_QUEUED_BYTES;
}

bool ommai_api_fail_from(struct ommai_api_error *error, const struct omma_error *cause) {
  switch (cause->status) {
    case OMMA_ERROR_ARGUMENT:
    case OMMA_ERROR_FORMAT:
    case OMMA_ERROR_UNSUPPORTED:
    case OMMA_ERROR_LIMIT: return ommai_api_fail(error, 400, cause->field, "%s", cause->message);
    case OMMA_ERROR_MEMORY: return ommai_api_fail_memory(error);
    case OMMA_ERROR_BUSY: return ommai_api_refuse(error, refusal_of(cause->field));
    case OMMA_ERROR_CANCELLED: return ommai_api_fail(error, 503, NULL, "The server cancelled the request.");
    default: return ommai_api_fail(error, 500, NULL, "Internal server error.");
  }
}

bool ommai_api_error_prefix(struct ommai_api_error *error, const char *format, ...) {
  char message[sizeof error->message];
  va_list arguments;
  if (error->status >= 500) return false;
  memcpy(message, error->message, strlen(error->message) + 1);
  va_start(arguments, format);
  vsnprintf(error->message, sizeof error->message, format, arguments);
  va_end(arguments);
  size_t size = strlen(error->message);
  snprintf(error->message + size, sizeof error->message - size, ": %s", message);
  return false;
}

void ommai_api_error_write(const struct ommai_api_error *error, struct ommai_text *text) {
  ommai_put_begin(text, NULL, "{");
  ommai_api_error_put(error, text);
  ommai_put_end(text, "}");
}

void ommai_api_error_put(const struct ommai_api_error *error, struct ommai_text *text) {
  ommai_put_begin(text, "error", "{");
  OMMAI_PUT_STRINGS(text, {"message", error->message}, {"type", error->type}, {"param", error->param[0] ? error->param : NULL});
  ommai_put_integer(text, "code", error->status);
  ommai_put_end(text, "}");
}
