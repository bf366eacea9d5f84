/* A reply that is read byte by byte, with every allocation failing in turn, and events that end
 * it. */
#include "bench_client/reply.h"

#include <stdlib.h>

#include "base/clock.h"
#include "support/test.h"

static const char events[] =
    "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n"
    "data: {\"choices\":[{\"delta\":{\"content\":\"\\u00e9a\"}}]}\n\n"
    "data: {\"choices\":[{\"delta\":{}}]}\n\n"
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":3}}\n\n"
    "data: [DONE]\n\n";

static void begin(struct ommai_reply *reply, bool chat, const struct omma_allocator *allocator) {
  ommai_reply_init(reply, chat, 9, allocator);
  reply->start_time = ommai_clock_seconds();
}

static void byte_by_byte_with_failing_allocations(void **state) {
  (void)state;
  for (int64_t n = 0;; n++) {
    struct test_allocator allocator;
    struct ommai_reply reply;
    bool fed = true;
    test_allocator_init(&allocator);
    allocator.fail_at = n;
    begin(&reply, true, &allocator.interface);
    for (size_t i = 0; i < sizeof events - 1 && fed; i++) fed = ommai_reply_feed(&reply, events + i, 1);
    if (fed) ommai_reply_end(&reply);
    bool success = reply.success;
    if (success) {
      assert_int_equal(reply.n_itls, 2);
      assert_int_equal(reply.output_tokens, 3);
      assert_int_equal(reply.prompt_len, 5);
      assert_int_equal(reply.text_size, 3);
      assert_memory_equal(reply.text,
                          "\xc3\xa9"
                          "a",
                          3);
      assert_true(reply.ttft > 0 && reply.latency >= reply.ttft + reply.itls[0]);
    } else {
      assert_non_null(strstr(reply.error, "out of memory"));
    }
    ommai_reply_release(&reply);
    assert_int_equal(allocator.n_live, 0);
    if (success) break;
    assert_true(n < 50);
  }
}

static void ends_with(const char *input, bool chat, const char *error) {
  struct test_allocator allocator;
  struct ommai_reply reply;
  test_allocator_init(&allocator);
  begin(&reply, chat, &allocator.interface);
  if (ommai_reply_feed(&reply, input, strlen(input))) ommai_reply_end(&reply);
  if (!strstr(reply.error, error)) fail_msg("%s: \"%s\" lacks \"%s\"", input, reply.error, error);
  assert_int_equal(reply.success, !*error);
  ommai_reply_release(&reply);
  assert_int_equal(allocator.n_live, 0);
}

static void outcomes(void **state) {
  (void)state;
  ends_with("data: {\"choices\":[{\"text\":\"x\"}]}\n\n", false, "");
  ends_with("data: {\"choices\":[{\"delta\":{\"content\":3}}]}", true, "");
  ends_with("data: {\"choices\":[3]}\n\n", false, "has no text");
  ends_with("data: {\"choices\":[{\"delta\":null}]}\n\n", true, "has no delta");
  ends_with("data: {\"error\":\"gone\"}\n\n", true, "gone");
  ends_with("data: {\"error\":{}}\n\n", true, "no message");
  ends_with("data: {\"error\":null}\n\n", true, "without a token");
  ends_with("data: 1\n\n", true, "not a JSON object");
  ends_with("", true, "without a token");
}

/* A server may report anything about its tokens. */
static void impossible_counts_are_not_believed(void **state) {
  (void)state;
  static const char *const usages[] = {"-1",  "-9223372036854775808", "9223372036854775807", "4294967296", "1.5", "\"7\"",
                                       "null"};
  for (size_t i = 0; i < sizeof usages / sizeof usages[0]; i++) {
    struct test_allocator allocator;
    struct ommai_reply reply;
    char text[300];
    test_allocator_init(&allocator);
    begin(&reply, true, &allocator.interface);
    snprintf(text, sizeof text, "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":%s,\"completion_tokens\":%s}}\n\n",
             usages[i], usages[i]);
    assert_true(ommai_reply_feed(&reply, text, strlen(text)));
    assert_int_equal(reply.output_tokens, -1);
    assert_int_equal(reply.prompt_len, 9);
    ommai_reply_release(&reply);
  }
}

/* An answer of more bytes than a tokenizer counts fails by itself. */
static void endless_answers_fail_alone(void **state) {
  (void)state;
  enum { PIECE = 1 << 20 };
  struct test_allocator allocator;
  struct ommai_reply reply;
  char *event = malloc(PIECE + 100);
  test_allocator_init(&allocator);
  begin(&reply, true, &allocator.interface);
  size_t size = (size_t)snprintf(event, 100, "data: {\"choices\":[{\"delta\":{\"content\":\"");
  memset(event + size, 'x', PIECE);
  size += PIECE;
  size += (size_t)snprintf(event + size, 20, "\"}}]}\n\n");
  for (int i = 0; i < 8; i++) assert_true(ommai_reply_feed(&reply, event, size));
  assert_false(ommai_reply_feed(&reply, event, size));
  assert_string_equal(reply.error, "the answer has more than 8388608 bytes");
  ommai_reply_release(&reply);
  free(event);
  assert_int_equal(allocator.n_live, 0);
}

static void the_first_reason_counts(void **state) {
  (void)state;
  struct test_allocator allocator;
  struct ommai_reply reply;
  char long_reason[2000];
  memset(long_reason, 0xe9, sizeof long_reason);
  long_reason[sizeof long_reason - 1] = '\0';
  test_allocator_init(&allocator);
  begin(&reply, true, &allocator.interface);
  ommai_reply_fail(&reply, "line\n%s", long_reason);
  assert_memory_equal(reply.error, "line \xef\xbf\xbd", 8);
  assert_true(strlen(reply.error) < sizeof reply.error);
  ommai_reply_fail(&reply, "second");
  assert_null(strstr(reply.error, "second"));
  ommai_reply_release(&reply);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(byte_by_byte_with_failing_allocations),
      cmocka_unit_test(outcomes),
      cmocka_unit_test(impossible_counts_are_not_believed),
      cmocka_unit_test(endless_answers_fail_alone),
      cmocka_unit_test(the_first_reason_counts),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
