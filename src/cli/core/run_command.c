#include "cli/core/run_command.h"

#include <omma/omma.h>

#include "base/allocator.h"
#include "cli/core/command_line.h"
#include "cli/core/diagnostics.h"

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
