/* Linear layers with int8, int6 and int4 weights and symmetric inputs, at every CPU level of the
 * machine. The expected bits are worked out by the definition (kernels/integer_panel.h) from
 * integers that the test knows: of stored sources its own, of dense ones those that stand in for
 * them. All levels are held to the same bits. */
#include <math.h>
#include <stdlib.h>

#include "base/allocator.h"
#include "base/half.h"
#include "linear/linear_objects.h"
#include "linear/linear_parts.h"
#include "support/linear_fixture.h"
#include "support/test.h"

enum { ROWS = OMMAI_LINEAR_MAX_ROWS, X_GAP = 3, Y_GAP = 5, MAX_IN = 1176 };

static enum ommai_cpu_level level;
static struct ommai_linear_context *linear_context;
static struct test_allocator allocator;

/* A matrix of integers as a file may have it. */
struct stored {
  int64_t n_out, n_in, group;
  int bits, zero;
  bool has_minimums;
  int8_t *q;                /* [n_out][n_in] */
  float *scales, *minimums; /* [n_out][n_in / group] */
  int64_t shared;           /* inputs whose scales have factors in common, 0, or HALVES */
};
enum { HALVES = -1 }; /* scales and minimums are f16 */

/* Multiples of a float of few bits, of the group's shared inputs. */
static struct ommai_scale_factors factors_of(const struct stored *s, int64_t output, int64_t group) {
  int64_t common = group * s->group / s->shared;
  return (struct ommai_scale_factors){.scale = 0x1p-12f * (float)(901 + 37 * (output % 29) + common),
                                      .minimum = 0x1p-11f * (float)(700 + 11 * (output % 31) + common),
                                      .scale_code = (int8_t)((output * 7 + group * 13) % 256 - 128),
                                      .minimum_code = (int8_t)((output * 5 + group * 3) % 64)};
}

static void stored_factors(const void *context, int64_t output, int64_t group, struct ommai_scale_factors *out) {
  *out = factors_of(context, output, group);
}

static void stored_integers(const void *context, int64_t output, int64_t group, int8_t *q, float *scale, float *minimum) {
  const struct stored *s = context;
  int64_t at = output * (s->n_in / s->group) + group;
  memcpy(q, s->q + output * s->n_in + group * s->group, (size_t)s->group);
  *scale = s->scales[at];
  if (s->has_minimums) *minimum = s->minimums[at];
}

static void stored_values(const void *context, int64_t output, int64_t first, int64_t n, float *out) {
  const struct stored *s = context;
  for (int64_t i = 0; i < n; i++) {
    int64_t at = output * (s->n_in / s->group) + (first + i) / s->group;
    out[i] = s->scales[at] * (float)(s->q[output * s->n_in + first + i] - s->zero) - (s->has_minimums ? s->minimums[at] : 0);
  }
}

static struct stored stored_make(int bits, int64_t n_out, int64_t n_in, int64_t group, bool has_minimums, int64_t shared) {
  struct test_random random = {(uint64_t)(n_in * 31 + n_out + group + bits)};
  int64_t n_scales = n_out * (n_in / group);
  int zero = bits < 8 && !has_minimums ? 1 << (bits - 1) : 0;
  struct stored s = {n_out, n_in, group, bits, zero, has_minimums, NULL, NULL, NULL, shared};
  s.q = malloc((size_t)(n_out * n_in));
  s.scales = malloc((size_t)n_scales * sizeof(float));
  s.minimums = malloc((size_t)n_scales * sizeof(float));
  for (int64_t i = 0; i < n_out * n_in; i++) {
    s.q[i] = (int8_t)(bits < 8 ? test_random_range(&random, 0, (1 << bits) - 1) : test_random_range(&random, 0, 255) - 128);
  }
  for (int64_t i = 0; i < n_scales; i++) {
    s.scales[i] = 0.1f * test_random_normal(&random);
    s.minimums[i] = 0.3f * test_random_normal(&random);
  }
  for (int64_t i = 0; shared == HALVES && i < n_scales; i++) {
    s.scales[i] = ommai_f16_to_f32(ommai_f16_from_f32(s.scales[i]));
    s.minimums[i] = ommai_f16_to_f32(ommai_f16_from_f32(s.minimums[i]));
  }
  for (int64_t i = 0; shared > 0 && i < n_scales; i++) {
    const struct ommai_scale_factors factors = factors_of(&s, i / (n_in / group), i % (n_in / group));
    s.scales[i] = factors.scale * (float)factors.scale_code;
    s.minimums[i] = factors.minimum * (float)factors.minimum_code;
  }
  return s;
}

static void stored_free(struct stored *s) {
  free(s->q);
  free(s->scales);
  free(s->minimums);
}

static struct ommai_stored_matrix matrix_of(const struct stored *s) {
  return (struct ommai_stored_matrix){.context = s,
                                      .values = stored_values,
                                      .bits = s->bits,
                                      .group = s->group,
                                      .has_minimums = s->has_minimums,
                                      .zero = s->zero,
                                      .integers = stored_integers,
                                      .shared = s->shared == HALVES ? 0 : s->shared,
                                      .factors = stored_factors,
                                      .has_half_scales = s->shared == HALVES};
}

