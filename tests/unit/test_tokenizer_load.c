#include <stdlib.h>

#include "base/allocator.h"
#include "support/text_fixture.h"
#include "text/tokenizer.h"

static enum omma_status load(const struct text_folder *folder, struct omma_error *error) {
  struct ommai_tokenizer *tokenizer = NULL;
  enum omma_status status = ommai_tokenizer_load(folder->path, &ommai_default_allocator, &tokenizer, error);
  ommai_tokenizer_destroy(tokenizer);
  return status;
}

/* Writes the document, takes the reference, and loads it. */
static enum omma_status load_document(const struct text_folder *folder, json_t *document, struct omma_error *error) {
  char *text = json_dumps(document, JSON_COMPACT);
  text_folder_write(folder->tokenizer, text);
  free(text);
  json_decref(document);
  return load(folder, error);
}

#define DIGITS "digits/tokenizer.json"
#define MARKED "marked/tokenizer.json" /* byte fallback */

static json_t *good_document(void) { return text_fixture_json(OMMA_TEST_DATA, DIGITS); }

/* A change of the good document: the value at `path` (keys and indices with dots) becomes `value`,
 * JSON text; NULL removes it. */
struct change {
  const char *path, *value;
  enum omma_status status;
  const char *message;
};

static void apply(json_t *document, const struct change *change) {
  char path[128];
  snprintf(path, sizeof path, "%s", change->path);
  json_t *at = document;
  char *rest = path, *key = strsep(&rest, ".");
  for (; rest; key = strsep(&rest, ".")) {
    at = json_is_array(at) ? json_array_get(at, (size_t)atoi(key)) : json_object_get(at, key);
    assert_non_null(at);
  }
  json_t *value = change->value ? json_loads(change->value, JSON_DECODE_ANY, NULL) : NULL;
  if (change->value) assert_non_null(value);
  if (json_is_array(at)) {
    assert_int_equal(value ? json_array_set_new(at, (size_t)atoi(key), value) : json_array_remove(at, (size_t)atoi(key)), 0);
  } else {
    assert_int_equal(value ? json_object_set_new(at, key, value) : json_object_del(at, key), 0);
  }
}

static void check_changes(void **state, const char *file, const struct change *changes, size_t n) {
  for (size_t i = 0; i < n; i++) {
    struct omma_error error = {0};
    json_t *document = text_fixture_json(OMMA_TEST_DATA, file);
    apply(document, &changes[i]);
    enum omma_status status = load_document(*state, document, &error);
    if (status != changes[i].status || (status != OMMA_OK && !strstr(error.message, changes[i].message))) {
      fail_msg("%s = %s: %s: \"%s\" lacks \"%s\"", changes[i].path, changes[i].value ? changes[i].value : "nothing",
               omma_status_name(status), error.message, changes[i].message);
    }
  }
}

