/* A run's results: the table for people and the JSON for programs, with the rows, keys and file
 * name of vLLM's benchmark. */
#pragma once

#include <jansson.h>
#include <stdio.h>

#include "bench_client/accuracy.h"
#include "bench_client/arrivals.h"
#include "bench_client/bench_metrics.h"

#define OMMAI_DATE_SIZE 16

/* Everything that is reported; borrowed. */
struct ommai_bench_report {
  const char *backend, *label;   /* label: NULL for none */
  const char *model, *tokenizer; /* tokenizer: NULL for none */
  int64_t n_prompts;
  const char *const *metadata; /* [n_metadata], "KEY=VALUE" */
  size_t n_metadata;
  struct ommai_arrivals arrivals;
  int64_t max_parallel;      /* 0: no limit */
  const double *percentiles; /* [n_percentiles] */
  size_t n_percentiles;
  bool selected[OMMAI_METRIC_COUNT]; /* metrics that are shown */
  bool goodput;                      /* was asked for */
  const struct ommai_metrics *metrics;
  const struct ommai_reply *replies; /* [metrics->n] */
  const struct ommai_accuracy *accuracy;
  char date[OMMAI_DATE_SIZE]; /* ommai_report_date of the end */
};

/* The date as in file names: 20260131-235959, local time. */
void ommai_report_date(char out[OMMAI_DATE_SIZE]);

void ommai_report_table(const struct ommai_bench_report *report, FILE *out);

/* The result as a new object; `detailed` adds what was measured of each request. NULL after memory
 * ran out. */
json_t *ommai_report_json(const struct ommai_bench_report *report, bool detailed);

/* LABEL-RATEqps[-concurrencyN]-MODEL-DATE.json. */
void ommai_report_file_name(const struct ommai_bench_report *report, char *out, size_t size);

/* A metric is selected and has a meaning: waiting for a free place needs a limit of places. */
bool ommai_report_shows(const struct ommai_bench_report *report, int metric);

/* A number as Python prints it: the shortest text that reads back as the same number. */
#define OMMAI_NUMBER_SIZE 32
const char *ommai_report_number(double number, char out[OMMAI_NUMBER_SIZE]);

/* The same without a fraction of 0: "99", "99.9". */
const char *ommai_report_percentile(double percentile, char out[OMMAI_NUMBER_SIZE]);
