/* Optional libraries that are loaded when they are wanted: linked, they and what they bring along
 * would slow every start. */
#pragma once

#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>

/* Stores the address of a function of the library (NULL: not loaded) in the function pointer at
 * `function`. dlsym gives an object pointer: POSIX wants that to be enough, ISO C does not. */
static inline bool ommai_library_find(void *library, const char *name, void *function) {
  void *address = library ? dlsym(library, name) : NULL;
  memcpy(function, &address, sizeof address);
  return address != NULL;
}

#define OMMAI_LIBRARY_MEMBER(name) __typeof__(name) *name;
#define OMMAI_LIBRARY_FIND(name) found = found && ommai_library_find(library, #name, &functions->name);

/* Declares struct TYPE, which has each function of the list FUNCTIONS(X) by its own name and type,
 * and a static load_TYPE that fills it from the library FILE; false where the library, or one of
 * them, is not there. The library stays loaded. */
#define OMMAI_LIBRARY(TYPE, FILE, FUNCTIONS)             \
  struct TYPE {                                          \
    FUNCTIONS(OMMAI_LIBRARY_MEMBER)                      \
  };                                                     \
  static bool load_##TYPE(struct TYPE *functions) {      \
    void *library = dlopen(FILE, RTLD_NOW | RTLD_LOCAL); \
    bool found = library != NULL;                        \
    FUNCTIONS(OMMAI_LIBRARY_FIND)                        \
    return found;                                        \
  }