static void settings_are_followed_or_refused(void **state) {
  static const struct change changes[] = {
      {"normalizer", "null", OMMA_OK, ""},
      {"normalizer", NULL, OMMA_OK, ""},
      {"normalizer.type", "\"NFKC\"", OMMA_ERROR_UNSUPPORTED, "normalizer: key \"type\": expected \"NFC\", found NFKC"},
      {"normalizer", "[]", OMMA_ERROR_FORMAT, "normalizer"},
      {"normalizer.type", NULL, OMMA_ERROR_FORMAT, "\"type\" is missing"},
      {"pre_tokenizer", "null", OMMA_ERROR_FORMAT, "pre_tokenizer"},
      {"pre_tokenizer.type", "\"Metaspace\"", OMMA_ERROR_UNSUPPORTED, "Metaspace"},
      {"pre_tokenizer.pretokenizers", "[]", OMMA_ERROR_UNSUPPORTED, "pretokenizers"},
      {"pre_tokenizer.pretokenizers", "[1]", OMMA_ERROR_FORMAT, "pretokenizers[0]"},
      {"pre_tokenizer.pretokenizers.0.type", "\"Digits\"", OMMA_ERROR_UNSUPPORTED, "Digits"},
      {"pre_tokenizer.pretokenizers.0.behavior", "\"Removed\"", OMMA_ERROR_UNSUPPORTED, "behavior"},
      {"pre_tokenizer.pretokenizers.0.invert", "true", OMMA_ERROR_UNSUPPORTED, "invert"},
      {"pre_tokenizer.pretokenizers.0.pattern", "{\"String\": \"a\"}", OMMA_ERROR_UNSUPPORTED, "pattern"},
      {"pre_tokenizer.pretokenizers.0.pattern.Regex", "7", OMMA_ERROR_FORMAT, "Regex"},
      {"pre_tokenizer.pretokenizers.0.pattern.Regex", "\"a\\\\d\"", OMMA_ERROR_UNSUPPORTED, "pre_tokenizer: pattern: byte 1"},
      {"pre_tokenizer.pretokenizers.0.pattern.Regex", "\"(a\"", OMMA_ERROR_FORMAT, "does not compile"},
      {"pre_tokenizer.pretokenizers.1.add_prefix_space", "true", OMMA_ERROR_UNSUPPORTED, "add_prefix_space"},
      {"pre_tokenizer.pretokenizers.1.add_prefix_space", NULL, OMMA_ERROR_UNSUPPORTED, "add_prefix_space"},
      {"pre_tokenizer.pretokenizers.1.use_regex", "true", OMMA_ERROR_UNSUPPORTED, "use_regex"},
      {"pre_tokenizer.pretokenizers.0", NULL, OMMA_ERROR_UNSUPPORTED, "use_regex"},
      {"pre_tokenizer.pretokenizers.1", NULL, OMMA_ERROR_UNSUPPORTED, "Split"},
      {"post_processor", "null", OMMA_OK, ""},
      {"post_processor.type", "\"TemplateProcessing\"", OMMA_ERROR_UNSUPPORTED, "post_processor"},
      {"decoder", "null", OMMA_ERROR_FORMAT, "decoder"},
      {"decoder.type", "\"WordPiece\"", OMMA_ERROR_UNSUPPORTED, "decoder"},
      {"model", "null", OMMA_ERROR_FORMAT, "model"},
      {"model.type", "\"Unigram\"", OMMA_ERROR_UNSUPPORTED, "Unigram"},
      {"model.type", NULL, OMMA_OK, ""},
      {"model.dropout", "0.1", OMMA_ERROR_UNSUPPORTED, "dropout"},
      {"model.dropout", "\"x\"", OMMA_ERROR_FORMAT, "dropout"},
      {"model.byte_fallback", "true", OMMA_ERROR_UNSUPPORTED, "normalizer: key \"type\": expected \"Replace\", found NFC"},
      {"model.byte_fallback", "1", OMMA_ERROR_FORMAT, "byte_fallback"},
      {"model.ignore_merges", "3", OMMA_ERROR_FORMAT, "ignore_merges"},
      {"model.end_of_word_suffix", "\"</w>\"", OMMA_ERROR_UNSUPPORTED, "end_of_word_suffix"},
      {"model.continuing_subword_prefix", "\"##\"", OMMA_ERROR_UNSUPPORTED, "continuing_subword_prefix"},
  };
  check_changes(state, DIGITS, changes, sizeof changes / sizeof changes[0]);
}