/* A layer over one stored matrix and its inputs, with gaps after each row. */
struct problem {
  struct stored stored;
  struct ommai_stored_matrix matrix;
  struct ommai_linear_spec spec;
  struct ommai_linear *linear;
  float *bias;
  void *x;  /* [ROWS][n_in + X_GAP] of the compute type */
  float *y; /* [ROWS][n_out], expected */
};

/* The integers of a row of inputs, and their scale. */
static float quantise_row(const struct problem *p, int64_t row, int32_t *x) {
  int64_t n_in = p->stored.n_in, stride = n_in + X_GAP;
  float max_abs = 0;
  for (int64_t k = 0; k < n_in; k++) max_abs = fmaxf(max_abs, fabsf(fixture_get(p->x, row * stride + k, p->spec.compute)));
  float inverse = max_abs > 0 ? 127.0f / max_abs : 0.0f;
  for (int64_t k = 0; k < n_in; k++) x[k] = (int32_t)rintf(fixture_get(p->x, row * stride + k, p->spec.compute) * inverse);
  return max_abs / 127.0f;
}

/* sum of x[k] q[k], exact: 127 * 255 * MAX_IN is below 2^31. A third of the time under sanitizers,
 * were it not without them; both arrays are the test's own. */
__attribute__((no_sanitize("address", "undefined"))) static int32_t integer_sum(const int32_t *x, const int8_t *q, int64_t n) {
  int32_t sum = 0;
  for (int64_t k = 0; k < n; k++) sum += x[k] * q[k];
  return sum;
}

/* The definition, in integers where it is exact, and one rounding after another where it rounds. */
static float expected_output(const struct problem *p, const int32_t *x, const int32_t *x_sums, float scale, int64_t out) {
  const struct stored *s = &p->stored;
  float sum = 0;
  int64_t group = p->spec.group ? p->spec.group : s->n_in;
  for (int64_t first = 0; first < s->n_in; first += group) {
    int64_t end = first + group < s->n_in ? first + group : s->n_in, at = out * (s->n_in / s->group) + first / s->group;
    int32_t acc = integer_sum(x + first, s->q + out * s->n_in + first, end - first);
    sum = fmaf((float)(acc - s->zero * x_sums[first / group]), s->scales[at], sum);
    if (s->has_minimums) sum = fmaf(-s->minimums[at], (float)x_sums[first / group], sum);
  }
  float product = sum * scale;
  return product + (p->bias ? p->bias[out] : 0.0f);
}

static void expected_row(struct problem *p, int64_t row) {
  int32_t x[MAX_IN], x_sums[MAX_IN] = {0};
  int64_t n_in = p->stored.n_in, n_out = p->stored.n_out, group = p->spec.group ? p->spec.group : n_in;
  float scale = quantise_row(p, row, x);
  for (int64_t k = 0; k < n_in; k++) x_sums[k / group] += x[k];
  for (int64_t out = 0; out < n_out; out++) p->y[row * n_out + out] = expected_output(p, x, x_sums, scale, out);
}

static void problem_make(struct problem *p, int bits, int64_t n_out, int64_t n_in, int64_t group, bool has_minimums,
                         int64_t shared, enum omma_dtype compute) {
  struct test_random random = {(uint64_t)(n_in + n_out)};
  struct omma_error error;
  *p = (struct problem){.stored = stored_make(bits, n_out, n_in, group, has_minimums, shared)};
  p->matrix = matrix_of(&p->stored);
  p->spec = (struct ommai_linear_spec){.n_in = n_in, .compute = compute};
  p->bias = malloc((size_t)n_out * sizeof *p->bias);
  for (int64_t i = 0; i < n_out; i++) p->bias[i] = test_random_normal(&random);
  const struct ommai_linear_source source = {.n_out = n_out, .bias = p->bias, .stored = &p->matrix};
  assert_true(ommai_linear_spec_for_stored(linear_context, &source, 1, &p->spec));
  assert_ok(ommai_linear_create(linear_context, &p->spec, &source, 1, NULL, &p->linear, &error), &error);
  p->spec.n_out = n_out;
  assert_int_equal(ommai_linear_bytes(p->linear), ommai_linear_bytes_for(linear_context, &p->spec));
  p->x = calloc((size_t)(ROWS * (n_in + X_GAP)), sizeof(float));
  p->y = calloc((size_t)(ROWS * n_out), sizeof(float));
  for (int64_t i = 0; i < ROWS * (n_in + X_GAP); i++) {
    fixture_put(p->x, i, i % (n_in + X_GAP) >= n_in ? NAN : test_random_normal(&random), compute);
  }
  for (int64_t k = 0; k < n_in; k++) fixture_put(p->x, 5 * (n_in + X_GAP) + k, 0.0f, compute);
  for (int64_t row = 0; row < ROWS; row++) expected_row(p, row);
}

static void problem_free(struct problem *p) {
  ommai_linear_destroy(p->linear);
  stored_free(&p->stored);
  free(p->bias);
  free(p->x);
  free(p->y);
}

