/* Layers in bf16 by own kernels, on CPUs with bf16 products.
 *
 *   for as many panels of 64 outputs as the kernel takes at once:
 *     y [n_rows][64] of each = x W^T + b (kernels/bf16_tile.h), x as it lies, or packed once for
 *     all panels where the kernel wants that
 *     with an activation, or where a panel has fewer outputs: sums [n_rows][64] in between, then
 *     row operations
 *
 * A panel's bits do not depend on the number of rows, and are those of the few-row kernels. */
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

/* Of the sums of a panel over n_rows rows. */
static int64_t panel_sums(int64_t n_rows) { return ommai_round_up(n_rows, OMMAI_BF16_PACKED_ROWS) * PANEL; }

struct places {
  size_t packed, end;
};

/* The sums of as many panels as the kernel takes, then packed rows. */
static struct places place_scratch(const struct ommai_linear *linear) {
  const struct ommai_bf16_tile_kernel *kernel = linear->context->bf16_tile;
  int64_t n_rows = linear->code->max_rows;
  struct places places = {.packed = (size_t)(kernel->max_panels * panel_sums(n_rows)) * sizeof(float)};
  places.end = places.packed + ommai_bf16_packed_bytes(kernel, n_rows, linear->spec.n_in);
  return places;
}

static size_t op_scratch(const struct ommai_linear_op *op) { return place_scratch(op->linear).end; }

/* Panels side by side from `column` of the op on. tile: of rows alone. */
static void some_panels(const struct ommai_linear_op *op, struct ommai_bf16_tile tile, int64_t column, int64_t n_panels,
                        void *y, float *sums) {
  const struct ommai_linear *linear = op->linear;
  const struct ommai_linear_call *call = &op->call;
  int64_t first = op->first_column + column, apart = panel_sums(tile.n_rows);
  bool at_once = column + n_panels * PANEL <= op->n_columns && call->activation == OMMAI_ACTIVATION_NONE;
  tile.sums = sums;
  tile.n_panels = n_panels;
  tile.panel_elements = ommai_weights_panel_elements(linear->packed.layout, linear->spec.n_in);
  tile.weights = (const ommai_bf16 *)linear->weights + first / PANEL * tile.panel_elements;
  tile.bias = linear->bias + first;
  tile.y = at_once ? ommai_element(y, column, call->y_type) : sums;
  tile.y_stride = at_once ? call->y_stride : PANEL;
  tile.y_panel = at_once ? PANEL : apart;
  tile.y_type = at_once ? call->y_type : OMMA_F32;
  tile.accumulate = at_once && call->accumulate;
  op->context->bf16_tile->run(&tile);
  for (int64_t panel = 0; !at_once && panel < n_panels; panel++, column += PANEL) {
    int64_t n = ommai_min_i64(PANEL, op->n_columns - column);
    ommai_linear_finish_sums(op->context, call, tile.n_rows, n, sums + panel * apart, ommai_element(y, column, call->y_type));
  }
}

/* A last panel with fewer outputs is alone, so that those before it are written at once. */
static void all_panels(const struct ommai_linear_op *op, struct ommai_bf16_tile tile, void *y, float *sums) {
  int64_t whole = op->n_columns / PANEL, n;
  for (int64_t panel = 0; panel * PANEL < op->n_columns; panel += n) {
    n = ommai_max_i64(ommai_min_i64(op->context->bf16_tile->max_panels, whole - panel), 1);
    some_panels(op, tile, panel * PANEL, n, y, sums);
  }
}

static enum omma_status op_run(const struct ommai_linear_op *op, const void *x, void *y, int64_t n_rows, int worker,
                               struct omma_error *error) {
  (void)error;
  const struct ommai_bf16_tile_kernel *kernel = op->context->bf16_tile;
  char *scratch = op->context->scratch[worker].memory;
  struct ommai_bf16_tile tile = {.x = x, .x_stride = op->call.x_stride, .n_rows = n_rows, .n_k = op->linear->spec.n_in};
  if (kernel->pack) {
    tile.packed.memory = (ommai_bf16 *)(void *)(scratch + place_scratch(op->linear).packed);
    tile.packed.n_rows = ommai_round_up(n_rows, OMMAI_BF16_PACKED_ROWS);
    kernel->pack(&tile);
  }
  all_panels(op, tile, y, (float *)(void *)scratch);
  return OMMA_OK;
}

