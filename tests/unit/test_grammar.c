/* Grammars of patterns, schemas and GBNF: which texts they allow, what is refused by name, and
 * their limits. */
#include <stdlib.h>

#include "base/allocator.h"
#include "grammar/answer_grammar.h"
#include "grammar/recogniser.h"
#include "grammar/schema.h"
#include "support/guarded.h"

static struct ommai_grammar *make(enum ommai_answer_kind kind, const char *text, bool compact) {
  struct ommai_grammar *grammar;
  struct omma_error error;
  const struct ommai_grammar_source source = {.kind = kind, .text = text, .size = strlen(text), .compact = compact};
  assert_ok(ommai_answer_grammar_create(&source, &ommai_default_allocator, &grammar, &error), &error);
  return grammar;
}

static bool allows(const struct ommai_grammar *grammar, const char *text) {
  struct ommai_recogniser *recogniser;
  struct omma_error error;
  assert_ok(ommai_recogniser_create(grammar, &recogniser, &error), &error);
  int32_t state = ommai_recogniser_start(recogniser);
  for (; *text && state >= 0; text++) state = ommai_recogniser_next(recogniser, state, (unsigned char)*text);
  bool good = state >= 0 && recogniser->states[state].accepts;
  ommai_recogniser_destroy(recogniser);
  return good;
}

static void expect(enum ommai_answer_kind kind, const char *source, const char *const *good, const char *const *bad) {
  struct ommai_grammar *grammar = make(kind, source, false);
  for (; *good; good++) {
    if (!allows(grammar, *good)) fail_msg("%s forbids %s", source, *good);
  }
  for (; *bad; bad++) {
    if (allows(grammar, *bad)) fail_msg("%s allows %s", source, *bad);
  }
  ommai_grammar_destroy(grammar);
}

#define TEXTS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define EXPECT(kind, source, good, bad) expect(OMMAI_ANSWER_##kind, source, good, bad)

static void expect_refusal(enum ommai_answer_kind kind, const char *text, enum omma_status status, const char *part) {
  const struct ommai_grammar_source source = {.kind = kind, .text = text, .size = strlen(text)};
  struct ommai_grammar *grammar;
  struct omma_error error;
  assert_fails(ommai_answer_grammar_create(&source, &ommai_default_allocator, &grammar, &error), status, part, &error);
}

static void patterns_allow_their_texts(void **state) {
  (void)state;
  EXPECT(REGEX, "a(b|c)*d?", TEXTS("a", "abcbd", "ad"), TEXTS("", "b", "add"));
  EXPECT(REGEX, "^[a-c]{2,3}$", TEXTS("ab", "ccc"), TEXTS("a", "abcd", "xy"));
  EXPECT(REGEX, "\\d+\\.\\d{2}|x", TEXTS("1.25", "x"), TEXTS("1.2", ".25"));
  EXPECT(REGEX, "[^a-z\\s]", TEXTS("A", "\xc3\xa9", "\xf0\x9f\x98\x80"), TEXTS("a", " ", "\xc2\xa0", "\xc3"));
  EXPECT(REGEX, "(?:a|(?<n>b))\\u0041\\x42", TEXTS("aAB", "bAB"), TEXTS("AB"));
  EXPECT(REGEX, ".", TEXTS("x", "\xe2\x82\xac"), TEXTS("\n", "\xe2\x80\xa8", ""));
  EXPECT(REGEX, "(ab?){3}c{0}", TEXTS("aaa", "abaab"), TEXTS("aa", "aaaa"));
  EXPECT(REGEX, "(a*)*b", TEXTS("b", "aaab"), TEXTS("a"));
}

static void what_is_not_regular_is_refused(void **state) {
  (void)state;
  expect_refusal(OMMAI_ANSWER_REGEX, "(?=a)b", OMMA_ERROR_UNSUPPORTED, "lookahead");
  expect_refusal(OMMAI_ANSWER_REGEX, "(?!a)b", OMMA_ERROR_UNSUPPORTED, "lookahead");
  expect_refusal(OMMAI_ANSWER_REGEX, "(?<=a>)b", OMMA_ERROR_UNSUPPORTED, "lookbehind");
  expect_refusal(OMMAI_ANSWER_REGEX, "(?<!a>)b", OMMA_ERROR_UNSUPPORTED, "lookbehind");
  expect_refusal(OMMAI_ANSWER_REGEX, "(a)\\1", OMMA_ERROR_UNSUPPORTED, "backreference");
  expect_refusal(OMMAI_ANSWER_REGEX, "\\bword", OMMA_ERROR_UNSUPPORTED, "\\b");
  expect_refusal(OMMAI_ANSWER_REGEX, "a^b", OMMA_ERROR_UNSUPPORTED, "anchor");
  expect_refusal(OMMAI_ANSWER_REGEX, "(a", OMMA_ERROR_FORMAT, "without its end");
  expect_refusal(OMMAI_ANSWER_REGEX, "a)", OMMA_ERROR_FORMAT, "byte 1");
  expect_refusal(OMMAI_ANSWER_REGEX, "[z-a]", OMMA_ERROR_FORMAT, "range");
  expect_refusal(OMMAI_ANSWER_REGEX, "a{3,2}", OMMA_ERROR_FORMAT, "wrong way round");
  expect_refusal(OMMAI_ANSWER_REGEX, "a{200000}", OMMA_ERROR_LIMIT, "100000");
  expect_refusal(OMMAI_ANSWER_REGEX, "a{1000000}", OMMA_ERROR_LIMIT, "100000");
  expect_refusal(OMMAI_ANSWER_REGEX, "(a*){1000}", OMMA_ERROR_LIMIT, "may be empty");
  expect_refusal(OMMAI_ANSWER_REGEX, "[]", OMMA_ERROR_FORMAT, "no text");
}

