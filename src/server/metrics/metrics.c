#include "server/metrics/metrics.h"

#include "base/allocator.h"
#include "base/error.h"

/* Upper bounds of the buckets, ascending, 0-terminated. Source: vLLM's metrics. */
static const double first_token_bounds[] = {.001, .005, .01, .02, .04, .06, .08, .1,  .25, .5,   .75, 1,
                                            2.5,  5,    7.5, 10,  20,  40,  80,  160, 640, 2560, 0};
static const double token_bounds[] = {.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 0};
static const double request_bounds[] = {.3, .5, .8, 1,  1.5, 2,   2.5, 5,   10,   15,   20,
                                        30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680, 0};
static const double size_bounds[] = {1,    2,     5,     10,    20,     50,     100,    200,     500,     1000,    2000,
                                     5000, 10000, 20000, 50000, 100000, 200000, 500000, 1000000, 2000000, 5000000, 0};
static const double step_bounds[] = {1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 0};
static const double choice_bounds[] = {1, 2, 5, 10, 20, 0};
static const double preemption_bounds[] = {1, 2, 3, 4, 5, 10, 20, 0};

const struct ommai_histogram_kind ommai_histogram_kinds[OMMAI_N_HISTOGRAMS] = {
    [OMMAI_TIME_TO_FIRST_TOKEN] = {"vllm:time_to_first_token_seconds", "Seconds from a request's arrival to its first token.",
                                   first_token_bounds},
    [OMMAI_INTER_TOKEN_LATENCY] = {"vllm:inter_token_latency_seconds", "Seconds between two tokens of an answer.",
                                   token_bounds},
    [OMMAI_TIME_PER_OUTPUT_TOKEN] = {"vllm:request_time_per_output_token_seconds",
                                     "Mean seconds per token after the first, by request.", token_bounds},
    [OMMAI_END_TO_END_LATENCY] = {"vllm:e2e_request_latency_seconds", "Seconds from a request's arrival to its end.",
                                  request_bounds},
    [OMMAI_QUEUE_TIME] = {"vllm:request_queue_time_seconds", "Seconds that a request waited for the engine.", request_bounds},
    [OMMAI_PREFILL_TIME] = {"vllm:request_prefill_time_seconds", "Seconds for a request's prompt, its images included.",
                            request_bounds},
    [OMMAI_INFERENCE_TIME] = {"vllm:request_inference_time_seconds", "Seconds that the engine worked on a request.",
                              request_bounds},
    [OMMAI_DECODE_TIME] = {"vllm:request_decode_time_seconds", "Seconds for a request's tokens after the first.",
                           request_bounds},
    [OMMAI_PROMPT_TOKENS] = {"vllm:request_prompt_tokens", "Prompt tokens of a request, those of images included.",
                             size_bounds},
    [OMMAI_COMPUTED_TOKENS] = {"vllm:request_prefill_kv_computed_tokens",
                               "Prompt tokens of a request without those that an earlier prompt had left.", size_bounds},
    [OMMAI_GENERATION_TOKENS] = {"vllm:request_generation_tokens", "Tokens of an answer.", size_bounds},
    [OMMAI_LARGEST_GENERATION] = {"vllm:request_max_num_generation_tokens",
                                  "Tokens of the longest of the answers to a prompt (n).", size_bounds},
    [OMMAI_MAX_TOKENS] = {"vllm:request_params_max_tokens",
                          "Tokens that an answer could have: max_tokens, or the context left.", size_bounds},
    [OMMAI_CHOICES] = {"vllm:request_params_n", "Answers that a request wanted to a prompt (n).", choice_bounds},
    [OMMAI_PREEMPTIONS] = {"vllm:request_num_preemptions",
                           "Times that a request gave its pages up for older ones and went on later.", preemption_bounds},
    [OMMAI_STEP_TOKENS] = {"vllm:iteration_tokens_total",
                           "Tokens of a step: of a chunk of prompts, or one for each running answer.", step_bounds},
    [OMMAI_ENCODER_TIME] = {"omma:encoder_seconds", "Seconds that a request waited for the encoder.", request_bounds},
    [OMMAI_PREPROCESS_TIME] = {"omma:preprocess_seconds", "Seconds for fetching, decoding and resizing a request's images.",
                               token_bounds},
};