static void settings_of_byte_fallback_are_followed_or_refused(void **state) {
  static const struct change changes[] = {
      {"model.byte_fallback", "false", OMMA_ERROR_UNSUPPORTED, "normalizer: key \"type\": expected \"NFC\", found Replace"},
      {"normalizer", "null", OMMA_ERROR_FORMAT, "normalizer"},
      {"normalizer",
       "{\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"Replace\", \"pattern\": {\"String\": \" \"},"
       " \"content\": \"\\u2581\"}]}",
       OMMA_OK, ""},
      {"normalizer", "{\"type\": \"Sequence\", \"normalizers\": []}", OMMA_ERROR_UNSUPPORTED, "normalizers"},
      {"normalizer", "{\"type\": \"Sequence\", \"normalizers\": [3]}", OMMA_ERROR_UNSUPPORTED, "normalizers"},
      {"normalizer.content", "\"_\"", OMMA_ERROR_UNSUPPORTED, "normalizer: key \"content\""},
      {"normalizer.pattern", "{\"Regex\": \" \"}", OMMA_ERROR_FORMAT, "\"String\" is missing"},
      {"normalizer.pattern.String", "\"  \"", OMMA_ERROR_UNSUPPORTED, "String"},
      {"pre_tokenizer", NULL, OMMA_OK, ""},
      {"pre_tokenizer", "{\"type\": \"Metaspace\"}", OMMA_ERROR_UNSUPPORTED, "pre_tokenizer"},
      {"post_processor", "{\"type\": \"TemplateProcessing\"}", OMMA_OK, ""},
      {"post_processor", "{\"type\": \"ByteLevel\"}", OMMA_ERROR_UNSUPPORTED, "post_processor"},
      {"decoder", "null", OMMA_ERROR_FORMAT, "decoder"},
      {"decoder.type", "\"Metaspace\"", OMMA_ERROR_UNSUPPORTED, "decoder"},
      {"decoder.decoders", "[]", OMMA_ERROR_UNSUPPORTED, "Replace, ByteFallback and Fuse"},
      {"decoder.decoders.1", NULL, OMMA_ERROR_UNSUPPORTED, "Replace, ByteFallback and Fuse"},
      {"decoder.decoders.2.type", "\"Strip\"", OMMA_ERROR_UNSUPPORTED, "Strip"},
      {"decoder.decoders.0.content", "\"\"", OMMA_ERROR_UNSUPPORTED, "content"},
      {"model.vocab.<0x7F>", NULL, OMMA_ERROR_FORMAT, "byte 0x7f has no token"},
      {"model.vocab.\xE2\x96\x81", NULL, OMMA_ERROR_FORMAT, "or both are not tokens"},
      {"model.merges.3", "[\"<0x41>\", \"e\"]", OMMA_ERROR_FORMAT, "model.merges[3]"},
      {"added_tokens.0", "{\"id\": 5000, \"content\": \"a\\u2581b\"}", OMMA_ERROR_UNSUPPORTED, "normalised"},
  };
  check_changes(state, MARKED, changes, sizeof changes / sizeof changes[0]);
  struct omma_error error;
  json_t *document = text_fixture_json(OMMA_TEST_DATA, MARKED);
  apply(document, &(struct change){.path = "model.merges", .value = "[]"});
  apply(document, &(struct change){.path = "model.vocab.\xE2\x96\x81"});
  assert_fails(load_document(*state, document, &error), OMMA_ERROR_FORMAT, "U+2581, has no token", &error);
}