static void same_rows(const struct problem *p, const char *what, const float *y, int64_t stride, int64_t first,
                      int64_t n_rows) {
  for (int64_t row = 0; row < n_rows; row++) {
    for (int64_t out = 0; out < p->stored.n_out; out++) {
      float found = y[row * stride + out], expected = p->y[(first + row) % ROWS * p->stored.n_out + out];
      if (found == expected) continue;
      fail_msg("%s: int%d %lld x %lld, group %lld, minimums %d: row %lld of %lld, output %lld: %.9g, expected %.9g", what,
               p->stored.bits, (long long)p->stored.n_out, (long long)p->stored.n_in, (long long)p->spec.group,
               p->stored.has_minimums, (long long)row, (long long)n_rows, (long long)out, (double)found, (double)expected);
    }
  }
}

/* Rows first .. of the inputs, at an address of their own so that a sanitizer sees what is read
 * beyond them. */
static void *rows_from(const struct problem *p, int64_t first, int64_t n_rows) {
  size_t row_bytes = (size_t)(p->stored.n_in + X_GAP) * (p->spec.compute == OMMA_BF16 ? 2 : 4);
  char *x = malloc((size_t)n_rows * row_bytes);
  for (int64_t r = 0; r < n_rows; r++) {
    memcpy(x + (size_t)r * row_bytes, (char *)p->x + (size_t)((first + r) % ROWS) * row_bytes, row_bytes);
  }
  return x;
}

/* Prepared in two calls, in memory of just the size that is asked for. */
struct prepared {
  struct ommai_linear_rows rows;
  void *memory;
};

static struct prepared prepare(const struct problem *p, const void *x, int64_t n_rows) {
  size_t row_bytes = ommai_linear_prepared_row_bytes(linear_context, &p->spec);
  assert_true(row_bytes > 0 && row_bytes % 64 == 0 && ommai_linear_prepares_rows(p->linear));
  struct prepared made = {.memory = aligned_alloc(64, (size_t)n_rows * row_bytes)};
  memset(made.memory, 0xff, (size_t)n_rows * row_bytes);
  made.rows = ommai_linear_rows_place(p->linear, x, p->stored.n_in + X_GAP, n_rows, made.memory);
  ommai_linear_prepare_rows(p->linear, &made.rows, n_rows / 2, n_rows - n_rows / 2);
  ommai_linear_prepare_rows(p->linear, &made.rows, 0, n_rows / 2);
  return made;
}

static void check_gemv(const struct problem *p, int64_t n_rows) {
  int64_t n_out = p->stored.n_out, stride = n_out + Y_GAP, first = n_rows * 7 % ROWS;
  int64_t n_panels = ommai_linear_n_panels(p->linear);
  void *x = rows_from(p, first, n_rows);
  const struct prepared prepared = prepare(p, x, n_rows);
  float *y = calloc((size_t)(n_rows * stride), sizeof *y);
  for (int64_t panel = 0; panel < n_panels; panel++) {
    ommai_linear_gemv(p->linear, x, p->stored.n_in + X_GAP, n_rows, y, stride, false, panel, 1);
  }
  same_rows(p, "few rows", y, stride, first, n_rows);
  for (int64_t i = 0; i < n_rows * stride; i++) {
    if (i % stride >= n_out) assert_true(y[i] == 0.0f);
    y[i] = 0.0f;
  }
  ommai_linear_gemv(p->linear, x, p->stored.n_in + X_GAP, n_rows, y, stride, true, 0, n_panels);
  same_rows(p, "few rows, added", y, stride, first, n_rows);
  for (int64_t row = n_rows - 1; row >= 0; row -= 2) {
    int64_t from = row > 0 ? row - 1 : 0;
    int64_t n = row - from + 1;
    ommai_linear_few_prepared_rows(p->linear, &prepared.rows, from, n, y + from * stride, stride, false, 0, n_panels);
  }
  same_rows(p, "prepared rows", y, stride, first, n_rows);
  memset(y, 0, (size_t)(n_rows * stride) * sizeof *y);
  ommai_linear_few_prepared_rows(p->linear, &prepared.rows, 0, n_rows, y, stride, true, 0, n_panels);
  same_rows(p, "prepared rows, added", y, stride, first, n_rows);
  free(prepared.memory);
  free(x);
  free(y);
}

static void check_tile(const struct problem *p, const struct ommai_linear_op *op, const struct ommai_linear_parts *parts,
                       int64_t n_rows) {
  int64_t stride = p->stored.n_out + Y_GAP, first = n_rows * 5 % ROWS, n_parts = ommai_linear_parts_count(parts);
  void *x = rows_from(p, first, n_rows);
  const struct ommai_linear_rows raw = {.x = x, .x_stride = p->stored.n_in + X_GAP};
  const struct prepared prepared = prepare(p, x, n_rows);
  float *y = calloc((size_t)(n_rows * stride), sizeof *y);
  assert_int_equal(ommai_linear_run(op, x, y, n_rows, (int)(n_rows % 2), NULL), OMMA_OK);
  same_rows(p, "tile", y, stride, first, n_rows);
  memset(y, 0, (size_t)(n_rows * stride) * sizeof *y);
  for (int64_t part = 0; part < n_parts; part++) {
    assert_int_equal(ommai_linear_parts_run(parts, part, &raw, 0, y, n_rows, 0, NULL), OMMA_OK);
  }
  same_rows(p, "parts", y, stride, first, n_rows);
  memset(y, 0, (size_t)(n_rows * stride) * sizeof *y);
  for (int64_t part = 0; part < 2 * n_parts; part++) {
    int64_t half = n_rows / 2, from = part % 2 ? 0 : half, n = part % 2 ? half : n_rows - half;
    assert_int_equal(ommai_linear_parts_run(parts, part / 2, &prepared.rows, from, y + from * stride, n, (int)(part % 2), NULL),
                     OMMA_OK);
  }
  same_rows(p, "parts of prepared rows", y, stride, first, n_rows);
  free(prepared.memory);
  free(x);
  free(y);
}

