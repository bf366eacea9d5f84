#include "linear/linear.h"

#include "base/allocator.h"
#include "base/checked.h"
#include "base/error.h"
#include "linear/linear_objects.h"

/* Elements of the padded bias. */
static size_t bias_elements(int64_t n_out) { return (size_t)ommai_round_up(n_out, OMMAI_PANEL_COLUMNS); }

const struct ommai_linear_code *ommai_linear_code_for(const struct ommai_linear_context *context,
                                                      const struct ommai_linear_spec *spec) {
  return ommai_linear_format(spec->format)->code(context, spec);
}

enum omma_status ommai_linear_check(const struct ommai_linear_context *context, const struct ommai_linear_spec *spec,
                                    struct omma_error *error) {
  const struct ommai_linear_code *code = ommai_linear_code_for(context, spec);
  return code->check ? code->check(context, spec, error) : OMMA_OK;
}

static enum ommai_weight_layout layout_of(const struct ommai_linear_spec *spec) {
  return ommai_linear_format(spec->format)->layout;
}

struct ommai_linear ommai_linear_without_weights(const struct ommai_linear_context *context,
                                                 const struct ommai_linear_spec *spec) {
  return (struct ommai_linear){
      .context = context,
      .code = ommai_linear_code_for(context, spec),
      .spec = *spec,
      .packed = {.n_out = spec->n_out, .n_in = spec->n_in, .layout = layout_of(spec), .x_type = spec->compute},
  };
}

static enum omma_status check_source(const struct ommai_linear_source *source, int i, int64_t *n_out,
                                     struct omma_error *error) {
  if ((!source->weight && !source->stored) || source->n_out < 1) {
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

/* Checks, and fills in what of the layer follows from the sources. */
static enum omma_status check_sources(const struct ommai_linear_source *sources, int n_sources, struct ommai_linear_spec *spec,
                                      struct omma_error *error) {
  int64_t n_in = spec->n_in;
  spec->n_out = 0;
  spec->has_bias = false;
  if (spec->compute != OMMA_F32 && spec->compute != OMMA_BF16) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "compute", "linear layer: compute type %d, expected f32 or bf16",
                            (int)spec->compute);
  }
  if (n_sources < 1 || n_in < 1) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "n_in", "linear layer: %d sources of %lld inputs, expected at least 1",
                            n_sources, (long long)n_in);
  }
  if (n_in > OMMAI_LINEAR_MAX_SIZE) {
    return ommai_fail_field(error, OMMA_ERROR_LIMIT, "n_in", "linear layer: %lld inputs, at most %d", (long long)n_in,
                            OMMAI_LINEAR_MAX_SIZE);
  }
  for (int i = 0; i < n_sources; i++) {
    OMMAI_TRY(check_source(&sources[i], i, &spec->n_out, error));
    spec->has_bias |= sources[i].bias != NULL;
  }
  return OMMA_OK;
}

static enum omma_status allocate_packed(struct ommai_linear *linear, struct omma_error *error) {
  struct ommai_gemv_weights *packed = &linear->packed;
  if (!ommai_linear_packed_bytes(packed->layout, packed->n_out, packed->n_in, &linear->weight_bytes)) {
    linear->weight_bytes = 0;
    return ommai_fail(error, OMMA_ERROR_LIMIT, "linear layer: %lld x %lld is too large", (long long)packed->n_out,
                      (long long)packed->n_in);
  }
  const struct omma_allocator *allocator = &linear->context->allocator;
  packed->weights = linear->weights = ommai_allocate_uninitialised(allocator, linear->weight_bytes, 1);
  if (!linear->weights) return ommai_fail_memory(error, "packed weights", linear->weight_bytes);
  ommai_linear_clear_padding(packed, linear->weights, linear->weight_bytes);
  packed->bias = linear->bias = ommai_allocate(allocator, bias_elements(packed->n_out), sizeof *linear->bias);
  if (linear->bias) return OMMA_OK;
  return ommai_fail_memory(error, "bias", bias_elements(packed->n_out) * sizeof *linear->bias);
}

enum omma_status ommai_linear_create(struct ommai_linear_context *context, const struct ommai_linear_spec *wanted,
                                     const struct ommai_linear_source *sources, int n_sources, const struct omma_team *team,
                                     struct ommai_linear **out, struct omma_error *error) {
  struct ommai_linear_spec spec = *wanted;
  OMMAI_TRY(check_sources(sources, n_sources, &spec, error));
  OMMAI_TRY(ommai_linear_check(context, &spec, error));
  struct ommai_linear *linear = ommai_allocate(&context->allocator, 1, sizeof *linear);
  if (!linear) return ommai_fail_memory(error, "linear layer", sizeof *linear);
  enum omma_status status;
  *linear = ommai_linear_without_weights(context, &spec);
  OMMAI_TRY_GOTO(allocate_packed(linear, error), fail);
  OMMAI_TRY_GOTO(linear->code->pack(linear, sources, n_sources, team, error), fail);
  *out = linear;
  return OMMA_OK;
fail:
  ommai_linear_destroy(linear);
  return status;
}

