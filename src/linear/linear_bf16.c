/* Layers in bf16 by own kernels, on CPUs with bf16 products.
 *
 *   for each panel of 64 outputs: y [n_rows][64] = x W^T + b (kernels/bf16_tile.h), x as it lies
 *   with an activation, or where a panel has fewer outputs: sums [n_rows][64] in between, then row
 *   operations
 *
 * A panel's bits do not depend on the number of rows, and but at level amx are those of the few-row
 * kernels. */
#include "base/checked.h"
#include "kernels/dtype.h"
#include "linear/linear_objects.h"

enum { PANEL = OMMAI_PANEL_COLUMNS };

/* ---- weights --------------------------------------------------------------------------------- */

static enum omma_status pack(struct ommai_linear *linear, const struct ommai_linear_source *sources, int n_sources,
                             const struct omma_team *team, struct omma_error *error) {
  (void)error;
  linear->packed.arithmetic = OMMA_BF16;
  ommai_linear_pack_panels(linear, sources, n_sources, team, ommai_linear_pack_dense);
  return OMMA_OK;
}

/* ---- ops ------------------------------------------------------------------------------------- */

static size_t op_scratch(const struct ommai_linear_op *op) {
  (void)op;
  return OMMAI_LINEAR_MAX_ROWS * PANEL * sizeof(float);
}

static enum omma_status op_run(const struct ommai_linear_op *op, const void *x, void *y, int64_t n_rows, int worker,
                               struct omma_error *error) {
  (void)error;
  const struct ommai_linear *linear = op->linear;
  const struct ommai_linear_call *call = &op->call;
  float *sums = op->context->scratch[worker].memory;
  int64_t panel_elements = ommai_weights_panel_elements(linear->packed.layout, linear->spec.n_in);
  struct ommai_bf16_tile tile = {.x = x, .x_stride = call->x_stride, .n_rows = n_rows, .n_k = linear->spec.n_in, .sums = sums};
  for (int64_t column = 0; column < op->n_columns; column += PANEL) {
    int64_t first = op->first_column + column, n = ommai_min_i64(PANEL, op->n_columns - column);
    void *to = ommai_element(y, column, call->y_type);
    bool at_once = n == PANEL && call->activation == OMMAI_ACTIVATION_NONE;
    tile.weights = (const ommai_bf16 *)linear->weights + first / PANEL * panel_elements;
    tile.bias = linear->bias + first;
    tile.y = at_once ? to : sums;
    tile.y_stride = at_once ? call->y_stride : PANEL;
    tile.y_type = at_once ? call->y_type : OMMA_F32;
    tile.accumulate = at_once && call->accumulate;
    op->context->bf16_tile->run(&tile);
    if (!at_once) ommai_linear_finish_sums(op->context, call, n_rows, n, sums, to);
  }
  return OMMA_OK;
}

/* ---- few rows -------------------------------------------------------------------------------- */

/* More rows than the few-row kernels take at a time: a panel's weights are read once for all by the
 * tiles, with the same bits but at level amx. */
static void gemv(const struct ommai_linear *linear, const void *x, int64_t x_stride, int64_t n_rows, float *y, int64_t y_stride,
                 bool accumulate, int64_t first_panel, int64_t n_panels) {
  float sums[OMMAI_LINEAR_MAX_ROWS * PANEL];
  int64_t whole = linear->spec.n_out / PANEL, end = first_panel + n_panels, panel = first_panel;
  int64_t panel_elements = ommai_weights_panel_elements(linear->packed.layout, linear->spec.n_in);
  bool tiles = n_rows > OMMAI_GEMV_GROUP && linear->context->level != OMMAI_CPU_AMX;
  for (; tiles && panel < ommai_min_i64(whole, end); panel++) {
    struct ommai_bf16_tile tile = {.x_stride = x_stride,
                                   .n_k = linear->spec.n_in,
                                   .weights = (const ommai_bf16 *)linear->weights + panel * panel_elements,
                                   .bias = linear->bias + panel * PANEL,
                                   .sums = sums,
                                   .y_stride = y_stride,
                                   .y_type = OMMA_F32,
                                   .accumulate = accumulate};
    for (int64_t row = 0; row < n_rows; row += OMMAI_LINEAR_MAX_ROWS) {
      tile.x = (const ommai_bf16 *)x + row * x_stride;
      tile.y = y + row * y_stride + panel * PANEL;
      tile.n_rows = ommai_min_i64(OMMAI_LINEAR_MAX_ROWS, n_rows - row);
      linear->context->bf16_tile->run(&tile);
    }
  }
  if (panel < end) ommai_linear_dense_gemv(linear, x, x_stride, n_rows, y, y_stride, accumulate, panel, end - panel);
}

const struct ommai_linear_code ommai_linear_bf16 = {
    .pack = pack,
    .weight = ommai_linear_dense_weight,
    .gemv = gemv,
    .op_scratch = op_scratch,
    .op_run = op_run,
};

/* Where the CPU has no products of bf16, the values are expanded. */
static const struct ommai_linear_code *code(const struct ommai_linear_context *context, const struct ommai_linear_spec *spec) {
  return spec->compute == OMMA_BF16 && context->bf16_tile ? &ommai_linear_bf16 : &ommai_linear_f32;
}

const struct ommai_linear_format ommai_linear_format_bf16 = {.name = "bf16",
                                                             .layout = OMMAI_WEIGHTS_BF16_PANELS,
                                                             .part_panels = OMMAI_LINEAR_PART_PANELS,
                                                             .finer = OMMAI_FORMAT_BF16,
                                                             .code = code};
