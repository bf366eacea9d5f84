#include "cli/core/end_on_terminate.h"

#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

/* It can be any thread, and there may be no memory at all. */
static void end(void) {
  static const char line[] = "omma: a library written in C++ cannot go on, most likely because memory ran out\n";
  if (write(STDERR_FILENO, line, sizeof line - 1) < 0) _exit(1);
  _exit(1);
}

void ommai_end_on_terminate(void) {
  void *(*set)(void (*)(void));
  /* std::set_terminate, by its name in the C++ ABI of every Unix */
  void *found = dlsym(RTLD_DEFAULT, "_ZSt13set_terminatePFvvE");
  if (!found) return;
  memcpy(&set, &found, sizeof set);
  set(end);
}
