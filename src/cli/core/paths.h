/* Where the program's own files are, and the user's. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define OMMAI_MAX_PATH 4096

/* The demo model's directory: next to the sources of a build tree (build/<variant>/omma), in the
 * installation (bin/omma), or in that of a wheel with its libraries
 * (lib/python3.x/site-packages/ommatidia.scripts/omma). False when it is in none of these places;
 * `out` then holds the first two, for a message. */
bool ommai_find_demo_model(char *out, size_t size);

/* The file of this name in the running program's own directory, whether it is there or not. False
 * when that directory is not known or the path does not fit into OMMAI_MAX_PATH. */
bool ommai_find_neighbour(char *out, const char *name);

/* A directory's name with a slash at its end, for messages about what is in it. Returns out. */
const char *ommai_directory_pattern(const char *directory, char *out, size_t size);

/* Whether the file of --output can be made where it is to lie, asked before there is work done for
 * it; "-" is refused. Returns an exit code; the error has been printed. */
int ommai_check_output_path(const char *path);

/* The user's folder: $HOME, else what the system's list of users has. NULL when neither has
 * one. */
const char *ommai_home_directory(void);

/* The file of earlier lines: $XDG_STATE_HOME/omma/history, or ~/.local/state/omma/history (XDG Base
 * Directory Specification 0.8). False when there is no home or the path does not fit. */
bool ommai_history_path(char *out, size_t size);
