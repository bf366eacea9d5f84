/* Layers in bf16 by oneDNN, which tests compare own kernels with: its products for tiles of rows,
 * ours for few rows. oneDNN's fast code wants rows without gaps: others go through copies. */
#include <string.h>

#include "base/allocator.h"
#include "base/checked.h"
#include "base/error.h"
#include "kernels/dtype.h"
#include "linear/linear_objects.h"

struct bf16_op {
  const struct ommai_step_products *products;
  struct ommai_onednn_operand *part; /* of some of the outputs, else NULL */
};

/* How x and y reach the product, and where in a worker's scratch their copies are; the product's
 * own scratch is at 0. */
struct passage {
  bool copy_x, copy_y; /* its rows have gaps */
  size_t x_at, y_at, size;
};

/* ---- weights --------------------------------------------------------------------------------- */

static enum omma_status pack(struct ommai_linear *linear, const struct ommai_linear_source *sources, int n_sources,
                             const struct omma_team *team, struct omma_error *error) {
  const struct ommai_gemv_weights *packed = &linear->packed;
  struct ommai_onednn_operand *operand;
  linear->packed.arithmetic = OMMA_BF16;
  ommai_linear_pack_panels(linear, sources, n_sources, team, ommai_linear_pack_dense);
  OMMAI_TRY(ommai_onednn_operand_create(linear->context->onednn, packed->n_out, packed->n_in, linear->weights,
                                        linear->spec.has_bias ? linear->bias : NULL, &operand, error));
  linear->own = operand;
  return OMMA_OK;
}

static void release(struct ommai_linear *linear) { ommai_onednn_operand_destroy(linear->own); }

/* ---- ops ------------------------------------------------------------------------------------- */

static const struct ommai_row_steps *row_steps_of(const struct ommai_linear_context *context,
                                                  const struct ommai_linear_op *op) {
  return op->call.n_panels > 0 ? &context->part_row_steps : &context->row_steps;
}

/* Rows and columns are within OMMAI_LINEAR_MAX_*, so nothing overflows. */
static struct passage find_passage(const struct ommai_linear_op *op, size_t product_bytes) {
  const struct ommai_gemv_weights *packed = &op->linear->packed;
  struct passage passage = {.copy_x = op->call.x_stride != packed->n_in, .copy_y = op->call.y_stride != op->n_columns};
  size_t rows = (size_t)op->row_steps->rows[op->row_steps->n_steps - 1];
  passage.size = passage.x_at = ommai_linear_align(product_bytes);
  if (passage.copy_x) passage.size += ommai_linear_align(rows * (size_t)packed->n_in * sizeof(ommai_bf16));
  passage.y_at = passage.size;
  if (passage.copy_y) passage.size += ommai_linear_align(rows * (size_t)op->n_columns * ommai_dtype_size(op->call.y_type));
  return passage;
}

static struct ommai_onednn_shape product_shape(const struct ommai_linear_op *op) {
  const struct ommai_gemv_weights *packed = &op->linear->packed;
  return (struct ommai_onednn_shape){
      .n_in = packed->n_in,
      .n_out = op->n_columns,
      .y_type = op->call.y_type,
      .activation = op->call.activation,
      .bias = op->linear->spec.has_bias,
      .accumulate = op->call.accumulate,
  };
}

static enum omma_status op_scratch(struct ommai_linear_context *context, const struct ommai_linear_op *op, size_t *bytes,
                                   struct omma_error *error) {
  struct ommai_onednn_shape shape = product_shape(op);
  struct ommai_step_products *products;
  OMMAI_TRY(ommai_linear_describe_products(context, &shape, op->row_steps, &products, error));
  *bytes = find_passage(op, products->scratch_bytes).size;
  return OMMA_OK;
}

