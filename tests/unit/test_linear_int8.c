/* Linear layers with int8 weights and inputs with zero points (towers) at every CPU level of the
 * machine, or at the one that is the argument. */
#include <math.h>
#include <stdlib.h>

#include "base/allocator.h"
#include "base/half.h"
#include "base/team.h"
#include "linear/linear.h"
#include "linear/linear_objects.h"
#include "support/linear_fixture.h"
#include "support/test.h"

enum { ROWS = OMMAI_LINEAR_MAX_ROWS, X_GAP = 3, Y_GAP = 5, CHECKED_APART = 9 };

static enum ommai_cpu_level level;
static struct ommai_linear_context *linear_context;
static struct test_allocator allocator;

/* Of a row and an output: the sum of the quantised operands, of the true ones with the bias, and
 * what rounding may add. */
struct sums {
  double whole, exact, steps;
};

/* A layer, its inputs, and both as the products see them. */
struct problem {
  int64_t n_in, n_out;
  enum omma_dtype compute;
  /* [n_out][n_in], [n_out], [ROWS][n_in] after rounding to the compute type */
  float *w, *b, *x;
  void *input;                   /* [ROWS][n_in + X_GAP] of the compute type */
  double *w_scale, *x_scale;     /* [n_out], [ROWS] */
  struct sums *sums;             /* [ROWS / CHECKED_APART + 1][n_out], or NULL */
  double *w_quantised, *x_whole; /* as w and x */
  struct ommai_linear *linear;
};

static enum omma_status create(struct ommai_linear_context *on, const struct ommai_linear_source *sources, int n_sources,
                               int64_t n_in, enum omma_dtype compute, struct ommai_linear **linear, struct omma_error *error) {
  const struct ommai_linear_spec spec = {.n_in = n_in, .format = OMMAI_FORMAT_INT8, .compute = compute};
  return ommai_linear_create(on, &spec, sources, n_sources, NULL, linear, error);
}

/* What kernels/int8.h defines for a row of inputs and a row of weights, with the C library's
 * rounding. */
static void quantise_problem(struct problem *p) {
  for (int64_t r = 0; r < ROWS; r++) {
    const float *x = p->x + r * p->n_in;
    float high = 0, low = 0;
    for (int64_t k = 0; k < p->n_in; k++) {
      high = fmaxf(high, x[k]);
      low = fmaxf(low, -x[k]);
    }
    float range = high + low, inverse = range > 0 ? 255.0f / range : 0.0f, zero = rintf(low * inverse);
    p->x_scale[r] = range / 255.0f;
    for (int64_t k = 0; k < p->n_in; k++) {
      p->x_whole[r * p->n_in + k] = fminf(rintf(x[k] * inverse) + zero, 255.0f) - zero;
    }
  }
  for (int64_t n = 0; n < p->n_out; n++) {
    const float *w = p->w + n * p->n_in;
    float max_abs = 0;
    for (int64_t k = 0; k < p->n_in; k++) max_abs = fmaxf(max_abs, fabsf(w[k]));
    p->w_scale[n] = max_abs / 127.0f;
    float inverse = max_abs > 0 ? 127.0f / max_abs : 0.0f;
    for (int64_t k = 0; k < p->n_in; k++) p->w_quantised[n * p->n_in + k] = rintf(w[k] * inverse);
  }
}

/* The sums of the rows that are checked, of each output. */
static void sum_rows(struct problem *p) {
  p->sums = calloc((size_t)((ROWS / CHECKED_APART + 1) * p->n_out), sizeof *p->sums);
  for (int64_t r = 0; r < ROWS; r += CHECKED_APART) {
    for (int64_t n = 0; n < p->n_out; n++) {
      double whole = 0, exact = p->b[n], steps = 0, dx = 0.5001 * p->x_scale[r], dw = 0.5001 * p->w_scale[n];
      for (int64_t k = 0; k < p->n_in; k++) {
        double x = p->x[r * p->n_in + k], w = p->w[n * p->n_in + k];
        whole += p->x_whole[r * p->n_in + k] * p->w_quantised[n * p->n_in + k];
        exact += x * w;
        /* A value at the end of the range may lose a whole step. */
        steps += fabs(x) * dw + fabs(w) * 2 * dx + 2 * dw * dx;
      }
      p->sums[r / CHECKED_APART * p->n_out + n] = (struct sums){whole, exact, steps};
    }
  }
}