static void check_problem(const struct problem *p) {
  struct ommai_linear_call call = {.x_stride = p->stored.n_in + X_GAP, .y_stride = p->stored.n_out + Y_GAP, .y_type = OMMA_F32};
  struct omma_error error;
  struct ommai_linear_op *op;
  struct ommai_linear_parts *parts;
  size_t bytes;
  assert_ok(ommai_linear_op_create(linear_context, p->linear, &call, &op, &error), &error);
  assert_ok(ommai_linear_parts_create(linear_context, p->linear, &call, &parts, &error), &error);
  assert_ok(ommai_linear_scratch_for(linear_context, &p->spec, &call, &bytes, &error), &error);
  assert_true(2 * bytes <= ommai_linear_context_scratch_bytes(linear_context));
  /* the scalar code takes a row after the other */
  const bool singly = level == OMMAI_CPU_SCALAR && test_small();
  const int64_t most = singly ? 21 : ROWS;
  for (int64_t n = 1; n <= 21; n += singly ? n + 1 : n < 9 ? 1 : 4) check_gemv(p, n);
  for (int64_t n = 1; n < most; n = singly ? n + 9 : n < 17 ? n + 3 : n + 37) check_tile(p, op, parts, n);
  check_tile(p, op, parts, most);
  ommai_linear_parts_destroy(parts);
  ommai_linear_op_destroy(op);
}

/* Integers of 6 bits are kept so where there are kernels, else in 8. */
static enum ommai_weight_format kept_format(int bits) {
  if (bits == 6 && linear_context->integer->u6) return OMMAI_FORMAT_INT6;
  return bits == 4 ? OMMAI_FORMAT_INT4 : OMMAI_FORMAT_INT8;
}

/* {n_out, n_in, group of the source} */
static const int64_t shapes[][3] = {{65, 1152, 128}, {130, 192, 64},  {96, 96, 32},     {17, 48, 16}, {1, 16, 16},
                                    {64, 80, 80},    {130, 512, 256}, {70, 1176, 1176}, {33, 37, 37}, {3, 1, 1}};
#define N_SHAPES ((int)(sizeof shapes / sizeof shapes[0]))

static void stored_integers_give_the_defined_bits(void **state) {
  (void)state;
  for (int i = 0; i < N_SHAPES; i++) {
    for (int kind = 0; kind < 6; kind++) {
      struct problem p;
      problem_make(&p, 4 + kind % 3 * 2, shapes[i][0], shapes[i][1], shapes[i][2], kind >= 3, 0,
                   (i + kind) % 2 ? OMMA_F32 : OMMA_BF16);
      assert_true(p.spec.format == kept_format(4 + kind % 3 * 2) && p.spec.has_minimums == (kind >= 3));
      check_problem(&p);
      problem_free(&p);
    }
  }
}

/* Scales that are small integers times what several groups have in common, or f16: kept so, with
 * the bits of the floats that they stand for. */
static void compact_scales_give_the_same_bits(void **state) {
  (void)state;
  for (int kind = 0; kind < 24; kind++) {
    const bool has_minimums = kind & 1, halves = kind >= 12;
    const int64_t group = kind & 2 ? 16 : 32, n_in = kind & 2 ? 768 : 512;
    struct problem p;
    problem_make(&p, 4 + kind % 12 / 4 * 2, 70, n_in, group, has_minimums, halves ? HALVES : 256,
                 kind % 3 ? OMMA_BF16 : OMMA_F32);
    struct ommai_linear_spec floats = p.spec;
    floats.shared = floats.has_half_scales = 0;
    assert_true(p.spec.shared == (halves ? 0 : 256) && p.spec.has_half_scales == halves);
    const size_t n_scales = (size_t)(128 * (has_minimums ? 2 : 1) * n_in / group);
    const size_t saved = n_scales * (halves ? 2 : 3) - (halves ? 0 : n_scales * (size_t)group / 256 * 4);
    assert_int_equal(ommai_linear_bytes_for(linear_context, &p.spec) + saved, ommai_linear_bytes_for(linear_context, &floats));
    for (int64_t out = 0; out < 70; out += 23) {
      for (int64_t k = 0; k < n_in; k += 37) {
        float expected;
        stored_values(&p.stored, out, k, 1, &expected);
        assert_true(ommai_linear_weight(p.linear, out, k) == expected);
      }
    }
    check_problem(&p);
    problem_free(&p);
  }
}

/* Factors are kept where all sources have them of the same inputs, a power of two of groups; halves
 * where all have them, and none has a zero point that becomes a minimum. */
