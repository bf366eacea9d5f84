/* A folder of files that a fuzzer's bytes fill: a target loads what it is to read from there. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* The folder's path, made on the first call and removed when the program ends. */
const char *fuzz_folder(void);

/* Writes section i of the bytes, which NUL bytes part, to the file names[i] (NULL: to none); the
 * last one has all that is left. A file without a section is removed. */
void fuzz_folder_fill(const char *const *names, int n_names, const uint8_t *bytes, size_t size);
