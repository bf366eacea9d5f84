/* omma bench serve: its options, and what they mean for the client. */
#pragma once

#include <jansson.h>

#include "bench_client/bench_report.h"
#include "bench_client/bench_run.h"
#include "cli/core/options.h"

/* Values as given; strings are NULL where they were not. */
struct ommai_bench_serve_values {
  int backend;
  const char *base_url, *host, *endpoint, *model, *served_model_name, *tokenizer, *extra_body, *request_id_prefix;
  int64_t port, timeout, ready_timeout, n_warmups;
  struct ommai_strings headers;
  bool insecure, skip_tokenizer;
  int data;
  const char *path;
  int64_t n_prompts, seed;
  struct ommai_optional_integer input_len, output_len;
  bool keep_order, no_oversample, inline_images;
  int64_t custom_output_len;
  struct ommai_optional_integer sharegpt_output_len, hf_output_len;
  int64_t random_input_len, random_output_len, prefix_len;
  const char *range_ratio, *buckets, *image_limit;
  int64_t images;
  double images_ratio;
  double rate, burstiness;
  struct ommai_optional_integer ramp, ramp_start, ramp_end;
  int64_t max_parallel;
  bool ignore_eos;
  struct ommai_optional_integer logprobs, top_k;
  struct ommai_optional_number top_p, min_p, temperature, frequency_penalty, presence_penalty, repetition_penalty;
  const char *metrics, *percentiles, *label, *result_dir, *result_file, *plot;
  struct ommai_strings goodput, metadata;
  bool save, detailed, append, no_progress, json;
  bool ignored; /* flags, texts and choices of vLLM's client that change nothing here */
  const char *ignored_text;
  int ignored_choice;
};

enum { OMMAI_BENCH_SERVE_GROUPS = 6 };
extern const struct ommai_option_group ommai_bench_serve_options[OMMAI_BENCH_SERVE_GROUPS];
extern const char *const ommai_bench_serve_backends[];
extern const struct ommai_foreign_option
    /* of vLLM's client; without effect for what is measured here, or refused */
    ommai_bench_serve_ignored[];

/* What the values mean. Strings are the values' or in here. */
struct ommai_bench_serve_settings {
  char base_url[512], url[1024];
  bool chat;
  const char **headers; /* [n_headers + 1] "Name: value", ends in NULL */
  size_t n_headers;
  struct ommai_data_settings data;
  struct ommai_arrivals arrivals;
  json_t *extra; /* an object, or NULL */
  bool ignore_eos;
  double percentiles[OMMAI_MAX_PERCENTILES];
  size_t n_percentiles;
  bool selected[OMMAI_METRIC_COUNT];
  double goodput[OMMAI_METRIC_COUNT]; /* seconds; NAN: not asked for */
  bool plot_is_png;
};

/* Checks the values and translates them. Returns an exit code; the error has been printed. Release
 * in every case. */
int ommai_bench_serve_settings_make(const struct ommai_bench_serve_values *values, struct ommai_bench_serve_settings *settings);
void ommai_bench_serve_settings_release(struct ommai_bench_serve_settings *settings);

/* Makes the directory of results, and states before the run whether the files can be written as far
 * as permissions show it. Returns an exit code. */
int ommai_bench_serve_check_files(const struct ommai_bench_serve_values *values);

/* Writes the result and the drawing where they are asked for. Returns an exit code; what went wrong
 * has been reported. */
int ommai_bench_serve_write_files(const struct ommai_bench_serve_values *values,
                                  const struct ommai_bench_serve_settings *settings, const struct ommai_bench_report *report,
                                  const struct omma_allocator *allocator);