static void json_objects_nest(void **state) {
  (void)state;
  struct ommai_grammar *grammar = make(OMMAI_ANSWER_JSON_OBJECT, "", true);
  assert_true(allows(grammar, "{}"));
  assert_true(allows(grammar, "{\"a\":[1,-2.5e3,{\"b\":null}],\"c\":\"\\u00e9\\ud83d\\ude00\"}"));
  assert_false(allows(grammar, "[]"));
  assert_false(allows(grammar, "{\"a\": 1}"));
  assert_false(allows(grammar, "{\"a\":\"\\ud83d\"}"));
  assert_false(allows(grammar, "{\"a\":01}"));
  ommai_grammar_destroy(grammar);
}

static void objects_have_their_members_in_order(void **state) {
  (void)state;
  EXPECT(JSON_SCHEMA,
         "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":\"string\"},\"c\":true},"
         "\"required\":[\"b\"]}",
         TEXTS("{\"b\":\"x\"}", "{\"a\":1, \"b\":\"\"}", "{\n  \"b\": \"x\",\n  \"c\": [1]\n}"),
         TEXTS("{}", "{\"a\":1}", "{\"b\":\"x\",\"a\":1}", "{\"b\":\"x\",}", "{\"b\":\"x\",\"d\":1}", "{,\"b\":\"\"}"));
  EXPECT(JSON_SCHEMA, "{\"properties\":{\"a\":{}},\"additionalProperties\":{\"type\":\"null\"}}",
         TEXTS("{}", "{\"a\":1}", "{\"b\":null}", "{\"a\":1,\"aa\":null,\"\":null}"),
         TEXTS("{\"b\":1}", "{\"a\":1,\"a\":null}", "{\"b\":null,\"a\":1}"));
  EXPECT(JSON_SCHEMA,
         "{\"type\":\"object\",\"patternProperties\":{\"^n_\":{\"type\":\"integer\"}},\"additionalProperties\":false}",
         TEXTS("{}", "{\"n_a\":1}"), TEXTS("{\"a\":1}", "{\"n_a\":\"\"}"));
  EXPECT(JSON_SCHEMA,
         "{\"type\":\"object\",\"propertyNames\":{\"pattern\":\"^[a-z]+$\"},\"minProperties\":1,\"maxProperties\":2}",
         TEXTS("{\"a\":1}", "{\"a\":1,\"b\":[]}"), TEXTS("{}", "{\"A\":1}", "{\"a\":1,\"b\":1,\"c\":1}"));
  EXPECT(JSON_SCHEMA, "{\"type\":\"object\",\"properties\":{\"q\\\"\\n\":{}},\"required\":[\"q\\\"\\n\",\"z\"]}",
         TEXTS("{\"q\\\"\\n\":1,\"z\":2}"), TEXTS("{\"z\":2,\"q\\\"\\n\":1}"));
}

static void arrays_have_bounds(void **state) {
  (void)state;
  EXPECT(JSON_SCHEMA, "{\"type\":\"array\",\"items\":{\"type\":\"boolean\"},\"minItems\":1,\"maxItems\":3}",
         TEXTS("[true]", "[true,false,\n true]"), TEXTS("[]", "[1]", "[true,true,true,true]", "[true,]"));
  EXPECT(JSON_SCHEMA, "{\"prefixItems\":[{\"const\":1},{\"const\":2}],\"items\":{\"const\":3},\"minItems\":1}",
         TEXTS("[1]", "[1,2]", "[1,2,3,3]"), TEXTS("[]", "[2]", "[1,3]"));
  EXPECT(JSON_SCHEMA, "{\"prefixItems\":[{\"const\":1}],\"items\":false}", TEXTS("[]", "[1]"), TEXTS("[1,1]"));
  EXPECT(JSON_SCHEMA, "{\"items\":[{\"const\":1}],\"additionalItems\":{\"const\":2}}", TEXTS("[1,2,2]"), TEXTS("[1,1]"));
  EXPECT(JSON_SCHEMA, "{\"$defs\":{\"a\":{\"type\":\"null\"}},\"allOf\":[{\"$ref\":\"#/$defs/a\"},{\"$ref\":\"#/$defs/a\"}]}",
         TEXTS("null"), TEXTS("1"));
  EXPECT(JSON_SCHEMA, "{\"type\":\"array\",\"maxItems\":0}", TEXTS("[]"), TEXTS("[1]"));
}

