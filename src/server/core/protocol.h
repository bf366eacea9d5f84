/* What the clients of an interface get besides answers: errors, a word in silence, the end of
 * a stream. */
#pragma once

#include "server/core/api_error.h"

/* A field of chats that the interface knows by another name. */
struct ommai_field_name {
  const char *chat, *own;
};

struct ommai_protocol {
  /* Each appends the error: as the body of a reply, or as the last event of a stream. request_id:
   * as in the reply's header. */
  void (*write_error)(const struct ommai_api_error *error, const char *request_id, struct ommai_text *out);
  void (*write_error_event)(const struct ommai_api_error *error, const char *request_id, struct ommai_text *out);
  const char *keep_alive; /* an event that is sent in silence */
  const char *done;       /* the last event of a stream; "": there is none */
  /* up to one without a name; longer names before their beginnings. NULL: none */
  const struct ommai_field_name *names;
};

extern const struct ommai_protocol ommai_protocol_openai, ommai_protocol_responses, ommai_protocol_messages;

/* The interface of a path, whether or not the path is served. */
const struct ommai_protocol *ommai_protocol_of(const char *path);

/* Names the fields in an error as the interface does. */
void ommai_protocol_rename(const struct ommai_protocol *protocol, struct ommai_api_error *error);
