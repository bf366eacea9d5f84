/* A layer in one form of call: the products of the ladder, and copies of x and y where oneDNN cannot take the caller's. Its
 * fast code wants rows without gaps, and bf16 only where the CPU has bf16 products. */
#include <string.h>

#include "base/allocator.h"
#include "base/checked.h"
#include "base/error.h"
#include "linear/linear_objects.h"

struct ommai_linear_op {
  const struct ommai_linear_engine *engine;
  const struct ommai_linear *linear;
  const struct ommai_ladder *ladder;
  const struct ommai_ladder_products *products;
  const struct ommai_onednn_operand *operand; /* the layer's, or own */
  struct ommai_onednn_operand *own;           /* of some of the outputs */
  struct ommai_int8_op *int8;                 /* of an int8 layer; products, operand and scratch are its own then */
  struct ommai_linear_form form;
  int64_t first_column, n_columns;
  bool expanded;     /* bf16 values over f32 weights */
  bool copy_x;       /* x goes through scratch: expanded, or its rows have gaps */
  bool copy_y;       /* y goes through scratch: rounded at the end, or its rows have gaps */
  size_t x_at, y_at; /* byte offsets of these copies in a worker's scratch; the product's own scratch is at 0 */
};

static enum omma_status check_form(const struct ommai_linear *linear, const struct ommai_linear_form *form,
                                   struct omma_error *error) {
  const struct ommai_few_rows_weights *packed = &linear->packed;
  if (form->x_stride < packed->n_in || form->y_stride < packed->n_out) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, form->x_stride < packed->n_in ? "x_stride" : "y_stride",
                            "linear layer: strides %lld and %lld, expected at least %lld and %lld", (long long)form->x_stride,
                            (long long)form->y_stride, (long long)packed->n_in, (long long)packed->n_out);
  }
  bool y_is_f32 = form->y_type == OMMA_F32;
  if (!y_is_f32 && (form->y_type != OMMA_BF16 || packed->x_type != OMMA_BF16 || form->accumulate)) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "y_type",
                            "linear layer: y may be f32, or bf16 where the layer computes in bf16 and does not accumulate");
  }
  if (form->accumulate && form->activation != OMMAI_ACTIVATION_NONE) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "accumulate", "linear layer: accumulating goes without activation");
  }
  int64_t panels = ommai_linear_n_panels(linear);
  if (form->first_panel < 0 || form->n_panels < 0 || form->first_panel > panels - ommai_max_i64(form->n_panels, 1)) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "first_panel",
                            "linear layer: %lld panels from %lld on, expected some of the %lld there are",
                            (long long)form->n_panels, (long long)form->first_panel, (long long)panels);
  }
  if (form->activation > OMMAI_ACTIVATION_SILU) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "activation", "linear layer: no activation %d", (int)form->activation);
  }
  if (packed->layout == OMMAI_WEIGHTS_S8_PANELS && form->n_panels != 0) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "n_panels", "linear layer: int8 layers compute all outputs at a time");
  }
  return OMMA_OK;
}

static bool same_shape(const struct ommai_onednn_shape *a, const struct ommai_onednn_shape *b) {
  return a->n_in == b->n_in && a->n_out == b->n_out && a->layout == b->layout && a->y_type == b->y_type &&
         a->activation == b->activation && a->bias == b->bias && a->accumulate == b->accumulate;
}

enum omma_status ommai_linear_describe_products(struct ommai_linear_engine *engine, const struct ommai_onednn_shape *shape,
                                                const struct ommai_ladder *ladder, struct ommai_ladder_products **out,
                                                struct omma_error *error) {
  for (struct ommai_ladder_products *known = engine->products; known; known = known->next) {
    if (known->ladder == ladder && same_shape(&known->shape, shape)) {
      *out = known;
      return OMMA_OK;
    }
  }
  size_t most = 0;
  for (int step = 0; step < ladder->n_steps; step++) {
    struct ommai_onednn_shape with_rows = *shape;
    size_t bytes;
    with_rows.n_rows = ladder->rows[step];
    OMMAI_TRY(ommai_onednn_scratch_bytes(engine->onednn, &with_rows, &bytes, error));
    if (bytes > most) most = bytes;
  }
  struct ommai_ladder_products *made = ommai_allocate(&engine->allocator, 1, sizeof *made);
  if (!made) return ommai_fail_memory(error, "linear layer's products", sizeof *made);
  made->ladder = ladder;
  made->shape = *shape;
  made->scratch_bytes = most;
  made->next = engine->products;
  engine->products = made;
  *out = made;
  return OMMA_OK;
}

