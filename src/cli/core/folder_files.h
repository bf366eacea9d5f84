/* The files of a folder that a command means by the folder's name. */
#pragma once

#include <stdbool.h>

/* Calls take(context, path) for each entry of the folder whose name is wanted, by name, without
 * hidden ones and those of folders within, until it returns another exit code than
 * OMMAI_EXIT_DONE, which goes to *code. Returns how many there were; -1, with errno set: the folder
 * cannot be read, or a path is longer than OMMAI_MAX_PATH. */
int ommai_each_file_of(const char *folder, bool (*wanted)(const char *name), int (*take)(void *context, const char *path),
                       void *context, int *code);
