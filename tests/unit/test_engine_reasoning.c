/* Answers that begin with reasoning, through the public interface: what is separated, budgets,
 * grammars after it. */
#include "support/model_fixture.h"
#include "support/test.h"

static const struct omma_reasoning marks = {"<t>", "</t>", NULL, NULL};

static struct omma_model *model; /* qwen3_vl_tied, f32, one thread, 1,024 tokens */
static struct omma_engine *engine;

static int set_up(void **state) {
  (void)state;
  model = fixture_model("qwen3_vl_tied", NULL);
  engine = fixture_engine(model, NULL);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  omma_engine_destroy(engine);
  omma_model_close(model);
  return 0;
}

struct answer {
  char reasoning[4096], text[4096];
  int64_t n_in_reasoning; /* tokens that say so */
  struct omma_result result;
};

static bool append_event(void *context, const struct omma_token_event *event) {
  struct answer *answer = context;
  assert_true(event->reasoning_size == 0 || answer->text[0] == '\0');
  answer->n_in_reasoning += event->in_reasoning;
  strncat(answer->reasoning, event->reasoning, event->reasoning_size);
  strncat(answer->text, event->text, event->text_size);
  return true;
}

static struct omma_request *make(const struct omma_message *messages, size_t n, const struct omma_sampling *sampling,
                                 bool go_on) {
  struct omma_request *request;
  struct omma_error error;
  const struct omma_request_options options = {.sampling = *sampling, .continue_final_message = go_on};
  assert_ok(omma_request_create(model, messages, n, &options, &request, &error), &error);
  return request;
}

/* The answer to a question, whose beginning may be given. */
static struct answer ask(const struct omma_sampling *sampling, const char *beginning) {
  const struct omma_part parts[] = {{.text = "hello", .text_size = 5},
                                    {.text = beginning, .text_size = beginning ? strlen(beginning) : 0}};
  const struct omma_message messages[] = {{OMMA_ROLE_USER, &parts[0], 1, NULL}, {OMMA_ROLE_ASSISTANT, &parts[1], 1, NULL}};
  struct omma_request *request = make(messages, beginning ? 2 : 1, sampling, beginning != NULL);
  struct answer answer = {.reasoning = ""};
  struct omma_error error;
  const struct omma_callbacks callbacks = {.context = &answer, .on_token = append_event};
  assert_ok(omma_generate(engine, request, &callbacks, &answer.result, &error), &error);
  assert_int_equal(answer.n_in_reasoning, answer.result.n_reasoning_tokens);
  omma_request_destroy(request);
  return answer;
}

static void an_answer_without_an_end_is_all_reasoning(void **state) {
  (void)state;
  struct omma_sampling sampling = {.max_tokens = 12, .ignore_eos = true};
  struct answer plain = ask(&sampling, NULL);
  sampling.reasoning = &marks;
  struct answer answer = ask(&sampling, NULL);
  assert_string_equal(answer.reasoning, plain.text);
  assert_string_equal(answer.text, "");
  assert_int_equal(answer.result.n_reasoning_tokens, 12);
  assert_int_equal(plain.result.n_reasoning_tokens, 0);
}

static void a_budget_ends_the_reasoning(void **state) {
  (void)state;
  struct omma_sampling sampling = {.max_tokens = 40, .ignore_eos = true, .reasoning = &marks};
  struct answer whole = ask(&sampling, NULL);
  sampling.limits_thinking = true;
  for (int64_t budget = 0; budget < 9; budget += 4) {
    sampling.max_thinking_tokens = budget;
    struct answer answer = ask(&sampling, NULL);
    assert_memory_equal(answer.reasoning, whole.reasoning, strlen(answer.reasoning));
    assert_true(budget > 0 || answer.reasoning[0] == '\0');
    assert_true(strlen(answer.text) > 0);
    /* and the mark's */
    assert_true(answer.result.n_reasoning_tokens > budget && answer.result.n_reasoning_tokens <= budget + 4);
    assert_int_equal(answer.result.n_completion_tokens, 40);
  }
}

static void the_end_of_reasoning_may_be_given(void **state) {
  (void)state;
  static const char *const ends[] = {" That is enough.", "!!"}; /* "!" is token 0 */
  for (int i = 0; i < 2; i++) {
    char given[40];
    snprintf(given, sizeof given, "%s</t>", ends[i]);
    const struct omma_reasoning reasoning = {"<t>", "</t>", given, NULL};
    const struct omma_sampling sampling = {
        .max_tokens = 40, .ignore_eos = true, .reasoning = &reasoning, .limits_thinking = true, .max_thinking_tokens = 2};
    struct answer answer = ask(&sampling, NULL);
    assert_true(strlen(answer.reasoning) > strlen(ends[i]));
    assert_string_equal(answer.reasoning + strlen(answer.reasoning) - strlen(ends[i]), ends[i]);
  }
}

