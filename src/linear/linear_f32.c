/* Layers in f32 arithmetic, over f32 or bf16 weights, by own kernels: what computes in f32, and
 * what computes in bf16 where the CPU has no bf16 products (its values are expanded; the points of
 * rounding are the same).
 *
 *   x [n_rows][n_in] -> f32 blocks of some k, groups of rows in each, [k][rows of the group], once
 *     for all outputs
 *   for each panel of 64 outputs: sums [n_rows][64]
 *     for each block of k, for each strip of columns: weights -> f32 strip [k][columns], then
 *     sums += block x strip
 *     bias, activation, old y: row operations
 *
 * A panel's bits are those of the few-row kernels, at any number of rows. */
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "kernels/dtype.h"
#include "kernels/f32_tile.h"
#include "kernels/row_groups.h"
#include "kernels/row_ops.h"
#include "linear/linear_objects.h"

/* ---- weights --------------------------------------------------------------------------------- */

static enum omma_status check(const struct ommai_linear_context *context, const struct ommai_linear_spec *spec,
                              struct omma_error *error) {
  (void)context;
  if (spec->compute == OMMA_F32 || spec->format != OMMAI_FORMAT_F32) return OMMA_OK;
  return ommai_fail_field(error, OMMA_ERROR_UNSUPPORTED, "format", "linear layer: no computing in bf16 over f32 weights");
}

static enum omma_status pack(struct ommai_linear *linear, const struct ommai_linear_source *sources, int n_sources,
                             const struct omma_team *team, struct omma_error *error) {
  (void)error;
  linear->packed.arithmetic = OMMA_F32;
  ommai_linear_pack_panels(linear, sources, n_sources, team, ommai_linear_pack_dense);
  return OMMA_OK;
}

/* ---- ops ------------------------------------------------------------------------------------- */

/* Byte offsets in a worker's scratch. */
struct places {
  size_t x, strip, sums, end;
};

static struct places place_scratch(const struct ommai_linear *linear) {
  struct places places = {.strip = (size_t)linear->spec.n_in * OMMAI_LINEAR_MAX_ROWS * sizeof(float)};
  places.sums = places.strip + OMMAI_TILE_K * OMMAI_PANEL_COLUMNS * sizeof(float);
  places.end = places.sums + OMMAI_LINEAR_MAX_ROWS * OMMAI_PANEL_COLUMNS * sizeof(float);
  return places;
}

static size_t op_scratch(const struct ommai_linear_op *op) { return place_scratch(op->linear).end; }

static int64_t block_inputs(const struct ommai_linear *linear) { return linear->context->f32_tile->n_k; }

/* How many of the rows that are left make the next group. */
static int group_rows(const struct ommai_linear *linear, int64_t left) {
  return ommai_next_rows(left, linear->context->f32_tile->n_rows);
}

/* n rows as [n_k][n]; n is a constant in the calls, so that compilers make vectors of it. */
static inline __attribute__((always_inline)) void transpose(const void *x, enum omma_dtype type, int64_t x_stride,
                                                           const int n, int64_t n_k, float *to) {
  if (type == OMMA_F32) {
    const float *from = x;
    for (int64_t k = 0; k < n_k; k++) {
      for (int row = 0; row < n; row++) to[k * n + row] = from[row * x_stride + k];
    }
  } else {
    const ommai_bf16 *from = x;
    for (int64_t k = 0; k < n_k; k++) {
      for (int row = 0; row < n; row++) to[k * n + row] = ommai_bf16_to_f32(from[row * x_stride + k]);
    }
  }
}

static void transpose_group(const void *x, enum omma_dtype type, int64_t x_stride, int n, int64_t n_k, float *to) {
  switch (n) {
    case 1: transpose(x, type, x_stride, 1, n_k, to); break;
    case 3: transpose(x, type, x_stride, 3, n_k, to); break;
    case 6: transpose(x, type, x_stride, 6, n_k, to); break;
    case 12: transpose(x, type, x_stride, 12, n_k, to); break;
    default: transpose(x, type, x_stride, n, n_k, to); break;
  }
}

/* The rows as f32 blocks. */
static void block_rows(const struct ommai_linear_op *op, const void *x, int64_t n_rows, float *blocks) {
  int64_t n_in = op->linear->spec.n_in, step = block_inputs(op->linear), stride = op->call.x_stride;
  enum omma_dtype type = op->linear->spec.compute;
  for (int64_t k = 0; k < n_in; k += step) {
    int64_t n_k = ommai_min_i64(step, n_in - k);
    for (int64_t row = 0, n; row < n_rows; row += n) {
      n = group_rows(op->linear, n_rows - row);
      const void *from = (const char *)x + (size_t)(row * stride + k) * ommai_dtype_size(type);
      transpose_group(from, type, stride, (int)n, n_k, blocks + k * n_rows + row * n_k);
    }
  }
}

/* Weights on their way into the second level of cache while the ones before are worked on: they are
 * read in bursts, once for all rows of a tile, which hardware prefetchers miss. May run past
 * the end of the weights. */
