/* What goes wrong with a request, in the form that clients of OpenAI's interface get: status and
 * {"error":{"message","type","param","code"}}. */
#pragma once

#include <omma/status.h>
#include <stdbool.h>

#include "base/text_buffer.h"

/* What there is too much of for another request, or that the server sleeps (status 503). */
enum ommai_refusal {
  OMMAI_REFUSAL_NONE,
  OMMAI_REFUSAL_QUEUED_REQUESTS,
  OMMAI_REFUSAL_QUEUED_BYTES,
  OMMAI_REFUSAL_BODIES,
  OMMAI_REFUSAL_CONNECTIONS,
  OMMAI_REFUSAL_REPLIES,
  OMMAI_REFUSAL_ASLEEP,
  OMMAI_N_REFUSALS
};

struct ommai_api_error {
  int status; /* of HTTP */
  enum ommai_refusal refusal;
  const char *type; /* a constant string */
  char param[64];   /* the field at fault; empty: null */
  char message[768];
};

/* Fills *error for an HTTP status with that status's usual type ("BadRequestError", ...). param may
 * be NULL. Returns false, so that `return ommai_api_fail(...)` is the usual form. */
bool ommai_api_fail(struct ommai_api_error *error, int status, const char *param, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Status 400 with type "Bad Request": for a body that is no JSON of the right form, as opposed to a
 * field's wrong value. */
bool ommai_api_fail_body(struct ommai_api_error *error, const char *param, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Status 503: the server is busy, or asleep. */
bool ommai_api_refuse(struct ommai_api_error *error, enum ommai_refusal refusal);

/* As metrics name it. */
const char *ommai_refusal_reason(enum ommai_refusal refusal);

/* Status 503: memory is out. */
bool ommai_api_fail_memory(struct ommai_api_error *error);

/* Translates a failure of omma.h. Messages of internal failures are replaced, since they may name
 * files or addresses. */
bool ommai_api_fail_from(struct ommai_api_error *error, const struct omma_error *cause);

/* Puts "WHERE: " in front of the message, unless the server is to blame. Returns false. */
bool ommai_api_error_prefix(struct ommai_api_error *error, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Appends {"error":{...}}. */
void ommai_api_error_write(const struct ommai_api_error *error, struct ommai_text *text);
/* Appends the member alone, inside of an object. */
void ommai_api_error_put(const struct ommai_api_error *error, struct ommai_text *text);
