/* The readable form of the gated delta rule, and the choice among levels. */
#include "kernels/delta_rule.h"

enum { COLUMNS = OMMAI_DELTA_COLUMNS };

/* One row through one strip. */
static void run_row(int64_t key_dim, const float *key, const float *query, const float *value, float decay, float rate,
                    const float *from, float *to, float *out) {
  float seen[COLUMNS] = {0};
  for (int64_t i = 0; i < key_dim; i++) {
    for (int c = 0; c < COLUMNS; c++) {
      to[i * COLUMNS + c] = decay * from[i * COLUMNS + c];
      seen[c] += to[i * COLUMNS + c] * key[i];
    }
  }
  for (int c = 0; c < COLUMNS; c++) {
    seen[c] = rate * (value[c] - seen[c]);
    out[c] = 0;
  }
  for (int64_t i = 0; i < key_dim; i++) {
    for (int c = 0; c < COLUMNS; c++) {
      to[i * COLUMNS + c] += key[i] * seen[c];
      out[c] += to[i * COLUMNS + c] * query[i];
    }
  }
}

static void run(const struct ommai_delta_rows *rows, const float *from, float *to, float *out) {
  for (int64_t row = 0; row < rows->n_rows; row++) {
    const float *key = rows->keys_queries + 2 * row * rows->key_dim;
    for (int64_t first = 0; first < rows->value_dim; first += COLUMNS) {
      int64_t strip = first * rows->key_dim, at = row * rows->value_dim + first;
      run_row(rows->key_dim, key, key + rows->key_dim, rows->values + at, rows->decays[row], rows->rates[row],
              (row == 0 ? from : to) + strip, to + strip, out + at);
    }
  }
}

const struct ommai_delta_kernels ommai_delta_scalar = {OMMAI_CPU_SCALAR, run};

#define DELTA_ENTRY(level) &ommai_delta_##level,
const struct ommai_delta_kernels *const ommai_delta_kernels[] = {OMMAI_DELTA_KERNELS(DELTA_ENTRY) NULL};

OMMAI_CHOOSE_BY_LEVEL(ommai_delta_select, ommai_delta_kernels, ommai_delta_kernels)
