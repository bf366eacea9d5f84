/* Layers with integer weights by own kernels: rows of x to 8 bits, exact sums within groups of
 * inputs, and what makes y of them.
 *
 *   x [n_rows][n_in] -> s8 [n_rows][x_stride], a scale a row, sums of x over each group
 *   for each panel of 64 outputs: sums f32 [n_rows][64] (kernels/integer_panel.h) -> the row's
 *   scale, bias, activation -> y
 *
 * Rows that the caller prepares lie in its memory. For others tiles have room in a worker's
 * scratch, and few rows take as many at a time as a buffer on the stack holds. */
#include <string.h>

#include "base/checked.h"
#include "kernels/dtype.h"
#include "kernels/row_ops.h"
#include "linear/linear_objects.h"

enum {
  PANEL = OMMAI_PANEL_COLUMNS,
  ROW_GAP =
      /* bytes after a row of x, so that rows of a power of two do not share the few places that a
       * cache has for them */
  64,
  /* Few rows at a time, with all their bytes; one row of the maximum length fits. */
  GEMV = 16,
  FEW_BYTES = OMMAI_LINEAR_MAX_INT8_INPUTS + ROW_GAP + 64,
  FEW_SUMS = OMMAI_LINEAR_MAX_INT8_INPUTS / OMMAI_LINEAR_GROUP_STEP,
};

static int64_t padded_k(const struct ommai_linear *linear) {
  return ommai_weights_padded_k(linear->packed.layout, linear->spec.n_in);
}

static int64_t x_stride(const struct ommai_linear *linear) { return padded_k(linear) + ROW_GAP; }

/* ---- rows ------------------------------------------------------------------------------------ */

static void prepare_rows(const struct ommai_linear *linear, const struct ommai_linear_rows *rows, int64_t n_rows) {
  const struct ommai_linear_spec *spec = &linear->spec;
  const struct ommai_row_ops *ops = linear->context->row_ops;
  int64_t n_groups = ommai_integer_n_groups(spec);
  for (int64_t row = 0; row < n_rows; row++) {
    const void *from = (const char *)rows->x + (size_t)(row * rows->x_stride) * ommai_dtype_size(spec->compute);
    int8_t *out = rows->bytes + row * rows->byte_stride;
    if (spec->inputs == OMMAI_INPUTS_RANGE) {
      struct ommai_int8_row range;
      ops->quantise(from, spec->compute, spec->n_in, out, &range);
      rows->zeros[row] = range.zero;
      rows->scales[row] = range.scale;
    } else {
      ops->quantise_symmetric(from, spec->compute, spec->n_in, out, &rows->scales[row]);
    }
    memset(out + spec->n_in, 0, (size_t)(rows->byte_stride - spec->n_in));
    ops->group_sums(out, spec->n_in, spec->group ? spec->group : spec->n_in, rows->sums + row * n_groups);
  }
}

static struct ommai_integer_panel panel_at(const struct ommai_linear *linear, int64_t panel) {
  const struct ommai_linear_spec *spec = &linear->spec;
  const struct ommai_integer_weights *own = linear->own;
  int64_t n_groups = ommai_integer_n_groups(spec);
  const int64_t first_scale = panel * ommai_integer_kept_scales(spec);
  return (struct ommai_integer_panel){
      .weights = (const uint8_t *)linear->weights + panel * ommai_weights_panel_elements(linear->packed.layout, spec->n_in),
      .scales = own->scales ? own->scales + first_scale : NULL,
      .has_minimums = spec->has_minimums,
      .scale_stride = spec->has_minimums ? 2 * PANEL : PANEL,
      .halves = own->halves ? own->halves + first_scale : NULL,
      .codes = own->codes ? own->codes + panel * ommai_integer_panel_scales(spec) : NULL,
      .shared = ommai_integer_shared_log2(spec),
      .weight_sums = own->weight_sums ? own->weight_sums + panel * PANEL : NULL,
      .n_groups = n_groups,
      .group = spec->group ? spec->group : padded_k(linear),
      .k_padded = padded_k(linear),
      .zero = ommai_integer_zero(spec),
  };
}

/* sums [n_rows][64] of one panel. */
static void multiply(const struct ommai_linear *linear, int64_t panel, const struct ommai_linear_rows *rows, int64_t n_rows,
                     float *sums) {
  const struct ommai_integer_panel weights = panel_at(linear, panel);
  const struct ommai_integer_rows x = {rows->bytes, rows->byte_stride, rows->sums, rows->zeros, n_rows};
  ommai_integer_traits(&linear->spec)->kernel(linear->context->integer)(&weights, &x, sums);
}