static void sources_decide_about_scales(void **state) {
  (void)state;
  struct stored a = stored_make(8, 10, 768, 32, true, 256), b = stored_make(8, 10, 768, 16, false, 256),
                other = stored_make(8, 10, 768, 32, true, 128), none = stored_make(8, 10, 768, 32, true, 0),
                three = stored_make(8, 10, 768, 32, true, 96);
  struct stored *const all[] = {&a, &b, &other, &none, &three};
  const struct ommai_stored_matrix m[] = {matrix_of(&a), matrix_of(&b), matrix_of(&other), matrix_of(&none), matrix_of(&three)};
  struct ommai_linear_source sources[2] = {{.n_out = 10, .stored = &m[0]}, {.n_out = 10, .stored = &m[1]}};
  const struct ommai_linear_spec dense = {.n_in = 768, .format = OMMAI_FORMAT_BF16, .compute = OMMA_F32};
  for (int i = 1; i < 5; i++) {
    struct ommai_linear_spec spec = dense;
    sources[1].stored = &m[i];
    assert_true(ommai_linear_spec_for_stored(linear_context, sources, 2, &spec));
    assert_true(spec.group == (i == 1 ? 16 : 32) && spec.has_minimums && spec.shared == (i == 1 ? 256 : 0));
  }
  struct ommai_linear_spec spec = dense;
  assert_true(ommai_linear_spec_for_stored(linear_context, &sources[1], 1, &spec) && spec.shared == 0);
  for (int i = 0; i < 5; i++) stored_free(all[i]);
  struct stored half[] = {stored_make(4, 10, 768, 32, true, HALVES), stored_make(4, 10, 768, 64, true, HALVES),
                          stored_make(4, 10, 768, 32, false, HALVES), stored_make(4, 10, 768, 32, true, 0)};
  static const int pairs[][2] = {{0, 0}, {0, 1}, {2, 2}, {0, 2}, {3, 0}};
  for (int i = 0; i < 5; i++) {
    const struct ommai_stored_matrix of[2] = {matrix_of(&half[pairs[i][0]]), matrix_of(&half[pairs[i][1]])};
    for (int k = 0; k < 2; k++) sources[k].stored = &of[k];
    assert_true(ommai_linear_spec_for_stored(linear_context, sources, 2, &spec));
    assert_true(spec.group == 32 && spec.shared == 0 && spec.has_half_scales == (i < 3));
  }
  for (int i = 0; i < 4; i++) stored_free(&half[i]);
}

/* Sources of different groups share a layer in groups that divide both; those that cannot are
 * quantised anew; sources that are no integers decide nothing. */
static void sources_decide_the_spec(void **state) {
  (void)state;
  struct stored a = stored_make(4, 10, 384, 128, true, 0), b = stored_make(4, 10, 384, 96, false, 0),
                whole = stored_make(4, 10, 384, 384, false, 0), wide = stored_make(8, 10, 384, 128, false, 0),
                narrow = stored_make(4, 10, 384, 8, false, 0);
  const struct ommai_stored_matrix m[] = {matrix_of(&a), matrix_of(&b), matrix_of(&whole), matrix_of(&wide),
                                          matrix_of(&narrow)};
  struct ommai_linear_source sources[2] = {{.n_out = 10, .stored = &m[0]}, {.n_out = 10, .stored = &m[1]}};
  struct ommai_linear_spec spec = {.n_in = 384, .format = OMMAI_FORMAT_BF16, .compute = OMMA_F32};
  assert_true(ommai_linear_spec_for_stored(linear_context, sources, 2, &spec));
  assert_true(spec.format == OMMAI_FORMAT_INT4 && spec.group == 32 && spec.has_minimums &&
              spec.inputs == OMMAI_INPUTS_SYMMETRIC);
  sources[0].stored = &m[2];
  assert_true(ommai_linear_spec_for_stored(linear_context, sources, 1, &spec) && spec.group == 0 && !spec.has_minimums);
  assert_true(ommai_linear_spec_for_stored(linear_context, sources, 2, &spec) && spec.group == 96);
  const struct ommai_linear_spec exact = spec;
  sources[1].stored = &m[3];
  assert_true(ommai_linear_spec_for_stored(linear_context, sources, 2, &spec));
  assert_true(spec.format == OMMAI_FORMAT_INT8 && spec.group == 128 && !spec.has_minimums);
  spec = exact;
  sources[0].stored = &m[4];
  assert_true(ommai_linear_spec_for_stored(linear_context, sources, 1, &spec));
  assert_true(spec.format == OMMAI_FORMAT_INT8 && spec.group == 32 && spec.inputs == OMMAI_INPUTS_SYMMETRIC);
  const struct ommai_linear_spec fine = spec;
  const struct ommai_stored_matrix values = {.values = m[0].values};
  sources[0].stored = &values;
  assert_false(ommai_linear_spec_for_stored(linear_context, sources, 2, &spec));
  sources[0].stored = NULL;
  assert_false(ommai_linear_spec_for_stored(linear_context, sources, 1, &spec));
  assert_memory_equal(&spec, &fine, sizeof spec);
  struct stored *const all[] = {&a, &b, &whole, &wide, &narrow};
  for (int i = 0; i < 5; i++) stored_free(all[i]);
}

