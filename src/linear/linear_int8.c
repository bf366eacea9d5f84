/* Layers with int8 weights and inputs with zero points, where the CPU has VNNI: rows of x to u8, exact products by oneDNN, and what turns
 * sums into y.
 *
 *   x [n_rows][n_in] -> u8 [n_rows][k_padded], a scale and a zero point a row
 *   for some panels of outputs at a time: u8 x s8 -> sums s32 [n_rows][columns] -> scales, bias, activation -> y
 *
 * The panels are few enough for the sums to stay in the cache of the core that made them. */
#include "base/allocator.h"
#include "base/checked.h"
#include "base/error.h"
#include "kernels/dtype.h"
#include "kernels/row_ops.h"
#include "linear/linear_objects.h"

#define CHUNK_PANELS 8

/* Row counts; the sums are exact at any. */
static const struct ommai_ladder int8_ladder = {4, {16, 32, 64, 128}};

/* Some of the outputs. */
struct chunk {
  int64_t first_column, n_columns;
  struct ommai_onednn_operand *operand;
  const struct ommai_ladder_products *products;
};

struct int8_op {
  size_t product_bytes; /* the most that a chunk's products take */
  int64_t n_chunks;
  struct chunk *chunks; /* [n_chunks] */
};

/* Byte offsets in a worker's scratch, in which the product's own part is at 0. */
struct places {
  size_t x, forms, sums, row, end;
};

/* ---- ops -------------------------------------------------------------------------------------------------------------- */

static const struct ommai_ladder *ladder_of(const struct ommai_linear_engine *engine, const struct ommai_linear_op *op) {
  (void)engine;
  (void)op;
  return &int8_ladder;
}

static int64_t k_padded(const struct ommai_linear *linear) {
  return ommai_weights_padded_k(OMMAI_WEIGHTS_S8_PANELS, linear->spec.n_in);
}

static struct places place_scratch(const struct ommai_linear *linear, size_t product_bytes) {
  size_t rows = OMMAI_LINEAR_MAX_ROWS, columns = CHUNK_PANELS * OMMAI_PANEL_COLUMNS;
  struct places places = {.x = ommai_linear_align(product_bytes)};
  places.forms = places.x + ommai_linear_align(rows * (size_t)k_padded(linear));
  places.sums = places.forms + ommai_linear_align(rows * sizeof(struct ommai_uint8_row));
  places.row = places.sums + ommai_linear_align(rows * columns * sizeof(int32_t));
  places.end = places.row + ommai_linear_align(columns * sizeof(float));
  return places;
}

/* How many chunks there are, all but the last of the same number of panels. */
static int64_t count_chunks(const struct ommai_linear *linear, int64_t *chunk_panels) {
  int64_t n_panels = ommai_linear_n_panels(linear);
  *chunk_panels = ommai_div_up(n_panels, ommai_div_up(n_panels, CHUNK_PANELS));
  return ommai_div_up(n_panels, *chunk_panels);
}

/* The product of the outputs from first_panel on. */
static struct ommai_onednn_shape chunk_shape(const struct ommai_linear *linear, int64_t first_panel, int64_t chunk_panels) {
  int64_t first = first_panel * OMMAI_PANEL_COLUMNS;
  return (struct ommai_onednn_shape){.n_in = k_padded(linear),
                                     .n_out = ommai_min_i64(chunk_panels * OMMAI_PANEL_COLUMNS, linear->spec.n_out - first),
                                     .layout = OMMAI_WEIGHTS_S8_PANELS};
}

static enum omma_status op_scratch(struct ommai_linear_engine *engine, const struct ommai_linear_op *op, size_t *bytes,
                                   struct omma_error *error) {
  int64_t chunk_panels, n_chunks = count_chunks(op->linear, &chunk_panels);
  size_t most = 0;
  for (int64_t i = 0; i < n_chunks; i++) {
    const struct ommai_onednn_shape shape = chunk_shape(op->linear, i * chunk_panels, chunk_panels);
    struct ommai_ladder_products *products;
    OMMAI_TRY(ommai_linear_describe_products(engine, &shape, &int8_ladder, &products, error));
    if (products->scratch_bytes > most) most = products->scratch_bytes;
  }
  *bytes = place_scratch(op->linear, most).end;
  return OMMA_OK;
}

static enum omma_status make_chunk(struct ommai_linear_engine *engine, const struct ommai_linear *linear, int64_t first_panel,
                                   int64_t chunk_panels, struct chunk *chunk, struct omma_error *error) {
  int8_t *weights = linear->weights;
  const struct ommai_onednn_shape shape = chunk_shape(linear, first_panel, chunk_panels);
  int64_t panel_elements = ommai_weights_panel_elements(OMMAI_WEIGHTS_S8_PANELS, linear->spec.n_in);
  chunk->first_column = first_panel * OMMAI_PANEL_COLUMNS;
  chunk->n_columns = shape.n_out;
  OMMAI_TRY(ommai_onednn_operand_create(engine->onednn, OMMAI_WEIGHTS_S8_PANELS, chunk->n_columns, shape.n_in,
                                        weights + first_panel * panel_elements, NULL, &chunk->operand, error));
  return ommai_linear_find_products(engine, &shape, &int8_ladder, &chunk->products, error);
}

