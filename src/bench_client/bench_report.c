#include "bench_client/bench_report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define WIDTH 50

const char *ommai_report_number(double number, char out[OMMAI_NUMBER_SIZE]) {
  if (isinf(number)) return number < 0 ? "-inf" : "inf";
  for (int digits = 1; digits <= 17; digits++) {
    snprintf(out, OMMAI_NUMBER_SIZE, "%.*g", digits, number);
    if (strtod(out, NULL) == number) break;
  }
  if (fabs(number) >= 1 && fabs(number) < 1e16) {
    /* %g would write 100 as 1e+02. */
    for (int digits = 1; digits <= 17; digits++) {
      snprintf(out, OMMAI_NUMBER_SIZE, "%.*f", digits, number);
      if (strtod(out, NULL) == number) break;
    }
  }
  size_t size = strlen(out);
  if (!strpbrk(out, ".en")) snprintf(out + size, OMMAI_NUMBER_SIZE - size, ".0");
  return out;
}

static void rule(FILE *out, const char *title, char line) {
  int length = (int)strlen(title), left = length < WIDTH ? (WIDTH - length) / 2 : 0;
  int right = length < WIDTH ? WIDTH - length - left : 0;
  for (int i = 0; i < left; i++) fputc(line, out);
  fputs(title, out);
  for (int i = 0; i < right; i++) fputc(line, out);
  fputc('\n', out);
}

static void row_count(FILE *out, const char *name, int64_t value) { fprintf(out, "%-40s %-10lld\n", name, (long long)value); }
static void row_number(FILE *out, const char *name, double value) { fprintf(out, "%-40s %-10.2f\n", name, value); }

const char *ommai_report_percentile(double percentile, char out[OMMAI_NUMBER_SIZE]) {
  if (percentile == floor(percentile)) {
    snprintf(out, OMMAI_NUMBER_SIZE, "%.0f", percentile);
    return out;
  }
  return ommai_report_number(percentile, out);
}

bool ommai_report_shows(const struct ommai_bench_report *report, int metric) {
  if (!report->selected[metric]) return false;
  if (metric == OMMAI_METRIC_QUEUE) return report->max_parallel > 0;
  if (metric == OMMAI_METRIC_E2EL_WITH_QUEUE) return report->max_parallel > 0 && !isinf(report->arrivals.rate);
  return true;
}

static void section(const struct ommai_bench_report *report, int metric, FILE *out) {
  const struct ommai_metric_name *name = &ommai_metric_names[metric];
  const struct ommai_statistics *statistics = &report->metrics->statistics[metric];
  char row[80], word[OMMAI_NUMBER_SIZE];
  rule(out, name->title, '-');
  snprintf(row, sizeof row, "Mean %s (ms):", name->label);
  row_number(out, row, statistics->mean * 1e3);
  snprintf(row, sizeof row, "Median %s (ms):", name->label);
  row_number(out, row, statistics->median * 1e3);
  for (size_t i = 0; i < report->n_percentiles; i++) {
    snprintf(row, sizeof row, "P%s %s (ms):", ommai_report_percentile(report->percentiles[i], word), name->label);
    row_number(out, row, statistics->percentiles[i] * 1e3);
  }
}

void ommai_report_table(const struct ommai_bench_report *report, FILE *out) {
  const struct ommai_metrics *metrics = report->metrics;
  double duration = metrics->duration;
  rule(out, " Serving Benchmark Result ", '=');
  row_count(out, "Successful requests:", (int64_t)metrics->completed);
  row_count(out, "Failed requests:", (int64_t)metrics->failed);
  if (report->max_parallel) row_count(out, "Maximum request concurrency:", report->max_parallel);
  if (!isinf(report->arrivals.rate)) row_number(out, "Request rate configured (RPS):", report->arrivals.rate);
  row_number(out, "Benchmark duration (s):", duration);
  row_count(out, "Total input tokens:", metrics->total_input);
  row_count(out, "Total generated tokens:", metrics->total_output);
  row_number(out, "Request throughput (req/s):", (double)metrics->completed / duration);
  if (report->goodput) row_number(out, "Request goodput (req/s):", (double)metrics->good / duration);
  row_number(out, "Output token throughput (tok/s):", (double)metrics->total_output / duration);
  row_number(out, "Peak output token throughput (tok/s):", metrics->peak_output);
  row_number(out, "Peak concurrent requests:", (double)metrics->peak_parallel);
  row_number(out, "Total token throughput (tok/s):", ((double)metrics->total_input + (double)metrics->total_output) / duration);
  for (int metric = 0; metric < OMMAI_METRIC_COUNT; metric++) {
    if (ommai_report_shows(report, metric)) section(report, metric, out);
  }
  if (report->accuracy->n) {
    double n = (double)report->accuracy->n;
    rule(out, "Accuracy", '-');
    row_count(out, "Answers judged:", (int64_t)report->accuracy->n);
    row_number(out, "Exact match (%):", report->accuracy->exact / n * 100);
    row_number(out, "VQA score (%):", report->accuracy->vqa / n * 100);
  }
  rule(out, "", '=');
}