/* Every third row of x is like an activation's result: hardly anything below 0. */
static void problem_make(struct problem *p, int64_t n_in, int64_t n_out, enum omma_dtype compute, bool bias) {
  struct test_random random = {(uint64_t)(n_in * 131 + n_out)};
  struct omma_error error;
  *p = (struct problem){.n_in = n_in, .n_out = n_out, .compute = compute};
  size_t n_weights = (size_t)(n_in * n_out), n_inputs = (size_t)(ROWS * n_in);
  p->w = calloc(n_weights, sizeof(float));
  p->b = calloc((size_t)n_out, sizeof(float));
  p->x = calloc(n_inputs, sizeof(float));
  p->input = calloc((size_t)(ROWS * (n_in + X_GAP)), sizeof(float));
  p->w_scale = calloc((size_t)n_out, sizeof(double));
  p->x_scale = calloc(ROWS, sizeof(double));
  p->w_quantised = calloc(n_weights, sizeof(double));
  p->x_whole = calloc(n_inputs, sizeof(double));
  for (size_t i = 0; i < n_weights; i++) p->w[i] = 2.0f / sqrtf((float)n_in) * test_random_normal(&random);
  for (int64_t n = 0; bias && n < n_out; n++) p->b[n] = test_random_normal(&random);
  for (int64_t i = 0; i < ROWS * (n_in + X_GAP); i++) fixture_put(p->input, i, NAN, compute);
  for (int64_t i = 0; i < ROWS * n_in; i++) {
    float value = test_random_normal(&random);
    int64_t at = i / n_in * (n_in + X_GAP) + i % n_in;
    fixture_put(p->input, at, i / n_in % 3 == 2 ? fmaxf(value, -0.1f) : value, compute);
    p->x[i] = fixture_get(p->input, at, compute);
  }
  struct ommai_linear_source source = {p->w, OMMA_F32, n_out, bias ? p->b : NULL, OMMA_F32, false, NULL, 0};
  assert_ok(create(linear_context, &source, 1, n_in, compute, &p->linear, &error), &error);
  quantise_problem(p);
}

static void problem_free(struct problem *p) {
  void *arrays[] = {p->w, p->b, p->x, p->input, p->w_scale, p->x_scale, p->w_quantised, p->x_whole, p->sums};
  ommai_linear_destroy(p->linear);
  for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) free(arrays[i]);
}

/* Rows of calls that take all of them. The scalar code takes a row after the other: in small runs
 * 21 rows tell what 128 do. */
static int64_t most_rows(void) { return level == OMMAI_CPU_SCALAR && test_small() ? 21 : ROWS; }

static struct ommai_linear_op *make_op(const struct problem *p, enum omma_dtype y_type, enum ommai_activation activation,
                                       bool accumulate) {
  struct omma_error error;
  struct ommai_linear_call call = {p->n_in + X_GAP, p->n_out + Y_GAP, y_type, activation, accumulate, 0, 0};
  struct ommai_linear_op *op = NULL;
  assert_ok(ommai_linear_op_create(linear_context, p->linear, &call, &op, &error), &error);
  return op;
}

static double old_y(int64_t i) { return (double)(i % 7) - 3.0; }

/* Checks output n of row r: against the quantised operands to a few units of the last place, and
 * without activation against the true ones to what rounding every operand by half a step can make:
 * sum |x| dw + |w| dx + dw dx. */