struct coming {
  const char *at;
  int64_t bytes; /* for each group of rows */
};

static void prefetch(struct coming *coming) {
  for (int64_t done = 0; done < coming->bytes; done += 64) __builtin_prefetch(coming->at + done, 0, 2);
  coming->at += coming->bytes;
}

static void expand(const struct ommai_linear *linear, int64_t element, int64_t n_k, float *strip) {
  const struct ommai_f32_tile_kernels *kernels = linear->context->f32_tile;
  const void *weights = linear->packed.weights;
  if (linear->packed.layout == OMMAI_WEIGHTS_BF16_PANELS) {
    kernels->expand_bf16((const ommai_bf16 *)weights + element, n_k, strip);
  } else {
    kernels->expand_f32((const float *)weights + element, n_k, strip);
  }
}

/* sums [n_rows][64] of one panel. */
static void multiply_panel(const struct ommai_linear *linear, int64_t panel, const float *blocks, int64_t n_rows, float *strip,
                           float *sums) {
  const struct ommai_f32_tile_kernels *kernels = linear->context->f32_tile;
  int64_t n_in = linear->spec.n_in, at = panel * ommai_weights_panel_elements(linear->packed.layout, n_in);
  /* bf16 lies in pairs */
  int64_t element = ommai_weights_bits(linear->packed.layout) / 8, apart = element == 2 ? 2 : 1;
  int64_t shares = OMMAI_PANEL_COLUMNS / kernels->n_columns * ommai_div_up(n_rows, kernels->n_rows);
  memset(sums, 0, (size_t)(n_rows * OMMAI_PANEL_COLUMNS) * sizeof *sums);
  for (int64_t k = 0; k < n_in; k += block_inputs(linear)) {
    int64_t n_k = ommai_min_i64(block_inputs(linear), n_in - k), block = at + k * OMMAI_PANEL_COLUMNS;
    int64_t bytes = n_k * OMMAI_PANEL_COLUMNS * element;
    struct coming coming = {(const char *)linear->weights + block * element + bytes, ommai_div_up(bytes, shares)};
    for (int column = 0; column < OMMAI_PANEL_COLUMNS; column += kernels->n_columns) {
      expand(linear, block + apart * column, n_k, strip);
      for (int64_t row = 0, n; row < n_rows; row += n) {
        prefetch(&coming);
        n = group_rows(linear, n_rows - row);
        kernels->multiply(strip, blocks + k * n_rows + row * n_k, (int)n, n_k, sums + row * OMMAI_PANEL_COLUMNS + column);
      }
    }
  }
}

/* A panel's sums [n_rows][64] to y, whose first n columns they are. */
static void finish_panel(const struct ommai_linear_op *op, const float *bias, int n_rows, int n, float *sums, void *y) {
  const struct ommai_linear_call *call = &op->call;
  if (call->y_type == OMMA_F32 && call->activation == OMMAI_ACTIVATION_NONE) {
    ommai_gemv_finish(sums, bias, n_rows, n, call->accumulate, y, call->y_stride);
    return;
  }
  ommai_gemv_finish(sums, bias, n_rows, OMMAI_PANEL_COLUMNS, false, sums, OMMAI_PANEL_COLUMNS);
  ommai_linear_finish_sums(op->context, call, n_rows, n, sums, y);
}

static enum omma_status op_run(const struct ommai_linear_op *op, const void *x, void *y, int64_t n_rows, int worker,
                               struct omma_error *error) {
  (void)error;
  const struct ommai_linear *linear = op->linear;
  const struct places places = place_scratch(linear);
  char *scratch = op->context->scratch[worker].memory;
  float *blocks = (float *)(void *)(scratch + places.x), *sums = (float *)(void *)(scratch + places.sums);
  block_rows(op, x, n_rows, blocks);
  for (int64_t column = 0; column < op->n_columns; column += OMMAI_PANEL_COLUMNS) {
    int64_t first = op->first_column + column, n = ommai_min_i64(OMMAI_PANEL_COLUMNS, op->n_columns - column);
    multiply_panel(linear, first / OMMAI_PANEL_COLUMNS, blocks, n_rows, (float *)(void *)(scratch + places.strip), sums);
    finish_panel(op, linear->bias + first, (int)n_rows, (int)n, sums, ommai_element(y, column, op->call.y_type));
  }
  return OMMA_OK;
}

const struct ommai_linear_code ommai_linear_f32 = {
    .max_rows = OMMAI_LINEAR_MAX_ROWS,
    .check = check,
    .pack = pack,
    .weight = ommai_linear_dense_weight,
    .gemv = ommai_linear_dense_gemv,
    .op_scratch = op_scratch,
    .op_run = op_run,
};

static const struct ommai_linear_code *code(const struct ommai_linear_context *context, const struct ommai_linear_spec *spec) {
  (void)context;
  (void)spec;
  return &ommai_linear_f32;
}

const struct ommai_linear_format ommai_linear_format_f32 = {
    .name = "f32", .layout = OMMAI_WEIGHTS_F32_PANELS, .part_panels = OMMAI_LINEAR_PART_PANELS, .code = code};
