/* --config: what a file sets, what the command line wins, what is refused. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/core/command_line.h"
#include "cli/core/commands.h"
#include "cli/serve/serving.h"
#include "support/test.h"

#define MAX_PRINTED 4096

struct outcome {
  enum ommai_parsed parsed;
  struct ommai_serving *values;
  struct ommai_strings arguments;
  char printed[MAX_PRINTED], path[64];
};

/* `omma serve` with a file of this text, and up to four words. Release the outcome. */
static struct outcome *parse(const char *yaml, const char *const words[4]) {
  struct outcome *outcome = calloc(1, sizeof *outcome);
  FILE *kept = tmpfile();
  char *argv[8] = {"--config", outcome->path};
  int argc = 2;
  assert_non_null(kept);
  snprintf(outcome->path, sizeof outcome->path, "/tmp/omma-config-XXXXXX");
  int file = mkstemp(outcome->path);
  assert_true(file >= 0 && write(file, yaml, strlen(yaml)) == (ssize_t)strlen(yaml));
  close(file);
  for (int i = 0; i < 4 && words && words[i]; i++) argv[argc++] = (char *)words[i];
  outcome->values = calloc(1, ommai_command_serve.values_size);
  int before = dup(STDERR_FILENO);
  dup2(fileno(kept), STDERR_FILENO);
  outcome->parsed = ommai_options_parse(&ommai_command_serve, argc, argv, 0, outcome->values, &outcome->arguments);
  dup2(before, STDERR_FILENO);
  close(before);
  rewind(kept);
  outcome->printed[fread(outcome->printed, 1, MAX_PRINTED - 1, kept)] = '\0';
  fclose(kept);
  unlink(outcome->path);
  return outcome;
}

static void release(struct outcome *outcome) {
  ommai_options_release(&ommai_command_serve, outcome->values, &outcome->arguments);
  free(outcome->values);
  free(outcome);
}

static void a_file_sets_what_the_options_would(void **state) {
  (void)state;
  struct outcome *of = parse(
      "# as for vLLM\n"
      "model: models/mine\n"
      "host: \"0.0.0.0\"\n"
      "port: 9000\n"
      "max_model_len: 8K\n"
      "max-grammar-seconds: 0.5\n"
      "served-model-name: [one, \"2\"]\n"
      "enable-prefix-caching: false\n"
      "trust-media-uuids: yes\n"
      "seed:\n"
      "limit-mm-per-prompt:\n  image: 4\n  video: 1\n"
      "speculative-config: {method: ngram, num_speculative_tokens: 3, name: \"7\", on: null, share: 0.5}\n",
      NULL);
  const struct ommai_serving *serving = of->values;
  assert_string_equal(of->printed, "");
  assert_int_equal(of->parsed, OMMAI_PARSED);
  assert_string_equal(serving->common.model, "models/mine");
  assert_string_equal(serving->server.host, "0.0.0.0");
  assert_int_equal(serving->server.port, 9000);
  assert_int_equal(serving->common.max_model_len, 8192);
  assert_int_equal(serving->server.max_grammar_ms, 500);
  assert_int_equal(serving->server.served_model_names.count, 2);
  assert_string_equal(serving->server.served_model_names.items[1], "2");
  assert_false(serving->prefix_caching);
  assert_true(serving->server.settings.trust_media_uuids);
  assert_false(serving->server.settings.seed.given);
  assert_string_equal(serving->limit_mm_per_prompt, "{\"image\":4,\"video\":1}");
  assert_string_equal(serving->speculative,
                      "{\"method\":\"ngram\",\"num_speculative_tokens\":3,\"name\":\"7\",\"on\":null,\"share\":0.5}");
  release(of);
}