static void check_output(const struct problem *p, int64_t r, int64_t n, double found, enum omma_dtype y_type,
                         enum ommai_activation activation, bool accumulate) {
  const struct sums sums = p->sums[r / CHECKED_APART * p->n_out + n];
  double old = accumulate ? old_y(r * (p->n_out + Y_GAP) + n) : 0;
  double product = sums.whole * p->x_scale[r] * p->w_scale[n], sum = product + p->b[n],
         expected = fixture_activate(sum, activation) + old;
  double bound =
      6 * 0x1p-24 * (fabs(product) + fabs(p->b[n]) + fabs(old)) + (y_type == OMMA_BF16 ? 0x1.01p-8 * fabs(expected) : 0);
  if (activation != OMMAI_ACTIVATION_NONE) bound = 2 * bound + 1e-6;
  if (!(fabs(found - expected) <= bound)) {
    fail_msg("%lld x %lld, compute %d, y %d, activation %d, row %lld, output %lld: %.9g, expected %.9g +- %.2g",
             (long long)p->n_in, (long long)p->n_out, p->compute, y_type, activation, (long long)r, (long long)n, found,
             expected, bound);
  }
  if (activation == OMMAI_ACTIVATION_NONE) assert_true(fabs(found - old - sums.exact) <= sums.steps + 2 * bound);
}

static void check_call(const struct problem *p, enum omma_dtype y_type, enum ommai_activation activation, bool accumulate) {
  int64_t stride = p->n_out + Y_GAP, n_rows = most_rows() - 1;
  struct ommai_linear_op *op = make_op(p, y_type, activation, accumulate);
  void *y = calloc((size_t)(ROWS * stride), sizeof(float));
  for (int64_t i = 0; i < ROWS * stride; i++) fixture_put(y, i, (float)old_y(i), y_type);
  assert_int_equal(ommai_linear_run(op, p->input, y, n_rows, 0, NULL), OMMA_OK);
  for (int64_t r = 0; r < n_rows; r += CHECKED_APART) {
    for (int64_t n = 0; n < p->n_out; n++) {
      check_output(p, r, n, fixture_get(y, r * stride + n, y_type), y_type, activation, accumulate);
    }
  }
  for (int64_t i = 0; i < ROWS * stride; i++) {
    if (i % stride >= p->n_out || i / stride >= n_rows) assert_true(fixture_get(y, i, y_type) == (float)old_y(i));
  }
  free(y);
  ommai_linear_op_destroy(op);
}

static const int64_t shapes[][2] = {{1176, 65}, {130, 1100}, {4304, 96}, {1, 17},  {17, 1},
                                    {63, 65},   {64, 128},   {1, 1},     {33, 513}};
#define N_SHAPES ((int)(sizeof shapes / sizeof shapes[0]))

static void tiles_agree_with_double_precision(void **state) {
  (void)state;
  for (int i = 0; i < N_SHAPES; i++) {
    for (enum omma_dtype compute = OMMA_F32; compute <= OMMA_BF16; compute++) {
      struct problem p;
      problem_make(&p, shapes[i][0], shapes[i][1], compute, i % 3 != 2);
      sum_rows(&p);
      for (enum ommai_activation activation = OMMAI_ACTIVATION_NONE; activation < OMMAI_ACTIVATIONS; activation++) {
        bool of_shape = activation == (enum ommai_activation)(i % OMMAI_ACTIVATIONS);
        if (test_small() && activation != OMMAI_ACTIVATION_NONE && !of_shape) continue;
        check_call(&p, OMMA_F32, activation, false);
        if (activation == OMMAI_ACTIVATION_NONE) check_call(&p, OMMA_F32, activation, true);
        if (compute == OMMA_BF16) check_call(&p, OMMA_BF16, activation, false);
      }
      problem_free(&p);
    }
  }
}

/* n_rows rows from row `first` on, with nothing after the last one, against `base`. */
static void check_same_bits(const struct problem *p, const struct ommai_linear_op *op, int64_t first, int64_t n_rows,
                            int worker, const float *base) {
  size_t x_row = (size_t)(p->n_in + X_GAP) * (p->compute == OMMA_BF16 ? 2 : 4), stride = (size_t)(p->n_out + Y_GAP);
  char *x = calloc((size_t)n_rows, x_row);
  float *y = malloc((size_t)n_rows * stride * sizeof *y);
  for (int64_t r = 0; r < n_rows; r++) {
    memcpy(x + (size_t)r * x_row, (char *)p->input + (size_t)((first + r) % most_rows()) * x_row, x_row);
  }
  assert_int_equal(ommai_linear_run(op, x, y, n_rows, worker, NULL), OMMA_OK);
  for (int64_t r = 0; r < n_rows; r++) {
    assert_memory_equal(y + (size_t)r * stride, base + (size_t)((first + r) % most_rows()) * stride,
                        (size_t)p->n_out * sizeof *y);
  }
  free(x);
  free(y);
}

