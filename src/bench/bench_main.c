/* omma-bench: the client of a server. `omma bench serve` starts it with the words that stood after
 * `omma`; on its own command line `bench` and `serve` may be left out. */
#include <stdio.h>
#include <string.h>

#include "cli/core/command_list.h"
#include "cli/core/commands.h"
#include "cli/core/completion.h"
#include "cli/core/diagnostics.h"
#include "cli/core/interrupt.h"
#include "cli/core/manual.h"

const struct ommai_command *const ommai_commands[] = {&ommai_command_bench_serve};
const size_t ommai_n_commands = sizeof ommai_commands / sizeof *ommai_commands;

static bool is_next(int argc, char **argv, int at, const char *word) { return at < argc && strcmp(argv[at], word) == 0; }

static int help(int argc, char **argv) {
  if (is_next(argc, argv, 2, "--man")) {
    ommai_manual_write(ommai_commands[0], stdout);
  } else if (is_next(argc, argv, 2, "--options")) {
    ommai_manual_write_options(ommai_commands, ommai_n_commands, stdout);
  } else {
    ommai_options_help(ommai_commands[0], stdout);
  }
  return ommai_finish_output();
}

int main(int argc, char **argv) {
  int first = 1;
  int filled = ommai_fill_standard_files();
  if (filled != OMMAI_EXIT_DONE) return filled;
  if (!ommai_interrupt_install()) return ommai_failed("cannot prepare for signals");
  if (is_next(argc, argv, 1, "help")) return help(argc, argv);
  if (is_next(argc, argv, 1, "__complete")) {
    ommai_complete((size_t)argc - 2, argv + 2, stdout);
    return ommai_finish_output();
  }
  if (is_next(argc, argv, first, "bench")) first++;
  if (is_next(argc, argv, first, "serve")) first++;
  return ommai_run_command(ommai_commands[0], argc, argv, first);
}