static void tokens_and_merges_are_checked(void **state) {
  static const struct change changes[] = {
      {"model.vocab", NULL, OMMA_ERROR_FORMAT, "\"vocab\" is missing"},
      {"model.vocab", "[]", OMMA_ERROR_FORMAT, "\"vocab\" is missing or of a wrong type"},
      {"model.vocab", "{}", OMMA_ERROR_FORMAT, "tokens"},
      {"model.vocab.a", NULL, OMMA_ERROR_FORMAT, "tokens"},
      {"model.vocab.a", "-1", OMMA_ERROR_FORMAT, "model.vocab: expected a token's id at byte"},
      {"model.vocab.a", "1.5", OMMA_ERROR_FORMAT, "model.vocab"},
      {"model.vocab.a", "\"5\"", OMMA_ERROR_FORMAT, "model.vocab"},
      {"model.vocab.a", "[1]", OMMA_ERROR_FORMAT, "model.vocab"},
      {"model.vocab.a", "5", OMMA_ERROR_FORMAT, "id 5 names two tokens"},
      {"model.vocab.a", "1048576", OMMA_ERROR_LIMIT, "1048576"},
      {"model.vocab.a", "99999999999", OMMA_ERROR_FORMAT, "model.vocab"},
      {"model.vocab.", "1500", OMMA_ERROR_FORMAT, "id 1500: expected a token of 1 to 1024 bytes"},
      {"model.vocab.図", "1500", OMMA_OK, ""},
      {"model.vocab.<|im_end|>", "1500", OMMA_ERROR_FORMAT, "contradicts"},
      {"model.merges", NULL, OMMA_ERROR_FORMAT, "\"merges\" is missing"},
      {"model.merges", "{}", OMMA_ERROR_FORMAT, "\"merges\" is missing or of a wrong type"},
      {"model.merges", "[]", OMMA_OK, ""},
      {"model.merges.3", "\"a\"", OMMA_ERROR_FORMAT, "model.merges: expected two tokens at byte"},
      {"model.merges.3", "\"a b c\"", OMMA_ERROR_FORMAT, "two tokens"},
      {"model.merges.3", "[\"a\"]", OMMA_ERROR_FORMAT, "two tokens"},
      {"model.merges.3", "[\"a\", \"b\", \"c\"]", OMMA_ERROR_FORMAT, "two tokens"},
      {"model.merges.3", "[\"a\", 7]", OMMA_ERROR_FORMAT, "two tokens"},
      {"model.merges.3", "null", OMMA_ERROR_FORMAT, "two tokens"},
      {"model.merges.3", "[\"a\", \"QQQ\"]", OMMA_ERROR_FORMAT, "model.merges[3]"},
      {"model.merges.3", "[\"Q\", \"Q\"]", OMMA_ERROR_FORMAT, "model.merges[3]"},
      {"model.merges.3", "[\"\", \"Q\"]", OMMA_ERROR_FORMAT, "model.merges[3]"},
      {"model.merges.3", "\" \"", OMMA_ERROR_FORMAT, "model.merges[3]"},
      {"model.merges.3", "[\"図\", \"Q\"]", OMMA_ERROR_FORMAT, "model.merges[3]"},
      {"model.merges.3", "\"e r\"", OMMA_OK, ""},
      {"added_tokens", "null", OMMA_OK, ""},
      {"added_tokens", "{}", OMMA_ERROR_FORMAT, "added_tokens"},
      {"added_tokens.0", "4", OMMA_ERROR_FORMAT, "added_tokens[0]"},
      {"added_tokens.0.id", NULL, OMMA_ERROR_FORMAT, "added_tokens[0]: key \"id\""},
      {"added_tokens.0.id", "-1", OMMA_ERROR_FORMAT, "\"id\""},
      {"added_tokens.0.id", "1048576", OMMA_ERROR_FORMAT, "\"id\""},
      {"added_tokens.0.id", "64", OMMA_ERROR_FORMAT, "contradicts model.vocab"},
      {"added_tokens.0.id", "1001", OMMA_ERROR_FORMAT, "contradicts"},
      {"added_tokens.1.content", "\"<|endoftext|>\"", OMMA_ERROR_FORMAT, "contradicts"},
      {"added_tokens.1.content", "\"Ġthe\"", OMMA_ERROR_FORMAT, "contradicts model.vocab"},
      {"added_tokens.0.content", "\"\"", OMMA_ERROR_FORMAT, "1 to 1024"},
      {"added_tokens.0.content", "3", OMMA_ERROR_FORMAT, "content"},
      {"added_tokens.0.single_word", "true", OMMA_ERROR_UNSUPPORTED, "single_word"},
      {"added_tokens.0.lstrip", "1", OMMA_ERROR_FORMAT, "lstrip"},
      {"added_tokens.0", "{\"id\": 1000, \"content\": \"e\\u0301\"}", OMMA_ERROR_UNSUPPORTED, "normalised"},
  };
  check_changes(state, DIGITS, changes, sizeof changes / sizeof changes[0]);
}

static void config_adds_tokens(void **state) {
  const struct text_folder *folder = *state;
  static const struct change changes[] = {
      {"{}", NULL, OMMA_OK, ""},
      {"{\"added_tokens_decoder\": null}", NULL, OMMA_OK, ""},
      {"{\"added_tokens_decoder\": {\"2000\": {\"content\": \"[X]\", \"special\": true}}}", NULL, OMMA_OK, ""},
      {"{\"added_tokens_decoder\": {\"2000\": {\"content\": \"<think>\"}}}", NULL, OMMA_ERROR_FORMAT, "contradicts"},
      {"{\"added_tokens_decoder\": {\"1000\": {\"content\": \"[X]\"}}}", NULL, OMMA_ERROR_FORMAT, "added_tokens_decoder.1000"},
      {"{\"added_tokens_decoder\": {\"x\": {\"content\": \"[X]\"}}}", NULL, OMMA_ERROR_FORMAT, "added_tokens_decoder.x"},
      {"{\"added_tokens_decoder\": {\"\": {\"content\": \"[X]\"}}}", NULL, OMMA_ERROR_FORMAT, "expected an id"},
      {"{\"added_tokens_decoder\": {\"01\": {\"content\": \"[X]\"}}}", NULL, OMMA_ERROR_FORMAT, "expected an id"},
      {"{\"added_tokens_decoder\": {\"99999999999999999999\": {\"content\": \"[X]\"}}}", NULL, OMMA_ERROR_FORMAT,
       "expected an id"},
      {"{\"added_tokens_decoder\": {\"2000\": 4}}", NULL, OMMA_ERROR_FORMAT, "an object"},
      {"{\"added_tokens_decoder\": []}", NULL, OMMA_ERROR_FORMAT, "added_tokens_decoder"},
      {"{", NULL, OMMA_ERROR_FORMAT, "tokenizer_config.json: invalid JSON"},
  };
  for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
    struct omma_error error = {0};
    text_folder_write(folder->config, changes[i].path);
    enum omma_status status = load_document(folder, good_document(), &error);
    if (status != changes[i].status || !strstr(error.message, changes[i].message)) {
      fail_msg("%s: %s: %s", changes[i].path, omma_status_name(status), error.message);
    }
  }
}

