/* The trace of omma_model_options.log: which steps it has, what it never has, and that nothing
 * depends on it. */
#include "base/debug.h"

#include <pthread.h>

#include "support/model_fixture.h"
#include "support/test.h"

struct trace {
  pthread_mutex_t lock;
  char text[1 << 16]; /* lines, each with a line end */
  size_t size;
};

static void add_line(void *context, enum omma_log_level level, const char *text) {
  struct trace *trace = context;
  assert_int_equal(level, OMMA_LOG_DEBUG);
  assert_null(strchr(text, '\n'));
  pthread_mutex_lock(&trace->lock);
  int size = snprintf(trace->text + trace->size, sizeof trace->text - trace->size, "%s\n", text);
  trace->size += (size_t)size;
  assert_true(trace->size < sizeof trace->text);
  pthread_mutex_unlock(&trace->lock);
}

/* Of more than a page of tokens, with the image. */
static const char SECRET[] = "a secret of mine, which nobody but the model and me shall read anywhere";

static struct trace trace = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void expect(const char *part) {
  pthread_mutex_lock(&trace.lock);
  bool found = strstr(trace.text, part) != NULL;
  if (!found) print_message("no \"%s\" in\n%s", part, trace.text);
  pthread_mutex_unlock(&trace.lock);
  assert_true(found);
}

static struct omma_model *open_traced(void) {
  const struct omma_log log = {&trace, add_line};
  const struct omma_model_options options = {.weights = OMMA_WEIGHTS_F32, .n_threads = 1, .max_model_len = 1024, .log = &log};
  trace.size = 0;
  trace.text[0] = '\0';
  return fixture_model("qwen3_vl_tied", &options);
}

static void ask(struct omma_model *model, struct omma_engine *engine, const char *text, struct fixture_answer *answer) {
  const struct omma_sampling sampling = {.max_tokens = 4, .ignore_eos = true, .logprobs = true};
  struct omma_image *image = fixture_image("meadow_163x97.jpg");
  const struct omma_image *const images[] = {image};
  struct omma_request *request = fixture_request(model, images, 1, text, &sampling);
  fixture_ask(engine, request, answer);
  omma_request_destroy(request);
  omma_image_destroy(image);
}

static void steps_are_logged_and_no_text(void **state) {
  (void)state;
  static struct fixture_answer traced, again, plain;
  struct omma_model *model = open_traced();
  expect("qwen3_vl_tied: qwen3_vl at level ");
  expect("model: open");
  struct omma_engine *engine = fixture_engine(model, NULL);
  expect("engine: ");
  ask(model, engine, SECRET, &traced);
  for (size_t i = 0; i < 7; i++) {
    static const char *const parts[] = {"prompt: ",
                                        "request 1: admitted after ",
                                        "request 1: 0 of ",
                                        "; 1 of 1 image to be encoded",
                                        "encode: a pass of 1 image,",
                                        "prefill: request 1: tokens 0 to ",
                                        "request 1: ended by its limit: "};
    expect(parts[i]);
  }
  expect("decode: batch of 1");
  ask(model, engine, SECRET, &again);
  expect("request 2: 64 of "); /* a full page, with the image */
  omma_engine_destroy(engine);
  omma_model_close(model);
  assert_null(strstr(trace.text, "secret"));
  model = fixture_model("qwen3_vl_tied", NULL);
  engine = fixture_engine(model, NULL);
  ask(model, engine, SECRET, &plain);
  omma_engine_destroy(engine);
  omma_model_close(model);
  fixture_expect_equal(&traced, &plain);
  fixture_expect_equal(&traced, &again);
}

static void evictions_are_logged(void **state) {
  (void)state;
  static struct fixture_answer answer;
  struct omma_model *model = open_traced();
  const struct omma_engine_options options = {.kv_cache_bytes = fixture_kv_bytes(model, 3), .max_sequences = 1};
  struct omma_engine *engine = fixture_engine(model, &options);
  for (int i = 0; i < 3; i++) {
    char text[100];
    memset(text, 'a' + i, sizeof text - 1);
    text[sizeof text - 1] = '\0';
    ask(model, engine, text, &answer);
  }
  omma_engine_destroy(engine);
  omma_model_close(model);
  expect(" pages evicted");
}

static void a_long_line_is_cut_and_stays_one(void **state) {
  (void)state;
  const struct omma_log log = {&trace, add_line}, none = {0};
  char name[2 * OMMA_LOG_LINE_SIZE];
  memset(name, 'x', sizeof name - 1);
  name[sizeof name - 1] = '\0';
  trace.size = 0;
  OMMAI_DEBUG(&log, "%s", name);
  assert_int_equal(trace.size, OMMA_LOG_LINE_SIZE); /* its line end instead of the NUL */
  trace.size = 0;
  OMMAI_DEBUG(&log, "a\nb%s", "\r");
  assert_string_equal(trace.text, "a b \n");
  int n = 0;
  OMMAI_DEBUG(&none, "%d", ++n);
  assert_int_equal(n, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(steps_are_logged_and_no_text),
      cmocka_unit_test(evictions_are_logged),
      cmocka_unit_test(a_long_line_is_cut_and_stays_one),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
