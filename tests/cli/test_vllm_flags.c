/* Each option of `vllm serve` is an option here, or accepted with one warning, or refused with a
 * reason; none is unknown. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/core/command_line.h"
#include "cli/core/commands.h"
#include "support/test.h"

#define MAX_PRINTED 4096

struct outcome {
  enum ommai_parsed parsed;
  size_t n_arguments;
  char printed[MAX_PRINTED];
};

/* Parses argv[argc] as options of serve and keeps what is printed on stderr. */
static struct outcome parse(int argc, char **argv) {
  struct outcome outcome = {0};
  struct ommai_strings arguments = {0};
  FILE *kept = tmpfile();
  void *values = calloc(1, ommai_command_serve.values_size);
  assert_non_null(kept);
  assert_non_null(values);
  int before = dup(STDERR_FILENO);
  dup2(fileno(kept), STDERR_FILENO);
  outcome.parsed = ommai_options_parse(&ommai_command_serve, argc, argv, 0, values, &arguments);
  dup2(before, STDERR_FILENO);
  close(before);
  outcome.n_arguments = arguments.count;
  rewind(kept);
  outcome.printed[fread(outcome.printed, 1, MAX_PRINTED - 1, kept)] = '\0';
  fclose(kept);
  ommai_options_release(&ommai_command_serve, values, &arguments);
  free(values);
  return outcome;
}

/* Also --no-NAME of those that have it, and short forms. */
static bool is_own(const char *word) {
  const char *name = word[1] == '-' ? word + 2 : word + 1;
  for (size_t g = 0; g < OMMAI_MAX_OPTION_GROUPS && ommai_command_serve.groups[g]; g++) {
    const struct ommai_option_group *group = ommai_command_serve.groups[g];
    for (size_t i = 0; i < group->n_options && group->options[i].name; i++) {
      const struct ommai_option *option = &group->options[i];
      bool negated = option->negatable && strncmp(name, "no-", 3) == 0;
      char letter[2] = {option->letter};
      if (word[1] != '-') {
        if (strcmp(letter, name) == 0 || (option->letters && strcmp(option->letters, name) == 0)) return true;
        continue;
      }
      if (strcmp(option->name, negated ? name + 3 : name) == 0) return true;
    }
  }
  return false;
}

static int count_lines(const char *text) {
  int n = 0;
  for (; *text; text++) n += *text == '\n';
  return n;
}

/* Reads the list's next option and what stands after it. */
static bool next_flag(FILE *list, char *option, char *form) {
  char line[128];
  do {
    if (!fgets(line, sizeof line, list)) return false;
  } while (line[0] == '#');
  assert_int_equal(sscanf(line, "%63s %15s", option, form), 2);
  return true;
}

static FILE *open_list(void) {
  FILE *list = fopen(OMMA_TEST_DATA "/../src/cli/foreign/vllm_options.txt", "r");
  assert_non_null(list);
  return list;
}

/* An option's own arguments are not taken for the model, and the model is not taken for its
 * argument. */
static void every_flag_has_an_outcome(void **state) {
  (void)state;
  int n_own = 0, n_accepted = 0, n_refused = 0;
  char option[64], form[16], value[] = "7", model[] = "DIR", verbose[] = "-v";
  FILE *list = open_list();
  while (next_flag(list, option, form)) {
    char *argv[8] = {option};
    int argc = 1;
    if (strcmp(form, "none") != 0) argv[argc++] = value;
    if (strcmp(form, "many") == 0) argv[argc++] = value, argv[argc++] = verbose;
    argv[argc++] = model;
    if (is_own(option)) {
      n_own++;
      continue;
    }
    struct outcome outcome = parse(argc, argv);
    assert_int_equal(count_lines(outcome.printed), 1);
    if (strstr(outcome.printed, "accepted, but it means nothing to this program")) {
      n_accepted++;
      assert_int_equal(outcome.parsed, OMMAI_PARSED);
      assert_int_equal(outcome.n_arguments, 1);
    } else {
      n_refused++;
      if (!strstr(outcome.printed, "omma: serve: vLLM's flag --") || !strstr(outcome.printed, " is not supported here: ")) {
        fail_msg("%s: %s", option, outcome.printed);
      }
      assert_int_equal(outcome.parsed, OMMAI_PARSED_WRONG);
    }
  }
  fclose(list);
  assert_true(n_own >= 16);
  assert_true(n_accepted > 150 && n_refused > 70);
}