enum omma_status ommai_linear_find_products(struct ommai_linear_engine *engine, const struct ommai_onednn_shape *shape,
                                            const struct ommai_ladder *ladder, const struct ommai_ladder_products **out,
                                            struct omma_error *error) {
  struct ommai_ladder_products *products;
  OMMAI_TRY(ommai_linear_describe_products(engine, shape, ladder, &products, error));
  for (int step = 0; step < ladder->n_steps; step++) {
    struct ommai_onednn_shape with_rows = *shape;
    with_rows.n_rows = ladder->rows[step];
    if (products->steps[step]) continue;
    OMMAI_TRY(ommai_onednn_matmul_create(engine->onednn, &with_rows, &products->steps[step], error));
  }
  *out = products;
  return OMMA_OK;
}

enum omma_status ommai_linear_grow_scratch(struct ommai_linear_engine *engine, size_t size, struct omma_error *error) {
  for (int worker = 0; worker < engine->n_workers; worker++) {
    struct ommai_linear_scratch *scratch = &engine->scratch[worker];
    if (scratch->size >= size) continue;
    void *memory = ommai_allocate(&engine->allocator, size, 1);
    if (!memory) return ommai_fail_memory(error, "linear layers' scratch", size);
    ommai_release(&engine->allocator, scratch->memory, scratch->size, 1);
    *scratch = (struct ommai_linear_scratch){memory, size};
  }
  return OMMA_OK;
}

static size_t type_bytes(enum omma_dtype type) { return type == OMMA_F32 ? sizeof(float) : sizeof(ommai_bf16); }

/* The types in which oneDNN sees x and y. */
static enum omma_dtype product_x_type(const struct ommai_linear_op *op) {
  return op->expanded ? OMMA_F32 : op->linear->packed.x_type;
}

static enum omma_dtype product_y_type(const struct ommai_linear_op *op) { return op->expanded ? OMMA_F32 : op->form.y_type; }

/* Lays a worker's scratch out behind what the products take, and returns its size. Rows and columns are within OMMAI_LINEAR_MAX_*,
 * so nothing overflows. */
static size_t place_scratch(struct ommai_linear_op *op, size_t product_bytes) {
  size_t used = ommai_linear_align(product_bytes), rows = (size_t)op->ladder->rows[op->ladder->n_steps - 1];
  op->x_at = used;
  if (op->copy_x) used += ommai_linear_align(rows * (size_t)op->linear->packed.n_in * type_bytes(product_x_type(op)));
  op->y_at = used;
  if (op->copy_y) used += ommai_linear_align(rows * (size_t)op->n_columns * type_bytes(product_y_type(op)));
  return used;
}

static struct ommai_onednn_shape product_shape(const struct ommai_linear_op *op) {
  const struct ommai_few_rows_weights *packed = &op->linear->packed;
  return (struct ommai_onednn_shape){
      .n_in = packed->n_in,
      .n_out = op->n_columns,
      .layout = packed->layout,
      .y_type = product_y_type(op),
      .activation = op->form.activation,
      .bias = op->linear->has_bias,
      .accumulate = op->form.accumulate,
  };
}

/* What follows from the layer's sizes and the form alone. */
static void choose_columns(const struct ommai_linear_engine *engine, struct ommai_linear_op *op) {
  const struct ommai_few_rows_weights *packed = &op->linear->packed;
  op->ladder = op->form.n_panels > 0 ? &engine->part_ladders[packed->x_type] : &engine->ladders[packed->x_type];
  op->expanded = packed->x_type == OMMA_BF16 && packed->layout != OMMAI_WEIGHTS_BF16_PANELS;
  op->n_columns = packed->n_out;
  if (op->form.n_panels > 0) {
    op->first_column = op->form.first_panel * OMMAI_PANEL_COLUMNS;
    op->n_columns = ommai_min_i64(op->form.n_panels * OMMAI_PANEL_COLUMNS, packed->n_out - op->first_column);
  }
  op->copy_x = op->expanded || op->form.x_stride != packed->n_in;
  op->copy_y = op->form.y_type != product_y_type(op) || op->form.y_stride != op->n_columns;
}

