/* The GGUF files of one model: the language model, alone or in parts, and the vision tower with its
 * projector ("mmproj"). */
#pragma once

#include <omma/host.h>
#include <omma/status.h>

#include "weights/gguf.h"

#define OMMAI_GGUF_MAX_PARTS 1000 /* files of one language model */
#define OMMAI_GGUF_MAX_FOLDER 256 /* files *.gguf in a directory that is given as the model */

struct ommai_gguf_files {
  struct omma_allocator allocator;
  int64_t n_parts;
  struct ommai_gguf **parts; /* [n_parts]; the first one has the keys */
  struct ommai_gguf *mmproj;
};

/* Whether a model's path means GGUF: a file, or a directory with *.gguf and without config.json. */
bool ommai_gguf_files_meant(const char *path);

/* Opens and checks all files. `path`: the language model's file, of several the first,
 * MODEL-00001-of-0000N.gguf; or a directory that holds one language model and one mmproj.
 * `mmproj`: the other file; NULL: it lies in the directory. `files` is zeroed before; what a
 * failure leaves open is closed by ommai_gguf_files_close. Errors: as ommai_gguf_open; ARGUMENT
 * with the option as `field`. */
enum omma_status ommai_gguf_files_open(const char *path, const char *mmproj, const struct omma_allocator *allocator,
                                       struct ommai_gguf_files *files, struct omma_error *error);
void ommai_gguf_files_close(struct ommai_gguf_files *files);

/* The language model's tensor of that name, or NULL. */
const struct ommai_gguf_tensor *ommai_gguf_files_find(const struct ommai_gguf_files *files, const char *name);
