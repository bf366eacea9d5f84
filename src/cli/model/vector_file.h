/* A file of vectors or scores: NumPy's format (.npy), or a JSON object a line (.jsonl). It takes
 * its name when it is complete. */
#pragma once

#include <omma/vectors.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Of n inputs: [n]; [n, width]; or a number of rows for each, which stand one after the other, with
 * their borders [n + 1] (int64, from 0 on) in NAME.offsets.npy. */
enum ommai_vector_shape { OMMAI_VECTOR_VALUES, OMMAI_VECTOR_ROWS, OMMAI_VECTOR_LISTS };

/* A file on its way; zeroed: there is none. */
struct ommai_part_file {
  FILE *file;
  char path[4096], temporary[4096];
};

struct ommai_vector_file {
  const char *path; /* "-": JSON lines to standard output */
  bool is_npy;
  enum ommai_vector_shape shape;
  FILE *file; /* standard output, or values' */
  struct ommai_part_file values, offsets;
  int64_t n_inputs, n_rows, width; /* so far; width 0: not known yet */
};

/* Whether a name is one that can be written. Returns an exit code; the error has been printed. */
int ommai_vector_file_check(const char *path);

/* Likewise. Close in every case. */
int ommai_vector_file_open(const char *path, enum ommai_vector_shape shape, struct ommai_vector_file *out);

/* Of the next input; NULL: it failed, for the reason given. */
int ommai_vector_file_add(struct ommai_vector_file *out, const struct omma_vectors *vectors, const char *reason);

/* Puts it in place where it is complete. `width` is that of rows where all failed. */
int ommai_vector_file_close(struct ommai_vector_file *out, bool complete, int64_t width);
