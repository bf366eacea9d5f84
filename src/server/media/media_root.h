/* The directory whose files requests may name, and files below it. */
#pragma once

#include <omma/status.h>
#include <stdbool.h>

/* Zero-initialised: there is none. Read-only once opened: any thread may look for files. */
struct ommai_media_root {
  bool opened;
  int descriptor;
  char *given, *resolved; /* its path as it was given and without links; from malloc */
};

/* Errors: ARGUMENT (field "allowed_local_media_path"), MEMORY. Close in every case. */
enum omma_status ommai_media_root_open(const char *path, struct ommai_media_root *root, struct omma_error *error);
void ommai_media_root_close(struct ommai_media_root *root);

/* A reading descriptor of the regular file at an absolute path, or -1: it is not there, or does not
 * lie below the directory. What is checked is what is opened, so that nobody can put a link in its
 * place in between; and nothing outside is opened even for a moment, not so much as a named pipe.
 * Links are followed as long as they stay below. The caller closes. */
int ommai_media_root_find(const struct ommai_media_root *root, const char *path);

/* The same for kernels before 5.6, which cannot be made to stay below a directory; here for its
 * test. */
int ommai_media_root_find_by_name(const struct ommai_media_root *root, const char *path);