void ommai_linear_destroy(struct ommai_linear *linear) {
  if (!linear) return;
  const struct omma_allocator *allocator = &linear->context->allocator;
  if (linear->code->release) linear->code->release(linear);
  ommai_release(allocator, linear->bias, bias_elements(linear->spec.n_out), sizeof *linear->bias);
  ommai_release(allocator, linear->weights, linear->weight_bytes, 1);
  ommai_release(allocator, linear, 1, sizeof *linear);
}

int64_t ommai_linear_n_in(const struct ommai_linear *linear) { return linear->spec.n_in; }

int64_t ommai_linear_n_out(const struct ommai_linear *linear) { return linear->spec.n_out; }

enum omma_dtype ommai_linear_compute(const struct ommai_linear *linear) { return linear->spec.compute; }

size_t ommai_linear_bytes(const struct ommai_linear *linear) { return ommai_linear_bytes_for(linear->context, &linear->spec); }

size_t ommai_linear_bytes_for(const struct ommai_linear_context *context, const struct ommai_linear_spec *spec) {
  const struct ommai_linear_code *code = ommai_linear_code_for(context, spec);
  struct omma_error ignored;
  size_t bytes;
  if (ommai_linear_check(context, spec, &ignored) != OMMA_OK) return 0;
  if (!ommai_linear_packed_bytes(layout_of(spec), spec->n_out, spec->n_in, &bytes)) return 0;
  return bytes + bias_elements(spec->n_out) * sizeof(float) + (code->more_bytes ? code->more_bytes(spec) : 0);
}

int64_t ommai_linear_read_bytes(const struct ommai_linear_spec *spec) {
  const struct ommai_linear_format *format = ommai_linear_format(spec->format);
  int64_t bytes = spec->n_out * spec->n_in * ommai_weights_bits(format->layout) / 8;
  return format->scale_bytes ? bytes + spec->n_out * format->scale_bytes(spec) : bytes;
}

float ommai_linear_weight(const struct ommai_linear *linear, int64_t output, int64_t input) {
  return linear->code->weight(linear, output, input);
}

int64_t ommai_linear_n_panels(const struct ommai_linear *linear) {
  return ommai_div_up(linear->spec.n_out, OMMAI_PANEL_COLUMNS);
}

/* A task is that many bytes of weights: handing it out then costs little compared with reading
 * them, and all workers end soon after each other. Panels that are passed over side by side are of
 * one task, unless a worker has too few such tasks. */
int64_t ommai_linear_task_panels(const struct ommai_linear *linear, int n_pieces, int64_t n_panels, int n_workers) {
  enum { TASK_BYTES = 256 * 1024, TASKS = 2 /* of a worker */ };
  int64_t panel_bytes = ommai_max_i64((int64_t)ommai_linear_bytes(linear) / ommai_linear_n_panels(linear), 1);
  bool side_by_side = linear->code->side_by_side && linear->code->side_by_side(linear) &&
                      n_panels >= (int64_t)n_workers * TASKS * OMMAI_GEMV_PANELS;
  int64_t panels = ommai_max_i64(ommai_div_up(TASK_BYTES, panel_bytes) / n_pieces, 1);
  return side_by_side ? ommai_round_up(panels, OMMAI_GEMV_PANELS) : panels;
}

void ommai_linear_gemv(const struct ommai_linear *linear, const void *x, int64_t x_stride, int64_t n_rows, float *y,
                       int64_t y_stride, bool accumulate, int64_t first_panel, int64_t n_panels) {
  linear->code->gemv(linear, x, x_stride, n_rows, y, y_stride, accumulate, first_panel, n_panels);
}

bool ommai_linear_dense_side_by_side(const struct ommai_linear *linear) {
  return ommai_gemv_side_by_side(linear->context->gemv, &linear->packed);
}

void ommai_linear_dense_gemv(const struct ommai_linear *linear, const void *x, int64_t x_stride, int64_t n_rows, float *y,
                             int64_t y_stride, bool accumulate, int64_t first_panel, int64_t n_panels) {
  ommai_gemv_run(linear->context->gemv, &linear->packed, x, x_stride, n_rows, y, y_stride, accumulate, first_panel, n_panels);
}
