/* What every weight format promises, at the level of OMMA_ISA: its table agrees with itself, packed
 * weights are near the given ones, sizes are known before there are weights, and tiles, parts, few
 * rows and prepared rows compute one layer. A new format is tested without a line here. */
#include <math.h>
#include <stdlib.h>

#include "base/allocator.h"
#include "base/checked.h"
#include "base/half.h"
#include "linear/linear_parts.h"
#include "support/linear_fixture.h"
#include "support/test.h"

enum { N_IN = 203, N_OUT = 700, ROWS = 9 };

static struct ommai_linear_context *linear_context;
static float weights[N_OUT * N_IN], bias[N_OUT], x[ROWS * N_IN];

static void names_lead_to_their_formats(void **state) {
  (void)state;
  struct omma_quantization_method method, other;
  enum ommai_weight_format format;
  int n_made = 0, n = 0;
  for (; omma_quantization_method(n, &method); n++) {
    for (int i = 0; i < n; i++) assert_true(omma_quantization_method(i, &other) && strcmp(other.name, method.name) != 0);
    if (!method.format) continue;
    const struct ommai_format_method *made = ommai_format_method(n_made++, &format);
    assert_string_equal(made->name, method.name);
    assert_string_equal(ommai_linear_format(format)->name, method.format);
    assert_true(ommai_linear_format(format)->quantised && method.packing_share > 0);
  }
  assert_true(n_made > 0 && n > n_made && !ommai_format_method(n_made, &format));
  assert_false(omma_quantization_method(-1, &method));
  for (format = 0; format < OMMAI_WEIGHT_FORMATS; format++) {
    const struct ommai_linear_format *table = ommai_linear_format(format);
    for (enum ommai_weight_format i = 0; i < format; i++) assert_string_not_equal(ommai_linear_format(i)->name, table->name);
    if (table->methods[0].name) assert_string_equal(table->methods[0].name, table->name);
    /* only what can be asked for is made of dense weights */
    assert_true((table->quantised && table->methods[0].name) == (table->rounding > 0) && table->part_panels > 0);
    assert_true(ommai_weights_bits(ommai_linear_format(table->finer)->layout) >= ommai_weights_bits(table->layout));
  }
}

/* Weights off by no more than the table states; the largest error is some part of that. */
static void check_weights(const struct ommai_linear *linear, const struct ommai_linear_format *format, int64_t group) {
  double largest = 0;
  for (int64_t n = 0; n < N_OUT; n++) {
    for (int64_t first = 0; first < N_IN; first += group) {
      double max = 0, off = 0;
      for (int64_t k = first; k < first + group && k < N_IN; k++) {
        max = fmax(max, fabs((double)weights[n * N_IN + k]));
        off = fmax(off, fabs((double)ommai_linear_weight(linear, n, k) - (double)weights[n * N_IN + k]));
      }
      largest = fmax(largest, off / max);
    }
  }
  if (largest > format->rounding * 1.0001) fail_msg("%s: a weight is off by %g", format->name, largest);
  if (largest < format->rounding / 4) fail_msg("%s: no weight is off by more than %g", format->name, largest);
}

static void same(const float *a, const float *b, const char *format, const char *path) {
  for (int64_t i = 0; i < ROWS * N_OUT; i++) {
    if (memcmp(&a[i], &b[i], sizeof *a) != 0) fail_msg("%s, %s: value %d: %g, %g", format, path, (int)i, a[i], b[i]);
  }
}

/* Results against double over the packed weights. */
static void check_values(const struct ommai_linear_spec *spec, const struct ommai_linear *linear, const void *rows,
                         const float *y, const char *path) {
  const double step = ommai_linear_format(spec->format)->quantised ? 1.0 / 254 : 0x1p-23 * N_IN;
  for (int64_t i = 0; i < ROWS * N_OUT; i++) {
    double sum = bias[i % N_OUT], terms = 0, max = 0;
    for (int64_t k = 0; k < N_IN; k++) {
      double input = fixture_get(rows, i / N_OUT * N_IN + k, spec->compute), weight = ommai_linear_weight(linear, i % N_OUT, k);
      sum += input * weight;
      terms += fabs(weight);
      max = fmax(max, fabs(input));
    }
    if (!(fabs(sum - y[i]) <= step * max * terms + 1e-4)) {
      fail_msg("%s, %s: value %d: %g, expected %g", ommai_linear_format(spec->format)->name, path, (int)i, y[i], sum);
    }
  }
}