/* Sources of several kinds meet in the format of the widest: each weight is the source's. */
static void kinds_of_sources_meet_exactly(void **state) {
  (void)state;
  enum { N_OUT = 24, N_IN = 512 };
  /* as a GGUF file has q, k and v; then two without factors, with which a layer has none */
  struct stored q = stored_make(4, N_OUT, N_IN, 32, true, 256), k = stored_make(6, N_OUT, N_IN, 16, false, 256),
                v = stored_make(6, N_OUT, N_IN, 32, true, 256), plain = stored_make(4, N_OUT, N_IN, 32, false, 0),
                wide = stored_make(8, N_OUT, N_IN, 64, false, 0);
  const struct stored *const all[] = {&q, &k, &v, &plain, &wide};
  struct ommai_stored_matrix matrices[5];
  struct ommai_linear_source sources[5];
  for (int i = 0; i < 5; i++) {
    matrices[i] = matrix_of(all[i]);
    sources[i] = (struct ommai_linear_source){.n_out = N_OUT, .stored = &matrices[i]};
  }
  for (int first = 0; first < 5; first++) {
    for (int end = first + 1; end <= 5; end++) {
      struct ommai_linear_spec spec = {.n_in = N_IN, .compute = OMMA_F32};
      struct ommai_linear *linear;
      struct omma_error error;
      const int bits = end == 5 ? 8 : first == 3 || end == 1 ? 4 : 6;
      assert_true(ommai_linear_spec_for_stored(linear_context, sources + first, end - first, &spec));
      assert_int_equal(spec.format, kept_format(bits));
      assert_int_equal(spec.shared, end <= 3 ? 256 : 0);
      assert_ok(ommai_linear_create(linear_context, &spec, sources + first, end - first, NULL, &linear, &error), &error);
      for (int64_t out = 0; out < (end - first) * N_OUT; out++) {
        const struct stored *s = all[first + out / N_OUT];
        float values[N_IN];
        stored_values(s, out % N_OUT, 0, N_IN, values);
        for (int64_t i = out % 3; i < N_IN; i += 3) {
          /* a zero point that became a minimum is taken off after the product */
          float off = fabsf(ommai_linear_weight(linear, out, i) - values[i]);
          if (!(off <= 4e-6f * fabsf(s->scales[out % N_OUT * (N_IN / s->group) + i / s->group]) * 64)) {
            fail_msg("sources %d to %d: weight %lld, %lld: off by %g", first, end, (long long)out, (long long)i, off);
          }
        }
      }
      ommai_linear_destroy(linear);
    }
  }
  for (int i = 0; i < 5; i++) stored_free((struct stored *)all[i]);
}

/* Quantised from values: each is half a step off at most in int8; in int4 the squared error is no
 * more than that of the plain grid whose end is the largest value. */
static void check_quantised(enum ommai_weight_format format, int64_t group, int64_t n_in, enum omma_dtype type) {
  enum { N_OUT = 67 };
  struct test_random random = {(uint64_t)(n_in + group)};
  struct omma_error error;
  struct ommai_linear_spec spec = {
      .n_in = n_in, .format = format, .compute = OMMA_F32, .group = group, .inputs = OMMAI_INPUTS_SYMMETRIC};
  struct ommai_linear *linear;
  void *weight = calloc((size_t)(N_OUT * n_in), sizeof(float));
  float *x = calloc((size_t)n_in, sizeof *x), *y = calloc(N_OUT, sizeof *y);
  for (int64_t i = 0; i < N_OUT * n_in; i++) fixture_put(weight, i, i < n_in ? 0.0f : test_random_normal(&random), type);
  const struct ommai_linear_source source = {.weight = weight, .type = type, .n_out = N_OUT};
  assert_ok(ommai_linear_create(linear_context, &spec, &source, 1, NULL, &linear, &error), &error);
  int64_t width = group ? group : n_in;
  for (int64_t out = 0; out < N_OUT; out++) {
    for (int64_t first = 0; first < n_in; first += width) {
      double squares = 0, plain = 0, max_abs = 0;
      int64_t end = first + width < n_in ? first + width : n_in;
      for (int64_t k = first; k < end; k++) max_abs = fmax(max_abs, fabs(fixture_get(weight, out * n_in + k, type)));
      for (int64_t k = first; k < end; k++) {
        double w = fixture_get(weight, out * n_in + k, type), step = max_abs > 0 ? max_abs / 7 : 1;
        memset(x, 0, (size_t)n_in * sizeof *x);
        x[k] = 127;
        ommai_linear_gemv(linear, x, n_in, 1, y, N_OUT, false, 0, 2);
        double off = y[out] / 127 - w;
        if (format == OMMAI_FORMAT_INT8) assert_true(fabs(off) <= 0.5001 * max_abs / 127);
        squares += off * off;
        plain += pow(rint(w / step) * step - w, 2);
      }
      if (format == OMMAI_FORMAT_INT4) assert_true(squares <= plain * 1.0001 + 1e-12);
    }
    if (out == 2) out = N_OUT - 3;
  }
  ommai_linear_destroy(linear);
  free(weight);
  free(x);
  free(y);
}

static void dense_weights_are_quantised(void **state) {
  (void)state;
  check_quantised(OMMAI_FORMAT_INT8, 0, 83, OMMA_BF16);
  check_quantised(OMMAI_FORMAT_INT8, 32, 83, OMMA_F32);
  check_quantised(OMMAI_FORMAT_INT4, 64, 130, OMMA_BF16);
  check_quantised(OMMAI_FORMAT_INT4, 32, 96, OMMA_F32);
  check_quantised(OMMAI_FORMAT_INT4, 16, 37, OMMA_F32);
}

