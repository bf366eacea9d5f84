/* The server's endpoints in the process: replies, streams, errors, requests that are given up, and
 * nothing that is left of any of them. */
#include <omma/service.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "support/model_fixture.h"
#include "support/test.h"

#define CHAT "/v1/chat/completions"
#define MESSAGES "{\"messages\":[{\"role\":\"user\",\"content\":\"a b\"}],\"seed\":1,\"ignore_eos\":true"

struct served {
  struct omma_model *model;
  struct omma_engine *engine;
  struct omma_service *service;
};

static struct served serve(void) {
  struct served served = {.model = fixture_model("qwen3_vl_tied", NULL)};
  struct omma_error error;
  served.engine = fixture_engine(served.model, NULL);
  assert_int_equal(omma_service_create(NULL, served.model, served.engine, &served.service, &error), OMMA_OK);
  return served;
}

static void stop(struct served *served) {
  struct omma_engine_stats stats;
  omma_service_destroy(served->service);
  omma_engine_get_stats(served->engine, &stats);
  assert_int_equal(stats.n_running + stats.n_waiting, 0);
  omma_engine_destroy(served->engine);
  omma_model_close(served->model);
}

static struct omma_service_call *begin(const struct served *served, const char *body, int descriptor) {
  struct omma_service_call *call;
  struct omma_error error;
  assert_int_equal(omma_service_begin(served->service, CHAT, body, strlen(body), descriptor, &call, &error), OMMA_OK);
  return call;
}

static void await(int descriptor) {
  eventfd_t count;
  struct pollfd poller = {.fd = descriptor, .events = POLLIN};
  assert_int_equal(poll(&poller, 1, 60000), 1);
  assert_int_equal(eventfd_read(descriptor, &count), 0);
}

/* Everything that comes of a request; at the end there must be nothing more. */
static struct omma_service_news ask(const struct served *served, const char *body, char *text, size_t capacity) {
  int descriptor = eventfd(0, EFD_CLOEXEC);
  struct omma_service_call *call = begin(served, body, descriptor);
  struct omma_service_news news = {0};
  struct omma_error error;
  size_t size = 0;
  while (!news.ended) {
    await(descriptor);
    assert_int_equal(omma_service_take(call, &news, &error), OMMA_OK);
    assert_true(size + news.size < capacity);
    if (news.size) memcpy(text + size, news.text, news.size);
    size += news.size;
  }
  assert_int_equal(omma_service_take(call, &news, &error), OMMA_OK);
  assert_true(news.ended && news.size == 0);
  text[size] = '\0';
  omma_service_end(call);
  close(descriptor);
  return news;
}

static void a_reply_is_one_text_and_a_stream_is_events(void **state) {
  (void)state;
  static char reply[65536], stream[65536];
  struct served served = serve();
  struct omma_service_news news = ask(&served, MESSAGES ",\"max_tokens\":3}", reply, sizeof reply);
  assert_int_equal(news.status, 200);
  assert_false(news.stream);
  assert_non_null(strstr(reply, "\"completion_tokens\":3"));
  news = ask(&served, MESSAGES ",\"max_tokens\":3,\"stream\":true}", stream, sizeof stream);
  assert_int_equal(news.status, 200);
  assert_true(news.stream);
  assert_int_equal(strncmp(stream, "data: {", 7), 0);
  assert_string_equal(stream + strlen(stream) - 14, "data: [DONE]\n\n");
  stop(&served);
}

static void what_is_wrong_is_in_the_reply(void **state) {
  (void)state;
  static char reply[4096];
  struct served served = serve();
  assert_int_equal(ask(&served, "{", reply, sizeof reply).status, 400);
  assert_non_null(strstr(reply, "\"error\":{\"message\":"));
  assert_int_equal(ask(&served, MESSAGES ",\"temperature\":-1}", reply, sizeof reply).status, 400);
  assert_non_null(strstr(reply, "\"param\":\"temperature\""));
  stop(&served);
}

static void paths_without_json_are_refused(void **state) {
  (void)state;
  static const char *const paths[] = {"/health", "/v1/models", "/nothing", "", NULL};
  struct served served = serve();
  for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
    struct omma_service_call *call = NULL;
    struct omma_error error;
    assert_int_equal(omma_service_begin(served.service, paths[i], "{}", 2, -1, &call, &error), OMMA_ERROR_ARGUMENT);
    assert_string_equal(error.field, "path");
    assert_null(call);
  }
  stop(&served);
}

/* At once, in the middle of a stream, and unread to its end. */
static void given_up_requests_leave_nothing(void **state) {
  (void)state;
  struct served served = serve();
  int descriptor = eventfd(0, EFD_CLOEXEC);
  omma_service_end(begin(&served, MESSAGES ",\"max_tokens\":900}", -1));
  struct omma_service_call *calls[4];
  for (size_t i = 0; i < 4; i++) calls[i] = begin(&served, MESSAGES ",\"max_tokens\":900,\"stream\":true}", descriptor);
  await(descriptor);
  for (size_t i = 0; i < 4; i++) omma_service_end(calls[i]);
  struct omma_service_call *unread = begin(&served, MESSAGES ",\"max_tokens\":2,\"stream\":true}", descriptor);
  await(descriptor);
  omma_service_end(unread);
  omma_service_end(NULL);
  stop(&served);
  close(descriptor);
}

static void options_are_checked(void **state) {
  (void)state;
  struct omma_model *model = fixture_model("qwen3_vl_tied", NULL);
  struct omma_engine *engine = fixture_engine(model, NULL);
  struct omma_service *service = NULL;
  struct omma_error error;
  struct omma_service_options options = {.struct_size = sizeof options, .reasoning_parser = "none such"};
  assert_int_equal(omma_service_create(&options, model, engine, &service, &error), OMMA_ERROR_ARGUMENT);
  assert_string_equal(error.field, "reasoning_parser");
  options = (struct omma_service_options){.tool_call_parser = "none such"};
  assert_int_equal(omma_service_create(&options, model, engine, &service, &error), OMMA_ERROR_ARGUMENT);
  assert_string_equal(error.field, "tool_call_parser");
  assert_null(service);
  omma_service_destroy(NULL);
  omma_engine_destroy(engine);
  omma_model_close(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_reply_is_one_text_and_a_stream_is_events), cmocka_unit_test(what_is_wrong_is_in_the_reply),
      cmocka_unit_test(paths_without_json_are_refused), cmocka_unit_test(given_up_requests_leave_nothing),
      cmocka_unit_test(options_are_checked)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
