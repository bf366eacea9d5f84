/* The OpenAI-compatible server over one model and one engine. It uses nothing of the engine but
 * omma.h.
 *
 * Usual order: ommai_server_create (listens at once) -> ommai_server_port -> ommai_server_run until
 * a descriptor becomes readable -> ommai_server_destroy -> omma_engine_destroy. */
#pragma once

#include "server/core/log_line.h"
#include "server/core/server_options.h"

struct ommai_server;

/* Starts listening and serving. Model and engine must outlive the server. Errors: ARGUMENT (an
 * option, by field), UNSUPPORTED (media domains in a build without libcurl), IO (the address
 * cannot be listened on), MEMORY, INTERNAL (a thread cannot be made). */
enum omma_status ommai_server_create(const struct omma_server_options *options, const struct omma_model *model,
                                     struct omma_engine *engine, struct ommai_server **server, struct omma_error *error);

/* Whether create would take the API keys, the reasoning parser and its configuration, media
 * domains, and unless these options are offline the address, the files of TLS and the collector's
 * URL, for those who want to know before a model is loaded. Another program may still take the
 * address. Errors: ARGUMENT (an option, by field), FORMAT, IO, UNSUPPORTED (a build without libcurl
 * or TLS), MEMORY, INTERNAL. */
enum omma_status ommai_server_check(const struct omma_server_options *options, struct omma_error *error);

/* The port listened on; 0: none, or a Unix domain socket. */
int ommai_server_port(const struct ommai_server *server);

/* The names of its model, *n of them; the server keeps them. */
const char *const *ommai_server_model_names(const struct ommai_server *server, size_t *n);

/* True when only programs of this machine can connect: the address listened on is a loopback
 * one. */
bool ommai_server_is_local(const struct ommai_server *server);

/* Called about every `milliseconds` while a server runs, unless its engine has died, by the thread
 * that runs it. */
struct omma_server_beat {
  int64_t milliseconds;
  void (*call)(void);
};

/* Waits until `stop_descriptor` (a pipe's or eventfd's reading end) is readable or closed. beat may
 * be NULL. Errors: IO. */
enum omma_status ommai_server_run(struct ommai_server *server, int stop_descriptor, const struct omma_server_beat *beat,
                                  struct omma_error *error);

/* Logs that the server stops and how long running requests may go on. After ommai_server_run. */
void ommai_server_log_end(const struct ommai_server *server);

/* Logs that an engine is out, or in again: omma_engine_options.on_engine_state with a struct
 * ommai_log as the context, which may be none: then it goes to stderr. */
void ommai_server_log_engine(void *context, int engine, bool answers);

/* Answers health checks with 503, after leave_ns new requests too, lets running ones go on for
 * drain_ns, then stops accepting, cancels the rest (streams end with an error event), waits for
 * the engine to let go of each, joins all threads and frees everything. NULL is allowed. */
void ommai_server_destroy(struct ommai_server *server);
