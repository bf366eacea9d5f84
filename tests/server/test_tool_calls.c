/* Tool calls in answers: what comes out, whole, cut at every byte and byte by byte. */
#include "server/api/tool_calls.h"

#include <stdio.h>

#include "base/allocator.h"
#include "support/test.h"

struct expected {
  enum ommai_tool_format format;
  const char *text;
  const char
      /* content, then "|NAME(ARGUMENTS)" of each call, "!" where it has no end, "?" where the
       * answer is broken */
      *shown;
};

#define SECTION "<|tool_calls_section_begin|>"
#define SECTION_END "<|tool_calls_section_end|>"
#define HEAD(id) "<|tool_call_begin|>" id "<|tool_call_argument_begin|>"
#define CALL_END "<|tool_call_end|>"

/* Those in sections are what vLLM 0.32's kimi_k2 parser makes of them. */
static const struct expected cases[] = {
    {OMMAI_TOOLS_NONE, "a <tool_call>{}", "a <tool_call>{}"},
    {OMMAI_TOOLS_OBJECTS, "", ""},
    {OMMAI_TOOLS_OBJECTS, "No call, <tool, <tool_ca", "No call, <tool, <tool_ca"},
    {OMMAI_TOOLS_OBJECTS, "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": 1}}\n</tool_call>", "|f({\"x\": 1})"},
    {OMMAI_TOOLS_OBJECTS, "Well.\n<tool_call>{\"name\":\"f\",\"arguments\":{}}", "Well.\n|f({})"},
    {OMMAI_TOOLS_OBJECTS,
     "a<<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>\n<tool_call>{\"name\": \"g\", \"arguments\": [1, "
     "\"]\"]}</tool_call>b",
     "a<|f({})|g([1, \"]\"])"},
    {OMMAI_TOOLS_OBJECTS,
     "<tool_call>{\"arguments\": {\"name\": \"x\\\"}\"}, \"more\": [{}], \"name\": \"f\\u00e9\"}</tool_call>",
     "|f\xc3\xa9({\"name\": \"x\\\"}\"})"},
    {OMMAI_TOOLS_OBJECTS, "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"</tool_call>\"}}</tool_call>",
     "|f({\"a\": \"</tool_call>\"})"},
    {OMMAI_TOOLS_OBJECTS, "<tool_call>{\"name\": \"f\", \"parameters\": 1.5, \"arguments_and_more\": 2}", "|f(1.5)"},
    {OMMAI_TOOLS_OBJECTS, "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1", "|f({\"a\": 1)!?"},
    {OMMAI_TOOLS_OBJECTS, "<tool_call>{\"name\": \"f\", \"argum", "<tool_call>{\"name\": \"f\", \"argum?"},
    {OMMAI_TOOLS_OBJECTS, "<tool_call>\nf(1)</tool_call> done", "<tool_call>\nf(1)</tool_call> done?"},
    {OMMAI_TOOLS_OBJECTS, "<tool_call>{\"arguments\": {}}</tool_call>.", "<tool_call>{\"arguments\": {}}</tool_call>.?"},
    {OMMAI_TOOLS_OBJECTS, "<tool_call>{\"name\": 7, \"arguments\": {}}</tool_call>",
     "<tool_call>{\"name\": 7, \"arguments\": {}}</tool_call>?"},
    {OMMAI_TOOLS_OBJECTS, "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\" 1}}</tool_call>", "</tool_call>|f({\"a\" 1})!?"},
    {OMMAI_TOOLS_OBJECTS,
     "<tool_call>{\"name\": \"f\", \"arguments\": {\"id\": 123456789012345678901234567890, \"x\": [-1e999, "
     "\"\\ud83d\"]}}</tool_call>",
     "|f({\"id\": 123456789012345678901234567890, \"x\": [-1e999, \"\\ud83d\"]})"},
    {OMMAI_TOOLS_SECTIONS,
     "Hi <|tool_calls_section_begin|> <|tool_call_begin|>functions.f:0<|tool_call_argument_begin|> {\"a\": "
     "\"<|\"}<|tool_call_end|>"
     "<|tool_call_begin|> g.h:12 <|tool_call_argument_begin|>[]<|tool_call_end|><|tool_calls_section_end|>",
     "Hi |f({\"a\": \"<|\"})|g.h([])"},
    {OMMAI_TOOLS_SECTIONS, "<|tool_calls_section_begin|><|tool_call_begin|>f<|tool_call_argument_begin|>{}", ""},
    {OMMAI_TOOLS_SECTIONS, "<|tool_calls_section_begin|><|tool_call_begin|>f:1<|tool_call_argument_begin|>{<|tool_ca", "|f({)"},
    {OMMAI_TOOLS_SECTIONS, "Hi " SECTION HEAD("functions.f:0") CALL_END SECTION_END, "Hi |f({})"},
    {OMMAI_TOOLS_SECTIONS, SECTION HEAD("functions.f:0") " \n " CALL_END SECTION_END, "|f({})"},
    {OMMAI_TOOLS_SECTIONS, SECTION HEAD("functions.f:0"), "|f({})"},
    {OMMAI_TOOLS_SECTIONS, "Hi " SECTION SECTION_END, "Hi "},
    {OMMAI_TOOLS_SECTIONS, "Hi " SECTION SECTION_END " bye", "Hi "},
    {OMMAI_TOOLS_SECTIONS,
     SECTION HEAD("functions.f:0") "{}" CALL_END HEAD("nohead") "{}" CALL_END HEAD(
         "functions.g:1") "{\"a\":1}" CALL_END SECTION_END,
     "|f({})|g({\"a\":1})"},
    {OMMAI_TOOLS_SECTIONS,
     SECTION HEAD("functions.f:0") "{}" CALL_END HEAD("functions.b:1") "{\"a\":" CALL_END HEAD(
         "functions.g:2") "{\"a\":1}" CALL_END,
     "|f({})|b({\"a\":)|g({\"a\":1})"},
    {OMMAI_TOOLS_SECTIONS, SECTION HEAD("functions.f:0" CALL_END "<|tool_call_begin|>functions.g:1") "{}" CALL_END, "|f({})"},
    {OMMAI_TOOLS_SECTIONS, SECTION HEAD("functions.f:0") "{\"a\": 1}" SECTION_END " x", "|f({\"a\": 1})"},
    {OMMAI_TOOLS_SECTIONS, "Hi " SECTION HEAD("nohead") "{}" CALL_END SECTION_END, "Hi "},
    {OMMAI_TOOLS_SECTIONS, SECTION HEAD(" functions.a.b:3 ") "{}" CALL_END, "|a.b({})"},
    {OMMAI_TOOLS_SECTIONS, SECTION HEAD("functions.f:0 x") "none" CALL_END, "|f(none)"},
    {OMMAI_TOOLS_SECTIONS, SECTION " junk " HEAD("f:0") "{}" CALL_END " junk " SECTION_END " more", "|f({})"},
    {OMMAI_TOOLS_SECTIONS, SECTION HEAD("functions.:0") "{}" CALL_END HEAD(":1") "{}" CALL_END HEAD("") "{}", ""},
    {OMMAI_TOOLS_LIST, "[{\"name\": \"f\", \"parameters\": {}}, {\"name\":\"g\",\"parameters\":{\"a\":[]}}]",
     "|f({})|g({\"a\":[]})"},
    {OMMAI_TOOLS_LIST, " [ {\"name\": \"f\", \"parameters\": {}} ,", "|f({})"},
    {OMMAI_TOOLS_LIST, "[{\"name\": \"f\", \"parameters\": {}}, {\"name\": \"g\"", "|f({})"},
    {OMMAI_TOOLS_LIST, "[{\"name\": \"f\", \"parameters\": {\"a\": \"b", "|f({\"a\": \"b)!"},
    {OMMAI_TOOLS_LIST, "[{\"na", ""},
    {OMMAI_TOOLS_LIST, "", ""},
    {OMMAI_TOOLS_LIST, "none", "none?"},
    {OMMAI_TOOLS_NAMED, "{\"a\": 1}", "|only({\"a\": 1})"},
    {OMMAI_TOOLS_NAMED, "{\"a\"", "|only({\"a\")!"},
    {OMMAI_TOOLS_NAMED, " \n{}\n", "|only({}\n)"},
    {OMMAI_TOOLS_NAMED, "\n ", ""},
};