/* ---- prepared rows: packed ------------------------------------------------------------------- */

static size_t prepared_row_bytes(const struct ommai_linear *linear) {
  const struct ommai_bf16_tile_kernel *kernel = linear->context->bf16_tile;
  return ommai_bf16_packed_bytes(kernel, OMMAI_BF16_PACKED_ROWS, linear->spec.n_in) / OMMAI_BF16_PACKED_ROWS;
}

static void place_rows(const struct ommai_linear *linear, int64_t n_rows, void *memory, struct ommai_linear_rows *rows) {
  (void)linear;
  rows->packed.memory = memory;
  rows->packed.n_rows = ommai_round_up(n_rows, OMMAI_BF16_PACKED_ROWS);
}

static void prepare_rows(const struct ommai_linear *linear, const struct ommai_linear_rows *rows, int64_t n_rows) {
  const struct ommai_bf16_tile tile = {
      .x = rows->x, .x_stride = rows->x_stride, .n_rows = n_rows, .n_k = linear->spec.n_in, .packed = rows->packed};
  linear->context->bf16_tile->pack(&tile);
}

static void op_run_prepared(const struct ommai_linear_op *op, const struct ommai_linear_rows *rows, void *y, int64_t n_rows,
                            int worker) {
  const struct ommai_bf16_tile tile = {.n_rows = n_rows, .n_k = op->linear->spec.n_in, .packed = rows->packed};
  all_panels(op, tile, y, op->context->scratch[worker].memory);
}

/* ---- few rows -------------------------------------------------------------------------------- */

/* More rows than the few-row kernels take at a time: a panel's weights are read once for all by the
 * tiles, with the same bits, but where those kernels take panels side by side. */
static void gemv(const struct ommai_linear *linear, const void *x, int64_t x_stride, int64_t n_rows, float *y, int64_t y_stride,
                 bool accumulate, int64_t first_panel, int64_t n_panels) {
  float sums[OMMAI_LINEAR_MAX_ROWS * PANEL];
  int64_t whole = linear->spec.n_out / PANEL, end = first_panel + n_panels, panel = first_panel;
  int64_t panel_elements = ommai_weights_panel_elements(linear->packed.layout, linear->spec.n_in);
  bool tiles = n_rows > OMMAI_GEMV_GROUP && !ommai_linear_dense_side_by_side(linear);
  for (; tiles && panel < ommai_min_i64(whole, end); panel++) {
    struct ommai_bf16_tile tile = {.x_stride = x_stride,
                                   .n_k = linear->spec.n_in,
                                   .n_panels = 1,
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
    .max_rows = OMMAI_LINEAR_MAX_ROWS,
    .pack = pack,
    .weight = ommai_linear_dense_weight,
    .gemv = gemv,
    .side_by_side = ommai_linear_dense_side_by_side,
    .op_scratch = op_scratch,
    .op_run = op_run,
};

/* Twice the rows, so that weights are read half as often: tiles of AMX multiply faster than memory
 * brings weights for fewer. */
const struct ommai_linear_code ommai_linear_bf16_packed = {
    .max_rows = 2 * OMMAI_LINEAR_MAX_ROWS,
    .pack = pack,
    .weight = ommai_linear_dense_weight,
    .gemv = gemv,
    .side_by_side = ommai_linear_dense_side_by_side,
    .prepared_row_bytes = prepared_row_bytes,
    .place_rows = place_rows,
    .prepare_rows = prepare_rows,
    .op_run_prepared = op_run_prepared,
    .op_scratch = op_scratch,
    .op_run = op_run,
};

/* Where the CPU has no products of bf16, the values are expanded. */
static const struct ommai_linear_code *code(const struct ommai_linear_context *context, const struct ommai_linear_spec *spec) {
  if (spec->compute != OMMA_BF16 || !context->bf16_tile) return &ommai_linear_f32;
  return context->bf16_tile->pack ? &ommai_linear_bf16_packed : &ommai_linear_bf16;
}

const struct ommai_linear_format ommai_linear_format_bf16 = {.name = "bf16",
                                                             .layout = OMMAI_WEIGHTS_BF16_PANELS,
                                                             .part_panels = OMMAI_LINEAR_PART_PANELS,
                                                             .finer = OMMAI_FORMAT_BF16,
                                                             .code = code};
