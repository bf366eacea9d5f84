/* Figures of replies that are written down by hand, and what surrounds them. */
#include <math.h>
#include <stdlib.h>

#include "base/allocator.h"
#include "bench_client/accuracy.h"
#include "bench_client/bench_metrics.h"
#include "bench_client/bench_report.h"
#include "support/test.h"

static const double percentiles[] = {50, 99};
static const struct ommai_metrics_settings settings = {
    .percentiles = percentiles, .n_percentiles = 2, .goodput = {NAN, NAN, NAN, NAN, NAN, NAN}};

static void near(double found, double wanted) {
  if (!(fabs(found - wanted) < 1e-9)) fail_msg("found %.12g, wanted %.12g", found, wanted);
}

static void statistics(void **state) {
  (void)state;
  double values[] = {4, 1, 3, 2};
  struct ommai_statistics found;
  ommai_statistics_compute(values, 4, percentiles, 2, &found);
  near(found.mean, 2.5);
  near(found.median, 2.5);
  near(found.std, sqrt(1.25));
  near(found.percentiles[1], 3.97);
  ommai_statistics_compute(values, 0, percentiles, 2, &found);
  near(found.mean + found.median + found.std + found.percentiles[0], 0);
  ommai_statistics_compute(values, 1, percentiles, 2, &found);
  near(found.percentiles[0], 1);
  near(found.std, 0);
}

/* Three replies: two tokens within a second, four over three seconds, and a failure. */
static double gaps[] = {0.25, 1, 1, 0.5};
static void make_replies(struct ommai_reply replies[3]) {
  for (int i = 0; i < 3; i++) ommai_reply_init(&replies[i], true, 10, &ommai_default_allocator);
  replies[0] = (struct ommai_reply){.success = true,
                                    .start_time = 100,
                                    .ttft = 0.5,
                                    .latency = 0.75,
                                    .itls = gaps,
                                    .n_itls = 1,
                                    .output_tokens = 2,
                                    .prompt_len = 10};
  replies[1] = (struct ommai_reply){.success = true,
                                    .start_time = 100.2,
                                    .queue_time = 0.2,
                                    .ttft = 0.4,
                                    .latency = 2.9,
                                    .itls = gaps + 1,
                                    .n_itls = 3,
                                    .output_tokens = 6,
                                    .prompt_len = 20};
  ommai_reply_fail(&replies[2], "no");
}

static void figures(void **state) {
  (void)state;
  struct ommai_reply replies[3];
  struct ommai_metrics metrics;
  struct omma_error error;
  struct ommai_metrics_settings with_goal = settings;
  with_goal.goodput[OMMAI_METRIC_TPOT] = 0.3;
  make_replies(replies);
  assert_ok(ommai_metrics_compute(&with_goal, replies, 3, 4, &ommai_default_allocator, &metrics, &error), &error);
  assert_int_equal(metrics.completed, 2);
  assert_int_equal(metrics.failed, 1);
  assert_int_equal(metrics.good, 1);
  assert_int_equal(metrics.total_input, 30);
  assert_int_equal(metrics.total_output, 8);
  near(metrics.statistics[OMMAI_METRIC_TTFT].mean, 0.45);
  near(metrics.statistics[OMMAI_METRIC_TPOT].mean, (0.25 + 0.5) / 2);
  near(metrics.statistics[OMMAI_METRIC_ITL].mean, 2.75 / 4);
  near(metrics.statistics[OMMAI_METRIC_E2EL_WITH_QUEUE].percentiles[0], (0.75 + 3.1) / 2);
  near(metrics.peak_output, 3);
  assert_int_equal(metrics.peak_parallel, 2);
  ommai_metrics_release(&metrics);
}

static enum omma_status compute(const struct omma_allocator *allocator, struct omma_error *error) {
  struct ommai_reply replies[3];
  struct ommai_metrics metrics;
  make_replies(replies);
  enum omma_status status = ommai_metrics_compute(&settings, replies, 3, 4, allocator, &metrics, error);
  ommai_metrics_release(&metrics);
  return status;
}

static void an_allocation_fails(void **state) {
  (void)state;
  test_fail_every_allocation(compute, 11);
}

/* Whatever was counted, a sum of it is not a negative rate. */
static void sums_do_not_overflow(void **state) {
  (void)state;
  struct ommai_metrics metrics = {.completed = 1, .total_input = INT64_MAX, .total_output = INT64_MAX, .duration = 1};
  struct ommai_accuracy accuracy = {0};
  struct ommai_bench_report report = {.metrics = &metrics, .accuracy = &accuracy};
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  ommai_report_table(&report, out);
  fclose(out);
  assert_null(strstr(text, " -"));
  assert_non_null(strstr(text, "18446744073709551616"));
  free(text);
}

