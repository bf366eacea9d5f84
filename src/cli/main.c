/* omma: finds the command and runs it. */
#include <stdio.h>
#include <string.h>

#include "base/plural.h"
#include "cli/core/command_list.h"
#include "cli/core/commands.h"
#include "cli/core/completion.h"
#include "cli/core/diagnostics.h"
#include "cli/core/interrupt.h"
#include "cli/core/manual.h"
#include "cli/core/nearest.h"

/* Parts of the list of commands, which begin with these. */
static const struct {
  const char *title;
  const struct ommai_command *first;
} sections[] = {
    {"Answers", &ommai_command_chat},
    {"Parts of a request", &ommai_command_encode},
    {"Model and machine", &ommai_command_plan},
    {"Benchmarks", &ommai_command_bench_attention},
};

static void print_summary(const struct ommai_command *command, FILE *out) {
  char name[40];
  snprintf(name, sizeof name, "%s%s%s", command->name, command->alias ? ", " : "", command->alias ? command->alias : "");
  fprintf(out, "  %-18s %s\n", name, command->summary);
}

static void print_help(FILE *out) {
  fprintf(out, "Usage: omma COMMAND [options]\n\nRuns vision-language models on CPUs.\n");
  for (size_t i = 0; i < ommai_n_commands; i++) {
    for (size_t s = 0; s < sizeof sections / sizeof *sections; s++) {
      if (sections[s].first == ommai_commands[i]) fprintf(out, "\n%s:\n", sections[s].title);
    }
    print_summary(ommai_commands[i], out);
  }
  fprintf(out, "\nThis program:\n");
  fprintf(out, "  %-18s %s\n", "help [COMMAND]", "this text, or a command's options");
  fprintf(out, "  %-18s %s\n", "completion SHELL", "print the completion script for bash, zsh or fish");
  fprintf(out,
          "\n`omma COMMAND --help` lists a command's options with their defaults and examples;\n"
          "`omma --version` (-V) prints the version. Exit codes: 0 done, 1 failed, 2 usage error,\n"
          "130 interrupted by Ctrl-C.\n\nExamples:\n"
          "  omma chat photo.jpg \"What is in this image?\"\n"
          "  omma serve models/my-model --port 8000\n"
          "  source <(omma completion bash)\n");
}

static bool begins_commands(const char *word) {
  for (size_t i = 0; i < ommai_n_commands; i++) {
    if (ommai_command_second_word(ommai_commands[i], word)) return true;
  }
  return false;
}

static int group_help(const char *word) {
  printf("Usage: omma %s COMMAND [options]\n\nCommands:\n", word);
  for (size_t i = 0; i < ommai_n_commands; i++) {
    if (ommai_command_second_word(ommai_commands[i], word)) print_summary(ommai_commands[i], stdout);
  }
  printf("\n`omma %s COMMAND --help` lists a command's options with their defaults and examples.\n", word);
  return ommai_finish_output();
}

/* The first word alone: lists which commands it begins. */
static int list_second_words(const char *word) {
  char list[128] = "";
  for (size_t i = 0; i < ommai_n_commands; i++) {
    const char *second = ommai_command_second_word(ommai_commands[i], word);
    if (second) ommai_list_entry(list, sizeof list, "%s", second);
  }
  return ommai_usage_error("%s: name what to %s, one of: %s (see `omma %s --help`)", word, word, list, word);
}

static bool asks_for_help(const char *word) { return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0; }

/* Commands of ollama and vLLM that this program has not, and what does their work. */
static const struct {
  const char *name, *hint;
} foreign_commands[] = {
    {"pull", "nothing is downloaded: get the model first (hf download) and name its directory: omma chat DIR"},
    {"push", "models are directories: copy one, or upload it (hf upload)"},
    {"create", "a model is a Hugging Face directory or a GGUF file, as it is: omma chat DIR"},
    {"cp", "models are directories: copy one"},
    {"rm", "models are directories: remove one"},
    {"list", "models are directories, wherever they lie: ls; a server's are listed at /v1/models"},
    {"ls", "models are directories, wherever they lie: ls; a server's are listed at /v1/models"},
    {"ps", "a server is one process with one model: pgrep -a omma; what it is doing is at /metrics"},
    {"stop", "a server is one process: Ctrl-C or SIGTERM ends it when its requests are done"},
    {"show", "omma info DIR prints a model's shape and memory, omma plan DIR also tokens and times"},
    {"complete", "omma serve has /v1/completions, omma chat DIR asks without a server"},
    {"collect-env", "omma info prints the machine and its kernels"},
    {"bench throughput",
     "omma bench serve --request-rate inf measures a server's, omma bench decode that of prefill and decode alone"},
    {"bench latency", "omma bench decode measures prefill and decode of one request, omma bench serve those of a server"},
};

