/* Layers with int8 weights: rows of x to u8, exact products by oneDNN, and what turns sums into y.
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

const struct ommai_ladder ommai_int8_ladder = {4, {16, 32, 64, 128}};

/* Some of the outputs. */
struct chunk {
  int64_t first_column, n_columns;
  struct ommai_onednn_operand *operand;
  const struct ommai_ladder_products *products;
};

struct ommai_int8_op {
  const struct ommai_linear_engine *engine;
  const struct ommai_linear *linear;
  const struct ommai_row_ops *ops;
  struct ommai_linear_form form;
  int64_t k_padded;
  int64_t n_chunks;
  struct chunk *chunks; /* [n_chunks] */
  /* Byte offsets in a worker's scratch, in which the product's own part is at 0. */
  size_t x_at, forms_at, sums_at, row_at;
};

/* Lays a worker's scratch out behind what the products take, and returns its size. */
static size_t place_scratch(struct ommai_int8_op *op, size_t product_bytes) {
  size_t rows = OMMAI_LINEAR_MAX_ROWS, columns = CHUNK_PANELS * OMMAI_PANEL_COLUMNS;
  op->x_at = ommai_linear_align(product_bytes);
  op->forms_at = op->x_at + ommai_linear_align(rows * (size_t)op->k_padded);
  op->sums_at = op->forms_at + ommai_linear_align(rows * sizeof(struct ommai_uint8_row));
  op->row_at = op->sums_at + ommai_linear_align(rows * columns * sizeof(int32_t));
  return op->row_at + ommai_linear_align(columns * sizeof(float));
}

/* How many chunks there are, all but the last of the same number of panels. */
static int64_t count_chunks(const struct ommai_few_rows_weights *packed, int64_t *chunk_panels) {
  int64_t n_panels = ommai_div_up(packed->n_out, OMMAI_PANEL_COLUMNS);
  *chunk_panels = ommai_div_up(n_panels, ommai_div_up(n_panels, CHUNK_PANELS));
  return ommai_div_up(n_panels, *chunk_panels);
}

/* The product of the outputs from first_panel on. */
static struct ommai_onednn_shape chunk_shape(const struct ommai_few_rows_weights *packed, int64_t first_panel,
                                             int64_t chunk_panels) {
  int64_t first = first_panel * OMMAI_PANEL_COLUMNS;
  return (struct ommai_onednn_shape){.n_in = ommai_weights_padded_k(packed->layout, packed->n_in),
                                     .n_out = ommai_min_i64(chunk_panels * OMMAI_PANEL_COLUMNS, packed->n_out - first),
                                     .layout = packed->layout};
}

static enum omma_status make_chunk(struct ommai_linear_engine *engine, const struct ommai_int8_op *op, int64_t first_panel,
                                   int64_t chunk_panels, struct chunk *chunk, struct omma_error *error) {
  const struct ommai_few_rows_weights *packed = &op->linear->packed;
  int8_t *weights = op->linear->weights;
  const struct ommai_onednn_shape shape = chunk_shape(packed, first_panel, chunk_panels);
  chunk->first_column = first_panel * OMMAI_PANEL_COLUMNS;
  chunk->n_columns = shape.n_out;
  OMMAI_TRY(ommai_onednn_operand_create(engine->onednn, packed->layout, chunk->n_columns, op->k_padded,
                                        weights + first_panel * ommai_weights_panel_elements(packed->layout, packed->n_in),
                                        NULL, &chunk->operand, error));
  return ommai_linear_find_products(engine, &shape, &ommai_int8_ladder, &chunk->products, error);
}

static enum omma_status make_chunks(struct ommai_linear_engine *engine, struct ommai_int8_op *op, struct omma_error *error) {
  int64_t chunk_panels;
  size_t most = 0;
  op->n_chunks = count_chunks(&op->linear->packed, &chunk_panels);
  op->chunks = ommai_allocate(&engine->allocator, (size_t)op->n_chunks, sizeof *op->chunks);
  if (!op->chunks) return ommai_fail_memory(error, "int8 layer's chunks", (size_t)op->n_chunks * sizeof *op->chunks);
  for (int64_t i = 0; i < op->n_chunks; i++) {
    OMMAI_TRY(make_chunk(engine, op, i * chunk_panels, chunk_panels, &op->chunks[i], error));
    if (op->chunks[i].products->scratch_bytes > most) most = op->chunks[i].products->scratch_bytes;
  }
  return ommai_linear_grow_scratch(engine, place_scratch(op, most), error);
}

