/* A file of vectors or scores: NumPy's format (.npy), or a JSON object a line (.jsonl). It takes
 * its name when it is complete. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct ommai_vector_file {
  const char *path; /* "-": JSON lines to standard output */
  bool is_npy, vectors;
  FILE *file;
  char temporary[4096];
  int64_t n_rows, width; /* rows so far; width 0: not known yet */
};

/* vectors: rows [n, width]; else single values [n]. Returns an exit code; the error has been
 * printed. Close in every case. */
int ommai_vector_file_open(const char *path, bool vectors, struct ommai_vector_file *out);

/* The next row; NULL: it failed, for the reason given. */
int ommai_vector_file_add(struct ommai_vector_file *out, const float *values, int64_t n, const char *reason);

/* Puts it in place where it is complete. `width` is that of rows where all failed. */
int ommai_vector_file_close(struct ommai_vector_file *out, bool complete, int64_t width);
