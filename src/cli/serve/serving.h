/* What `omma serve` and `omma batch` have in common: options of the engine and of requests, and
 * what is made of them. */
#pragma once

#include "cli/model/model_options.h"
#include "server/publish/encoding_store.h"
#include "server/publish/kv_publisher.h"
#include "server/server.h"

/* The first member of the struct of values of a command that has these options. */
struct ommai_serving {
  struct ommai_common common;
  struct omma_server_options server; /* without what ommai_serving_read adds */
  int64_t max_num_seqs, max_num_batched_tokens, prefill_percent, max_wait_ms;
  int64_t max_queued_bytes;  /* of a server */
  const char *data_parallel; /* a number, or auto */
  int64_t stuck_ms;
  bool prefix_caching;
  int policy, scheduling;    /* indices into the names of the table */
  int runner, convert, task; /* likewise */
  const char *speculative, *structured_outputs;
  const char *limit_mm_per_prompt, *mm_processor_kwargs;
  struct ommai_optional_integer encoder_cache_bytes;
  const char *encoder_cache_url, *kv_events;
  double processor_cache_gb;
};

/* Those of requests and media without the server's. */
extern const struct ommai_option_group ommai_request_options, ommai_scheduler_options, ommai_media_options;

/* Groups that all have who answer by a server's endpoints, next to each other in their lists. */
#define OMMAI_SERVING_GROUPS                                                                                            \
  &ommai_model_options, &ommai_weight_options, &ommai_engine_options, &ommai_scheduler_options, &ommai_request_options, \
      &ommai_server_request_options, &ommai_media_options, &ommai_server_media_options, &ommai_image_options,           \
      &ommai_template_options

/* A group of the server's settings. */
#define OMMAI_SERVER_GROUP(called, table) \
  { .title = called, .options = table, .n_options = SIZE_MAX, .offset = offsetof(struct ommai_serving, server) }
extern const struct ommai_option_group ommai_server_request_options, ommai_server_media_options;

/* Sets the server's settings to their defaults, those without an option too. `values` begins with a
 * struct ommai_serving. */
void ommai_serving_begin(void *values);

/* Fills those of the server's options, which begin as a copy of serving->server, that come from
 * JSON, checks what the server would refuse, and warns of what has no effect. Returns an exit code;
 * the error has been printed, in the name of `command`. */
int ommai_serving_read(const char *command, const struct ommai_serving *serving, struct omma_server_options *options);

/* A model with its engine, and the memory that was estimated for them. */
struct ommai_opened {
  struct omma_model *model;
  struct omma_engine *engine;
  struct ommai_encoding_store *store;      /* NULL: none */
  struct ommai_kv_publisher *kv_publisher; /* NULL: none */
  struct omma_memory_estimate estimate;
  struct ommai_log log; /* the server's */
};

/* Opens the model, which an argument may name instead of --model, and its engine; prints how much
 * memory they take, and how much fits into it, before weights are packed. `server` is as
 * ommai_serving_read left it; lines about the shared encoder cache go to its log. progress (may be
 * NULL) gets how much of the weights is there. Returns an exit code; the error has been printed,
 * and there is nothing to close then. */
int ommai_serving_open(const char *command, const struct ommai_serving *serving, const struct omma_server_options *server,
                       const struct ommai_strings *arguments, omma_progress progress, void *progress_context,
                       struct ommai_opened *opened);
void ommai_serving_close(struct ommai_opened *opened);

/* Opens them, calls `run` with a server over them that has no socket, while signals are deferred
 * (interrupt.h), and closes all. n_parallel: requests that it is to keep under way, as many as the
 * engines run, and further ones that are prepared meanwhile. Returns run's exit code, or that of
 * what could not be opened. */
int ommai_serving_run_offline(const char *command, const struct ommai_serving *serving,
                              const struct omma_server_options *server, const struct ommai_strings *arguments,
                              int (*run)(void *context, struct ommai_server *server, size_t n_parallel), void *context);
