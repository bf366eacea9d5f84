/* What `omma serve` and `omma batch` have in common: options of the engine and of requests, and
 * what is made of them. */
#pragma once

#include "cli/model_options.h"
#include "server/encoding_store.h"
#include "server/kv_publisher.h"
#include "server/server.h"

/* The first member of the struct of values of a command that has these options. */
struct ommai_serving {
  struct ommai_common common;
  struct ommai_strings served_names;
  int64_t max_num_seqs, max_num_batched_tokens, prefill_percent, max_wait_ms;
  int64_t max_queued_requests, max_queued_bytes; /* of a server */
  bool prefix_caching;
  int policy, scheduling; /* indices into the names of the table */
  int runner, convert, task; /* likewise */
  const char *speculative, *structured_outputs;
  const char *reasoning_parser, *reasoning_config;
  bool auto_tool_choice, exclude_unused_tools;
  const char *tool_call_parser;
  int64_t seed; /* -1: not given */
  const char *limit_mm_per_prompt, *mm_processor_kwargs;
  int64_t encoder_cache_bytes; /* -1: not given */
  const char *encoder_cache_url, *kv_events;
  double processor_cache_gb;
  struct ommai_strings media_domains;
  bool private_media_addresses;
  const char *local_media_path;
  int64_t max_body_bytes, max_image_pixels, max_decode_bytes, max_decode_seconds, request_workers;
  int64_t max_grammar_bytes;
  double max_grammar_seconds;
};

extern const struct ommai_option_group ommai_request_options, ommai_scheduler_options, ommai_media_options;

/* Fills those of the server's options that these set, and warns of what has no effect. Both return
 * an exit code; the error has been printed, in the name of `command`. */
int ommai_serving_read(const char *command, const struct ommai_serving *serving, struct omma_server_options *options);

/* A model with its engine, and the memory that was estimated for them. */
struct ommai_opened {
  struct omma_model *model;
  struct omma_engine *engine;
  struct ommai_encoding_store *store;      /* NULL: none */
  struct ommai_kv_publisher *kv_publisher; /* NULL: none */
  struct omma_memory_estimate estimate;
};

/* Opens the model, which an argument may name instead of --model, and its engine; prints how much
 * fits into its memory before weights are packed. `server` is as ommai_serving_read left it; lines
 * about the shared encoder cache go to its log. progress (may be NULL) gets how much of the
 * weights is there. Returns an exit code; the error has been printed, and there is nothing to close
 * then. */
int ommai_serving_open(const char *command, const struct ommai_serving *serving, const struct omma_server_options *server,
                       const struct ommai_strings *arguments, omma_progress progress, void *progress_context,
                       struct ommai_opened *opened);
void ommai_serving_close(struct ommai_opened *opened);
