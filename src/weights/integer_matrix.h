/* A matrix of small integers as checkpoints store them: W[output][i] = scale * (code - zero), codes
 * of 4 or 8 bits, with a scale and a zero for each output and group of inputs. What differs from
 * form to form is where codes and zeros lie. */
#pragma once

#include "weights/tensor.h"

/* Immutable once made; its functions may be called by any number of threads at once. */
struct ommai_integer_matrix {
  const struct ommai_tensor *codes, *scales;
  const struct ommai_tensor *zeros; /* NULL: all are 2^(bits - 1) */
  /* I32 [n_in], the group of each input; NULL: input i is of group i / group */
  const struct ommai_tensor *group_ids;
  int64_t n_out, n_in, group, n_groups;
  int bits;
  /* scales: elements from one output, one group to the next */
  int64_t scale_by_output, scale_by_group;
  /* codes[i], 0 .. 2^bits - 1, of inputs first .. first + n - 1. */
  void (*load)(const struct ommai_integer_matrix *matrix, int64_t output, int64_t first, int64_t n, uint8_t *codes);
  /* 0 .. 2^bits - 1; called where there are zeros. */
  int (*zero)(const struct ommai_integer_matrix *matrix, int64_t output, int64_t group);
};

/* Sets the sizes; group 0: one group of all inputs. */
void ommai_integer_matrix_size(struct ommai_integer_matrix *matrix, int bits, int64_t n_out, int64_t n_in, int64_t group);

/* The matrix behind `stored`, which points to it. Integers are handed out where groups are whole
 * runs of inputs. Zeros that are all in the middle of the codes, as symmetric weights have them,
 * are left out from here on. */
struct ommai_stored_matrix ommai_integer_matrix_stored(struct ommai_integer_matrix *matrix);
