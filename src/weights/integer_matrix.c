#include "weights/integer_matrix.h"

#include <string.h>

#include "base/checked.h"

enum { PIECE = 64 }; /* codes that are loaded at a time */

void ommai_integer_matrix_size(struct ommai_integer_matrix *matrix, int bits, int64_t n_out, int64_t n_in, int64_t group) {
  matrix->bits = bits;
  matrix->n_out = n_out;
  matrix->n_in = n_in;
  matrix->group = group ? ommai_min_i64(group, n_in) : n_in;
  matrix->n_groups = ommai_div_up(n_in, matrix->group);
}

static float scale_of(const struct ommai_integer_matrix *matrix, int64_t output, int64_t group) {
  float scale = 0;
  ommai_tensor_to_f32(matrix->scales, output * matrix->scale_by_output + group * matrix->scale_by_group, 1, &scale);
  return scale;
}

/* What is symmetric has its zero in the middle of the codes. */
static int middle(const struct ommai_integer_matrix *matrix) { return 1 << (matrix->bits - 1); }

static int zero_of(const struct ommai_integer_matrix *matrix, int64_t output, int64_t group) {
  return matrix->zeros ? matrix->zero(matrix, output, group) : middle(matrix);
}

static bool is_symmetric(const struct ommai_integer_matrix *matrix) {
  for (int64_t output = 0; matrix->zeros && output < matrix->n_out; output++) {
    for (int64_t group = 0; group < matrix->n_groups; group++) {
      if (matrix->zero(matrix, output, group) != middle(matrix)) return false;
    }
  }
  return true;
}

/* At most PIECE values that lie in one group. */
static void group_values(const struct ommai_integer_matrix *matrix, int64_t output, int64_t group, int64_t first, int64_t n,
                         float *out) {
  uint8_t codes[PIECE];
  float scale = scale_of(matrix, output, group);
  int zero = zero_of(matrix, output, group);
  matrix->load(matrix, output, first, n, codes);
  for (int64_t i = 0; i < n; i++) out[i] = (float)(codes[i] - zero) * scale;
}

static void values(const void *context, int64_t output, int64_t first, int64_t n, float *out) {
  const struct ommai_integer_matrix *matrix = context;
  for (int64_t done = 0, step; done < n; done += step) {
    int64_t input = first + done, left_of_group = matrix->group - input % matrix->group;
    step = ommai_min_i64(ommai_min_i64(n - done, left_of_group), PIECE);
    group_values(matrix, output, input / matrix->group, input, step, out + done);
  }
}

/* Each input gives its group: runs of the same one are taken together. */
static void values_by_ids(const void *context, int64_t output, int64_t first, int64_t n, float *out) {
  const struct ommai_integer_matrix *matrix = context;
  const unsigned char *ids = matrix->group_ids->data;
  for (int64_t done = 0, step; done < n; done += step) {
    int32_t group, next = 0;
    memcpy(&group, ids + (first + done) * 4, sizeof group);
    for (step = 1; step < PIECE && done + step < n; step++) {
      memcpy(&next, ids + (first + done + step) * 4, sizeof next);
      if (next != group) break;
    }
    group_values(matrix, output, group, first + done, step, out + done);
  }
}

static void integers(const void *context, int64_t output, int64_t group, int8_t *q, float *scale, float *minimum) {
  const struct ommai_integer_matrix *matrix = context;
  int offset = matrix->bits == 8 ? 128 : 0; /* of eight bits the range is handed out around zero */
  uint8_t codes[PIECE];
  for (int64_t done = 0, n; done < matrix->group; done += n) {
    n = ommai_min_i64(matrix->group - done, PIECE);
    matrix->load(matrix, output, group * matrix->group + done, n, codes);
    for (int64_t i = 0; i < n; i++) q[done + i] = (int8_t)(codes[i] - offset);
  }
  *scale = scale_of(matrix, output, group);
  *minimum = matrix->zeros ? *scale * (float)(matrix->zero(matrix, output, group) - offset) : 0;
}

struct ommai_stored_matrix ommai_integer_matrix_stored(struct ommai_integer_matrix *matrix) {
  if (is_symmetric(matrix)) matrix->zeros = NULL;
  struct ommai_stored_matrix stored = {.context = matrix, .values = matrix->group_ids ? values_by_ids : values};
  if (matrix->group_ids || matrix->n_in % matrix->group) return stored;
  stored.bits = matrix->bits;
  stored.group = matrix->group;
  stored.has_minimums = matrix->zeros != NULL;
  stored.zero = matrix->zeros || matrix->bits == 8 ? 0 : middle(matrix);
  stored.integers = integers;
  return stored;
}
