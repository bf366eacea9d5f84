/* What the serving benchmark reads: a reply's stream of events in pieces, files of JSON lines and
 * of conversations. Byte 0 chooses. */
#include <string.h>

#include "base/allocator.h"
#include "bench_client/bench_metrics.h"
#include "bench_client/bench_report.h"
#include "bench_client/data_set.h"
#include "bench_client/json_lines.h"
#include "bench_client/reply.h"
#include "fuzz_folder.h"
#include "fuzz_input.h"

static void check_report(const struct ommai_reply *reply) {
  static const double percentiles[] = {50, 99};
  struct ommai_metrics_settings settings = {.percentiles = percentiles, .n_percentiles = 2};
  struct ommai_metrics metrics;
  struct ommai_accuracy accuracy = {0};
  struct ommai_bench_report report = {
      .backend = "b", .model = "m", .metrics = &metrics, .replies = reply, .accuracy = &accuracy};
  report.percentiles = percentiles;
  report.n_percentiles = 2;
  for (int i = 0; i < OMMAI_METRIC_COUNT; i++) settings.goodput[i] = 1;
  if (ommai_metrics_compute(&settings, reply, 1, 1, &ommai_default_allocator, &metrics, NULL) == OMMA_OK) {
    FUZZ_CHECK(metrics.completed + metrics.failed == 1 && metrics.total_output >= 0 && metrics.total_input >= 0);
    json_t *result = ommai_report_json(&report, true);
    FUZZ_CHECK(result);
    json_decref(result);
  }
  ommai_metrics_release(&metrics);
}

static void try_reply(const char *text, size_t size, size_t piece, bool chat) {
  struct ommai_reply reply;
  ommai_reply_init(&reply, chat, 7, &ommai_default_allocator);
  bool good = true;
  for (size_t at = 0; at < size && good; at += piece) {
    good = ommai_reply_feed(&reply, text + at, piece < size - at ? piece : size - at);
  }
  if (good) ommai_reply_end(&reply);
  FUZZ_CHECK(reply.success == !reply.error[0] && memchr(reply.error, 0, sizeof reply.error));
  FUZZ_CHECK(reply.output_tokens >= -1 && reply.prompt_len >= 0);
  if (reply.success) check_report(&reply);
  ommai_reply_release(&reply);
}

static void try_data(enum ommai_data_kind kind, const char *file) {
  static const struct ommai_body_fields fields = {.chat = true, .model = "m", .logprobs = -1};
  char path[200];
  struct ommai_data_set set;
  struct omma_error error = {.status = OMMA_OK};
  snprintf(path, sizeof path, "%s/%s", fuzz_folder(), file);
  struct ommai_data_settings data = {.kind = kind, .path = path, .n_requests = 3, .output_len = -1};
  enum omma_status status = ommai_data_set_make(&data, &fields, &ommai_default_allocator, &set, &error);
  FUZZ_CHECK(status == OMMA_OK || (error.message[0] && memchr(error.message, 0, sizeof error.message)));
  ommai_data_set_release(&set);
}

static void try_lines(void) {
  char path[200];
  snprintf(path, sizeof path, "%s/rows.jsonl", fuzz_folder());
  json_t *rows = json_array();
  struct omma_error error = {.status = OMMA_OK};
  FUZZ_CHECK(ommai_json_lines_load(path, rows, &error) == OMMA_OK || error.message[0]);
  json_decref(rows);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  static const char *const rows[] = {"rows.jsonl"}, *const conversations[] = {"conversations.json"};
  if (size < 2) return 0;
  switch (bytes[0] % 8) {
    case 4:
      fuzz_folder_fill(rows, 1, bytes + 2, size - 2);
      try_lines();
      break;
    case 5:
      fuzz_folder_fill(rows, 1, bytes + 2, size - 2);
      try_data(OMMAI_DATA_CUSTOM_IMAGE, rows[0]);
      break;
    case 6:
      fuzz_folder_fill(rows, 1, bytes + 2, size - 2);
      try_data(OMMAI_DATA_HF, rows[0]);
      break;
    case 7:
      fuzz_folder_fill(conversations, 1, bytes + 2, size - 2);
      try_data(OMMAI_DATA_SHAREGPT, conversations[0]);
      break;
    default: try_reply((const char *)bytes + 2, size - 2, 1 + bytes[1] % 64, bytes[0] % 2); break;
  }
  return 0;
}