/* Compares two words where the first is the first of a two-word command. */
static int unknown_command(int argc, char **argv) {
  char wanted[64];
  bool second = begins_commands(argv[0]);
  if (second && argc >= 2 && asks_for_help(argv[1])) return group_help(argv[0]);
  if (second && (argc < 2 || argv[1][0] == '-')) return list_second_words(argv[0]);
  snprintf(wanted, sizeof wanted, "%s%s%s", argv[0], second ? " " : "", second ? argv[1] : "");
  struct ommai_nearest search = {.wanted = wanted};
  for (size_t i = 0; i < ommai_n_commands; i++) {
    ommai_nearest_offer(&search, ommai_commands[i]->name);
    if (ommai_commands[i]->alias) ommai_nearest_offer(&search, ommai_commands[i]->alias);
  }
  for (size_t i = 0; i < sizeof foreign_commands / sizeof *foreign_commands; i++) {
    if (strcmp(foreign_commands[i].name, wanted) == 0)
      return ommai_usage_error("%s: no such command: %s (`omma help` lists all)", wanted, foreign_commands[i].hint);
  }
  if (!search.best) return ommai_usage_error("%s: unknown command (`omma help` lists all)", wanted);
  return ommai_usage_error("%s: unknown command, did you mean %s? (`omma help` lists all)", wanted, search.best);
}

/* Writes docs/options.md. What the commands of another program add to it comes last: that program
 * takes this one's place. */
static int write_options(void) {
  char name[] = "omma", help[] = "help", options[] = "--options";
  char *words[] = {name, help, options, NULL};
  fputs(
      "# Options of every command\n\n"
      "Made by `omma help --options` from the tables of the sources; `omma COMMAND --help` has those of\n"
      "one. Sizes take k, m, g, t (powers of 1,000) and K, M, G, T (of 1,024).\n",
      stdout);
  ommai_manual_write_options(ommai_commands, ommai_n_commands, stdout);
  for (size_t i = 0; i < ommai_n_commands; i++) {
    if (ommai_commands[i]->program) return ommai_start_program(ommai_commands[i], words);
  }
  return ommai_finish_output();
}

static int help(int argc, char **argv) {
  int n_words;
  /* the source of the command's manual page, which is installed */
  bool manual = argc && strcmp(argv[0], "--man") == 0;
  if (manual) {
    argc--;
    argv++;
  }
  if (argc == 1 && strcmp(argv[0], "--options") == 0) return write_options();
  if (argc == 0 || asks_for_help(argv[0])) {
    print_help(stdout);
    return ommai_finish_output();
  }
  const struct ommai_command *command = ommai_command_find((size_t)argc, argv, &n_words);
  if (!command && argc == 1 && begins_commands(argv[0])) return group_help(argv[0]);
  if (!command) return unknown_command(argc, argv);
  if (manual) {
    ommai_manual_write(command, stdout);
  } else {
    ommai_options_help(command, stdout);
  }
  return ommai_finish_output();
}

int main(int argc, char **argv) {
  int filled = ommai_fill_standard_files();
  if (filled != OMMAI_EXIT_DONE) return filled;
  if (!ommai_interrupt_install()) return ommai_failed("cannot prepare for signals");
  if (argc < 2) {
    print_help(stderr);
    return OMMAI_EXIT_USAGE;
  }
  const struct ommai_command *elsewhere = ommai_command_elsewhere((size_t)argc - 1, argv + 1);
  if (elsewhere) return ommai_start_program(elsewhere, argv);
  const char *word = argv[1];
  if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0 || strcmp(word, "version") == 0) {
    return ommai_print_version();
  }
  if (strcmp(word, "help") == 0) return help(argc - 2, argv + 2);
  if (asks_for_help(word)) return help(0, NULL);
  if (strcmp(word, "completion") == 0) return ommai_completion_script((size_t)argc - 2, argv + 2);
  if (strcmp(word, "__complete") == 0) {
    ommai_complete((size_t)argc - 2, argv + 2, stdout);
    return ommai_finish_output();
  }
  if (word[0] == '-') return ommai_usage_error("%s: a command comes first (`omma help` lists all)", word);
  int n_words;
  const struct ommai_command *command = ommai_command_find((size_t)argc - 1, argv + 1, &n_words);
  if (!command) return unknown_command(argc - 1, argv + 1);
  return ommai_run_command(command, argc, argv, 1 + n_words);
}