static void missing_files_are_named(void **state) {
  const struct text_folder *folder = *state;
  struct omma_error error;
  assert_fails(load(folder, &error), OMMA_ERROR_IO, "tokenizer.json", &error);
  char path[5000];
  memset(path, 'x', sizeof path - 1);
  path[sizeof path - 1] = '\0';
  struct ommai_tokenizer *tokenizer;
  assert_fails(ommai_tokenizer_load(path, &ommai_default_allocator, &tokenizer, &error), OMMA_ERROR_ARGUMENT, "too long",
               &error);
}

static char *read_fixture(size_t *size) {
  FILE *file = fopen(OMMA_TEST_DATA "/data/text/digits/tokenizer.json", "rb");
  assert_non_null(file);
  char *text = malloc(1 << 20);
  *size = fread(text, 1, 1 << 20, file);
  fclose(file);
  return text;
}

/* A file that ends early is refused wherever it ends, and one with a changed byte never does
 * harm. */
static void damaged_files_are_refused(void **state) {
  const struct text_folder *folder = *state;
  struct omma_error error;
  size_t size;
  char *text = read_fixture(&size);
  while (text[size - 1] != '}') size--;
  for (size_t n = 0; n < size; n += n < 600 ? 3 : 97) {
    test_write_file(folder->tokenizer, text, n);
    assert_int_equal(load(folder, &error), OMMA_ERROR_FORMAT);
  }
  struct test_random random = {23};
  for (int round = 0; round < 400; round++) {
    static const char bytes[] = "\"\\{}[],: 0a\x80\xff";
    size_t at = (size_t)test_random_range(&random, 0, (int64_t)size - 1);
    char old = text[at];
    text[at] = bytes[test_random_range(&random, 0, sizeof bytes - 1)];
    test_write_file(folder->tokenizer, text, size);
    enum omma_status status = load(folder, &error);
    assert_true(status == OMMA_OK || status == OMMA_ERROR_FORMAT || status == OMMA_ERROR_UNSUPPORTED ||
                status == OMMA_ERROR_LIMIT);
    text[at] = old;
  }
  free(text);
}

static void repeated_keys_are_refused(void **state) {
  const struct text_folder *folder = *state;
  struct omma_error error;
  static const char *const texts[] = {"{\"model\":{\"vocab\":{},\"vocab\":{}}}", "{\"model\":{\"merges\":[],\"merges\":[]}}",
                                      "{\"model\":{},\"model\":{}}"};
  for (size_t i = 0; i < 3; i++) {
    text_folder_write(folder->tokenizer, texts[i]);
    assert_fails(load(folder, &error), OMMA_ERROR_FORMAT, "duplicate", &error);
  }
}

static void failing_allocations_are_reported(void **state) {
  (void)state;
  text_fixture_fail_allocations(OMMA_TEST_DATA, "plain");
  ommai_tokenizer_destroy(NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEXT_FOLDER_TEST(settings_are_followed_or_refused), TEXT_FOLDER_TEST(settings_of_byte_fallback_are_followed_or_refused),
      TEXT_FOLDER_TEST(tokens_and_merges_are_checked),    TEXT_FOLDER_TEST(config_adds_tokens),
      TEXT_FOLDER_TEST(missing_files_are_named),          TEXT_FOLDER_TEST(damaged_files_are_refused),
      TEXT_FOLDER_TEST(repeated_keys_are_refused),        cmocka_unit_test(failing_allocations_are_reported),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