static void bad_specs_are_refused(void **state) {
  (void)state;
  const enum ommai_weight_format int4 = OMMAI_FORMAT_INT4, int8 = OMMAI_FORMAT_INT8;
  const enum ommai_linear_inputs symmetric_inputs = OMMAI_INPUTS_SYMMETRIC;
  static const float weight[64 * 4];
  struct stored stored = stored_make(4, 4, 64, 32, true, 0);
  struct ommai_stored_matrix matrix = matrix_of(&stored);
  const struct ommai_linear_source dense = {.weight = weight, .n_out = 4};
  struct ommai_linear *linear;
  struct omma_error error;
  const struct {
    struct ommai_linear_spec spec;
    enum omma_status status;
    const char *message;
  } cases[] = {
      {{.n_in = 64, .format = int4, .group = 24, .inputs = symmetric_inputs}, OMMA_ERROR_ARGUMENT, "groups of 24"},
      {{.n_in = 64, .format = int8, .group = 512, .inputs = symmetric_inputs}, OMMA_ERROR_ARGUMENT, "groups of 512"},
      {{.n_in = 64, .format = int8, .group = -16, .inputs = symmetric_inputs}, OMMA_ERROR_ARGUMENT, "groups of -16"},
      {{.n_in = 64, .format = int4, .inputs = symmetric_inputs}, OMMA_ERROR_ARGUMENT, "takes groups"},
      {{.n_in = 64, .format = int4, .group = 32}, OMMA_ERROR_ARGUMENT, "zero point"},
      {{.n_in = 64, .format = int8, .group = 32}, OMMA_ERROR_ARGUMENT, "zero point"},
      {{.n_in = 64, .format = int8, .has_minimums = true, .inputs = symmetric_inputs}, OMMA_ERROR_ARGUMENT, "minimums"},
      {{.n_in = 65537, .format = int4, .group = 64, .inputs = symmetric_inputs}, OMMA_ERROR_LIMIT, "at most 65536 with int4"},
      {{.n_in = 64, .format = OMMAI_FORMAT_INT6, .group = 32, .inputs = symmetric_inputs},
       linear_context->integer->u6 ? OMMA_ERROR_ARGUMENT : OMMA_ERROR_UNSUPPORTED,
       linear_context->integer->u6 ? "only stored integers become int6" : "no kernels for int6"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    assert_fails(ommai_linear_create(linear_context, &cases[i].spec, &dense, 1, NULL, &linear, &error), cases[i].status,
                 cases[i].message, &error);
  }
  const struct ommai_linear_source taken = {.n_out = 4, .stored = &matrix};
  struct ommai_linear_spec symmetric = {.n_in = 64, .format = OMMAI_FORMAT_INT4, .group = 32, .inputs = OMMAI_INPUTS_SYMMETRIC};
  /* anew */
  assert_ok(ommai_linear_create(linear_context, &symmetric, &taken, 1, NULL, &linear, &error), &error);
  ommai_linear_destroy(linear);
  symmetric.has_half_scales = true;
  assert_fails(ommai_linear_create(linear_context, &symmetric, &dense, 1, NULL, &linear, &error), OMMA_ERROR_ARGUMENT,
               "only stored integers have scales in f16", &error);
  stored_free(&stored);
}

/* The largest sums that fit: every product is 127 x -128, 127 x 63 and 127 x 15. */
static void long_sums_do_not_overflow(void **state) {
  (void)state;
  enum { N_IN = OMMAI_LINEAR_MAX_INT8_INPUTS };
  float *x = malloc(N_IN * sizeof *x), y = 0;
  for (int i = 0; i < N_IN; i++) x[i] = -127;
  for (int bits = 4; bits <= 8; bits += 2) {
    const int largest = bits == 8 ? -128 : (1 << bits) - 1;
    struct stored stored = stored_make(bits, 1, N_IN, N_IN, bits < 8, 0);
    memset(stored.q, largest, N_IN);
    stored.scales[0] = 1;
    stored.minimums[0] = 0;
    const struct ommai_stored_matrix matrix = matrix_of(&stored);
    const struct ommai_linear_source source = {.n_out = 1, .stored = &matrix};
    struct ommai_linear_spec spec = {.n_in = N_IN, .compute = OMMA_F32};
    struct ommai_linear *linear;
    struct omma_error error;
    assert_true(ommai_linear_spec_for_stored(linear_context, &source, 1, &spec));
    assert_ok(ommai_linear_create(linear_context, &spec, &source, 1, NULL, &linear, &error), &error);
    ommai_linear_gemv(linear, x, N_IN, 1, &y, 1, false, 0, 1);
    assert_true(y == (float)(-127.0 * N_IN * largest));
    ommai_linear_destroy(linear);
    stored_free(&stored);
  }
  free(x);
}

/* NaN and infinity stay in their row. */
static void odd_values_stay_where_they_are(void **state) {
  (void)state;
  enum { N_IN = 64, N_OUT = 66 };
  static float x[5 * N_IN], y[5 * N_OUT];
  struct stored stored = stored_make(4, N_OUT, N_IN, 32, true, 0);
  const struct ommai_stored_matrix matrix = matrix_of(&stored);
  const struct ommai_linear_source source = {.n_out = N_OUT, .stored = &matrix};
  struct ommai_linear_spec spec = {.n_in = N_IN, .compute = OMMA_F32};
  struct ommai_linear *linear;
  struct omma_error error;
  for (int i = 0; i < 5 * N_IN; i++) x[i] = i / N_IN == 4 ? 1e-40f : (float)(i % 5);
  x[N_IN + 3] = NAN;
  x[2 * N_IN + 4] = -INFINITY;
  assert_true(ommai_linear_spec_for_stored(linear_context, &source, 1, &spec));
  assert_ok(ommai_linear_create(linear_context, &spec, &source, 1, NULL, &linear, &error), &error);
  ommai_linear_gemv(linear, x, N_IN, 5, y, N_OUT, false, 0, 2);
  for (int n = 0; n < N_OUT; n++) {
    assert_true(isfinite(y[n]) && !isfinite(y[N_OUT + n]) && !isfinite(y[2 * N_OUT + n]));
    assert_true(isfinite(y[3 * N_OUT + n]) && y[4 * N_OUT + n] == 0.0f);
  }
  ommai_linear_destroy(linear);
  stored_free(&stored);
}

/* Weights that are NaN or infinity make their output NaN in 4 bits as in 8, instead of disappearing
 * with their group. */
static void odd_weights_are_reported(void **state) {
  (void)state;
  enum { N_IN = 96, N_OUT = 66 };
  static const float odd[3] = {NAN, INFINITY, -INFINITY};
  static float weight[N_OUT * N_IN], x[N_IN], y[N_OUT];
  for (int i = 0; i < N_IN; i++) x[i] = 1.0f + (float)(i % 3);
  for (int i = 0; i < N_OUT * N_IN; i++) weight[i] = (float)(i % 7 - 3);
  for (int i = 0; i < 3; i++) weight[i * N_IN + 40] = odd[i];
  const struct ommai_linear_source source = {.weight = weight, .n_out = N_OUT};
  for (int bits = 4; bits <= 8; bits += 4) {
    const struct ommai_linear_spec spec = {.n_in = N_IN,
                                           .format = bits == 4 ? OMMAI_FORMAT_INT4 : OMMAI_FORMAT_INT8,
                                           .group = bits == 4 ? 32 : 0,
                                           .inputs = OMMAI_INPUTS_SYMMETRIC};
    struct ommai_linear *linear;
    struct omma_error error;
    assert_ok(ommai_linear_create(linear_context, &spec, &source, 1, NULL, &linear, &error), &error);
    ommai_linear_gemv(linear, x, N_IN, 1, y, N_OUT, false, 0, 2);
    for (int n = 0; n < N_OUT; n++) assert_int_equal(isfinite(y[n]) != 0, n >= 3);
    ommai_linear_destroy(linear);
  }
}

static enum omma_status make_all(const struct omma_allocator *failing, struct omma_error *error) {
  static const float weight[64 * 100];
  const struct ommai_linear_source source = {.weight = weight, .n_out = 100};
  const struct ommai_linear_spec spec = {
      .n_in = 64, .format = OMMAI_FORMAT_INT4, .group = 32, .inputs = OMMAI_INPUTS_SYMMETRIC};
  const struct ommai_linear_call call = {.x_stride = 64, .y_stride = 100};
  struct ommai_linear_context *made = NULL;
  struct ommai_linear *linear = NULL;
  struct ommai_linear_op *op = NULL;
  enum omma_status status = ommai_linear_context_create(level, 2, failing, &made, error);
  if (status == OMMA_OK) status = ommai_linear_create(made, &spec, &source, 1, NULL, &linear, error);
  if (status == OMMA_OK) status = ommai_linear_op_create(made, linear, &call, &op, error);
  ommai_linear_op_destroy(op);
  ommai_linear_destroy(linear);
  ommai_linear_context_destroy(made);
  return status;
}

static void every_failed_allocation_is_reported(void **state) {
  (void)state;
  test_fail_every_allocation(make_all, 201);
}

static int open_engine(void **state) {
  (void)state;
  struct omma_error error;
  test_allocator_init(&allocator);
  assert_ok(ommai_linear_context_create(level, 2, &allocator.interface, &linear_context, &error), &error);
  return 0;
}

static int close_engine(void **state) {
  (void)state;
  ommai_linear_context_destroy(linear_context);
  assert_int_equal(allocator.n_live, 0);
  return 0;
}

static int run_level(const char *name) {
  struct omma_error error;
  if (ommai_cpu_select(name, &level, &error) != OMMA_OK) return 1;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(stored_integers_give_the_defined_bits),
      cmocka_unit_test(compact_scales_give_the_same_bits),
      cmocka_unit_test(sources_decide_about_scales),
      cmocka_unit_test(sources_decide_the_spec),
      cmocka_unit_test(kinds_of_sources_meet_exactly),
      cmocka_unit_test(dense_weights_are_quantised),
      cmocka_unit_test(bad_specs_are_refused),
      cmocka_unit_test(long_sums_do_not_overflow),
      cmocka_unit_test(odd_values_stay_where_they_are),
      cmocka_unit_test(odd_weights_are_reported),
      cmocka_unit_test(every_failed_allocation_is_reported),
  };
  return cmocka_run_group_tests_name(name, tests, open_engine, close_engine);
}

int main(void) { return fixture_run_levels(run_level); }
