/* oneDNN's products, which layers of the same shape share. */
#include "base/allocator.h"
#include "base/error.h"
#include "linear/linear_objects.h"

static bool same_shape(const struct ommai_onednn_shape *a, const struct ommai_onednn_shape *b) {
  return a->n_in == b->n_in && a->n_out == b->n_out && a->y_type == b->y_type && a->activation == b->activation &&
         a->bias == b->bias && a->accumulate == b->accumulate;
}

enum omma_status ommai_linear_describe_products(struct ommai_linear_context *context, const struct ommai_onednn_shape *shape,
                                                const struct ommai_row_steps *row_steps, struct ommai_step_products **out,
                                                struct omma_error *error) {
  for (struct ommai_step_products *known = context->products; known; known = known->next) {
    if (known->row_steps == row_steps && same_shape(&known->shape, shape)) {
      *out = known;
      return OMMA_OK;
    }
  }
  size_t max_bytes = 0;
  for (int step = 0; step < row_steps->n_steps; step++) {
    struct ommai_onednn_shape with_rows = *shape;
    size_t bytes;
    with_rows.n_rows = row_steps->rows[step];
    OMMAI_TRY(ommai_onednn_scratch_bytes(context->onednn, &with_rows, &bytes, error));
    if (bytes > max_bytes) max_bytes = bytes;
  }
  struct ommai_step_products *made = ommai_allocate(&context->allocator, 1, sizeof *made);
  if (!made) return ommai_fail_memory(error, "linear layer's products", sizeof *made);
  made->row_steps = row_steps;
  made->shape = *shape;
  made->scratch_bytes = max_bytes;
  made->next = context->products;
  context->products = made;
  *out = made;
  return OMMA_OK;
}

enum omma_status ommai_linear_find_products(struct ommai_linear_context *context, const struct ommai_onednn_shape *shape,
                                            const struct ommai_row_steps *row_steps, const struct ommai_step_products **out,
                                            struct omma_error *error) {
  struct ommai_step_products *products;
  OMMAI_TRY(ommai_linear_describe_products(context, shape, row_steps, &products, error));
  for (int step = 0; step < row_steps->n_steps; step++) {
    struct ommai_onednn_shape with_rows = *shape;
    with_rows.n_rows = row_steps->rows[step];
    if (products->steps[step]) continue;
    OMMAI_TRY(ommai_onednn_matmul_create(context->onednn, &with_rows, &products->steps[step], error));
  }
  *out = products;
  return OMMA_OK;
}