static void strings_have_lengths_patterns_and_formats(void **state) {
  (void)state;
  EXPECT(JSON_SCHEMA, "{\"type\":\"string\",\"minLength\":2,\"maxLength\":3}",
         TEXTS("\"ab\"", "\"\xc3\xa9\xf0\x9f\x98\x80x\"", "\"\\n\\u0041\\ud83d\\ude00\""),
         TEXTS("\"a\"", "\"abcd\"", "\"\\n\""));
  EXPECT(JSON_SCHEMA, "{\"pattern\":\"b\"}", TEXTS("\"b\"", "\"abc\"", "\"\\\"b\\\\\""), TEXTS("\"a\"", "\"\""));
  EXPECT(JSON_SCHEMA, "{\"pattern\":\"^a+$\",\"maxLength\":2,\"minLength\":1}", TEXTS("\"a\"", "\"aa\""),
         TEXTS("\"aaa\"", "\"\""));
  /* a loop of all characters from one on is none of any character */
  EXPECT(JSON_SCHEMA, "{\"pattern\":\"^(bc*a|[^a]*)$\",\"maxLength\":4}", TEXTS("\"bca\"", "\"bcca\"", "\"xyz\""),
         TEXTS("\"xa\"", "\"bccca\""));
  EXPECT(JSON_SCHEMA, "{\"allOf\":[{\"pattern\":\"^a\"},{\"pattern\":\"z$\"}]}", TEXTS("\"az\"", "\"abz\""),
         TEXTS("\"a\"", "\"za\""));
  EXPECT(JSON_SCHEMA, "{\"format\":\"date\"}", TEXTS("\"2024-02-29\"", "\"1999-12-31\""),
         TEXTS("\"2023-02-29\"", "\"1900-02-29\"", "\"2024-13-01\"", "\"0000-01-01\""));
  EXPECT(JSON_SCHEMA, "{\"format\":\"ipv4\"}", TEXTS("\"255.0.19.1\""), TEXTS("\"256.0.0.1\"", "\"1.2.3\""));
  EXPECT(JSON_SCHEMA, "{\"enum\":[\"a\",\"\\\"\",\"ab\",7],\"type\":\"string\",\"maxLength\":1}", TEXTS("\"a\"", "\"\\\"\""),
         TEXTS("\"ab\"", "7"));
}

static void numbers_have_bounds(void **state) {
  (void)state;
  EXPECT(JSON_SCHEMA, "{\"type\":\"integer\",\"minimum\":-12,\"maximum\":105}", TEXTS("-12", "-9", "0", "7", "99", "105"),
         TEXTS("-13", "-0", "106", "200", "1000", "1.0", "007"));
  EXPECT(JSON_SCHEMA, "{\"type\":\"integer\",\"exclusiveMinimum\":9,\"exclusiveMaximum\":11}", TEXTS("10"),
         TEXTS("9", "11", "1"));
  EXPECT(JSON_SCHEMA, "{\"type\":\"integer\",\"minimum\":1.5}", TEXTS("2", "123456"), TEXTS("1", "0", "-2"));
  EXPECT(JSON_SCHEMA, "{\"type\":\"integer\",\"multipleOf\":7,\"minimum\":8}", TEXTS("14", "21", "700"), TEXTS("7", "15", "0"));
  EXPECT(JSON_SCHEMA, "{\"type\":\"number\",\"minimum\":-0.25,\"exclusiveMaximum\":1.5}",
         TEXTS("-0.25", "-0.2", "0", "1", "1.4999", "1.0"), TEXTS("-0.26", "1.5", "1.50", "2", "-1", "1e0"));
  EXPECT(JSON_SCHEMA, "{\"type\":\"number\",\"exclusiveMinimum\":0}", TEXTS("0.001", "5"), TEXTS("0", "0.0", "-1"));
  EXPECT(JSON_SCHEMA, "{\"type\":\"number\"}", TEXTS("1e-5", "-0.5", "12"), TEXTS(".5", "1.", "+1", "01"));
  /* draft 4, also of listed values, of which the border is one or is not */
  EXPECT(JSON_SCHEMA, "{\"type\":\"integer\",\"minimum\":3,\"exclusiveMinimum\":true}", TEXTS("4"), TEXTS("3"));
  EXPECT(JSON_SCHEMA, "{\"enum\":[3,4,8,9],\"minimum\":3,\"exclusiveMinimum\":true,\"maximum\":9,\"exclusiveMaximum\":true}",
         TEXTS("4", "8"), TEXTS("3", "9"));
  EXPECT(JSON_SCHEMA, "{\"enum\":[3,4,8,9],\"minimum\":4,\"maximum\":8}", TEXTS("4", "8"), TEXTS("3", "9"));
  EXPECT(JSON_SCHEMA, "{\"enum\":[3,4,8,9],\"exclusiveMinimum\":3,\"exclusiveMaximum\":9}", TEXTS("4", "8"), TEXTS("3", "9"));
  /* a bound may have 18 digits before the point, a number with a fraction of an answer fewer */
  EXPECT(JSON_SCHEMA, "{\"type\":\"integer\",\"minimum\":999999999999990008}",
         TEXTS("999999999999990008", "999999999999999999"), TEXTS("999999999999990007"));
  EXPECT(JSON_SCHEMA, "{\"type\":\"number\",\"minimum\":1,\"maximum\":123456789012345680.0}", TEXTS("1", "99999999.5"),
         TEXTS("0.9"));
}