static void a_grammar_is_for_what_follows(void **state) {
  (void)state;
  static const char pattern[] = "(yes|no), [0-9]{3}";
  const struct omma_grammar_options options = {.kind = OMMA_GRAMMAR_REGEX, .text = pattern, .text_size = sizeof pattern - 1};
  struct omma_sampling sampling = {.max_tokens = 60, .reasoning = &marks, .limits_thinking = true, .max_thinking_tokens = 6};
  struct omma_error error;
  assert_ok(omma_grammar_create(model, &options, &sampling.grammar, &error), &error);
  for (uint64_t seed = 0; seed < 4; seed++) {
    sampling.seed = seed;
    sampling.temperature = seed ? 1 : 0;
    struct answer answer = ask(&sampling, NULL);
    const char *comma = strchr(answer.text, ',');
    assert_true(comma && strlen(comma) == 5 && (!strncmp(answer.text, "yes", 3) || !strncmp(answer.text, "no", 2)));
    assert_true(answer.result.n_reasoning_tokens >= 6);
    assert_int_equal(answer.result.finish, OMMA_FINISH_STOP);
  }
  /* it ends by its length: no stop token ends it before the answer has begun */
  sampling.limits_thinking = false;
  struct answer answer = ask(&sampling, NULL);
  assert_string_equal(answer.text, "");
  assert_int_equal(answer.result.finish, OMMA_FINISH_LENGTH);
  omma_grammar_destroy(sampling.grammar);
}

static void the_prompt_may_have_ended_the_reasoning(void **state) {
  (void)state;
  const struct omma_sampling sampling = {.max_tokens = 6, .ignore_eos = true, .reasoning = &marks};
  const struct {
    const char *beginning;
    bool open;
  } cases[] = {{"<t>so</t> and", false}, {"</t>\n\n", false}, {"<t>so", true}, {"so", true}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct answer answer = ask(&sampling, cases[i].beginning);
    assert_int_equal(answer.reasoning[0] != '\0', cases[i].open);
    assert_int_equal(answer.text[0] != '\0', !cases[i].open);
  }
}

static void a_copy_has_the_same_reasoning(void **state) {
  (void)state;
  const struct omma_part part = {.text = "hello", .text_size = 5};
  const struct omma_message message = {OMMA_ROLE_USER, &part, 1, NULL};
  const struct omma_sampling sampling = {.max_tokens = 8, .ignore_eos = true, .reasoning = &marks};
  struct omma_request *request = make(&message, 1, &sampling, false), *copy;
  struct omma_error error;
  struct answer answer = {.reasoning = ""};
  const struct omma_callbacks callbacks = {.context = &answer, .on_token = append_event};
  assert_ok(omma_request_copy(request, &sampling, &copy, &error), &error);
  omma_request_destroy(request);
  assert_ok(omma_generate(engine, copy, &callbacks, &answer.result, &error), &error);
  assert_int_equal(answer.result.n_reasoning_tokens, 8);
  omma_request_destroy(copy);
}

static void parsers_have_names(void **state) {
  (void)state;
  struct omma_reasoning reasoning;
  struct omma_error error;
  assert_ok(omma_reasoning_find("qwen3", &reasoning, &error), &error);
  assert_string_equal(reasoning.end, "</think>");
  assert_ok(omma_reasoning_find("kimi_vl", &reasoning, &error), &error);
  assert_string_equal(reasoning.begin, "\u25c1think\u25b7");
  assert_fails(omma_reasoning_find("qwen", &reasoning, &error), OMMA_ERROR_ARGUMENT, "deepseek_r1", &error);
  assert_fails(omma_reasoning_find(NULL, &reasoning, &error), OMMA_ERROR_ARGUMENT, "qwen3", &error);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_answer_without_an_end_is_all_reasoning),
      cmocka_unit_test(a_budget_ends_the_reasoning),
      cmocka_unit_test(the_end_of_reasoning_may_be_given),
      cmocka_unit_test(a_grammar_is_for_what_follows),
      cmocka_unit_test(the_prompt_may_have_ended_the_reasoning),
      cmocka_unit_test(a_copy_has_the_same_reasoning),
      cmocka_unit_test(parsers_have_names),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
