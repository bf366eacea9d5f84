/* What is known of an engine in numbers: its memory before it is made, and its counters. Part of
 * omma/omma.h, whose rules for all calls apply here. */
#ifndef OMMA_ENGINE_FIGURES_H
#define OMMA_ENGINE_FIGURES_H

#include <stdbool.h>
#include <stdint.h>

/* Why an engine runs no more requests at once: omma_engine_options.max_sequences says so; the
 * default is reached; more would take more than an eighth of the free memory; more would take too
 * much of the KV cache. */
enum omma_sequence_bound {
  OMMA_SEQUENCES_GIVEN = 0,
  OMMA_SEQUENCES_DEFAULT = 1,
  OMMA_SEQUENCES_MEMORY = 2,
  OMMA_SEQUENCES_KV_CACHE = 3
};

/* Memory of a model with an engine, in bytes; where that consists of several, of all of them, as
 * are max_sequences and kv_cache_tokens. It is allocated when the two are created, except
 * request_bytes: that is allocated when a request is created and when it starts, never in between.
 * Not counted: 3 to 10 MiB of the program and its libraries; and
 * omma_image_sizes.resize_bytes. */
struct omma_memory_estimate {
  int64_t weight_bytes;
  int64_t kv_cache_bytes;
  int64_t kv_cache_tokens;
  int64_t kv_page_bytes; /* of a page of 64 tokens in all groups of layers */
  /* Maximum tokens of prompt and answer of one request: the model's limit, or the KV cache's if
   * that is lower. */
  int64_t max_model_len;
  /* For the patch budget; enlarged once for an image that exceeds it. */
  int64_t vision_workspace_bytes;
  int64_t language_workspace_bytes; /* for prompts and for generated tokens */
  int64_t linear_scratch_bytes;     /* of the linear layers, for all threads */
  /* Logits and sampler of as many rows as are drawn at once; tables of the scheduler and of the
   * pages. */
  int64_t table_bytes;
  /* The maximum size of the encoder cache. The cache grows with use and is not in total_bytes. */
  int64_t encoder_cache_bytes;
  int64_t known_image_bytes; /* the same for resized images, for omma_image_recall */
  /* Of a request with one image of n_patches: resized pixels and the tower's output; with
   * penalties and a grammar: counts and a mask. */
  int64_t request_bytes;
  int64_t text_request_bytes; /* of a request without images */
  /* Requests at the same time, and what bounds their number. total_bytes counts that many, of which
   * max_image_sequences have an image each. */
  int64_t max_sequences;
  int64_t max_image_sequences;
  enum omma_sequence_bound sequence_bound;
  int64_t total_bytes;
};
/* How answers end. */
enum omma_finish {
  OMMA_FINISH_STOP = 0,
  OMMA_FINISH_LENGTH = 1,
  OMMA_FINISH_CANCELLED = 2,
  OMMA_FINISH_ERROR = 3,
  OMMA_FINISH_REPETITION = 4 /* by omma_sampling.repetition_detection */
};
#define OMMA_N_FINISHES 5

/* Steps by their tokens: at most 1, 8, 16, and so on by powers of two to 16384, and more. */
#define OMMA_N_STEP_SIZES 14
/* The longest draft, in tokens. */
#define OMMA_MAX_DRAFT_TOKENS 15

/* Counters since the engine was created. */
struct omma_engine_stats {
  /* n_waiting includes requests whose images are encoded while no slot is free for them, and
   * preempted ones, which gave their pages up to older ones and will continue. */
  int64_t n_waiting, n_running;
  int64_t max_sequences; /* that may run at once */
  /* Of those that wait for the first time, as queue_bytes counts them. */
  int64_t waiting_bytes;
  int64_t n_finished[OMMA_N_FINISHES]; /* by enum omma_finish */
  int64_t prompt_tokens, generation_tokens;
  int64_t cached_prompt_tokens;            /* of these, those that earlier prompts had computed */
  int64_t images, patches, encoder_passes; /* of the tower; a pass may have several images */
  int64_t encoder_cache_bytes, encoder_cache_hits, encoder_cache_misses, encoder_cache_evictions;
  /* Images looked up in omma_engine_options.encoding_store: found, and not found. Of the latter,
   * those that the store had with NaN or infinities in them; they were encoded and stored again. */
  int64_t encoding_store_hits, encoding_store_misses, encoding_store_not_finite;
  /* Pages of OMMA_ATTENTION_PAGE_TOKENS tokens: all, and those that running requests use. */
  int64_t kv_pages, kv_pages_used;
  /* Pages of earlier prompts, kept for later ones; they are evicted when pages run out. */
  int64_t kv_pages_kept;
  /* Pages that later prompts can reuse: kept ones, and some of running requests. */
  int64_t kv_pages_published;
  /* Snapshots of recurrent layers (0: the model has none), and the bytes of one: all, those in use,
   * and those that later prompts can go on from; prompts that did, and snapshots that were evicted,
   * for others or with the pages before them. */
  int64_t snapshots, snapshot_bytes, snapshots_used, snapshots_published;
  int64_t snapshot_hits, snapshot_evictions;
  bool prefix_cache;                               /* keys and values of prompts are kept */
  int64_t prefix_cache_queries, prefix_cache_hits; /* prompt tokens looked up, and found */
  /* Drafts (prompt lookup, draft head, grammars), their tokens, and those of them that were
   * accepted. */
  int64_t n_drafts, draft_tokens, accepted_tokens;
  int64_t accepted_by_place[OMMA_MAX_DRAFT_TOKENS]; /* by the token's place in its draft */
  /* How many times as many tokens a second steps with drafts of a draft head gave as those
   * without, lately, of the batch size of the last step; 0: not known. */
  double draft_gain;
  /* A step is a chunk of prompts, with the first tokens of their answers, or one of decode, a token
   * for each running answer, with draft tokens that were right. */
  int64_t steps_by_tokens[OMMA_N_STEP_SIZES];
  int64_t step_tokens; /* of all steps */
  int64_t decode_steps;
  /* decode_seconds: time of all decode steps. decode_model_seconds: the network's part of it; the
   * rest is sampling and callbacks. */
  double decode_seconds, decode_model_seconds;
  /* Preempted requests, which lost their pages for a while: in all, and now. */
  int64_t n_preemptions, n_preempted;
  int64_t workspace_bytes;
  bool alive; /* false after an internal failure: the engine then accepts no requests */
};

#endif
