/* The endpoints of `omma serve` in the process: a request as JSON in, its reply as JSON out,
 * without HTTP. Messages, tools, tool calls, reasoning, formats of answers, log-probabilities and
 * errors are those of docs/serve.md, and replies are the server's, bit for bit. The rules for all
 * calls of omma/omma.h apply here.
 *
 *   omma_service_create -> for each request omma_service_begin -> omma_service_take, when the
 *   caller's descriptor says that there is something -> omma_service_end -> omma_service_destroy
 *
 * It is in libomma-service, which has everything of libomma too: link either. */
#ifndef OMMA_SERVICE_H
#define OMMA_SERVICE_H

#include <omma/omma.h>

#ifdef __cplusplus
extern "C" {
#endif

struct omma_service;
struct omma_service_call;

/* All strings are copied. */
struct omma_service_options {
  size_t struct_size;     /* sizeof this struct, or 0: see omma.h */
  const char *model_name; /* in replies; NULL: the last part of the model's path */
  /* Names of omma_reasoning_find and omma_tool_parser_find; NULL: none. With tool_call_parser,
   * answers may call tools by themselves (tool_choice "auto"). */
  const char *reasoning_parser, *tool_call_parser;
  struct omma_image_options image_options; /* as --min-pixels and --max-pixels */
  int64_t max_images, max_videos;          /* of one prompt; 0: 64 */
  /* With `seeded`, requests without a seed of their own get one that follows from `seed` and from
   * how many such came before; else a random one. */
  bool seeded;
  uint64_t seed;
  /* Hosts, by exact name, whose images are fetched by http(s); none: nothing is. */
  const char *const *allowed_media_domains;
  size_t n_allowed_media_domains;
  int n_workers; /* threads that parse, decode and prepare: 2 to 64; 0: 3 */
  const struct omma_allocator *allocator;
};

/* Starts its threads. Model and engine must outlive the service. The caller destroys it. Errors:
 * ARGUMENT (an option, by field), UNSUPPORTED (media domains in a build without libcurl), MEMORY,
 * INTERNAL (a thread cannot be made). */
OMMA_API enum omma_status omma_service_create(const struct omma_service_options *options, const struct omma_model *model,
                                              struct omma_engine *engine, struct omma_service **service,
                                              struct omma_error *error);
/* Waits for the threads. All calls must have been ended before. NULL is allowed. */
OMMA_API void omma_service_destroy(struct omma_service *service);

/* Begins a request. path: of an endpoint that takes JSON, such as "/v1/chat/completions". `body` is
 * copied; its images are data: URLs (base64), or http(s) URLs of the allowed hosts. descriptor: an
 * eventfd of the caller, which must stay open until the call is ended and gets 1 added whenever
 * there is something to take; several calls may share one; -1: none. Thread-safe. The caller ends
 * the call. Errors: ARGUMENT (field "path"), BUSY, MEMORY; what is wrong with the body is in the
 * reply. */
OMMA_API enum omma_status omma_service_begin(struct omma_service *service, const char *path, const char *body, size_t size,
                                             int descriptor, struct omma_service_call **call, struct omma_error *error);

/* What has come of a request since the last time. */
struct omma_service_news {
  /* 0: nothing yet. Else of HTTP: 200, or why the request failed. */
  int status;
  /* `text` is events ("data: {...}" and an empty line each), as far as they are there. */
  bool stream;
  bool ended;       /* nothing more will come */
  const void *text; /* JSON where it is no stream; may be NULL with a size of 0 */
  size_t size;
};
/* Does not wait. The text lives until the next call with this `call`. One thread at a time for each
 * call. Errors: MEMORY; CANCELLED (the request broke off without a last event). */
OMMA_API enum omma_status omma_service_take(struct omma_service_call *call, struct omma_service_news *news,
                                            struct omma_error *error);

/* Frees the call. A request that is not over is cancelled; nothing touches the descriptor any more.
 * NULL is allowed. */
OMMA_API void omma_service_end(struct omma_service_call *call);

#ifdef __cplusplus
}
#endif

#endif