static void show(const struct ommai_tool_parser *parser, struct ommai_text *out) {
  for (size_t i = 0; i < parser->n_calls; i++) {
    const struct ommai_tool_call *call = &parser->calls[i];
    ommai_text_add(out, "|");
    ommai_text_append(out, call->name.data, call->name.size);
    ommai_text_add(out, "(");
    ommai_text_append(out, call->arguments.data, call->arguments.size);
    ommai_text_add(out, call->complete ? ")" : ")!");
    assert_true(strlen(call->id) > 2);
  }
  if (parser->broken) ommai_text_add(out, "?");
}

/* Pieces of `first` bytes, then of `rest`. */
static void check(const struct expected *expected, size_t first, size_t rest) {
  struct ommai_tool_parser parser;
  size_t size = strlen(expected->text), n_news = 0;
  struct ommai_text out = ommai_text_of(&ommai_default_allocator);
  assert_true(ommai_tool_parser_init(&parser, expected->format, "only", &ommai_default_allocator));
  for (size_t at = 0, n; at < size; at += n) {
    n = at ? rest : first;
    if (n > size - at) n = size - at;
    assert_true(ommai_tool_parser_feed(&parser, expected->text + at, n, &out));
    n_news += ommai_tool_parser_has_news(&parser);
    ommai_tool_parser_forget(&parser);
    assert_false(ommai_tool_parser_has_news(&parser));
  }
  assert_true(ommai_tool_parser_finish(&parser, &out));
  assert_int_equal(parser.n_calls > 0, n_news > 0);
  assert_int_equal(ommai_tool_parser_called(&parser), parser.n_calls > 0 && !strchr(expected->shown, '?'));
  bool must_call = expected->format == OMMAI_TOOLS_LIST || expected->format == OMMAI_TOOLS_NAMED;
  assert_int_equal(ommai_tool_parser_is_text(&parser), parser.broken || !(parser.n_calls || must_call));
  show(&parser, &out);
  ommai_text_append(&out, "", 1);
  assert_string_equal(out.data, expected->shown);
  ommai_tool_parser_free(&parser);
  ommai_text_free(&out);
}

