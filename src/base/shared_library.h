/* Optional libraries that are loaded when they are wanted: linked, they and what they bring along would slow every start. */
#ifndef OMMAI_BASE_SHARED_LIBRARY_H
#define OMMAI_BASE_SHARED_LIBRARY_H

#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>

/* Stores the address of a function of the library (NULL: not loaded) in the function pointer at `function`. dlsym gives an object pointer:
 * POSIX wants that to be enough, ISO C does not. */
static inline bool ommai_library_find(void *library, const char *name, void *function) {
  void *address = library ? dlsym(library, name) : NULL;
  memcpy(function, &address, sizeof address);
  return address != NULL;
}

#endif
