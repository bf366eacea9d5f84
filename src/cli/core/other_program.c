#include "cli/core/other_program.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "cli/core/diagnostics.h"
#include "cli/core/paths.h"

static int cannot_start(const struct ommai_command *command, const char *path) {
  return ommai_failed("%s: %s: cannot start: %s", command->name, path, strerror(errno));
}

int ommai_start_program(const struct ommai_command *command, char **argv) {
  char path[OMMAI_MAX_PATH];
  int code = ommai_finish_output();
  if (code != OMMAI_EXIT_DONE) return code;
  argv[0] = path;
  if (ommai_find_neighbour(path, command->program)) {
    execv(path, argv);
    if (errno != ENOENT) return cannot_start(command, path);
  }
  snprintf(path, sizeof path, "%s", command->program);
  execvp(path, argv);
  if (errno != ENOENT) return cannot_start(command, path);
  return ommai_failed(
      "%s: the program %s is neither next to omma nor in PATH: install the package ommatidia-bench, or build with the CMake "
      "option OMMA_BENCH, which is on by default",
      command->name, command->program);
}
