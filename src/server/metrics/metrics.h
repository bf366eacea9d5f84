/* What the server measures. metrics_text.h writes it. */
#pragma once

#include <omma/omma.h>
#include <pthread.h>

#include "server/core/api_error.h"

enum ommai_histogram_name {
  OMMAI_TIME_TO_FIRST_TOKEN,
  OMMAI_INTER_TOKEN_LATENCY,
  OMMAI_TIME_PER_OUTPUT_TOKEN,
  OMMAI_END_TO_END_LATENCY,
  OMMAI_QUEUE_TIME,
  OMMAI_PREFILL_TIME,
  OMMAI_INFERENCE_TIME,
  OMMAI_DECODE_TIME,
  OMMAI_PROMPT_TOKENS,
  OMMAI_COMPUTED_TOKENS,
  OMMAI_GENERATION_TOKENS,
  OMMAI_LARGEST_GENERATION,
  OMMAI_MAX_TOKENS,
  OMMAI_CHOICES,
  OMMAI_PREEMPTIONS,
  OMMAI_STEP_TOKENS, /* counted by the engine */
  OMMAI_ENCODER_TIME,
  OMMAI_PREPROCESS_TIME,
  OMMAI_N_HISTOGRAMS
};

/* bounds: of the buckets, the upper ones, rising, and 0 at the end. */
struct ommai_histogram_kind {
  const char *name, *help;
  const double *bounds;
};
extern const struct ommai_histogram_kind ommai_histogram_kinds[OMMAI_N_HISTOGRAMS];

#define OMMAI_HISTOGRAM_MAX_BUCKETS 24

struct ommai_histogram {
  /* per bucket, the last for what is above all; not cumulative */
  int64_t counts[OMMAI_HISTOGRAM_MAX_BUCKETS + 1];
  double sum;
};

/* bounds: as in a kind. */
void ommai_histogram_add(struct ommai_histogram *histogram, const double *bounds, double value);

struct ommai_histograms {
  struct ommai_histogram of[OMMAI_N_HISTOGRAMS];
};

/* By whom tool calls are looked for. */
enum ommai_tool_caller { OMMAI_CALLER_CHAT, OMMAI_CALLER_RESPONSES, OMMAI_CALLER_OTHER, OMMAI_N_TOOL_CALLERS };

/* What else is counted, in the order of the text. */
enum ommai_counter {
  OMMAI_IMAGES_PREPARED_AHEAD, /* while the engine was at work on another request */
  OMMAI_PAGES_READ,            /* of documents */
  OMMAI_PAGES_FAILED,
  OMMAI_IMAGES_DECODED,  /* and frames */
  OMMAI_IMAGES_RECALLED, /* known by the bytes of their files */
  OMMAI_N_COUNTERS
};

/* Any thread may observe and count. */
struct ommai_metrics {
  const struct omma_allocator *allocator;
  int n_engines;
  pthread_mutex_t lock;                /* of all below */
  struct ommai_histograms *histograms; /* [n_engines] */
  int64_t counters[OMMAI_N_COUNTERS];
  int64_t refusals[OMMAI_N_REFUSALS];
  int64_t tool_searches[OMMAI_N_TOOL_CALLERS][2][2]; /* by caller, stream, whether one was found */
};

/* Errors: MEMORY; what was made stays for destroy, which takes zeroed metrics too. */
enum omma_status ommai_metrics_init(struct ommai_metrics *metrics, int n_engines, const struct omma_allocator *allocator,
                                    struct omma_error *error);
void ommai_metrics_destroy(struct ommai_metrics *metrics);

void ommai_metrics_observe(struct ommai_metrics *metrics, int engine, enum ommai_histogram_name name, double value);

/* Counts a request with status 503; NONE is not counted. */
void ommai_metrics_count_refusal(struct ommai_metrics *metrics, enum ommai_refusal refusal);

/* Counts a look for tool calls: in a whole answer, or in a piece of a stream. */
void ommai_metrics_count_tools(struct ommai_metrics *metrics, enum ommai_tool_caller caller, bool stream, bool found);

void ommai_metrics_count(struct ommai_metrics *metrics, enum ommai_counter counter, int64_t n);

/* Observes what a finished request reports. decode_image: seconds for fetching and decoding its
 * images. seconds: from its arrival. first_token_seconds: to its first token; 0 where there was
 * none. */
void ommai_metrics_finish(struct ommai_metrics *metrics, const struct omma_result *result, double decode_image, double seconds,
                          double first_token_seconds);
/* Observes what a request asked for, when all n answers to its prompt have ended: tokens of the
 * longest one, which `engine` gave. */
void ommai_metrics_finish_prompt(struct ommai_metrics *metrics, int engine, int64_t n, int64_t largest);
