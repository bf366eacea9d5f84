/* The API keys of `omma serve`: from the command line, a file, or the environment. */
#pragma once

#include "cli/core/options.h"

/* Zero-initialised: nothing to release. */
struct ommai_serve_keys {
  struct ommai_strings keys;
  size_t n_owned; /* of the keys: copies */
  char *file;     /* the content of the file, in which the others lie */
  size_t file_size;
};

/* Where keys are taken from when neither option is given; ends in NULL. */
extern const char *const ommai_serve_key_variables[];

/* Collects the keys given as words of the command line, which are wiped there so that the list of
 * processes does not show them, and those of the file (may be NULL), one a line. Where neither is
 * given, OMMA_API_KEY and VLLM_API_KEY of the environment count. An empty key, a file without keys
 * and a variable that is set to nothing are refused: none of them may mean an open server. Returns
 * OMMAI_EXIT_DONE, or another exit code after saying what is wrong, which never shows a key.
 * Release in every case. */
int ommai_serve_keys_collect(const struct ommai_strings *given, const char *file, struct ommai_serve_keys *keys);

/* Wipes the keys from memory and frees it. */
void ommai_serve_keys_release(struct ommai_serve_keys *keys);