struct shared {
  const struct problem *problem;
  const struct ommai_linear_op *op;
  const float *base;
};

static void run_task(void *context, int64_t task, int worker) {
  struct shared *c = context;
  check_same_bits(c->problem, c->op, task * 11 % most_rows(), 1 + task * 29 % most_rows(), worker, c->base);
}

static void rows_keep_their_bits(void **state) {
  (void)state;
  struct omma_error error;
  struct ommai_team *team;
  assert_ok(ommai_team_create(2, false, &ommai_default_allocator, &team, &error), &error);
  const int64_t n_all = most_rows();
  for (int i = 0; i < N_SHAPES; i++) {
    struct problem p;
    problem_make(&p, shapes[i][0], shapes[i][1], i % 2 ? OMMA_F32 : OMMA_BF16, true);
    struct ommai_linear_op *op = make_op(&p, OMMA_F32, (enum ommai_activation)(i % OMMAI_ACTIVATIONS), false);
    float *base = calloc((size_t)(ROWS * (p.n_out + Y_GAP)), sizeof *base);
    assert_int_equal(ommai_linear_run(op, p.input, base, n_all, 0, NULL), OMMA_OK);
    for (int64_t n = 1; n <= n_all; n += n_all < ROWS ? 4 : n < 20 ? 1 : 9) {
      check_same_bits(&p, op, n * 7 % n_all, n, (int)(n % 2), base);
    }
    struct shared shared = {&p, op, base};
    ommai_team_run(ommai_team_interface(team), 20, run_task, &shared);
    free(base);
    ommai_linear_op_destroy(op);
    problem_free(&p);
  }
  ommai_team_destroy(team);
}

/* All rows of a call by these kernels, over what old_y says. */
static float *run_with(const struct ommai_integer_kernels *kernels, const struct problem *p, const struct ommai_linear_op *op,
                       enum omma_dtype y_type) {
  const struct ommai_integer_kernels *chosen = linear_context->integer;
  int64_t size = ROWS * (p->n_out + Y_GAP);
  float *y = calloc((size_t)size, sizeof *y);
  for (int64_t i = 0; i < size; i++) fixture_put(y, i, (float)old_y(i), y_type);
  linear_context->integer = kernels;
  assert_int_equal(ommai_linear_run(op, p->input, y, ROWS, 0, NULL), OMMA_OK);
  linear_context->integer = chosen;
  return y;
}

/* Which of both kernels a layer gets depends on the CPU that the test runs on. */
static void kernels_for_a_small_first_cache_give_the_same_bits(void **state) {
  (void)state;
  const struct ommai_integer_kernels *kernels = ommai_integer_select(level);
  if (!kernels->small_l1) return;
  for (int i = 0; i < N_SHAPES; i++) {
    struct problem p;
    problem_make(&p, shapes[i][0], shapes[i][1], OMMA_BF16, true);
    for (int call = 0; call < 3; call++) {
      enum omma_dtype y_type = call == 2 ? OMMA_BF16 : OMMA_F32;
      struct ommai_linear_op *op =
          make_op(&p, y_type, call == 2 ? OMMAI_ACTIVATION_QUICK_GELU : OMMAI_ACTIVATION_NONE, call == 1);
      float *y = run_with(kernels, &p, op, y_type), *other = run_with(kernels->small_l1, &p, op, y_type);
      assert_memory_equal(y, other, (size_t)(ROWS * (p.n_out + Y_GAP)) * sizeof *y);
      free(y);
      free(other);
      ommai_linear_op_destroy(op);
    }
    problem_free(&p);
  }
}

/* Rows of zeros give the bias, NaN and infinity stay in their row, and a column of zeros is no
 * division by 0. */