static void schemas_are_joined(void **state) {
  (void)state;
  EXPECT(JSON_SCHEMA, "{\"anyOf\":[{\"type\":\"integer\"},{\"const\":\"x\"}]}", TEXTS("1", "\"x\""), TEXTS("\"y\"", "null"));
  EXPECT(JSON_SCHEMA,
         "{\"allOf\":[{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"}},\"required\":[\"a\"]},"
         "{\"properties\":{\"b\":{\"type\":\"null\"},\"a\":{\"minimum\":5}}}]}",
         TEXTS("{\"a\":5}", "{\"a\":6,\"b\":null}"), TEXTS("{\"a\":4}", "{\"b\":null}"));
  EXPECT(JSON_SCHEMA,
         "{\"oneOf\":[{\"type\":\"object\",\"properties\":{\"k\":{\"const\":1}},\"required\":[\"k\"]},"
         "{\"type\":\"object\",\"properties\":{\"k\":{\"const\":2},\"m\":{}},\"required\":[\"k\"]}]}",
         TEXTS("{\"k\":1}", "{\"k\":2,\"m\":0}"), TEXTS("{\"k\":3}", "{\"k\":1,\"m\":0}"));
  EXPECT(JSON_SCHEMA,
         "{\"$ref\":\"#/$defs/list\",\"$defs\":{\"list\":{\"type\":[\"object\",\"null\"],\"properties\":{\"next\":"
         "{\"$ref\":\"#/$defs/list\"}},\"required\":[\"next\"]}}}",
         TEXTS("null", "{\"next\":{\"next\":null}}"), TEXTS("{}", "{\"next\":{}}"));
  EXPECT(JSON_SCHEMA, "{\"type\":[\"string\",\"null\"],\"enum\":[\"a\",null,3]}", TEXTS("\"a\"", "null"), TEXTS("3"));
  EXPECT(JSON_SCHEMA, "true", TEXTS("1", "{}", "\"\"", "[null]"), TEXTS("", "x"));
}

static void what_does_not_hold_is_left_out(void **state) {
  (void)state;
  EXPECT(JSON_SCHEMA, "{\"type\":[\"string\",\"null\",\"boolean\"],\"not\":{\"enum\":[\"a\",null,true]}}",
         TEXTS("\"b\"", "\"aa\"", "false"), TEXTS("\"a\"", "null", "true"));
  EXPECT(JSON_SCHEMA, "{\"not\":{\"type\":[\"object\",\"array\"]}}", TEXTS("1", "\"a\"", "null"), TEXTS("{}", "[]"));
  EXPECT(JSON_SCHEMA, "{\"type\":\"object\",\"properties\":{\"a\":{},\"b\":{}},\"not\":{\"required\":[\"a\",\"b\"]}}",
         TEXTS("{}", "{\"a\":1}", "{\"b\":1}"), TEXTS("{\"a\":1,\"b\":1}"));
  EXPECT(JSON_SCHEMA,
         "{\"$defs\":{\"x\":{\"required\":[\"x\"]}},\"type\":\"object\",\"additionalProperties\":true,\"not\":{\"anyOf\":[{\"$"
         "ref\":\"#/$defs/x\"},"
         "{\"not\":{\"required\":[\"y\"]}}]}}",
         TEXTS("{\"y\":1}", "{\"y\":1,\"z\":1}"), TEXTS("{}", "{\"y\":1,\"x\":1}", "{\"x\":1}"));
  EXPECT(JSON_SCHEMA, "{\"anyOf\":[{\"not\":{}},{\"not\":true},{\"const\":1}]}", TEXTS("1"), TEXTS("2", "null"));
}

static void members_may_depend_on_others(void **state) {
  (void)state;
  EXPECT(JSON_SCHEMA,
         "{\"type\":\"object\",\"properties\":{\"a\":{},\"b\":{\"type\":\"integer\"},\"c\":{}},\"dependentRequired\":{\"a\":["
         "\"b\",\"c\"]},"
         "\"dependencies\":{\"c\":{\"properties\":{\"b\":{\"minimum\":5}}}}}",
         TEXTS("{}", "{\"b\":1}", "{\"a\":1,\"b\":5,\"c\":1}"),
         TEXTS("{\"a\":1}", "{\"a\":1,\"b\":1,\"c\":1}", "{\"b\":1,\"c\":1}"));
  EXPECT(JSON_SCHEMA,
         "{\"type\":\"object\",\"properties\":{\"k\":{\"enum\":[\"x\",\"y\"]},\"v\":{}},\"required\":[\"k\"],"
         "\"if\":{\"properties\":{\"k\":{\"const\":\"x\"}},\"required\":[\"k\"]},\"then\":{\"required\":[\"v\"]},"
         "\"else\":{\"properties\":{\"v\":{\"type\":\"null\"}}}}",
         TEXTS("{\"k\":\"x\",\"v\":1}", "{\"k\":\"y\"}", "{\"k\":\"y\",\"v\":null}"),
         TEXTS("{\"k\":\"x\"}", "{\"k\":\"y\",\"v\":1}"));
  EXPECT(JSON_SCHEMA, "{\"type\":\"object\",\"properties\":{\"a\":{},\"b\":{}},\"minProperties\":1}",
         TEXTS("{\"a\":1}", "{\"b\":1}"), TEXTS("{}"));
}