/* A scale of group g; or a minimum, whose columns are those after the scales'. */
static float scale_at(const struct ommai_integer_panel *panel, int64_t g, int64_t column) {
  const int64_t at = g * panel->scale_stride + column;
  if (panel->halves) return ommai_f16_to_f32(panel->halves[at]);
  if (!panel->codes) return panel->scales[at];
  return panel->scales[(g >> panel->shared) * panel->scale_stride + column] * (float)panel->codes[at];
}

static float weight(const struct ommai_linear *linear, int64_t output, int64_t input) {
  const struct ommai_integer_panel panel = panel_at(linear, output / PANEL);
  const int64_t column = output % PANEL, g = input / panel.group;
  const int q = ommai_integer_traits(&linear->spec)->load(panel.weights, input, column);
  const float product = scale_at(&panel, g, column) * (float)(q - panel.zero);
  return panel.has_minimums ? product - scale_at(&panel, g, PANEL + column) : product;
}

/* A panel's sums [n_rows][64] to y, whose first n columns they are. */
static void finish(const struct ommai_linear *linear, const struct ommai_linear_call *call, const float *scales,
                   const float *bias, int64_t n_rows, int64_t n, float *sums, void *y) {
  const struct ommai_row_ops *ops = linear->context->row_ops;
  if (call->y_type == OMMA_F32 && call->activation == OMMAI_ACTIVATION_NONE) {
    if (call->accumulate) {
      ops->add_scaled_panel(y, call->y_stride, sums, scales, bias, n_rows, n);
    } else {
      ops->scale_panel(sums, scales, bias, n_rows, n, y, call->y_stride);
    }
    return;
  }
  float some[OMMAI_LINEAR_FINISHED_ROWS * PANEL];
  for (int64_t row = 0, count; row < n_rows; row += count) {
    count = ommai_min_i64(OMMAI_LINEAR_FINISHED_ROWS, n_rows - row);
    ops->scale_panel(sums + row * PANEL, scales + row, bias, count, PANEL, some, PANEL);
    ommai_linear_finish_sums(linear->context, call, count, n, some, ommai_element(y, row * call->y_stride, call->y_type));
  }
}

/* ---- few rows -------------------------------------------------------------------------------- */

/* Asks for rows that another core may have prepared: a line at a time between the weights they
 * would be waited for. Always inlined, as the next that only asks: GCC drops calls of functions
 * that do nothing else. */
static inline __attribute__((always_inline)) void prefetch_rows(const struct ommai_linear *linear,
                                                                const struct ommai_linear_rows *rows, int64_t n_rows) {
  int64_t bytes = padded_k(linear), sums = ommai_integer_n_groups(&linear->spec) * (int64_t)sizeof *rows->sums;
  for (int64_t row = 0; row < n_rows; row++) {
    for (int64_t at = 0; at < bytes; at += 64) __builtin_prefetch(rows->bytes + row * rows->byte_stride + at);
  }
  for (int64_t at = 0; at < n_rows * sums; at += 64) __builtin_prefetch((const char *)rows->sums + at);
}

static ommai_integer_row_kernel row_kernel(const struct ommai_linear *linear) {
  const struct ommai_integer_kernels *kernels = linear->context->integer;
  bool has_zeros = linear->spec.inputs == OMMAI_INPUTS_RANGE;
  return has_zeros ? NULL : ommai_integer_traits(&linear->spec)->row_kernel(kernels);
}

static bool side_by_side(const struct ommai_linear *linear) { return row_kernel(linear) != NULL; }

/* One row, prepared, OMMAI_GEMV_PANELS panels. */
static void panels_of_row(const struct ommai_linear *linear, const struct ommai_linear_rows *row,
                          const struct ommai_linear_call *call, float *y, int64_t first_panel) {
  _Alignas(64) float sums[OMMAI_GEMV_PANELS * PANEL];
  struct ommai_integer_panel panels[OMMAI_GEMV_PANELS];
  const struct ommai_integer_rows x = {row->bytes, row->byte_stride, row->sums, row->zeros, 1};
  for (int i = 0; i < OMMAI_GEMV_PANELS; i++) {
    panels[i] = panel_at(linear, first_panel + i);
    ommai_gemv_prefetch_bias(linear->bias + (first_panel + i) * PANEL);
  }
  row_kernel(linear)(panels, &x, sums);
  for (int i = 0; i < OMMAI_GEMV_PANELS; i++) {
    int64_t first = (first_panel + i) * PANEL, n = ommai_min_i64(PANEL, linear->spec.n_out - first);
    finish(linear, call, row->scales, linear->bias + first, 1, n, sums + i * PANEL, y + first);
  }
}

