/* One line of OpenAI's batch format, answered by a server's endpoints without HTTP.
 *
 * The line is {"custom_id": TEXT, "method": "POST", "url": PATH, "body": {...}}; PATH is that of
 * chat completions, completions, responses, embeddings, scores or rankings. The result is a line
 * {"id": ..., "custom_id": ..., "response": {"status_code": N, "request_id": ..., "body": {...}},
 * "error": null}. If the request failed, the body is {"error": {...}} as over HTTP, and "error" the
 * same inner object; where the line itself is bad, "error" has its number as "line" too, and
 * custom_id is null when it has none.
 *
 * Usual order: read -> (custom_id, refuse) -> start -> on_reply -> status -> write -> destroy. One
 * thread; on_reply comes from any. */
#pragma once

#include <omma/omma.h>
#include <stdbool.h>

struct ommai_server;
struct ommai_batch_request;

/* Reads a line, given without its end and with its number from 1. A bad one is read, too: its
 * status shows it. With a seeded server, requests without a seed of their own get one that follows
 * from the server's seed and the number. NULL when memory is out. */
struct ommai_batch_request *ommai_batch_request_read(struct ommai_server *server, const char *line, size_t size,
                                                     int64_t number);

/* NULL where the line has none. */
const char *ommai_batch_request_custom_id(const struct ommai_batch_request *request);

/* Makes the line a bad one. `param` is the field at fault. */
void ommai_batch_request_refuse(struct ommai_batch_request *request, const char *param, const char *message);

/* 0: not answered yet; 200: answered; else it failed, a bad line with 400. */
int ommai_batch_request_status(const struct ommai_batch_request *request);

/* True when the line itself is bad; it is not to be started. */
bool ommai_batch_request_is_bad(const struct ommai_batch_request *request);

/* Begins to answer; drops an earlier reply, so that a failed request may be started again. on_reply
 * must return at once and call nothing of this file. False when memory is out or too many requests
 * wait; the request has failed then, and on_reply is not called. */
bool ommai_batch_request_start(struct ommai_batch_request *request, void (*on_reply)(void *context), void *context);

/* The line that comes of it, with its end; release with free(). NULL when memory is out. */
char *ommai_batch_request_write(const struct ommai_batch_request *request, size_t *size);

/* Also while it runs: it is cancelled, and on_reply is not called any more. NULL is allowed. */
void ommai_batch_request_destroy(struct ommai_batch_request *request);