static void the_command_line_wins(void **state) {
  (void)state;
  static const char yaml[] =
      "port: 9000\nmodel: other\nserved-model-name: [a, b]\nkv-cache-bytes: 1G\nenable-prefix-caching: true\nhost: here\n";
  struct outcome *of =
      parse(yaml, (const char *const[4]){"models/mine", "--port=1", "--served-model-name=c", "--kv-cache-memory-bytes=2G"});
  assert_string_equal(of->printed, "");
  assert_int_equal(of->parsed, OMMAI_PARSED);
  assert_null(of->values->common.model);
  assert_string_equal(of->arguments.items[0], "models/mine");
  assert_int_equal(of->values->server.port, 1);
  assert_int_equal(of->values->server.served_model_names.count, 1);
  assert_int_equal(of->values->common.kv_cache_bytes, (int64_t)2 << 30);
  assert_string_equal(of->values->server.host, "here");
  release(of);
  of = parse(yaml, (const char *const[4]){"--no-enable-prefix-caching"});
  assert_false(of->values->prefix_caching);
  release(of);
}

static void flags_of_vllm_are_answered_as_on_the_command_line(void **state) {
  (void)state;
  struct outcome *of =
      parse("enforce-eager: true\nblock-size: 16\nasync-scheduling: false\nno-enable-log-requests: true\n", NULL);
  assert_int_equal(of->parsed, OMMAI_PARSED);
  assert_non_null(strstr(of->printed, "--enforce-eager: accepted"));
  assert_non_null(strstr(of->printed, "--block-size: accepted"));
  release(of);
  of = parse("lora-modules: [a=b]\n", NULL);
  assert_int_equal(of->parsed, OMMAI_PARSED_WRONG);
  assert_non_null(strstr(of->printed, "vLLM's flag --lora-modules is not supported here"));
  release(of);
}

static void wrong_files_are_refused_with_the_place(void **state) {
  (void)state;
  static const struct {
    const char *yaml, *printed;
  } cases[] = {
      {"max-modl-len: 1\n", "max-modl-len: no such option, did you mean max-model-len?"},
      {"qqqqqqqqqqqq: 1\n", "qqqqqqqqqqqq: no such option\n"},
      {"port: 70000\n", "port: must be from 0 to 65535"},
      {"port: [1, 2]\n", "port: expected one value, found a list"},
      {"no-page: maybe\n", "no-page: must be true or false"},
      {"config: other.yaml\n", "config: a file names no other file"},
      {"port: 1\nport: 2\n", ":2: the same key stands there twice"},
      {"- a\n- b\n", ":1: expected options with their values"},
      {"port: 1\n  host: [\n", ":2: "},
      {"? [a]\n: 1\n", "a key must be the name of an option"},
      {"speculative-config: {a: 1, a: 2}\n", "the same key stands there twice"},
      {"limit-mm-per-prompt: &x {a: *x}\n", ":1: "},
      /* each alias doubles what the one before stands for */
      {"a0: &a0 [x, x]\na1: &a1 [*a0, *a0]\n", "a0: no such option"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct outcome *of = parse(cases[i].yaml, NULL);
    assert_int_equal(of->parsed, OMMAI_PARSED_WRONG);
    if (!strstr(of->printed, cases[i].printed) || !strstr(of->printed, of->path))
      fail_msg("%s: %s", cases[i].yaml, of->printed);
    release(of);
  }
  struct outcome *of = parse(
      "speculative-config: {a: &a [x,x,x,x,x,x,x,x,x,x], b: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a], c: &c "
      "[*b,*b,*b,*b,*b,*b,*b,*b,*b,*b], d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c], e: [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]}\n",
      NULL);
  assert_int_equal(of->parsed, OMMAI_PARSED_WRONG);
  assert_non_null(strstr(of->printed, "a value of too many parts"));
  release(of);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_file_sets_what_the_options_would),
                                     cmocka_unit_test(the_command_line_wins),
                                     cmocka_unit_test(flags_of_vllm_are_answered_as_on_the_command_line),
                                     cmocka_unit_test(wrong_files_are_refused_with_the_place)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