static void odd_values_stay_where_they_are(void **state) {
  (void)state;
  enum { N_IN = 70, N_OUT = 66 };
  static float weight[N_OUT * N_IN], bias[N_OUT], x[6 * N_IN], y[6 * N_OUT];
  struct omma_error error;
  struct ommai_linear *linear;
  struct ommai_linear_op *op;
  const struct ommai_linear_call call = {.x_stride = N_IN, .y_stride = N_OUT, .y_type = OMMA_F32};
  for (int i = N_IN; i < N_OUT * N_IN; i++) weight[i] = (float)(i % 13) - (i / N_IN == 1 ? 0.0f : 6.0f);
  for (int i = 0; i < N_OUT; i++) bias[i] = (float)i;
  for (int i = 0; i < 6 * N_IN; i++) {
    x[i] = (const float[]){(float)(i % 5), 0.0f, (float)(i % 5), (float)(i % 5), 1e-40f, -1e-40f}[i / N_IN];
  }
  x[2 * N_IN + 3] = NAN;
  x[3 * N_IN + 4] = -INFINITY;
  const struct ommai_linear_source source = {weight, OMMA_F32, N_OUT, bias, OMMA_F32, false, NULL, 0};
  assert_ok(create(linear_context, &source, 1, N_IN, OMMA_F32, &linear, &error), &error);
  assert_ok(ommai_linear_op_create(linear_context, linear, &call, &op, &error), &error);
  assert_int_equal(ommai_linear_run(op, x, y, 6, 0, NULL), OMMA_OK);
  for (int n = 0; n < N_OUT; n++) {
    assert_true(isfinite(y[n]) && (n > 0 || y[n] == bias[n]));
    assert_true(y[N_OUT + n] == bias[n] && !isfinite(y[2 * N_OUT + n]) && !isfinite(y[3 * N_OUT + n]));
    assert_true(y[4 * N_OUT + n] == bias[n] && y[5 * N_OUT + n] == bias[n]);
  }
  ommai_linear_op_destroy(op);
  ommai_linear_destroy(linear);
}

/* Stacked and transposed sources of all types give the bits of one plain source. */
static void sources_stack(void **state) {
  (void)state;
  enum { N_IN = 83, N_OUT = 201, FIRST = 70 };
  static float weight[N_OUT * N_IN], x[N_IN], y[2][N_OUT];
  static ommai_bf16 turned[N_IN * (N_OUT - FIRST)];
  struct omma_error error;
  const struct ommai_linear_call call = {.x_stride = N_IN, .y_stride = N_OUT, .y_type = OMMA_F32};
  for (int i = 0; i < N_OUT * N_IN; i++) weight[i] = (float)(i * 37 % 29 - 14) / 16;
  for (int i = 0; i < N_IN; i++) x[i] = (float)(i * 5 % 11 - 4);
  for (int64_t i = 0; i < N_IN * (N_OUT - FIRST); i++) {
    turned[i % N_IN * (N_OUT - FIRST) + i / N_IN] = ommai_bf16_from_f32(weight[FIRST * N_IN + i]);
  }
  const struct ommai_linear_source plain = {weight, OMMA_F32, N_OUT, NULL, OMMA_F32, false, NULL, 0},
                                   parts[2] = {{weight, OMMA_F32, FIRST, NULL, OMMA_F32, false, NULL, 0},
                                               {turned, OMMA_BF16, N_OUT - FIRST, NULL, OMMA_F32, true, NULL, 0}};
  for (int i = 0; i < 2; i++) {
    struct ommai_linear *linear;
    struct ommai_linear_op *op;
    assert_ok(create(linear_context, i ? parts : &plain, i ? 2 : 1, N_IN, OMMA_F32, &linear, &error), &error);
    const struct ommai_linear_spec spec = {.n_out = N_OUT, .n_in = N_IN, .format = OMMAI_FORMAT_INT8, .compute = OMMA_F32};
    assert_int_equal(ommai_linear_bytes(linear), ommai_linear_bytes_for(linear_context, &spec));
    assert_int_equal(ommai_linear_bytes(linear), 256 * 128 + 256 * 12);
    assert_ok(ommai_linear_op_create(linear_context, linear, &call, &op, &error), &error);
    assert_int_equal(ommai_linear_run(op, x, y[i], 1, 0, NULL), OMMA_OK);
    ommai_linear_op_destroy(op);
    ommai_linear_destroy(linear);
  }
  assert_memory_equal(y[0], y[1], sizeof y[0]);
}

