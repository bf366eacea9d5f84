/* omma: finds the command, reads its options, runs it. */
#include <omma/omma.h>
#include <stdio.h>
#include <string.h>

#include "base/allocator.h"
#include "cli/commands.h"
#include "cli/diagnostics.h"
#include "cli/interrupt.h"
#include "cli/nearest.h"

static const struct ommai_command *const commands[] = {
    &ommai_command_chat,          &ommai_command_run,          &ommai_command_serve,       &ommai_command_batch,
    &ommai_command_encode,        &ommai_command_preprocess,   &ommai_command_plan,        &ommai_command_tokenize,
    &ommai_command_detokenize,    &ommai_command_info,         &ommai_command_verify,      &ommai_command_bench_attention,
    &ommai_command_bench_encoder, &ommai_command_bench_decode, &ommai_command_bench_serve,
};
#define N_COMMANDS (sizeof commands / sizeof *commands)

static void print_summary(const struct ommai_command *command, FILE *out) {
  char name[40];
  snprintf(name, sizeof name, "%s%s%s", command->name, command->alias ? ", " : "", command->alias ? command->alias : "");
  fprintf(out, "  %-18s %s\n", name, command->summary);
}

static void print_help(FILE *out) {
  fprintf(out, "Usage: omma COMMAND [options]\n\nRuns vision-language models on CPUs.\n\nCommands:\n");
  for (size_t i = 0; i < N_COMMANDS; i++) print_summary(commands[i], out);
  fprintf(out, "  %-18s %s\n", "help [COMMAND]", "this text, or a command's options");
  fprintf(out,
          "\n`omma COMMAND --help` lists a command's options with their defaults and an example; `omma --version` (-V) prints\n"
          "the version. Exit codes: 0 done, 1 failed, 2 usage error, 130 interrupted by Ctrl-C.\n\nExample:\n"
          "  omma chat photo.jpg \"What is in this picture?\"\n");
}

/* The number of words of `name` that stand at the beginning of the command line; 0 when it is another command. */
static int match_name(const char *name, int argc, char **argv) {
  const char *space = strchr(name, ' ');
  size_t first = space ? (size_t)(space - name) : strlen(name);
  if (argc < 1 || strlen(argv[0]) != first || memcmp(argv[0], name, first) != 0) return 0;
  if (!space) return 1;
  return argc >= 2 && strcmp(argv[1], space + 1) == 0 ? 2 : 0;
}

static const struct ommai_command *find_command(int argc, char **argv, int *n_words) {
  for (size_t i = 0; i < N_COMMANDS; i++) {
    *n_words = match_name(commands[i]->name, argc, argv);
    if (*n_words == 0 && commands[i]->alias) *n_words = match_name(commands[i]->alias, argc, argv);
    if (*n_words) return commands[i];
  }
  return NULL;
}

/* The second word of a command of two, when its first is `word`; else NULL. */
static const char *second_word(const struct ommai_command *command, const char *word) {
  size_t size = strlen(word);
  return size && strncmp(command->name, word, size) == 0 && command->name[size] == ' ' ? command->name + size + 1 : NULL;
}

static bool begins_commands(const char *word) {
  for (size_t i = 0; i < N_COMMANDS; i++) {
    if (second_word(commands[i], word)) return true;
  }
  return false;
}

static int group_help(const char *word) {
  printf("Usage: omma %s COMMAND [options]\n\nCommands:\n", word);
  for (size_t i = 0; i < N_COMMANDS; i++) {
    if (second_word(commands[i], word)) print_summary(commands[i], stdout);
  }
  printf("\n`omma %s COMMAND --help` lists a command's options with their defaults and an example.\n", word);
  return ommai_finish_output();
}

/* The first word alone: says which commands it begins. */
static int say_second_words(const char *word) {
  char list[128];
  size_t length = 0;
  for (size_t i = 0; i < N_COMMANDS; i++) {
    const char *second = second_word(commands[i], word);
    if (!second || length >= sizeof list) continue;
    length += (size_t)snprintf(list + length, sizeof list - length, "%s%s", length ? ", " : "", second);
  }
  return ommai_usage_error("%s: say what to %s, one of: %s (`omma %s --help` tells more)", word, word, list, word);
}

static bool asks_for_help(const char *word) { return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0; }

/* Compares two words where the first is the first of a two-word command. */
static int unknown_command(int argc, char **argv) {
  char wanted[64];
  bool second = begins_commands(argv[0]);
  if (second && argc >= 2 && asks_for_help(argv[1])) return group_help(argv[0]);
  if (second && (argc < 2 || argv[1][0] == '-')) return say_second_words(argv[0]);
  snprintf(wanted, sizeof wanted, "%s%s%s", argv[0], second ? " " : "", second ? argv[1] : "");
  struct ommai_nearest search = {.wanted = wanted};
  for (size_t i = 0; i < N_COMMANDS; i++) {
    ommai_nearest_offer(&search, commands[i]->name);
    if (commands[i]->alias) ommai_nearest_offer(&search, commands[i]->alias);
  }
  if (!search.best) return ommai_usage_error("%s: unknown command (`omma help` lists all)", wanted);
  return ommai_usage_error("%s: unknown command, did you mean %s? (`omma help` lists all)", wanted, search.best);
}

static int help(int argc, char **argv) {
  int n_words;
  if (argc == 0 || asks_for_help(argv[0])) {
    print_help(stdout);
    return ommai_finish_output();
  }
  const struct ommai_command *command = find_command(argc, argv, &n_words);
  if (!command && argc == 1 && begins_commands(argv[0])) return group_help(argv[0]);
  if (!command) return unknown_command(argc, argv);
  ommai_options_help(command, stdout);
  return ommai_finish_output();
}

static int print_version(void) {
  printf("omma %s\n", omma_version());
  return ommai_finish_output();
}

static int run(const struct ommai_command *command, int argc, char **argv, int first) {
  struct ommai_strings arguments = {0};
  void *values = ommai_allocate(&ommai_default_allocator, 1, command->values_size);
  if (!values) return ommai_failed("out of memory: the options of %s", command->name);
  int code = OMMAI_EXIT_USAGE;
  switch (ommai_options_parse(command, argc, argv, first, values, &arguments)) {
    case OMMAI_PARSED: code = command->run(values, &arguments); break;
    case OMMAI_PARSED_WRONG: break;
    case OMMAI_PARSED_HELP:
      ommai_options_help(command, stdout);
      code = ommai_finish_output();
      break;
    case OMMAI_PARSED_VERSION: code = print_version(); break;
  }
  ommai_options_release(command, values, &arguments);
  ommai_release(&ommai_default_allocator, values, 1, command->values_size);
  return code;
}

int main(int argc, char **argv) {
  if (!ommai_interrupt_install()) return ommai_failed("cannot prepare for signals");
  if (argc < 2) {
    print_help(stderr);
    return OMMAI_EXIT_USAGE;
  }
  const char *word = argv[1];
  if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0 || strcmp(word, "version") == 0) {
    return print_version();
  }
  if (strcmp(word, "help") == 0) return help(argc - 2, argv + 2);
  if (asks_for_help(word)) return help(0, NULL);
  if (word[0] == '-') return ommai_usage_error("%s: a command comes first (`omma help` lists all)", word);
  int n_words;
  const struct ommai_command *command = find_command(argc - 1, argv + 1, &n_words);
  if (!command) return unknown_command(argc - 1, argv + 1);
  return run(command, argc, argv, 1 + n_words);
}
