/* What commands read: images named on the command line, and text from standard input. */
#pragma once

#include <omma/omma.h>
#include <stdbool.h>

#include "base/option.h"

/* Loads the image that `source` names: a file, a pipe, a file:// address, a data: URL in base64, or
 * "-" for standard input. Addresses on the network are refused. Returns an exit code; the error has
 * been printed. */
int ommai_load_image(const char *source, struct omma_image **image);

/* Whether a source is standard input: "-", /dev/stdin or /dev/fd/0. */
bool ommai_is_standard_input(const char *source);

/* Whether a word of the command line names an image: a file or pipe that exists, an address, or
 * standard input. */
bool ommai_is_image_source(const char *word);

/* Whether such a word is no address, and nothing in the file system has that name. */
bool ommai_is_no_file(const char *word);

/* Words of the command line, where each folder is replaced by the images in it: files whose names
 * end as those of images do, by name; not those of folders within. A folder without any is an
 * error. Release in every case. Returns an exit code; the error has been printed. */
int ommai_expand_folders(const struct ommai_strings *words, struct ommai_strings *expanded);
void ommai_expanded_release(struct ommai_strings *expanded);

/* Whether a file holds an image, or what people take for one. */
bool ommai_holds_image(const char *path);

/* Everything that standard input holds (at most 64 MiB) with a NUL after it; release with free.
 * Returns an exit code. */
int ommai_read_input(char **text, size_t *size);