enum omma_status ommai_int8_op_scratch(struct ommai_linear_engine *engine, const struct ommai_few_rows_weights *packed,
                                       size_t *bytes, struct omma_error *error) {
  struct ommai_int8_op op = {.k_padded = ommai_weights_padded_k(packed->layout, packed->n_in)};
  int64_t chunk_panels, n_chunks = count_chunks(packed, &chunk_panels);
  size_t most = 0;
  for (int64_t i = 0; i < n_chunks; i++) {
    const struct ommai_onednn_shape shape = chunk_shape(packed, i * chunk_panels, chunk_panels);
    struct ommai_ladder_products *products;
    OMMAI_TRY(ommai_linear_describe_products(engine, &shape, &ommai_int8_ladder, &products, error));
    if (products->scratch_bytes > most) most = products->scratch_bytes;
  }
  *bytes = place_scratch(&op, most);
  return OMMA_OK;
}

enum omma_status ommai_int8_op_create(struct ommai_linear_engine *engine, const struct ommai_linear *linear,
                                      const struct ommai_linear_form *form, struct ommai_int8_op **out,
                                      struct omma_error *error) {
  struct ommai_int8_op *op = ommai_allocate(&engine->allocator, 1, sizeof *op);
  if (!op) return ommai_fail_memory(error, "int8 layer's form", sizeof *op);
  op->engine = engine;
  op->linear = linear;
  op->ops = ommai_row_ops(engine->level);
  op->form = *form;
  op->k_padded = ommai_weights_padded_k(linear->packed.layout, linear->packed.n_in);
  enum omma_status status = make_chunks(engine, op, error);
  if (status != OMMA_OK) {
    ommai_int8_op_destroy(op);
    return status;
  }
  *out = op;
  return OMMA_OK;
}

void ommai_int8_op_destroy(struct ommai_int8_op *op) {
  if (!op) return;
  const struct omma_allocator *allocator = &op->engine->allocator;
  for (int64_t i = 0; op->chunks && i < op->n_chunks; i++) ommai_onednn_operand_destroy(op->chunks[i].operand);
  ommai_release(allocator, op->chunks, (size_t)op->n_chunks, sizeof *op->chunks);
  ommai_release(allocator, op, 1, sizeof *op);
}

const char *ommai_int8_op_name(const struct ommai_int8_op *op) {
  return ommai_onednn_matmul_name(op->chunks[0].products->steps[ommai_int8_ladder.n_steps - 1]);
}

static void activate(const struct ommai_int8_op *op, float *row, int64_t n) {
  switch (op->form.activation) {
    case OMMAI_ACTIVATION_GELU_TANH: op->ops->gelu_tanh(row, n); break;
    case OMMAI_ACTIVATION_GELU_ERF: op->ops->gelu_erf(row, n); break;
    case OMMAI_ACTIVATION_SILU: op->ops->silu(row, n); break;
    default: break;
  }
}

/* One row of a chunk's sums to y, which points at the chunk's first output. */
static void finish_row(const struct ommai_int8_op *op, const struct chunk *chunk, const int32_t *sums,
                       struct ommai_uint8_row form, float *row, void *y) {
  const struct ommai_linear *linear = op->linear;
  int64_t first = chunk->first_column, n = chunk->n_columns;
  bool in_place = op->form.y_type == OMMA_F32 && !op->form.accumulate;
  float *to = in_place ? y : row;
  op->ops->dequantise(sums, linear->weight_sums + first, linear->scales + first, linear->bias + first, form, n, to);
  activate(op, to, n);
  if (op->form.accumulate) {
    op->ops->add(y, row, n);
  } else if (!in_place) {
    op->ops->convert(row, n, y, op->form.y_type);
  }
}

enum omma_status ommai_int8_op_run(const struct ommai_int8_op *op, const void *x, void *y, int64_t n_rows, int worker) {
  const struct ommai_few_rows_weights *packed = &op->linear->packed;
  const struct ommai_linear_form *form = &op->form;
  unsigned char *scratch = op->engine->scratch[worker].memory;
  uint8_t *x_u8 = scratch + op->x_at;
  struct ommai_uint8_row *forms = (struct ommai_uint8_row *)(void *)(scratch + op->forms_at);
  float *row_values = (float *)(void *)(scratch + op->row_at);
  int32_t *sums = (int32_t *)(void *)(scratch + op->sums_at);
  int step = 0;
  while (ommai_int8_ladder.rows[step] < n_rows) step++;
  for (int64_t row = 0; row < n_rows; row++) {
    const void *from = (const unsigned char *)x + (size_t)(row * form->x_stride) * ommai_dtype_size(packed->x_type);
    op->ops->quantise(from, packed->x_type, packed->n_in, x_u8 + row * op->k_padded, &forms[row]);
  }
  for (const struct chunk *chunk = op->chunks; chunk < op->chunks + op->n_chunks; chunk++) {
    OMMAI_TRY(ommai_onednn_matmul_run(chunk->products->steps[step], chunk->operand, x_u8, sums, scratch, worker));
    for (int64_t row = 0; row < n_rows; row++) {
      finish_row(op, chunk, sums + row * chunk->n_columns, forms[row], row_values,
                 ommai_element(y, row * form->y_stride + chunk->first_column, form->y_type));
    }
  }
  return OMMA_OK;
}
