#include "cli/core/command_list.h"

#include <errno.h>
#include <omma/omma.h>
#include <string.h>
#include <unistd.h>

#include "base/allocator.h"
#include "cli/core/command_line.h"
#include "cli/core/diagnostics.h"
#include "cli/core/paths.h"

/* The number of words of `name` that stand at the beginning of the words; 0 when it is another
 * command. */
static int match_name(const char *name, size_t n, char *const *words) {
  const char *space = strchr(name, ' ');
  size_t first = space ? (size_t)(space - name) : strlen(name);
  if (n < 1 || strlen(words[0]) != first || memcmp(words[0], name, first) != 0) return 0;
  if (!space) return 1;
  return n >= 2 && strcmp(words[1], space + 1) == 0 ? 2 : 0;
}

const struct ommai_command *ommai_command_find(size_t n, char *const *words, int *n_words) {
  for (size_t i = 0; i < ommai_n_commands; i++) {
    *n_words = match_name(ommai_commands[i]->name, n, words);
    if (*n_words == 0 && ommai_commands[i]->alias) *n_words = match_name(ommai_commands[i]->alias, n, words);
    if (*n_words) return ommai_commands[i];
  }
  return NULL;
}

const char *ommai_command_second_word(const struct ommai_command *command, const char *word) {
  size_t size = strlen(word);
  return size && strncmp(command->name, word, size) == 0 && command->name[size] == ' ' ? command->name + size + 1 : NULL;
}

const struct ommai_command *ommai_command_elsewhere(size_t n, char *const *words) {
  bool completes = n && strcmp(words[0], "__complete") == 0, helps = n && strcmp(words[0], "help") == 0;
  size_t first = completes || helps;
  int n_words;
  if (helps && n > 1 && strcmp(words[1], "--man") == 0) first++;
  if (completes) n--; /* the last word is not whole yet */
  const struct ommai_command *command = first < n ? ommai_command_find(n - first, words + first, &n_words) : NULL;
  return command && command->program ? command : NULL;
}

/* ---- running one ---- */

static const struct ommai_command *running;

static const char *option_of_error(const char *name, size_t size) {
  const struct ommai_option *option = ommai_option_of_error(running, name, size);
  return option ? option->name : NULL;
}

int ommai_print_version(void) {
  printf("omma %s\n", omma_version());
  return ommai_finish_output();
}

int ommai_run_command(const struct ommai_command *command, int argc, char **argv, int first) {
  struct ommai_strings arguments = {0};
  void *values = ommai_allocate(&ommai_default_allocator, 1, command->values_size);
  if (!values) return ommai_failed("out of memory: the options of %s", command->name);
  int code = OMMAI_EXIT_USAGE;
  running = command;
  ommai_diagnostics_of(option_of_error);
  switch (ommai_options_parse(command, argc, argv, first, values, &arguments)) {
    case OMMAI_PARSED: code = command->run(values, &arguments); break;
    case OMMAI_PARSED_WRONG: break;
    case OMMAI_PARSED_HELP:
      ommai_options_help(command, stdout);
      code = ommai_finish_output();
      break;
    case OMMAI_PARSED_VERSION: code = ommai_print_version(); break;
  }
  ommai_options_release(command, values, &arguments);
  ommai_release(&ommai_default_allocator, values, 1, command->values_size);
  return code;
}

static int cannot_start(const struct ommai_command *command, const char *path) {
  return ommai_failed("%s: %s: cannot start: %s", command->name, path, strerror(errno));
}

int ommai_start_program(const struct ommai_command *command, char **argv) {
  char path[OMMAI_MAX_PATH];
  OMMAI_TRY_CODE(ommai_finish_output());
  argv[0] = path;
  if (ommai_find_neighbour(path, command->program)) {
    execv(path, argv);
    if (errno != ENOENT) return cannot_start(command, path);
  }
  snprintf(path, sizeof path, "%s", command->program);
  execvp(path, argv);
  if (errno != ENOENT) return cannot_start(command, path);
  return ommai_failed(
      "%s: the program %s is neither next to omma nor in PATH: run `make` in a source checkout (CMake option OMMA_BENCH, on by "
      "default), or install the package ommatidia-bench",
      command->name, command->program);
}