static double score(const char *text, const char *answers, bool exact) {
  struct ommai_accuracy accuracy = {0};
  struct omma_error error;
  json_t *list = json_loads(answers, 0, NULL);
  assert_ok(ommai_accuracy_add(&accuracy, text, strlen(text), list, &ommai_default_allocator, &error), &error);
  json_decref(list);
  assert_int_equal(accuracy.n, 1);
  return exact ? accuracy.exact : accuracy.vqa;
}

static void answers_are_normalised(void **state) {
  (void)state;
  near(score("The Dog!", "[\"dog\"]", true), 1);
  near(score("Two", "[\"2\"]", true), 1);
  near(score("dont know", "[\"don't know\"]", true), 1);
  near(score("1,000", "[\"1000\"]", true), 1);
  near(score("3.5", "[\"3.5\"]", true), 1);
  near(score("dog cat", "[\"dogcat\"]", true), 0);
  near(score("", "[\"\"]", true), 1);
  near(score("\xc3\xa9t\xc3\xa9", "[\"\xc3\xa9t\xc3\xa9.\"]", true), 1);
}

static void vqa_score(void **state) {
  (void)state;
  near(score("a b", "[\"b\",\"b\",\"c\",\"c\",\"c\",\"c\",\"c\",\"c\",\"c\",\"c\"]", false), (2 * 1.0 / 3 + 8 * 2.0 / 3) / 10);
  near(score("c", "[\"b\",\"b\",\"c\",\"c\",\"c\",\"c\",\"c\",\"c\",\"c\",\"c\"]", false), 1);
  near(score("c", "[\"b\",\"c\"]", false), 1);
  near(score("d", "[\"b\",\"c\"]", false), 0);
  near(score("c", "[{\"answer\": \"c\"}]", false), 1);
}

static void unusable_answers_are_not_judged(void **state) {
  (void)state;
  struct ommai_accuracy accuracy = {0};
  struct omma_error error;
  json_t *list = json_loads("[1, null]", 0, NULL);
  assert_ok(ommai_accuracy_add(&accuracy, "x", 1, list, &ommai_default_allocator, &error), &error);
  assert_ok(ommai_accuracy_add(&accuracy, "x", 1, NULL, &ommai_default_allocator, &error), &error);
  json_decref(list);
  assert_int_equal(accuracy.n, 0);
}

static void numbers_as_python_prints_them(void **state) {
  (void)state;
  const struct {
    double number;
    const char *text;
  } cases[] = {{1, "1.0"},       {100, "100.0"},         {0.5, "0.5"},
               {1.1, "1.1"},     {1e-5, "1e-05"},        {99.9, "99.9"},
               {0, "0.0"},       {1234567, "1234567.0"}, {1.0 / 3, "0.3333333333333333"},
               {INFINITY, "inf"}};
  char out[OMMAI_NUMBER_SIZE];
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    assert_string_equal(ommai_report_number(cases[i].number, out), cases[i].text);
  assert_string_equal(ommai_report_percentile(99, out), "99");
  assert_string_equal(ommai_report_percentile(99.9, out), "99.9");
}

static void file_names(void **state) {
  (void)state;
  char name[256];
  struct ommai_bench_report report = {
      .backend = "openai-chat", .model = "a/b/c-7B", .arrivals = {.rate = INFINITY}, .date = "20260102-030405"};
  ommai_report_file_name(&report, name, sizeof name);
  assert_string_equal(name, "openai-chat-infqps-c-7B-20260102-030405.json");
  report.label = "x";
  report.max_parallel = 8;
  report.arrivals = (struct ommai_arrivals){.rate = INFINITY, .ramp = OMMAI_RAMP_LINEAR, .start_rate = 1, .end_rate = 20};
  ommai_report_file_name(&report, name, sizeof name);
  assert_string_equal(name, "x-ramp-up-linear-1qps-20qps-concurrency8-c-7B-20260102-030405.json");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(statistics),
      cmocka_unit_test(figures),
      cmocka_unit_test(an_allocation_fails),
      cmocka_unit_test(answers_are_normalised),
      cmocka_unit_test(vqa_score),
      cmocka_unit_test(unusable_answers_are_not_judged),
      cmocka_unit_test(numbers_as_python_prints_them),
      cmocka_unit_test(file_names),
      cmocka_unit_test(sums_do_not_overflow),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
