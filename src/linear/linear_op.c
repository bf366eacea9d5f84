/* The call of a layer (op): what is the same for all formats. */
#include "base/allocator.h"
#include "base/checked.h"
#include "base/error.h"
#include "kernels/dtype.h"
#include "linear/linear.h"
#include "linear/linear_objects.h"

static enum omma_status check_call(const struct ommai_linear *linear, const struct ommai_linear_call *call,
                                   struct omma_error *error) {
  const struct ommai_linear_spec *spec = &linear->spec;
  if (call->x_stride < spec->n_in || call->y_stride < spec->n_out) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, call->x_stride < spec->n_in ? "x_stride" : "y_stride",
                            "linear layer: strides %lld and %lld, expected at least %lld and %lld", (long long)call->x_stride,
                            (long long)call->y_stride, (long long)spec->n_in, (long long)spec->n_out);
  }
  bool y_is_f32 = call->y_type == OMMA_F32;
  if (!y_is_f32 && (call->y_type != OMMA_BF16 || spec->compute != OMMA_BF16 || call->accumulate)) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "y_type",
                            "linear layer: y may be f32, or bf16 where the layer computes in bf16 and does not accumulate");
  }
  if (call->accumulate && call->activation != OMMAI_ACTIVATION_NONE) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "accumulate", "linear layer: accumulating goes without activation");
  }
  int64_t panels = ommai_linear_n_panels(linear);
  if (call->first_panel < 0 || call->n_panels < 0 || call->first_panel > panels - ommai_max_i64(call->n_panels, 1)) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "first_panel",
                            "linear layer: %lld panels from %lld on, expected some of the %lld there are",
                            (long long)call->n_panels, (long long)call->first_panel, (long long)panels);
  }
  if (call->activation >= OMMAI_ACTIVATIONS) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "activation", "linear layer: no activation %d", (int)call->activation);
  }
  return OMMA_OK;
}

static void set_up(const struct ommai_linear_context *context, const struct ommai_linear *linear,
                   const struct ommai_linear_call *call, struct ommai_linear_op *op) {
  *op = (struct ommai_linear_op){.context = context, .linear = linear, .call = *call, .n_columns = linear->spec.n_out};
  if (call->n_panels > 0) {
    op->first_column = call->first_panel * OMMAI_PANEL_COLUMNS;
    op->n_columns = ommai_min_i64(call->n_panels * OMMAI_PANEL_COLUMNS, linear->spec.n_out - op->first_column);
  }
}

enum omma_status ommai_linear_scratch_for(struct ommai_linear_context *context, const struct ommai_linear_spec *spec,
                                          const struct ommai_linear_call *call, size_t *bytes, struct omma_error *error) {
  const struct ommai_linear linear = ommai_linear_without_weights(context, spec);
  struct ommai_linear_op op;
  OMMAI_TRY(check_call(&linear, call, error));
  set_up(context, &linear, call, &op);
  *bytes = linear.code->op_scratch(&op);
  return OMMA_OK;
}

enum omma_status ommai_linear_op_create(struct ommai_linear_context *context, const struct ommai_linear *linear,
                                        const struct ommai_linear_call *call, struct ommai_linear_op **out,
                                        struct omma_error *error) {
  OMMAI_TRY(check_call(linear, call, error));
  struct ommai_linear_op *op = ommai_allocate(&context->allocator, 1, sizeof *op);
  if (!op) return ommai_fail_memory(error, "linear layer's call", sizeof *op);
  enum omma_status status;
  set_up(context, linear, call, op);
  status = ommai_linear_grow_scratch(context, linear->code->op_scratch(op), error);
  if (status == OMMA_OK) {
    *out = op;
  } else {
    ommai_linear_op_destroy(op);
  }
  return status;
}

void ommai_linear_op_destroy(struct ommai_linear_op *op) {
  if (!op) return;
  ommai_release(&op->context->allocator, op, 1, sizeof *op);
}