/* Each way to compute the layer, against double and against the tile. */
static void check_paths(const struct ommai_linear_spec *spec, const struct ommai_linear *linear, const void *rows) {
  static float y[128 * N_OUT], other[256 * N_OUT];
  const char *name = ommai_linear_format(spec->format)->name;
  const struct ommai_linear_call call = {.x_stride = N_IN, .y_stride = N_OUT, .y_type = OMMA_F32};
  struct ommai_linear_parts *parts;
  struct ommai_linear_op *op;
  struct omma_error error;
  assert_ok(ommai_linear_op_create(linear_context, linear, &call, &op, &error), &error);
  assert_ok(ommai_linear_parts_create(linear_context, linear, &call, &parts, &error), &error);
  assert_int_equal(ommai_linear_run(op, rows, y, ROWS, 0, NULL), OMMA_OK);
  check_values(spec, linear, rows, y, "tile");
  for (int64_t part = 0; part < ommai_linear_parts_count(parts); part++) {
    assert_int_equal(
        ommai_linear_parts_run(parts, part, &(struct ommai_linear_rows){.x = rows, .x_stride = N_IN}, 0, other, ROWS, 0, NULL),
        OMMA_OK);
  }
  same(y, other, name, "parts");
  ommai_linear_gemv(linear, rows, N_IN, ROWS, other, N_OUT, false, 0, ommai_linear_n_panels(linear));
  check_values(spec, linear, rows, other, "few rows");
  same(y, other, name, "few rows");
  size_t row_bytes = ommai_linear_prepared_row_bytes(linear_context, spec);
  size_t gemv_bytes = ommai_linear_gemv_row_bytes(linear_context, spec);
  assert_true(gemv_bytes == (ommai_linear_gemv_prepares_rows(linear) ? row_bytes : 0));
  size_t places = (size_t)ommai_round_up(ROWS, OMMAI_LINEAR_PREPARED_ROWS);
  void *memory = row_bytes ? aligned_alloc(64, places * row_bytes) : NULL;
  const struct ommai_linear_rows prepared = ommai_linear_rows_place(linear, rows, N_IN, ROWS, memory);
  for (int64_t row = 0; row < ROWS; row += 3) {
    ommai_linear_prepare_rows(linear, &prepared, row, ommai_min_i64(3, ROWS - row));
  }
  for (int64_t part = 0; part < ommai_linear_parts_count(parts); part++) {
    assert_int_equal(ommai_linear_parts_run(parts, part, &prepared, 0, other, ROWS, 0, NULL), OMMA_OK);
  }
  same(y, other, name, "parts of prepared rows");
  ommai_linear_few_prepared_rows(linear, &prepared, 0, ROWS, other, N_OUT, false, 0, ommai_linear_n_panels(linear));
  same(y, other, name, "few prepared rows");
  free(memory);
  ommai_linear_parts_destroy(parts);
  ommai_linear_op_destroy(op);
}

static void check_layer(struct ommai_linear_spec spec) {
  const struct ommai_linear_source source = {.weight = weights, .n_out = N_OUT, .bias = bias};
  const struct ommai_linear_format *format = ommai_linear_format(spec.format);
  ommai_bf16 narrow[ROWS * N_IN];
  struct ommai_linear *linear;
  struct omma_error error;
  size_t bytes = ommai_linear_bytes_for(linear_context, &spec);
  if (bytes == 0) return; /* does not compute in this type */
  assert_ok(ommai_linear_create(linear_context, &spec, &source, 1, NULL, &linear, &error), &error);
  assert_true(ommai_linear_bytes(linear) == bytes);
  assert_in_range(ommai_linear_read_bytes(&spec), (size_t)(N_OUT * N_IN * ommai_weights_bits(format->layout) / 8), bytes);
  check_weights(linear, format, spec.group ? spec.group : N_IN);
  for (int64_t i = 0; i < ROWS * N_IN; i++) narrow[i] = ommai_bf16_from_f32(x[i]);
  check_paths(&spec, linear, spec.compute == OMMA_BF16 ? (const void *)narrow : x);
  ommai_linear_destroy(linear);
}

static void formats_keep_their_promises(void **state) {
  (void)state;
  struct test_random random = {1};
  for (int64_t i = 0; i < N_OUT * N_IN; i++) weights[i] = ommai_bf16_to_f32(ommai_bf16_from_f32(test_random_normal(&random)));
  for (int64_t i = 0; i < N_OUT; i++) bias[i] = test_random_normal(&random);
  for (int64_t i = 0; i < ROWS * N_IN; i++) x[i] = test_random_normal(&random);
  for (enum ommai_weight_format format = 0; format < OMMAI_WEIGHT_FORMATS; format++) {
    const struct ommai_format_method *methods = ommai_linear_format(format)->methods;
    /* of stored integers only */
    if (ommai_linear_format(format)->quantised && !methods[0].name) continue;
    for (int i = 0; i == 0 || methods[i].name; i++) {
      struct ommai_linear_spec spec = {
          .n_out = N_OUT, .n_in = N_IN, .format = format, .group = methods[i].group, .inputs = OMMAI_INPUTS_SYMMETRIC};
      for (spec.compute = OMMA_F32; spec.compute <= OMMA_BF16; spec.compute++) check_layer(spec);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(names_lead_to_their_formats),
      cmocka_unit_test(formats_keep_their_promises),
  };
  enum ommai_cpu_level level;
  struct omma_error error;
  if (ommai_cpu_select(NULL, &level, &error) != OMMA_OK) return 1;
  if (ommai_linear_context_create(level, 2, &ommai_default_allocator, &linear_context, &error) != OMMA_OK) return 1;
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  ommai_linear_context_destroy(linear_context);
  return failed;
}