/* At most GEMV rows, prepared. */
static void some_rows(const struct ommai_linear *linear, const struct ommai_linear_rows *rows, int64_t n_rows,
                      const struct ommai_linear_call *call, float *y, int64_t first_panel, int64_t n_panels) {
  _Alignas(64) float sums[GEMV * PANEL];
  int64_t panel = first_panel, end = first_panel + n_panels;
  prefetch_rows(linear, rows, n_rows);
  if (n_rows == 1 && side_by_side(linear)) {
    for (; panel + OMMAI_GEMV_PANELS <= end; panel += OMMAI_GEMV_PANELS) panels_of_row(linear, rows, call, y, panel);
  }
  for (; panel < end; panel++) {
    int64_t first = panel * PANEL, n = ommai_min_i64(PANEL, linear->spec.n_out - first);
    ommai_gemv_prefetch_bias(linear->bias + first);
    multiply(linear, panel, rows, n_rows, sums);
    finish(linear, call, rows->scales, linear->bias + first, n_rows, n, sums, y + first);
  }
}

static void few_prepared_rows(const struct ommai_linear *linear, const struct ommai_linear_rows *rows, int64_t n_rows, float *y,
                              int64_t y_stride, bool accumulate, int64_t first_panel, int64_t n_panels) {
  const struct ommai_linear_call call = {.y_stride = y_stride, .y_type = OMMA_F32, .accumulate = accumulate};
  for (int64_t row = 0; row < n_rows; row += GEMV) {
    const struct ommai_linear_rows some = ommai_linear_rows_from(linear, rows, row);
    some_rows(linear, &some, ommai_min_i64(GEMV, n_rows - row), &call, y + row * y_stride, first_panel, n_panels);
  }
}

static void gemv(const struct ommai_linear *linear, const void *x, int64_t stride, int64_t n_rows, float *y, int64_t y_stride,
                 bool accumulate, int64_t first_panel, int64_t n_panels) {
  _Alignas(64) int8_t bytes[FEW_BYTES];
  int32_t group_sums[FEW_SUMS], zeros[GEMV];
  float scales[GEMV];
  int64_t fit = ommai_min_i64(FEW_BYTES / x_stride(linear), FEW_SUMS / ommai_integer_n_groups(&linear->spec));
  int64_t together = ommai_min_i64(fit, GEMV);
  size_t x_bytes = (size_t)stride * ommai_dtype_size(linear->spec.compute);
  for (int64_t row = 0; row < n_rows; row += together) {
    int64_t n = ommai_min_i64(together, n_rows - row);
    const struct ommai_linear_rows rows = {.x = (const char *)x + (size_t)row * x_bytes,
                                           .x_stride = stride,
                                           .bytes = bytes,
                                           .byte_stride = x_stride(linear),
                                           .sums = group_sums,
                                           .zeros = zeros,
                                           .scales = scales};
    prepare_rows(linear, &rows, n);
    few_prepared_rows(linear, &rows, n, y + row * y_stride, y_stride, accumulate, first_panel, n_panels);
  }
}

/* ---- prepared rows --------------------------------------------------------------------------- */

static size_t sums_bytes(const struct ommai_linear *linear) {
  return ((size_t)ommai_integer_n_groups(&linear->spec) + 1) * sizeof(int32_t) + sizeof(float);
}

static size_t prepared_row_bytes(const struct ommai_linear *linear) {
  return ommai_linear_align((size_t)x_stride(linear)) + ommai_linear_align(sums_bytes(linear));
}

static void place_rows(const struct ommai_linear *linear, int64_t n_rows, void *memory, struct ommai_linear_rows *rows) {
  size_t n = (size_t)n_rows;
  rows->bytes = memory;
  rows->byte_stride = (int64_t)ommai_linear_align((size_t)x_stride(linear));
  rows->sums = (int32_t *)(void *)((char *)memory + n * (size_t)rows->byte_stride);
  rows->zeros = rows->sums + n * (size_t)ommai_integer_n_groups(&linear->spec);
  rows->scales = (float *)(void *)(rows->zeros + n);
}

/* ---- ops ------------------------------------------------------------------------------------- */

/* Byte offsets in a worker's scratch. */
struct places {
  size_t x, group_sums, zeros, scales, sums, end;
};

static struct places place_scratch(const struct ommai_linear *linear) {
  size_t rows = (size_t)linear->code->max_rows, n_groups = (size_t)ommai_integer_n_groups(&linear->spec);
  struct places places = {.group_sums = ommai_linear_align(rows * (size_t)x_stride(linear))};
  places.zeros = places.group_sums + ommai_linear_align(rows * n_groups * sizeof(int32_t));
  places.scales = places.zeros + ommai_linear_align(rows * sizeof(int32_t));
  places.sums = places.scales + ommai_linear_align(rows * sizeof(float));
  places.end = places.sums + ommai_linear_align(rows * PANEL * sizeof(float));
  return places;
}