static void alternatives_of_one_of_are_kept_apart(void **state) {
  (void)state;
  EXPECT(JSON_SCHEMA, "{\"oneOf\":[{\"required\":[\"a\"]},{\"required\":[\"b\"]}],\"properties\":{\"a\":{},\"b\":{}}}",
         TEXTS("{\"a\":1}", "{\"b\":1}"), TEXTS("{}", "{\"a\":1,\"b\":1}"));
  EXPECT(JSON_SCHEMA,
         "{\"type\":\"object\",\"oneOf\":[{\"properties\":{\"t\":{\"const\":1},\"v\":{}}},{\"properties\":{\"t\":{\"const\":2}}"
         "}]}",
         TEXTS("{\"t\":1}", "{\"t\":1,\"v\":0}", "{\"t\":2}"), TEXTS("{}", "{\"v\":0}"));
  EXPECT(JSON_SCHEMA, "{\"type\":\"string\",\"oneOf\":[{\"pattern\":\"^a\"},{\"pattern\":\"^[b-d]\"}]}",
         TEXTS("\"ax\"", "\"c\""), TEXTS("\"x\""));
}

static void other_keys_are_annotations(void **state) {
  (void)state;
  EXPECT(JSON_SCHEMA,
         "{\"id\":\"http://x.org/"
         "s\",\"type\":\"integer\",\"markdownDescription\":\"x\",\"_format\":1,\"nullable\":true,\"format\":\"int32\","
         "\"multipleOf\":1.0,\"maximum\":9223372036854775807}",
         TEXTS("5"), TEXTS("null", "1.5"));
  EXPECT(JSON_SCHEMA,
         "{\"items\":{\"$ref\":\"http://x.org/s#/definitions/a\"},\"$id\":\"http://x.org/"
         "s\",\"definitions\":{\"a\":{\"const\":1}}}",
         TEXTS("[1,1]"), TEXTS("[2]"));
  EXPECT(JSON_SCHEMA, "{\"type\":\"string\",\"pattern\":\"^[^\\u0000]$\",\"format\":\"path\"}", TEXTS("\"a\""), TEXTS("\"\""));
}