static void activate(const struct ommai_row_ops *ops, enum ommai_activation activation, float *row, int64_t n) {
  switch (activation) {
    case OMMAI_ACTIVATION_GELU_TANH: ops->gelu_tanh(row, n); break;
    case OMMAI_ACTIVATION_GELU_ERF: ops->gelu_erf(row, n); break;
    case OMMAI_ACTIVATION_SILU: ops->silu(row, n); break;
    case OMMAI_ACTIVATION_QUICK_GELU: ops->quick_gelu(row, n); break;
    default: break;
  }
}

static void finish_rows(const struct ommai_row_ops *ops, const struct ommai_linear_call *call, int64_t n_rows, int64_t n,
                        float *sums, void *y) {
  activate(ops, call->activation, sums, n_rows * OMMAI_PANEL_COLUMNS);
  if (!call->accumulate) {
    ops->convert_panel(sums, n_rows, n, y, call->y_stride, call->y_type);
    return;
  }
  for (int64_t row = 0; row < n_rows; row++) {
    ops->add((float *)y + row * call->y_stride, sums + row * OMMAI_PANEL_COLUMNS, n);
  }
}

void ommai_linear_finish_sums(const struct ommai_linear_context *context, const struct ommai_linear_call *call, int64_t n_rows,
                              int64_t n, float *sums, void *y) {
  for (int64_t row = 0; row < n_rows; row += OMMAI_LINEAR_FINISHED_ROWS) {
    int64_t count = ommai_min_i64(OMMAI_LINEAR_FINISHED_ROWS, n_rows - row);
    finish_rows(context->row_ops, call, count, n, sums + row * OMMAI_PANEL_COLUMNS,
                ommai_element(y, row * call->y_stride, call->y_type));
  }
}

int64_t ommai_linear_max_rows(const struct ommai_linear *linear) { return linear->code->max_rows; }

int64_t ommai_linear_max_rows_for(const struct ommai_linear_context *context, const struct ommai_linear_spec *spec) {
  return ommai_linear_code_for(context, spec)->max_rows;
}

enum omma_status ommai_linear_check_run(const struct ommai_linear_op *op, int64_t n_rows, int worker,
                                        struct omma_error *error) {
  int n_workers = op->context->n_workers / op->context->n_teams;
  int64_t max_rows = op->linear->code->max_rows;
  if (n_rows >= 1 && n_rows <= max_rows && worker >= 0 && worker < n_workers) return OMMA_OK;
  return ommai_fail(error, OMMA_ERROR_ARGUMENT, "linear layer: %lld rows on worker %d, expected 1 to %lld rows and %d workers",
                    (long long)n_rows, worker, (long long)max_rows, n_workers);
}

/* Each index has a place for each team, so that one of them is free: the others have a run each. */
int ommai_linear_take_place(const struct ommai_linear_context *context, int worker) {
  if (context->n_teams == 1) return worker;
  int n_workers = context->n_workers / context->n_teams, place = worker;
  while (atomic_exchange_explicit(&context->scratch[place].taken, true, memory_order_acquire)) {
    place = (place + n_workers) % context->n_workers;
  }
  return place;
}

void ommai_linear_leave_place(const struct ommai_linear_context *context, int place) {
  if (context->n_teams > 1) atomic_store_explicit(&context->scratch[place].taken, false, memory_order_release);
}

enum omma_status ommai_linear_run(const struct ommai_linear_op *op, const void *x, void *y, int64_t n_rows, int worker,
                                  struct omma_error *error) {
  OMMAI_TRY(ommai_linear_check_run(op, n_rows, worker, error));
  int place = ommai_linear_take_place(op->context, worker);
  enum omma_status status =
      op->linear->code->op_run(op, x, ommai_element(y, op->first_column, op->call.y_type), n_rows, place, error);
  ommai_linear_leave_place(op->context, place);
  return status;
}