static void every_flag_is_suggested(void **state) {
  (void)state;
  char option[64], form[16], wanted[128];
  FILE *list = open_list();
  while (next_flag(list, option, form)) {
    size_t size = strlen(option), middle = size / 2;
    if (option[1] != '-' || size < 8) continue;
    snprintf(wanted, sizeof wanted, "did you mean %s?", option);
    while (option[middle] == option[middle + 1]) middle--;
    char first = option[middle], *argv[] = {option};
    option[middle] = option[middle + 1];
    option[middle + 1] = first;
    struct outcome outcome = parse(1, argv);
    assert_int_equal(outcome.parsed, OMMAI_PARSED_WRONG);
    if (!strstr(outcome.printed, wanted)) fail_msg("%s: %s", option, outcome.printed);
  }
  fclose(list);
}

static void spellings(void **state) {
  (void)state;
  static const struct {
    const char *words[3], *printed; /* NULL: accepted */
  } cases[] = {
      {{"--enforce_eager", "DIR"}, NULL},
      {{"--no_enable_log_requests", "DIR"}, NULL},
      {{"--disable-uvicorn-access-log", "--no-disable-uvicorn-access-log", "DIR"}, NULL},
      {{"--no-log-format", "DIR"}, "unknown option"},
      {{"--no_async_scheduling", "DIR"}, NULL},
      {{"--block_size=16", "DIR"}, NULL},
      {{"-tp", "1", "DIR"}, NULL},
      {{"-tp=1", "DIR"}, NULL},
      {{"-tp", "2", "DIR"}, "vLLM's flag --tensor-parallel-size is not supported here"},
      {{"--tensor_parallel_size=2", "DIR"}, "(accepted: 1)"},
      {{"--tensor-parallel-size=", "DIR"}, "(accepted: 1)"},
      {{"-dp", "1", "DIR"}, NULL},
      {{"-dp=2", "DIR"}, NULL},
      {{"-dp"}, "--data-parallel-size: a value is missing"},
      {{"-dp", "-q", "DIR"}, "--data-parallel-size: a value is missing"},
      {{"-dpx", "1", "DIR"}, "unknown option"},
      {{"-pp", "10", "DIR"}, "--pipeline-parallel-size"},
      {{"-O3", "DIR"}, NULL},
      {{"-O", "3", "DIR"}, NULL},
      {{"-O=3", "DIR"}, NULL},
      {{"-n1", "DIR"}, NULL},
      {{"-cc.mode=3", "DIR"}, NULL},
      {{"--compilation-config.mode", "3", "DIR"}, NULL},
      {{"--speculative_config.method=ngram", "DIR"}, "--speculative-config"},
      {{"-q", "bitsandbytes", "DIR"}, "--quantization"},
      {{"--hf-token", "-v", "DIR"}, NULL},
      {{"--hf-token", "--api-key=secret", "DIR"}, NULL},
      {{"--download-dir", "--api-key=secret", "DIR"}, "--download-dir: a value is missing"},
      {{"DIR", "--revision"}, "--revision: a value is missing"},
      {{"DIR", "-q"}, "--quantization: a value is missing"},
      {{"--max-num-queued-reqs", "4", "DIR"}, "vLLM's flag --max-num-queued-reqs is not supported here"},
      {{"--no-enable-lora", "DIR"}, NULL},
      {{"--enable-lora", "DIR"}, "--enable-lora"},
      {{"--load-format", "dummy", "DIR"}, "(accepted: auto safetensors"},
      {{"--load-format", "safetensors", "DIR"}, NULL},
      {{"--load-format", "gguf", "DIR"}, NULL},
      {{"--load-format", "safe", "DIR"}, "--load-format"},
      {{"--no-block-size", "DIR"}, "unknown option"},
      {{"-no-async-scheduling", "DIR"}, "unknown option"},
      {{"-tpx", "1", "DIR"}, "unknown option"},
      {{"--served_model_name=a", "DIR"}, NULL},
      {{"--seed", "0", "DIR"}, NULL},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char *argv[3];
    int argc = 0;
    while (argc < 3 && cases[i].words[argc]) argv[argc] = (char *)cases[i].words[argc], argc++;
    struct outcome outcome = parse(argc, argv);
    bool good = cases[i].printed ? outcome.parsed == OMMAI_PARSED_WRONG && strstr(outcome.printed, cases[i].printed)
                                 : outcome.parsed == OMMAI_PARSED && outcome.n_arguments == 1;
    if (!good) fail_msg("%s: %s", argv[0], outcome.printed);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_flag_has_an_outcome), cmocka_unit_test(every_flag_is_suggested),
                                     cmocka_unit_test(spellings)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