static void test_cuts(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    for (size_t first = 1; first <= strlen(cases[i].text) + 1; first++) check(&cases[i], first, SIZE_MAX);
    check(&cases[i], 1, 1);
    check(&cases[i], 2, 3);
  }
}

static void test_too_many(void **state) {
  (void)state;
  static const char call[] = "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>";
  struct ommai_tool_parser parser;
  struct ommai_text out = ommai_text_of(&ommai_default_allocator);
  assert_true(ommai_tool_parser_init(&parser, OMMAI_TOOLS_OBJECTS, NULL, &ommai_default_allocator));
  for (int i = 0; i <= OMMAI_MAX_TOOL_CALLS; i++) {
    assert_true(ommai_tool_parser_feed(&parser, call, sizeof call - 1, &out));
    assert_int_equal(parser.broken, i == OMMAI_MAX_TOOL_CALLS);
  }
  assert_true(ommai_tool_parser_finish(&parser, &out));
  assert_int_equal(parser.n_calls, OMMAI_MAX_TOOL_CALLS);
  assert_int_equal(out.size, sizeof call - 1);
  assert_memory_equal(out.data, call, out.size);
  assert_string_not_equal(parser.calls[0].id, parser.calls[1].id);
  ommai_tool_parser_free(&parser);
  ommai_text_free(&out);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_cuts), cmocka_unit_test(test_too_many)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