static size_t op_scratch(const struct ommai_linear_op *op) { return place_scratch(op->linear).end; }

/* Asks for the first n outputs of rows that the products to come are written over, into the second
 * level of cache: written to on their way from memory they would hold up the products after. */
static inline __attribute__((always_inline)) void ask_for_outputs(const struct ommai_linear_call *call, void *y, int64_t n_rows,
                                                                  int64_t n) {
  for (int64_t row = 0; row < n_rows; row++) {
    const char *to = ommai_element(y, row * call->y_stride, call->y_type);
    for (size_t at = 0; at < (size_t)n * ommai_dtype_size(call->y_type); at += 64) __builtin_prefetch(to + at, 1, 2);
  }
}

/* Rows of a tile that are multiplied and finished before the next ones are. */
static int64_t rows_together(const struct ommai_linear *linear) {
  int64_t together = linear->context->integer->rows_together;
  return together && ommai_integer_n_groups(&linear->spec) == 1 ? together : linear->code->max_rows;
}

static void op_run_prepared(const struct ommai_linear_op *op, const struct ommai_linear_rows *rows, void *y, int64_t n_rows,
                            int worker) {
  const struct ommai_linear *linear = op->linear;
  const struct ommai_linear_call *call = &op->call;
  char *scratch = op->context->scratch[worker].memory;
  float *sums = (float *)(void *)(scratch + place_scratch(linear).sums);
  const int64_t together = rows_together(linear);
  for (int64_t column = 0; column < op->n_columns; column += PANEL) {
    int64_t first = op->first_column + column, n = ommai_min_i64(PANEL, op->n_columns - column);
    for (int64_t row = 0, count; row < n_rows; row += count) {
      const struct ommai_linear_rows some = ommai_linear_rows_from(linear, rows, row);
      void *to = ommai_element(y, row * call->y_stride + column, call->y_type);
      count = ommai_min_i64(n_rows - row, together);
      if (linear->context->integer->rows_together) ask_for_outputs(call, to, count, n);
      multiply(linear, first / PANEL, &some, count, sums);
      finish(linear, call, some.scales, linear->bias + first, count, n, sums, to);
    }
  }
}

static enum omma_status op_run(const struct ommai_linear_op *op, const void *x, void *y, int64_t n_rows, int worker,
                               struct omma_error *error) {
  (void)error;
  const struct ommai_linear *linear = op->linear;
  const struct places places = place_scratch(linear);
  char *scratch = op->context->scratch[worker].memory;
  const struct ommai_linear_rows rows = {.x = x,
                                         .x_stride = op->call.x_stride,
                                         .bytes = (int8_t *)scratch,
                                         .byte_stride = x_stride(linear),
                                         .sums = (int32_t *)(void *)(scratch + places.group_sums),
                                         .zeros = (int32_t *)(void *)(scratch + places.zeros),
                                         .scales = (float *)(void *)(scratch + places.scales)};
  prepare_rows(linear, &rows, n_rows);
  op_run_prepared(op, &rows, y, n_rows, worker);
  return OMMA_OK;
}

#define INTEGER_CODE(rows)                                                                                                  \
  {                                                                                                                         \
    .max_rows = (rows), .check = ommai_integer_check, .more_bytes = ommai_integer_more_bytes, .pack = ommai_integer_pack,   \
    .release = ommai_integer_release, .weight = weight, .gemv = gemv, .side_by_side = side_by_side,                         \
    .prepared_row_bytes = prepared_row_bytes, .place_rows = place_rows, .prepare_rows = prepare_rows,                       \
    .few_prepared_rows = few_prepared_rows, .op_run_prepared = op_run_prepared, .op_scratch = op_scratch, .op_run = op_run, \
  }

const struct ommai_linear_code ommai_linear_integer = INTEGER_CODE(OMMAI_LINEAR_MAX_ROWS);

/* As in bf16: tiles of AMX multiply faster than memory brings weights for fewer rows. */
const struct ommai_linear_code ommai_linear_integer_wide = INTEGER_CODE(2 * OMMAI_LINEAR_MAX_ROWS);

const struct ommai_linear_code *ommai_integer_code(const struct ommai_linear_context *context,
                                                   const struct ommai_linear_spec *spec) {
  (void)spec;
  return context->level == OMMAI_CPU_AMX ? &ommai_linear_integer_wide : &ommai_linear_integer;
}
