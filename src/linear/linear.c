#include "linear/linear.h"

#include "base/allocator.h"
#include "base/checked.h"
#include "base/error.h"
#include "linear/linear_objects.h"

/* Elements of the padded bias. */
static size_t bias_elements(int64_t n_out) { return (size_t)ommai_round_up(n_out, OMMAI_PANEL_COLUMNS); }

static size_t element_bytes(enum ommai_weight_layout layout) {
  if (layout == OMMAI_WEIGHTS_S8_PANELS) return sizeof(int8_t);
  return layout == OMMAI_WEIGHTS_BF16_PANELS ? sizeof(ommai_bf16) : sizeof(float);
}

static enum omma_status check_source(const struct ommai_linear_source *source, int i, int64_t *n_out,
                                     struct omma_error *error) {
  if (!source->weight || source->n_out < 1) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "sources", "linear layer: source %d has no weight or n_out %lld", i,
                            (long long)source->n_out);
  }
  if (source->type > OMMA_F16 || (source->bias && source->bias_type > OMMA_F16)) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "sources",
                            "linear layer: source %d: type %d, bias type %d: no such type", i, (int)source->type,
                            (int)source->bias_type);
  }
  if (source->n_out > OMMAI_LINEAR_MAX_SIZE - *n_out) {
    return ommai_fail_field(error, OMMA_ERROR_LIMIT, "n_out", "linear layer: more than %d outputs", OMMAI_LINEAR_MAX_SIZE);
  }
  *n_out += source->n_out;
  return OMMA_OK;
}

static enum omma_status check_sources(const struct ommai_linear_source *sources, int n_sources, int64_t n_in,
                                      enum omma_dtype compute, int64_t *n_out, struct omma_error *error) {
  if (compute != OMMA_F32 && compute != OMMA_BF16) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "compute", "linear layer: compute type %d, expected f32 or bf16",
                            (int)compute);
  }
  if (n_sources < 1 || n_in < 1) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "n_in", "linear layer: %d sources of %lld inputs, expected at least 1",
                            n_sources, (long long)n_in);
  }
  if (n_in > OMMAI_LINEAR_MAX_SIZE) {
    return ommai_fail_field(error, OMMA_ERROR_LIMIT, "n_in", "linear layer: %lld inputs, at most %d", (long long)n_in,
                            OMMAI_LINEAR_MAX_SIZE);
  }
  for (int i = 0; i < n_sources; i++) OMMAI_TRY(check_source(&sources[i], i, n_out, error));
  return OMMA_OK;
}

static enum omma_status allocate_packed(struct ommai_linear *linear, struct omma_error *error) {
  const struct ommai_few_rows_weights *packed = &linear->packed;
  size_t elements;
  if (!ommai_linear_packed_elements(packed->layout, packed->n_out, packed->n_in, &elements) ||
      !ommai_mul_size(elements, element_bytes(packed->layout), &linear->weight_bytes)) {
    linear->weight_bytes = 0;
    return ommai_fail(error, OMMA_ERROR_LIMIT, "linear layer: %lld x %lld is too large", (long long)packed->n_out,
                      (long long)packed->n_in);
  }
  const struct omma_allocator *allocator = &linear->engine->allocator;
  linear->weights = ommai_allocate_uninitialised(allocator, linear->weight_bytes, 1);
  if (!linear->weights) return ommai_fail_memory(error, "packed weights", linear->weight_bytes);
  ommai_linear_clear_padding(packed, linear->weights, linear->weight_bytes);
  linear->bias = ommai_allocate(allocator, bias_elements(packed->n_out), sizeof *linear->bias);
  if (!linear->bias) return ommai_fail_memory(error, "bias", bias_elements(packed->n_out) * sizeof *linear->bias);
  if (packed->layout != OMMAI_WEIGHTS_S8_PANELS) return OMMA_OK;
  linear->scales = ommai_allocate(allocator, bias_elements(packed->n_out), sizeof *linear->scales);
  linear->weight_sums = ommai_allocate(allocator, bias_elements(packed->n_out), sizeof *linear->weight_sums);
  if (linear->scales && linear->weight_sums) return OMMA_OK;
  return ommai_fail_memory(error, "scales", bias_elements(packed->n_out) * sizeof *linear->scales);
}

static void pack_source(struct ommai_linear *linear, const struct ommai_linear_source *source, int64_t row) {
  const struct ommai_few_rows_weights *packed = &linear->packed;
  const struct omma_team *team = linear->engine->packing_team;
  if (packed->layout == OMMAI_WEIGHTS_S8_PANELS) {
    ommai_linear_pack_int8(source, packed->n_in, row, team, linear->weights, linear->scales, linear->weight_sums, linear->bias);
  } else {
    ommai_linear_pack(source, packed->n_in, packed->x_type, packed->layout, row, team, linear->weights, linear->bias);
  }
  linear->has_bias |= source->bias != NULL;
}

/* After check_sources. */
static enum omma_status create(struct ommai_linear_engine *engine, const struct ommai_linear_source *sources, int n_sources,
                               struct ommai_few_rows_weights packed, struct ommai_linear **out, struct omma_error *error) {
  struct ommai_linear *linear = ommai_allocate(&engine->allocator, 1, sizeof *linear);
  if (!linear) return ommai_fail_memory(error, "linear layer", sizeof *linear);
  enum omma_status status;
  linear->engine = engine;
  linear->packed = packed;
  OMMAI_TRY_GOTO(allocate_packed(linear, error), fail);
  int64_t row = 0;
  for (int i = 0; i < n_sources; i++) {
    pack_source(linear, &sources[i], row);
    row += sources[i].n_out;
  }
  linear->packed.weights = linear->weights;
  linear->packed.bias = linear->bias;
  if (packed.layout != OMMAI_WEIGHTS_S8_PANELS) {
    OMMAI_TRY_GOTO(ommai_onednn_operand_create(engine->onednn, packed.layout, packed.n_out, packed.n_in, linear->weights,
                                               linear->has_bias ? linear->bias : NULL, &linear->operand, error),
                   fail);
  }
  *out = linear;
  return OMMA_OK;
fail:
  ommai_linear_destroy(linear);
  return status;
}