enum omma_status ommai_metrics_init(struct ommai_metrics *metrics, int n_engines, const struct omma_allocator *allocator,
                                    struct omma_error *error) {
  *metrics = (struct ommai_metrics){.allocator = allocator, .n_engines = n_engines};
  pthread_mutex_init(&metrics->lock, NULL);
  metrics->histograms = ommai_allocate(allocator, (size_t)n_engines, sizeof *metrics->histograms);
  return metrics->histograms ? OMMA_OK : ommai_fail_memory(error, "metrics", (size_t)n_engines * sizeof *metrics->histograms);
}

void ommai_metrics_destroy(struct ommai_metrics *metrics) {
  if (!metrics->n_engines) return;
  ommai_release(metrics->allocator, metrics->histograms, (size_t)metrics->n_engines, sizeof *metrics->histograms);
  pthread_mutex_destroy(&metrics->lock);
}

void ommai_histogram_add(struct ommai_histogram *histogram, const double *bounds, double value) {
  int bucket = 0;
  while (bounds[bucket] > 0 && value > bounds[bucket]) bucket++;
  histogram->counts[bucket]++;
  histogram->sum += value;
}

void ommai_metrics_observe(struct ommai_metrics *metrics, int engine, enum ommai_histogram_name name, double value) {
  pthread_mutex_lock(&metrics->lock);
  ommai_histogram_add(&metrics->histograms[engine].of[name], ommai_histogram_kinds[name].bounds, value);
  pthread_mutex_unlock(&metrics->lock);
}

void ommai_metrics_count_refusal(struct ommai_metrics *metrics, enum ommai_refusal refusal) {
  pthread_mutex_lock(&metrics->lock);
  metrics->refusals[refusal]++;
  pthread_mutex_unlock(&metrics->lock);
}

void ommai_metrics_count_tools(struct ommai_metrics *metrics, enum ommai_tool_caller caller, bool stream, bool found) {
  pthread_mutex_lock(&metrics->lock);
  metrics->tool_searches[caller][stream][found]++;
  pthread_mutex_unlock(&metrics->lock);
}

void ommai_metrics_count(struct ommai_metrics *metrics, enum ommai_counter counter, int64_t n) {
  pthread_mutex_lock(&metrics->lock);
  metrics->counters[counter] += n;
  pthread_mutex_unlock(&metrics->lock);
}

void ommai_metrics_finish(struct ommai_metrics *metrics, const struct omma_result *result, double decode_image, double seconds,
                          double first_token_seconds) {
  const struct omma_timings *timings = &result->timings;
  if (result->finish == OMMA_FINISH_CANCELLED || result->finish == OMMA_FINISH_ERROR) return;
  ommai_metrics_observe(metrics, result->engine, OMMAI_END_TO_END_LATENCY, seconds);
  ommai_metrics_observe(metrics, result->engine, OMMAI_QUEUE_TIME, timings->queue);
  ommai_metrics_observe(metrics, result->engine, OMMAI_PREFILL_TIME, timings->encode + timings->prefill);
  ommai_metrics_observe(metrics, result->engine, OMMAI_INFERENCE_TIME, timings->encode + timings->prefill + timings->decode);
  ommai_metrics_observe(metrics, result->engine, OMMAI_DECODE_TIME, timings->decode);
  ommai_metrics_observe(metrics, result->engine, OMMAI_PROMPT_TOKENS, (double)result->n_prompt_tokens);
  ommai_metrics_observe(metrics, result->engine, OMMAI_COMPUTED_TOKENS,
                        (double)(result->n_prompt_tokens - result->n_cached_tokens));
  ommai_metrics_observe(metrics, result->engine, OMMAI_GENERATION_TOKENS, (double)result->n_completion_tokens);
  ommai_metrics_observe(metrics, result->engine, OMMAI_PREEMPTIONS, (double)result->n_preemptions);
  if (timings->preprocess > 0) {
    ommai_metrics_observe(metrics, result->engine, OMMAI_PREPROCESS_TIME, decode_image + timings->preprocess);
    ommai_metrics_observe(metrics, result->engine, OMMAI_ENCODER_TIME, timings->encode);
  }
  if (result->n_completion_tokens > 1) {
    double per_token = (seconds - first_token_seconds) / (double)(result->n_completion_tokens - 1);
    ommai_metrics_observe(metrics, result->engine, OMMAI_TIME_PER_OUTPUT_TOKEN, per_token);
  }
}

void ommai_metrics_finish_prompt(struct ommai_metrics *metrics, int engine, int64_t n, int64_t largest) {
  ommai_metrics_observe(metrics, engine, OMMAI_CHOICES, (double)n);
  ommai_metrics_observe(metrics, engine, OMMAI_LARGEST_GENERATION, (double)largest);
}
