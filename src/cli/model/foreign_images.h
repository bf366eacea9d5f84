/* Files that were given as images and are none that can be read: what they are, and what makes an
 * image of them. */
#pragma once

#include <stddef.h>

/* As many bytes from the start of a file as the search needs. */
#define OMMAI_FOREIGN_IMAGE_BYTES 512

struct ommai_foreign_image {
  const char *name; /* with its article: "a PDF" */
  /* the command that converts it, with FILE for the file's name, or what else to do */
  const char *hint;
};

/* Recognises what the first `size` bytes of a file begin, among formats that people take for images
 * and that this program may not read. NULL: none of them. */
const struct ommai_foreign_image *ommai_foreign_image(const void *bytes, size_t size);
