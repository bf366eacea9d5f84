/* The cheapest way to pair the rows and columns of a table. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* costs: [n_rows][n_columns]. As many pairs as there are rows, or columns where these are fewer;
 * column[i]: of row i, SIZE_MAX where it has none. False when memory is out. Of equally cheap ways
 * it takes that of SciPy's linear_sum_assignment; n_rows x n_columns x the smaller. */
bool ommai_assign(const double *costs, size_t n_rows, size_t n_columns, size_t *column);
