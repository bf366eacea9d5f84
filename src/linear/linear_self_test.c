#include "linear/linear_self_test.h"

#include <math.h>

#include "base/allocator.h"
#include "base/error.h"
#include "base/half.h"
#include "kernels/dtype.h"
#include "linear/linear.h"

/* Odd sizes, so that the padding inside the packed layout is met. */
enum { N_IN = 83, N_OUT = 71, N_ROWS = 3, TILE = OMMAI_LINEAR_MAX_ROWS };

/* Bounds of the errors: of sums that are exact in f32 but for the bias; and of N_IN products of
 * which the input is off by half of its step, at most 28/16 / 254, and the weight at most 1. */
static const double EXACT = 1e-5, ROUNDED = N_IN * (14.0 / 16 / 254);

struct data {
  float weight[N_OUT * N_IN], bias[N_OUT], x[TILE * N_IN], y[TILE * N_OUT];
  ommai_bf16 x_bf16[TILE * N_IN];
};

/* Small whole multiples of 1/16: exact in bf16, and their products' sums are exact in f32. */
static float pattern(int64_t i) { return (float)((i * 37 + 11) % 29 - 14) / 16.0f; }

static void fill(struct data *data) {
  for (int64_t i = 0; i < N_OUT * N_IN; i++) data->weight[i] = pattern(i);
  for (int64_t i = 0; i < N_OUT; i++) data->bias[i] = pattern(3 * i);
  for (int64_t i = 0; i < TILE * N_IN; i++) {
    data->x[i] = i < N_ROWS * N_IN ? pattern(7 * i + 5) : 0;
    data->x_bf16[i] = ommai_bf16_from_f32(data->x[i]);
  }
}

/* Of every weight: how far what was packed is off. */
static enum omma_status check_weights(const struct data *data, const struct ommai_linear *linear,
                                      const struct ommai_linear_format *format, struct omma_error *error) {
  for (int64_t i = 0; i < N_OUT * N_IN; i++) {
    double value = ommai_linear_weight(linear, i / N_IN, i % N_IN), expected = data->weight[i];
    if (fabs(value - expected) <= 14.0 / 16 * format->rounding + 1e-6) continue;
    return ommai_fail(error, OMMA_ERROR_INTERNAL, "linear layers: %s weights: expected %g, found %g", format->name, expected,
                      value);
  }
  return OMMA_OK;
}

static enum omma_status compare(const struct data *data, const struct ommai_linear *linear, const char *path, const char *type,
                                double bound, struct omma_error *error) {
  for (int64_t row = 0; row < N_ROWS; row++) {
    for (int64_t out = 0; out < N_OUT; out++) {
      double sum = data->bias[out];
      for (int64_t k = 0; k < N_IN; k++) sum += (double)ommai_linear_weight(linear, out, k) * data->x[row * N_IN + k];
      if (fabs(sum - data->y[row * N_OUT + out]) <= bound) continue;
      return ommai_fail(error, OMMA_ERROR_INTERNAL, "linear layers: %s in %s: row %d, output %d: expected %g, found %g", path,
                        type, (int)row, (int)out, sum, data->y[row * N_OUT + out]);
    }
  }
  return OMMA_OK;
}

static enum omma_status check_layer(struct ommai_linear_context *context, struct data *data,
                                    const struct ommai_linear_spec *spec, struct omma_error *error) {
  const struct ommai_linear_format *format = ommai_linear_format(spec->format);
  const struct ommai_linear_source source = {data->weight, OMMA_F32, N_OUT, data->bias, OMMA_F32, false, NULL, 0};
  const struct ommai_linear_call call = {.x_stride = N_IN, .y_stride = N_OUT, .y_type = OMMA_F32};
  const void *x = spec->compute == OMMA_F32 ? (const void *)data->x : data->x_bf16;
  const double bound = format->quantised ? ROUNDED : EXACT;
  struct ommai_linear *linear = NULL;
  struct ommai_linear_op *op = NULL;
  enum omma_status status;
  OMMAI_TRY_GOTO(ommai_linear_create(context, spec, &source, 1, NULL, &linear, error), done);
  OMMAI_TRY_GOTO(check_weights(data, linear, format, error), done);
  OMMAI_TRY_GOTO(ommai_linear_op_create(context, linear, &call, &op, error), done);
  OMMAI_TRY_GOTO(ommai_linear_run(op, x, data->y, N_ROWS, 0, error), done);
  OMMAI_TRY_GOTO(compare(data, linear, "tile of rows", format->name, bound, error), done);
  ommai_linear_gemv(linear, x, N_IN, N_ROWS, data->y, N_OUT, false, 0, ommai_linear_n_panels(linear));
  status = compare(data, linear, "few rows", format->name, bound, error);
done:
  ommai_linear_op_destroy(op);
  ommai_linear_destroy(linear);
  return status;
}

/* Every format in every type that it computes in. */
static enum omma_status check_formats(struct ommai_linear_context *context, struct data *data, struct omma_error *error) {
  static const enum omma_dtype types[] = {OMMA_F32, OMMA_BF16};
  for (enum ommai_weight_format format = 0; format < OMMAI_WEIGHT_FORMATS; format++) {
    const int64_t group = ommai_linear_format(format)->methods[0].group;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
      const struct ommai_linear_spec spec = {.n_out = N_OUT,
                                             .n_in = N_IN,
                                             .format = format,
                                             .compute = types[i],
                                             .group = group,
                                             .inputs = group ? OMMAI_INPUTS_SYMMETRIC : OMMAI_INPUTS_RANGE};
      if (ommai_linear_bytes_for(context, &spec) > 0) OMMAI_TRY(check_layer(context, data, &spec, error));
    }
  }
  return OMMA_OK;
}

enum omma_status ommai_linear_self_test(enum ommai_cpu_level level, struct omma_error *error) {
  struct ommai_linear_context *context = NULL;
  struct data *data = ommai_allocate(&ommai_default_allocator, 1, sizeof *data);
  enum omma_status status;
  if (!data) return ommai_fail_memory(error, "self-test", sizeof *data);
  fill(data);
  OMMAI_TRY_GOTO(ommai_linear_context_create(level, 1, &ommai_default_allocator, &context, error), done);
  status = check_formats(context, data, error);
done:
  ommai_linear_context_destroy(context);
  ommai_release(&ommai_default_allocator, data, 1, sizeof *data);
  return status;
}