/* Names the part of the weights that the form's outputs need to oneDNN. */
static enum omma_status name_operand(struct ommai_linear_engine *engine, struct ommai_linear_op *op, struct omma_error *error) {
  const struct ommai_linear *linear = op->linear;
  const struct ommai_few_rows_weights *packed = &linear->packed;
  op->operand = linear->operand;
  if (op->form.n_panels == 0) return OMMA_OK;
  size_t element = packed->layout == OMMAI_WEIGHTS_BF16_PANELS ? sizeof(ommai_bf16) : sizeof(float);
  int64_t at = op->form.first_panel * ommai_weights_panel_elements(packed->layout, packed->n_in);
  OMMAI_TRY(ommai_onednn_operand_create(engine->onednn, packed->layout, op->n_columns, packed->n_in,
                                        (char *)linear->weights + (size_t)at * element,
                                        linear->has_bias ? linear->bias + op->first_column : NULL, &op->own, error));
  op->operand = op->own;
  return OMMA_OK;
}

/* The products of the form, and room for them. */
static enum omma_status prepare(struct ommai_linear_engine *engine, struct ommai_linear_op *op, struct omma_error *error) {
  choose_columns(engine, op);
  OMMAI_TRY(name_operand(engine, op, error));
  struct ommai_onednn_shape shape = product_shape(op);
  OMMAI_TRY(ommai_linear_find_products(engine, &shape, op->ladder, &op->products, error));
  return ommai_linear_grow_scratch(engine, place_scratch(op, op->products->scratch_bytes), error);
}

enum omma_status ommai_linear_scratch_for(struct ommai_linear_engine *engine, const struct ommai_linear_sizes *sizes,
                                          const struct ommai_linear_form *form, size_t *bytes, struct omma_error *error) {
  struct ommai_linear linear = {.engine = engine, .has_bias = sizes->has_bias};
  struct ommai_linear_op op = {.engine = engine, .linear = &linear, .form = *form};
  struct ommai_ladder_products *products;
  linear.packed = (struct ommai_few_rows_weights){
      .n_out = sizes->n_out,
      .n_in = sizes->n_in,
      .x_type = sizes->compute,
      .layout = sizes->int8 ? OMMAI_WEIGHTS_S8_PANELS : engine->layouts[sizes->compute],
  };
  OMMAI_TRY(check_form(&linear, form, error));
  if (sizes->int8) return ommai_int8_op_scratch(engine, &linear.packed, bytes, error);
  choose_columns(engine, &op);
  struct ommai_onednn_shape shape = product_shape(&op);
  OMMAI_TRY(ommai_linear_describe_products(engine, &shape, op.ladder, &products, error));
  *bytes = place_scratch(&op, products->scratch_bytes);
  return OMMA_OK;
}

size_t ommai_linear_engine_scratch_bytes(const struct ommai_linear_engine *engine) {
  size_t bytes = 0;
  for (int worker = 0; worker < engine->n_workers; worker++) bytes += engine->scratch[worker].size;
  return bytes;
}

enum omma_status ommai_linear_op_create(struct ommai_linear_engine *engine, const struct ommai_linear *linear,
                                        const struct ommai_linear_form *form, struct ommai_linear_op **out,
                                        struct omma_error *error) {
  OMMAI_TRY(check_form(linear, form, error));
  struct ommai_linear_op *op = ommai_allocate(&engine->allocator, 1, sizeof *op);
  if (!op) return ommai_fail_memory(error, "linear layer's form", sizeof *op);
  enum omma_status status;
  op->engine = engine;
  op->linear = linear;
  op->form = *form;
  if (linear->packed.layout == OMMAI_WEIGHTS_S8_PANELS) {
    op->ladder = &ommai_int8_ladder;
    OMMAI_TRY_GOTO(ommai_int8_op_create(engine, linear, form, &op->int8, error), fail);
  } else {
    OMMAI_TRY_GOTO(prepare(engine, op, error), fail);
  }
  *out = op;
  return OMMA_OK;
fail:
  ommai_linear_op_destroy(op);
  return status;
}

void ommai_linear_op_destroy(struct ommai_linear_op *op) {
  if (!op) return;
  ommai_int8_op_destroy(op->int8);
  ommai_onednn_operand_destroy(op->own);
  ommai_release(&op->engine->allocator, op, 1, sizeof *op);
}