enum omma_status ommai_linear_create(struct ommai_linear_engine *engine, const struct ommai_linear_source *sources,
                                     int n_sources, int64_t n_in, enum omma_dtype compute, struct ommai_linear **out,
                                     struct omma_error *error) {
  struct ommai_few_rows_weights packed = {.n_in = n_in, .x_type = compute};
  OMMAI_TRY(check_sources(sources, n_sources, n_in, compute, &packed.n_out, error));
  packed.layout = engine->layouts[compute];
  return create(engine, sources, n_sources, packed, out, error);
}

enum omma_status ommai_linear_create_int8(struct ommai_linear_engine *engine, const struct ommai_linear_source *sources,
                                          int n_sources, int64_t n_in, enum omma_dtype compute, struct ommai_linear **out,
                                          struct omma_error *error) {
  struct ommai_few_rows_weights packed = {.n_in = n_in, .x_type = compute, .layout = OMMAI_WEIGHTS_S8_PANELS};
  if (!engine->has_int8) {
    return ommai_fail(error, OMMA_ERROR_UNSUPPORTED, "linear layer: int8 weights need a CPU level with VNNI, not %s",
                      ommai_cpu_level_name(engine->level));
  }
  OMMAI_TRY(check_sources(sources, n_sources, n_in, compute, &packed.n_out, error));
  if (n_in > OMMAI_LINEAR_MAX_INT8_INPUTS) {
    return ommai_fail_field(error, OMMA_ERROR_LIMIT, "n_in", "linear layer: %lld inputs, at most %d with int8 weights",
                            (long long)n_in, OMMAI_LINEAR_MAX_INT8_INPUTS);
  }
  return create(engine, sources, n_sources, packed, out, error);
}

void ommai_linear_destroy(struct ommai_linear *linear) {
  if (!linear) return;
  const struct omma_allocator *allocator = &linear->engine->allocator;
  ommai_onednn_operand_destroy(linear->operand);
  ommai_release(allocator, linear->weight_sums, bias_elements(linear->packed.n_out), sizeof *linear->weight_sums);
  ommai_release(allocator, linear->scales, bias_elements(linear->packed.n_out), sizeof *linear->scales);
  ommai_release(allocator, linear->bias, bias_elements(linear->packed.n_out), sizeof *linear->bias);
  ommai_release(allocator, linear->weights, linear->weight_bytes, 1);
  ommai_release(allocator, linear, 1, sizeof *linear);
}

int64_t ommai_linear_n_in(const struct ommai_linear *linear) { return linear->packed.n_in; }

int64_t ommai_linear_n_out(const struct ommai_linear *linear) { return linear->packed.n_out; }

enum omma_dtype ommai_linear_compute(const struct ommai_linear *linear) { return linear->packed.x_type; }

/* Of the vectors beside the weights. */
static size_t vector_bytes(enum ommai_weight_layout layout, int64_t n_out) {
  size_t each = layout == OMMAI_WEIGHTS_S8_PANELS ? 2 * sizeof(float) + sizeof(int32_t) : sizeof(float);
  return bias_elements(n_out) * each;
}

size_t ommai_linear_bytes(const struct ommai_linear *linear) {
  return linear->weight_bytes + vector_bytes(linear->packed.layout, linear->packed.n_out);
}

static size_t bytes_for(enum ommai_weight_layout layout, int64_t n_out, int64_t n_in) {
  size_t elements;
  if (!ommai_linear_packed_elements(layout, n_out, n_in, &elements)) return 0;
  return elements * element_bytes(layout) + vector_bytes(layout, n_out);
}

size_t ommai_linear_element_bytes(const struct ommai_linear_engine *engine, enum omma_dtype compute) {
  return element_bytes(engine->layouts[compute]);
}

size_t ommai_linear_bytes_for(const struct ommai_linear_engine *engine, int64_t n_out, int64_t n_in, enum omma_dtype compute) {
  if (compute != OMMA_F32 && compute != OMMA_BF16) return 0;
  return bytes_for(engine->layouts[compute], n_out, n_in);
}

size_t ommai_linear_bytes_for_int8(int64_t n_out, int64_t n_in) {
  return n_in > OMMAI_LINEAR_MAX_INT8_INPUTS ? 0 : bytes_for(OMMAI_WEIGHTS_S8_PANELS, n_out, n_in);
}

int64_t ommai_linear_n_panels(const struct ommai_linear *linear) {
  return ommai_div_up(linear->packed.n_out, OMMAI_PANEL_COLUMNS);
}

void ommai_linear_few_rows(const struct ommai_linear *linear, const void *x, int64_t x_stride, int64_t n_rows, float *y,
                           int64_t y_stride, bool accumulate, int64_t first_panel, int64_t n_panels) {
  ommai_few_rows_run(&linear->engine->few_rows, &linear->packed, x, x_stride, n_rows, y, y_stride, accumulate, first_panel,
                     n_panels);
}
