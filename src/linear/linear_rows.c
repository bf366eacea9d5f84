/* Prepared rows: what is the same for all formats. */
#include "base/checked.h"
#include "base/error.h"
#include "kernels/dtype.h"
#include "linear/linear.h"
#include "linear/linear_objects.h"

size_t ommai_linear_prepared_row_bytes(const struct ommai_linear_context *context, const struct ommai_linear_spec *spec) {
  const struct ommai_linear_code *code = ommai_linear_code_for(context, spec);
  struct omma_error ignored;
  if (!code->prepared_row_bytes || ommai_linear_check(context, spec, &ignored) != OMMA_OK) return 0;
  const struct ommai_linear linear = ommai_linear_without_weights(context, spec);
  return code->prepared_row_bytes(&linear);
}

size_t ommai_linear_gemv_row_bytes(const struct ommai_linear_context *context, const struct ommai_linear_spec *spec) {
  return ommai_linear_code_for(context, spec)->few_prepared_rows ? ommai_linear_prepared_row_bytes(context, spec) : 0;
}

bool ommai_linear_prepares_rows(const struct ommai_linear *linear) { return linear->code->prepare_rows != NULL; }

bool ommai_linear_gemv_prepares_rows(const struct ommai_linear *linear) { return linear->code->few_prepared_rows != NULL; }

struct ommai_linear_rows ommai_linear_rows_place(const struct ommai_linear *linear, const void *x, int64_t x_stride,
                                                 int64_t n_rows, void *memory) {
  struct ommai_linear_rows rows = {.x = x, .x_stride = x_stride};
  if (linear->code->place_rows) linear->code->place_rows(linear, n_rows, memory, &rows);
  return rows;
}

struct ommai_linear_rows ommai_linear_rows_from(const struct ommai_linear *linear, const struct ommai_linear_rows *rows,
                                                int64_t first) {
  struct ommai_linear_rows from = *rows;
  from.x = (const char *)rows->x + (size_t)(first * rows->x_stride) * ommai_dtype_size(linear->spec.compute);
  from.packed.first += first;
  if (!rows->bytes) return from;
  from.bytes += first * rows->byte_stride;
  from.sums += first * ommai_integer_n_groups(&linear->spec);
  from.zeros += first;
  from.scales += first;
  return from;
}

void ommai_linear_prepare_rows(const struct ommai_linear *linear, const struct ommai_linear_rows *rows, int64_t first,
                               int64_t n_rows) {
  const struct ommai_linear_rows from = ommai_linear_rows_from(linear, rows, first);
  if (linear->code->prepare_rows) linear->code->prepare_rows(linear, &from, n_rows);
}

void ommai_linear_few_prepared_rows(const struct ommai_linear *linear, const struct ommai_linear_rows *rows, int64_t first,
                                    int64_t n_rows, float *y, int64_t y_stride, bool accumulate, int64_t first_panel,
                                    int64_t n_panels) {
  const struct ommai_linear_rows from = ommai_linear_rows_from(linear, rows, first);
  if (linear->code->few_prepared_rows) {
    linear->code->few_prepared_rows(linear, &from, n_rows, y, y_stride, accumulate, first_panel, n_panels);
  } else {
    linear->code->gemv(linear, from.x, from.x_stride, n_rows, y, y_stride, accumulate, first_panel, n_panels);
  }
}

enum omma_status ommai_linear_run_prepared(const struct ommai_linear_op *op, const struct ommai_linear_rows *rows,
                                           int64_t first, void *y, int64_t n_rows, int worker, struct omma_error *error) {
  const struct ommai_linear_rows from = ommai_linear_rows_from(op->linear, rows, first);
  if (!rows->bytes && !rows->packed.memory) return ommai_linear_run(op, from.x, y, n_rows, worker, error);
  OMMAI_TRY(ommai_linear_check_run(op, n_rows, worker, error));
  int place = ommai_linear_take_place(op->context, worker);
  op->linear->code->op_run_prepared(op, &from, ommai_element(y, op->first_column, op->call.y_type), n_rows, place);
  ommai_linear_leave_place(op->context, place);
  return OMMA_OK;
}