const char *ommai_linear_op_name(const struct ommai_linear_op *op) {
  if (op->int8) return ommai_int8_op_name(op->int8);
  return ommai_onednn_matmul_name(op->products->steps[op->ladder->n_steps - 1]);
}

/* Rows of n values, from one stride and type to another; only bf16 to f32 and back, or no change. */
static void copy_rows(const void *from, enum omma_dtype from_type, int64_t from_stride, void *to, enum omma_dtype to_type,
                      int64_t to_stride, int64_t n_rows, int64_t n) {
  for (int64_t row = 0; row < n_rows; row++) {
    const char *source = (const char *)from + (size_t)(row * from_stride) * type_bytes(from_type);
    char *target = (char *)to + (size_t)(row * to_stride) * type_bytes(to_type);
    if (from_type == to_type) {
      memcpy(target, source, (size_t)n * type_bytes(to_type));
    } else if (to_type == OMMA_F32) {
      for (int64_t i = 0; i < n; i++)
        ((float *)(void *)target)[i] = ommai_bf16_to_f32(((const ommai_bf16 *)(const void *)source)[i]);
    } else {
      for (int64_t i = 0; i < n; i++)
        ((ommai_bf16 *)(void *)target)[i] = ommai_bf16_from_f32(((const float *)(const void *)source)[i]);
    }
  }
}

/* n_rows rows, at most the ladder's last step. */
static enum omma_status run_step(const struct ommai_linear_op *op, const void *x, void *y, int64_t n_rows, int worker) {
  if (op->int8) return ommai_int8_op_run(op->int8, x, y, n_rows, worker);
  const struct ommai_few_rows_weights *packed = &op->linear->packed;
  const struct ommai_linear_form *form = &op->form;
  char *scratch = op->engine->scratch[worker].memory;
  void *product_x = scratch + op->x_at, *product_y = op->copy_y ? scratch + op->y_at : y;
  enum omma_dtype y_type = product_y_type(op);
  int step = 0;
  while (op->ladder->rows[step] < n_rows) step++;
  if (op->copy_x) {
    copy_rows(x, packed->x_type, form->x_stride, product_x, product_x_type(op), packed->n_in, n_rows, packed->n_in);
  }
  if (op->copy_y && form->accumulate) {
    copy_rows(y, form->y_type, form->y_stride, product_y, y_type, op->n_columns, n_rows, op->n_columns);
  }
  enum omma_status status =
      ommai_onednn_matmul_run(op->products->steps[step], op->operand, op->copy_x ? product_x : x, product_y, scratch, worker);
  if (status == OMMA_OK && op->copy_y) {
    copy_rows(product_y, y_type, op->n_columns, y, form->y_type, form->y_stride, n_rows, op->n_columns);
  }
  return status;
}

/* How many of n rows go into the next product: all where a step of the ladder is but little larger, else a step that they fill. */
static int64_t choose_rows(const struct ommai_ladder *ladder, int64_t n) {
  int64_t filled = 0;
  for (int step = 0; step < ladder->n_steps; step++) {
    int64_t rows = ladder->rows[step];
    if (rows >= n) return rows - n < ladder->rows[0] || filled == 0 ? n : filled;
    filled = rows;
  }
  return filled;
}

enum omma_status ommai_linear_run(const struct ommai_linear_op *op, const void *x, void *y, int64_t n_rows, int worker) {
  if (n_rows < 1 || n_rows > OMMAI_LINEAR_MAX_ROWS || worker < 0 || worker >= op->engine->n_workers) {
    return OMMA_ERROR_ARGUMENT;
  }
  size_t x_bytes = (size_t)op->form.x_stride * (op->linear->packed.x_type == OMMA_BF16 ? 2 : 4);
  size_t y_bytes = (size_t)op->form.y_stride * (op->form.y_type == OMMA_BF16 ? 2 : 4);
  char *first = (char *)y + (size_t)op->first_column * type_bytes(op->form.y_type);
  for (int64_t row = 0, count; row < n_rows; row += count) {
    count = choose_rows(op->ladder, n_rows - row);
    OMMAI_TRY(run_step(op, (const char *)x + (size_t)row * x_bytes, first + (size_t)row * y_bytes, count, worker));
  }
  return OMMA_OK;
}
