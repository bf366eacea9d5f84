/* Where the program's own files are. */
#ifndef OMMAI_CLI_PATHS_H
#define OMMAI_CLI_PATHS_H

#include <stdbool.h>
#include <stddef.h>

#define OMMAI_MAX_PATH 4096

/* The demo model's directory: beside the sources of a build tree (build/<variant>/omma) or in the installation (bin/omma). False
 * when it is in neither place; `out` then holds the places looked at, for a message. */
bool ommai_find_demo_model(char *out, size_t size);

#endif