static enum omma_status op_create(struct ommai_linear_engine *engine, struct ommai_linear_op *op, struct omma_error *error) {
  int64_t chunk_panels, n_chunks = count_chunks(op->linear, &chunk_panels);
  struct int8_op *own = op->own = ommai_allocate(&engine->allocator, 1, sizeof *own);
  if (!own) return ommai_fail_memory(error, "int8 layer's form", sizeof *own);
  own->chunks = ommai_allocate(&engine->allocator, (size_t)n_chunks, sizeof *own->chunks);
  if (!own->chunks) return ommai_fail_memory(error, "int8 layer's chunks", (size_t)n_chunks * sizeof *own->chunks);
  own->n_chunks = n_chunks;
  for (int64_t i = 0; i < n_chunks; i++) {
    OMMAI_TRY(make_chunk(engine, op->linear, i * chunk_panels, chunk_panels, &own->chunks[i], error));
    size_t bytes = own->chunks[i].products->scratch_bytes;
    if (bytes > own->product_bytes) own->product_bytes = bytes;
  }
  return OMMA_OK;
}

static void op_release(struct ommai_linear_op *op) {
  const struct omma_allocator *allocator = &op->engine->allocator;
  struct int8_op *own = op->own;
  if (!own) return;
  for (int64_t i = 0; i < own->n_chunks; i++) ommai_onednn_operand_destroy(own->chunks[i].operand);
  ommai_release(allocator, own->chunks, (size_t)own->n_chunks, sizeof *own->chunks);
  ommai_release(allocator, own, 1, sizeof *own);
}

static const char *op_name(const struct ommai_linear_op *op) {
  const struct int8_op *own = op->own;
  return ommai_onednn_matmul_name(own->chunks[0].products->steps[int8_ladder.n_steps - 1]);
}

/* One row of a chunk's sums to y, which points at the chunk's first output. */
static void finish_row(const struct ommai_linear_op *op, const struct chunk *chunk, const int32_t *sums,
                       struct ommai_uint8_row form, float *row, void *y) {
  const struct ommai_integer_weights *weights = op->linear->own;
  const struct ommai_row_ops *ops = op->engine->row_ops;
  int64_t first = chunk->first_column, n = chunk->n_columns;
  bool in_place = op->form.y_type == OMMA_F32 && !op->form.accumulate;
  float *to = in_place ? y : row;
  ops->dequantise(sums, weights->weight_sums + first, weights->scales + first, op->linear->bias + first, form, n, to);
  ommai_linear_activate(ops, op->form.activation, to, n);
  if (op->form.accumulate) {
    ops->add(y, row, n);
  } else if (!in_place) {
    ops->convert(row, n, y, op->form.y_type);
  }
}

static enum omma_status op_run(const struct ommai_linear_op *op, const void *x, void *y, int64_t n_rows, int worker) {
  const struct ommai_linear_spec *spec = &op->linear->spec;
  const struct ommai_linear_form *form = &op->form;
  const struct int8_op *own = op->own;
  const struct places places = place_scratch(op->linear, own->product_bytes);
  unsigned char *scratch = op->engine->scratch[worker].memory;
  uint8_t *x_u8 = scratch + places.x;
  struct ommai_uint8_row *forms = (struct ommai_uint8_row *)(void *)(scratch + places.forms);
  float *row_values = (float *)(void *)(scratch + places.row);
  int32_t *sums = (int32_t *)(void *)(scratch + places.sums);
  int step = 0;
  while (int8_ladder.rows[step] < n_rows) step++;
  for (int64_t row = 0; row < n_rows; row++) {
    const void *from = (const unsigned char *)x + (size_t)(row * form->x_stride) * ommai_dtype_size(spec->compute);
    op->engine->row_ops->quantise(from, spec->compute, spec->n_in, x_u8 + row * k_padded(op->linear), &forms[row]);
  }
  for (const struct chunk *chunk = own->chunks; chunk < own->chunks + own->n_chunks; chunk++) {
    OMMAI_TRY(ommai_onednn_matmul_run(chunk->products->steps[step], chunk->operand, x_u8, sums, scratch, worker));
    for (int64_t row = 0; row < n_rows; row++) {
      finish_row(op, chunk, sums + row * chunk->n_columns, forms[row], row_values,
                 ommai_element(y, row * form->y_stride + chunk->first_column, form->y_type));
    }
  }
  return OMMA_OK;
}

const struct ommai_linear_format ommai_linear_int8 = {
    .check = ommai_integer_check,
    .layout = ommai_integer_layout,
    .more_bytes = ommai_integer_more_bytes,
    .pack = ommai_integer_pack,
    .release = ommai_integer_release,
    .ladder = ladder_of,
    .op_scratch = op_scratch,
    .op_create = op_create,
    .op_release = op_release,
    .op_name = op_name,
    .op_run = op_run,
};