/* Names the part of the weights that the call's outputs need to oneDNN. */
static enum omma_status name_part(struct ommai_linear_context *context, const struct ommai_linear_op *op, struct bf16_op *own,
                                  struct omma_error *error) {
  const struct ommai_linear *linear = op->linear;
  const struct ommai_gemv_weights *packed = &linear->packed;
  if (op->call.n_panels == 0) return OMMA_OK;
  int64_t at = op->call.first_panel * ommai_weights_panel_elements(packed->layout, packed->n_in);
  return ommai_onednn_operand_create(context->onednn, op->n_columns, packed->n_in, (ommai_bf16 *)linear->weights + at,
                                     linear->spec.has_bias ? linear->bias + op->first_column : NULL, &own->part, error);
}

static enum omma_status op_create(struct ommai_linear_context *context, struct ommai_linear_op *op, struct omma_error *error) {
  struct ommai_onednn_shape shape = product_shape(op);
  struct bf16_op *own = op->own = ommai_allocate(&context->allocator, 1, sizeof *own);
  if (!own) return ommai_fail_memory(error, "linear layer's call", sizeof *own);
  OMMAI_TRY(name_part(context, op, own, error));
  return ommai_linear_find_products(context, &shape, op->row_steps, &own->products, error);
}

static void op_release(struct ommai_linear_op *op) {
  struct bf16_op *own = op->own;
  if (!own) return;
  ommai_onednn_operand_destroy(own->part);
  ommai_release(&op->context->allocator, own, 1, sizeof *own);
}

static const char *op_name(const struct ommai_linear_op *op) {
  const struct bf16_op *own = op->own;
  return ommai_onednn_matmul_name(own->products->steps[op->row_steps->n_steps - 1]);
}

/* Rows of n elements, from one stride to another. */
static void copy_rows(const void *from, int64_t from_stride, void *to, int64_t to_stride, int64_t n_rows, int64_t n,
                      size_t element) {
  for (int64_t row = 0; row < n_rows; row++) {
    memcpy((char *)to + (size_t)(row * to_stride) * element, (const char *)from + (size_t)(row * from_stride) * element,
           (size_t)n * element);
  }
}

static enum omma_status op_run(const struct ommai_linear_op *op, const void *x, void *y, int64_t n_rows, int worker,
                               struct omma_error *error) {
  const struct ommai_gemv_weights *packed = &op->linear->packed;
  const struct ommai_linear_call *call = &op->call;
  const struct bf16_op *own = op->own;
  const struct passage passage = find_passage(op, own->products->scratch_bytes);
  char *scratch = op->context->scratch[worker].memory;
  void *product_x = scratch + passage.x_at, *product_y = passage.copy_y ? scratch + passage.y_at : y;
  size_t y_element = ommai_dtype_size(call->y_type);
  int step = 0;
  while (op->row_steps->rows[step] < n_rows) step++;
  if (passage.copy_x) {
    copy_rows(x, call->x_stride, product_x, packed->n_in, n_rows, packed->n_in, sizeof(ommai_bf16));
  }
  if (passage.copy_y && call->accumulate) {
    copy_rows(y, call->y_stride, product_y, op->n_columns, n_rows, op->n_columns, y_element);
  }
  OMMAI_TRY(ommai_onednn_matmul_run(own->products->steps[step], own->part ? own->part : op->linear->own,
                                    passage.copy_x ? product_x : x, product_y, scratch, worker, error));
  if (passage.copy_y) {
    copy_rows(product_y, op->n_columns, y, call->y_stride, n_rows, op->n_columns, y_element);
  }
  return OMMA_OK;
}

const struct ommai_linear_code ommai_linear_bf16_onednn = {
    .pack = pack,
    .release = release,
    .weight = ommai_linear_dense_weight,
    .gemv = ommai_linear_dense_gemv,
    .row_steps = row_steps_of,
    .op_scratch = op_scratch,
    .op_create = op_create,
    .op_release = op_release,
    .op_name = op_name,
    .op_run = op_run,
};
