/* Matrices of F8_E4M3 with scales, one or several above each other: W[row][i] = code * scale, a
 * scale for each block of rows and inputs. */
#pragma once

#include "weights/tensor.h"

/* Immutable once made; its functions may be called by any number of threads at once. */
struct ommai_float8_matrix {
  const struct ommai_tensor *codes, *scales;
  int64_t n_rows, n_in;              /* of one matrix; those of the next follow */
  int64_t block_rows, block_inputs;  /* the last block of each matrix may be smaller */
  int64_t scale_rows, scale_columns; /* of one matrix */
};

struct ommai_stored_matrix ommai_float8_matrix_stored(const struct ommai_float8_matrix *matrix);
