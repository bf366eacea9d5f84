/* Images whose paths stand in a question: as when a file is dropped on a terminal and the question
 * typed after it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define OMMAI_MAX_MENTIONED 64

struct ommai_mentioned {
  char *question; /* as it is to be asked */
  char *images[OMMAI_MAX_MENTIONED];
  size_t n_images;
};

/* Finds the paths of images among the words of a question, written as terminals paste them
 * (pasted_paths.h), with punctuation around them, or with their blanks as they are.
 *
 *   an image         a file that is there, with an image's ending, or with a path (/, ./, ../, ~/,
 *                    file://) and an image in it, or what people take for one
 *   missing          a path with an image's ending, or a file:// address, where no file is; the
 *                    address of an image on the network
 *   a word           all others, with a note on names such as a.png without a file, and on paths
 *                    of files that are no images
 *
 * Paths before the question, and after its last sentence, are taken out of it; in a sentence the
 * file's name stays. Returns an exit code: a missing image has been reported, in the name of
 * `command` and with `way_out`, which tells how such a question is asked. Release in every case. */
int ommai_mentioned_images(const char *command, const char *way_out, const char *question, struct ommai_mentioned *found);

/* Whether a question has an image, without notes: `path` gets the first. */
bool ommai_mentions_image(const char *question, char *path, size_t size);

void ommai_mentioned_release(struct ommai_mentioned *found);