static void unsupported_keys_are_named(void **state) {
  (void)state;
  static const struct {
    const char *schema, *part;
  } cases[] = {
      {"{\"properties\":{\"a\":{\"not\":{\"minimum\":3}}}}", "#/properties/a/not: only what is not required"},
      {"{\"type\":\"integer\",\"not\":{\"const\":5}}", "#/not: numbers, arrays and objects"},
      {"{\"type\":\"array\",\"uniqueItems\":true}", "#/uniqueItems"},
      {"{\"items\":{\"contains\":{}}}", "#/items/contains"},
      {"{\"format\":\"regex\"}", "#/format: the format \"regex\" is not supported"},
      {"{\"format\":\"datetime\"}", "#/format: the format \"datetime\" is not known: is \"date-time\" meant?"},
      {"{\"$defs\":{\"a\":{\"pattern\":\"(?!a)b\"}},\"$ref\":\"#/$defs/a\"}",
       "#/$defs/a/pattern: the pattern's byte 2: lookahead"},
      {"{\"type\":\"number\",\"multipleOf\":0.1}", "#/multipleOf"},
      {"{\"anyOf\":[{\"$ref\":\"#\"},{\"type\":\"null\"}]}", "an alternative of this schema is the schema itself"},
      {"{\"oneOf\":[{\"type\":\"integer\"},{\"type\":\"number\"}]}", "#/oneOf: alternatives 0 and 1"},
      /* looked at down to a few levels, not for ever */
      {"{\"oneOf\":[{\"$ref\":\"#/$defs/a\"},{\"$ref\":\"#/$defs/b\"}],\"$defs\":{"
       "\"a\":{\"type\":\"object\",\"properties\":{\"n\":{\"$ref\":\"#/$defs/a\"}},\"required\":[\"n\"]},"
       "\"b\":{\"type\":\"object\",\"properties\":{\"n\":{\"$ref\":\"#/$defs/b\"}},\"required\":[\"n\"]}}}",
       "#/oneOf: alternatives 0 and 1"},
      {"{\"oneOf\":[{\"type\":\"string\",\"format\":\"uri\"},{\"type\":\"string\",\"pattern\":\"^x\"}]}", "#/oneOf"},
      {"{\"$ref\":\"http://x.org/y\"}", "#/$ref"},
      {"{\"items\":{\"$id\":\"http://x.org/y\",\"items\":{\"$ref\":\"#\"}}}", "#/items/$id"},
      {"{\"type\":\"object\",\"minProperties\":2}", "#/minProperties"},
      {"{\"unevaluatedProperties\":false}", "#/unevaluatedProperties"},
      {"{\"minLegth\":3}", "#/minLegth: this key is not known: is \"minLength\" meant?"},
      {"{\"max_items\":3}", "#/max_items: this key is not known: is \"maxItems\" meant?"},
      {"{\"items\":{\"Enum\":[1]}}", "#/items/Enum"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    expect_refusal(OMMAI_ANSWER_JSON_SCHEMA, cases[i].schema, OMMA_ERROR_UNSUPPORTED, cases[i].part);
  }
}

static void wrong_schemas_are_refused(void **state) {
  (void)state;
  static const struct {
    const char *schema, *part;
  } cases[] = {
      {"{\"type\":\"strin\"}",
       "#/type: expected a type's name (string, number, integer, boolean, object, array, null) or several, found \"strin\""},
      {"{\"minLength\":-1}", "#/minLength: expected"},
      {"{\"required\":\"a\"}", "#/required: expected an array of strings"},
      {"{\"$ref\":\"#/$defs/x\"}", "#/$ref: there is no schema"},
      {"[]", "#: expected a schema"},
      {"{", "invalid JSON"},
      {"false", "no text meets it"},
      {"{\"type\":\"integer\",\"minimum\":2,\"maximum\":1}", "no text meets it"},
      {"{\"type\":\"object\",\"properties\":{\"a\":{\"$ref\":\"#\"}},\"required\":[\"a\"]}", "no text meets it"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    expect_refusal(OMMAI_ANSWER_JSON_SCHEMA, cases[i].schema, OMMA_ERROR_FORMAT, cases[i].part);
  }
  expect_refusal(OMMAI_ANSWER_CHOICE, "[]", OMMA_ERROR_FORMAT, "list of 1 to");
  expect_refusal(OMMAI_ANSWER_CHOICE, "[\"a\",\"\"]", OMMA_ERROR_FORMAT, "entry 1");
}

static void gbnf_allows_its_texts(void **state) {
  (void)state;
  EXPECT(GBNF, "root ::= (item \"\\n\")+ # list\nitem ::= \"- \" [^\\n]{1,3}\n     | \"*\" \"[.]\"",
         TEXTS("- ab\n", "*[.]\n- x\n"), TEXTS("", "- abcd\n", "*[x]\n"));
  EXPECT(GBNF, "root ::= \"(\" root? \")\"", TEXTS("()", "((()))"), TEXTS("", "(()"));
  EXPECT(GBNF, "root ::= \"a\"{9} \"b\"{0,2} \"c\"{ 1 , }", TEXTS("aaaaaaaaac", "aaaaaaaaabbcc"),
         TEXTS("aaaaaaaac", "aaaaaaaaaac", "aaaaaaaaabbbc", "aaaaaaaaabb"));
  EXPECT(GBNF, "root ::= \"a\"{10,12}", TEXTS("aaaaaaaaaa", "aaaaaaaaaaaa"), TEXTS("aaaaaaaaa", "aaaaaaaaaaaaa"));
  expect_refusal(OMMAI_ANSWER_GBNF, "root ::= \"a\"{1000000}", OMMA_ERROR_FORMAT, "at most 100000");
  expect_refusal(OMMAI_ANSWER_GBNF, "root ::= a", OMMA_ERROR_FORMAT, "no rule \"a\"");
  expect_refusal(OMMAI_ANSWER_GBNF, "x ::= \"a\"", OMMA_ERROR_FORMAT, "no rule \"root\"");
  expect_refusal(OMMAI_ANSWER_GBNF, "root ::= root \"a\" | \"b\"", OMMA_ERROR_FORMAT, "left recursion");
  expect_refusal(OMMAI_ANSWER_GBNF, "root ::= \"a\" |\nroot: x", OMMA_ERROR_FORMAT, "line 2");
  expect_refusal(OMMAI_ANSWER_GBNF, "root ::= \"a", OMMA_ERROR_FORMAT, "line 1");
}

/* Each beginning of a source lies before memory that cannot be read. */
static void no_byte_beyond_the_end_is_read(void **state) {
  (void)state;
  static const struct {
    enum ommai_answer_kind kind;
    const char *text;
  } cases[] = {
      {OMMAI_ANSWER_REGEX, "^(?:a|(?P<name>b{1,2}))[^c-e\\d\\u0041]*?(?<other>\\x42|\\ud83d\\ude00){3}\\W.\\cA+$"},
      {OMMAI_ANSWER_GBNF, "root ::= (\"a\\n\\x41\" [^b-c\\u00e9]{1,2} | item)* # so\nitem ::= \"é\"? . root+\n"},
      {OMMAI_ANSWER_JSON_SCHEMA,
       "{\"type\":\"object\",\"properties\":{\"a\":{\"pattern\":\"^x\\\\d$\"},\"b\":{\"minimum\":1e2}}}"},
      {OMMAI_ANSWER_CHOICE, "[\"yes\",\"n\\u00e9\"]"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    for (size_t size = 0; size <= strlen(cases[i].text); size++) {
      struct guarded memory = guarded_new(size, true);
      if (size) memcpy(memory.data, cases[i].text, size);
      const struct ommai_grammar_source source = {.kind = cases[i].kind, .text = (const char *)memory.data, .size = size};
      struct ommai_grammar *grammar;
      struct omma_error error;
      enum omma_status status = ommai_answer_grammar_create(&source, &ommai_default_allocator, &grammar, &error);
      if (status == OMMA_OK) ommai_grammar_destroy(grammar);
      assert_true(status == OMMA_OK || size < strlen(cases[i].text));
      guarded_free(&memory);
    }
  }
}

/* ---- limits ---- */

static void depth_and_size_have_limits(void **state) {
  (void)state;
  struct ommai_grammar *grammar = make(OMMAI_ANSWER_GBNF, "root ::= \"(\" root \")\" | \"x\"", true);
  char text[1200];
  for (int depth = 200; depth <= 400; depth += 200) {
    memset(text, '(', (size_t)depth);
    text[depth] = 'x';
    memset(text + depth + 1, ')', (size_t)depth);
    text[2 * depth + 1] = '\0';
    assert_int_equal(allows(grammar, text), depth < OMMAI_GRAMMAR_MAX_DEPTH);
  }
  ommai_grammar_destroy(grammar);
  expect_refusal(OMMAI_ANSWER_JSON_SCHEMA, "{\"pattern\":\"^(a|b)*a(a|b){40}$\",\"maxLength\":90}", OMMA_ERROR_LIMIT,
                 "too much work");
  expect_refusal(OMMAI_ANSWER_REGEX, "((a{1000}b{1000}){50}x{3}){9}(y|((((((z{9}){9}){9}){9}){9}){9}))[^\\x00-\\ud000]{9}\\",
                 OMMA_ERROR_FORMAT, "backslash");
}

/* A schema of n parts between `begin` and `end`, each "%d" in them its number. */
static struct ommai_grammar *make_many(const char *begin, const char *part, const char *end, int n) {
  size_t room = strlen(begin) + strlen(end) + (size_t)n * (strlen(part) + 24) + 1, used;
  char *text = malloc(room);
  assert_non_null(text);
  used = (size_t)snprintf(text, room, "%s", begin);
  for (int i = 0; i < n; i++) {
    if (i) text[used++] = ',';
    used += (size_t)snprintf(text + used, room - used, part, i);
  }
  (void)snprintf(text + used, room - used, "%s", end);
  struct ommai_grammar *grammar = make(OMMAI_ANSWER_JSON_SCHEMA, text, true);
  free(text);
  return grammar;
}

/* What takes one look at each part takes a small share of the limit. */
static void many_parts_take_little_work(void **state) {
  (void)state;
  static const struct {
    const char *begin, *part, *end;
    int n;
  } cases[] = {
      {"{\"oneOf\":[", "{\"type\":\"object\",\"properties\":{\"kind\":{\"const\":\"k%d\"}},\"required\":[\"kind\"]}", "]}",
       2000},
      {"{\"properties\":{", "\"p%d\":{\"type\":\"integer\"}", "}}", 5000},
      {"{\"enum\":[", "\"v%d\"", "]}", 20000},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct ommai_grammar *grammar = make_many(cases[i].begin, cases[i].part, cases[i].end, cases[i].n);
    print_message("%d parts: %lld steps of %lld\n", cases[i].n, (long long)grammar->work, (long long)OMMAI_GRAMMAR_MAX_WORK);
    assert_in_range(grammar->work, 1, OMMAI_GRAMMAR_MAX_WORK / 4);
    ommai_grammar_destroy(grammar);
  }
}

/* Tagged alternatives exclude each other as before; those that share a value are still refused. */
static void tagged_alternatives_exclude_each_other(void **state) {
  (void)state;
#define TAGGED(value) "{\"type\":\"object\",\"properties\":{\"k\":{\"const\":" value "}},\"required\":[\"k\"]}"
  EXPECT(JSON_SCHEMA, "{\"oneOf\":[" TAGGED("\"a\"") "," TAGGED("\"b\"") "," TAGGED("\"c\"") "," TAGGED("\"d\"") "]}",
         TEXTS("{\"k\":\"a\"}", "{\"k\": \"d\"}"), TEXTS("{\"k\":\"e\"}", "{}"));
  expect_refusal(OMMAI_ANSWER_JSON_SCHEMA,
                 "{\"oneOf\":[" TAGGED("\"a\"") "," TAGGED("\"b\"") "," TAGGED("\"c\"") "," TAGGED("\"a\"") "]}",
                 OMMA_ERROR_UNSUPPORTED, "alternatives 0 and 3");
#undef TAGGED
}

/* As many schemas of one value as there may be: of an object, for its keys, and of a text that
 * tells alternatives apart, for formats. */
static void the_largest_sets_are_read_to_their_end(void **state) {
  (void)state;
#define TAGGED(pattern, more)                                                                                             \
  "{\"type\":\"object\",\"required\":[\"k\"],\"properties\":{\"k\":{\"type\":\"string\",\"pattern\":\"" pattern "\"" more \
  "}}"                                                                                                                    \
  "}"
  char text[4096], all[2048] = "{}";
  for (int i = 2; i < OMMAI_SCHEMA_MAX_PARTS; i++) strcat(all, ",{\"title\":\"x\"}");
  snprintf(text, sizeof text, "{\"type\":\"object\",\"properties\":{\"a\":{}},\"allOf\":[%s]}", all);
  EXPECT(JSON_SCHEMA, text, TEXTS("{}", "{\"a\":1}"), TEXTS("1"));
  snprintf(text, sizeof text, "{\"oneOf\":[" TAGGED("^a", "") "," TAGGED("^b", ",\"allOf\":[%s]") "]}", all);
  EXPECT(JSON_SCHEMA, text, TEXTS("{\"k\":\"a\"}", "{\"k\":\"b\"}"), TEXTS("{\"k\":\"c\"}", "{}"));
#undef TAGGED
}

/* Whatever way led to them. Of the first pattern, those after each letter and at the start, which
 * is that after "d"; of the second, those after the first "a" and at the start. */
static void equal_places_are_one_state(void **state) {
  (void)state;
  static const struct {
    const char *pattern;
    int32_t n_states;
  } cases[] = {{"(ab?c?d?)*", 4}, {"(aa|ab|ac|b)*", 2}};
  struct test_random random = {11};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct ommai_grammar *grammar = make(OMMAI_ANSWER_REGEX, cases[i].pattern, false);
    struct ommai_recogniser *recogniser;
    struct omma_error error;
    assert_ok(ommai_recogniser_create(grammar, &recogniser, &error), &error);
    int32_t first = ommai_recogniser_start(recogniser), at = first;
    for (int j = 0; j < 1000; j++) {
      at = ommai_recogniser_next(recogniser, at, (unsigned char)test_random_range(&random, 'a', 'd'));
      if (at < 0) at = first;
    }
    assert_int_equal(recogniser->n_states, cases[i].n_states);
    ommai_recogniser_destroy(recogniser);
    ommai_grammar_destroy(grammar);
  }
}

static enum omma_status make_and_walk(const struct omma_allocator *allocator, struct omma_error *error) {
  static const char schema[] =
      "{\"type\":\"object\",\"properties\":{\"a\":{\"pattern\":\"x+\",\"maxLength\":5},\"b\":{\"enum\":[1,2]}},"
      "\"additionalProperties\":{\"type\":\"number\",\"minimum\":3}}";
  struct ommai_grammar *grammar;
  struct ommai_recogniser *recogniser;
  const struct ommai_grammar_source source = {.kind = OMMAI_ANSWER_JSON_SCHEMA, .text = schema, .size = sizeof schema - 1};
  enum omma_status status = ommai_answer_grammar_create(&source, allocator, &grammar, error);
  if (status != OMMA_OK) return status;
  status = ommai_recogniser_create(grammar, &recogniser, error);
  if (status == OMMA_OK) ommai_recogniser_destroy(recogniser);
  ommai_grammar_destroy(grammar);
  return status;
}

static void every_failed_allocation_is_reported(void **state) {
  (void)state;
  test_fail_every_allocation(make_and_walk, 400);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(patterns_allow_their_texts),
      cmocka_unit_test(what_is_not_regular_is_refused),
      cmocka_unit_test(json_objects_nest),
      cmocka_unit_test(objects_have_their_members_in_order),
      cmocka_unit_test(arrays_have_bounds),
      cmocka_unit_test(strings_have_lengths_patterns_and_formats),
      cmocka_unit_test(numbers_have_bounds),
      cmocka_unit_test(schemas_are_joined),
      cmocka_unit_test(what_does_not_hold_is_left_out),
      cmocka_unit_test(members_may_depend_on_others),
      cmocka_unit_test(alternatives_of_one_of_are_kept_apart),
      cmocka_unit_test(other_keys_are_annotations),
      cmocka_unit_test(unsupported_keys_are_named),
      cmocka_unit_test(wrong_schemas_are_refused),
      cmocka_unit_test(gbnf_allows_its_texts),
      cmocka_unit_test(no_byte_beyond_the_end_is_read),
      cmocka_unit_test(depth_and_size_have_limits),
      cmocka_unit_test(every_failed_allocation_is_reported),
      cmocka_unit_test(many_parts_take_little_work),
      cmocka_unit_test(tagged_alternatives_exclude_each_other),
      cmocka_unit_test(the_largest_sets_are_read_to_their_end),
      cmocka_unit_test(equal_places_are_one_state),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