static void bad_calls_are_refused(void **state) {
  (void)state;
  static const float weight[70 * 4];
  struct ommai_linear_source source = {weight, OMMA_F32, 70, NULL, OMMA_F32, false, NULL, 0};
  struct ommai_linear *linear = NULL;
  struct ommai_linear_op *op = NULL;
  struct omma_error error;
  assert_fails(create(linear_context, &source, 1, OMMAI_LINEAR_MAX_INT8_INPUTS + 1, OMMA_F32, &linear, &error),
               OMMA_ERROR_LIMIT, "65537 inputs, at most 65536 with int8", &error);
  assert_fails(create(linear_context, &source, 1, 4, OMMA_F16, &linear, &error), OMMA_ERROR_ARGUMENT, "compute", &error);
  const struct ommai_linear_spec wide = {
      .n_out = 1, .n_in = OMMAI_LINEAR_MAX_INT8_INPUTS + 1, .format = OMMAI_FORMAT_INT8, .compute = OMMA_F32};
  assert_int_equal(ommai_linear_bytes_for(linear_context, &wide), 0);
  assert_ok(create(linear_context, &source, 1, 4, OMMA_F32, &linear, &error), &error);
  const struct ommai_linear_call part = {.x_stride = 4, .y_stride = 70, .n_panels = 1};
  assert_ok(ommai_linear_op_create(linear_context, linear, &part, &op, &error), &error);
  ommai_linear_op_destroy(op);
  ommai_linear_destroy(linear);
}

/* The largest sums that fit: every product is 255 x 127. */
static void long_sums_do_not_overflow(void **state) {
  (void)state;
  enum { N_IN = OMMAI_LINEAR_MAX_INT8_INPUTS };
  float *weight = malloc(N_IN * sizeof *weight), *x = malloc(N_IN * sizeof *x), y = 0;
  for (int i = 0; i < N_IN; i++) weight[i] = x[i] = 1;
  const struct ommai_linear_source source = {weight, OMMA_F32, 1, NULL, OMMA_F32, false, NULL, 0};
  const struct ommai_linear_call call = {.x_stride = N_IN, .y_stride = 1, .y_type = OMMA_F32};
  struct ommai_linear *linear;
  struct ommai_linear_op *op;
  struct omma_error error;
  assert_ok(create(linear_context, &source, 1, N_IN, OMMA_F32, &linear, &error), &error);
  assert_ok(ommai_linear_op_create(linear_context, linear, &call, &op, &error), &error);
  assert_int_equal(ommai_linear_run(op, x, &y, 1, 0, NULL), OMMA_OK);
  assert_true(fabsf(y - N_IN) < 0.1f);
  ommai_linear_op_destroy(op);
  ommai_linear_destroy(linear);
  free(weight);
  free(x);
}

static enum omma_status make_all(const struct omma_allocator *failing, struct omma_error *error) {
  static const float weight[20 * 1000];
  struct ommai_linear_source source = {weight, OMMA_F32, 1000, NULL, OMMA_F32, false, NULL, 0};
  struct ommai_linear_call call = {20, 1000, OMMA_BF16, OMMAI_ACTIVATION_GELU_TANH, false, 0, 0};
  struct ommai_linear_context *made = NULL;
  struct ommai_linear *linear = NULL;
  struct ommai_linear_op *op = NULL;
  enum omma_status status = ommai_linear_context_create(level, 2, failing, &made, error);
  if (status == OMMA_OK) status = create(made, &source, 1, 20, OMMA_BF16, &linear, error);
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
      cmocka_unit_test(tiles_agree_with_double_precision),
      cmocka_unit_test(rows_keep_their_bits),
      cmocka_unit_test(kernels_for_a_small_first_cache_give_the_same_bits),
      cmocka_unit_test(odd_values_stay_where_they_are),
      cmocka_unit_test(sources_stack),
      cmocka_unit_test(bad_calls_are_refused),
      cmocka_unit_test(long_sums_do_not_overflow),
      cmocka_unit_test(every_failed_allocation_is_reported),
  };
  return cmocka_run_group_tests_name(name, tests, open_engine, close_engine);
}

int main(void) { return fixture_run_levels(run_level); }
