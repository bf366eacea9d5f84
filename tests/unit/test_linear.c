/* Linear layers at every CPU level of the machine, or at the one that is the argument. */
#include <math.h>
#include <stdlib.h>

#include "base/allocator.h"
#include "base/half.h"
#include "base/team.h"
#include "linear/linear_objects.h"
#include "linear/linear_parts.h"
#include "support/linear_fixture.h"
#include "support/test.h"

#define ROWS OMMAI_LINEAR_MAX_ROWS
#define MARK 12345.0f

static enum ommai_cpu_level level;
static struct ommai_linear_context *linear_context;
static struct test_allocator allocator;
/* Elements between the rows of x and y, which hold NaN in x and a mark in y. */
static int64_t x_gap, y_gap;
/* How layers that compute in f32 keep their weights. */
static enum ommai_weight_format f32_format;

/* A layer with its inputs: values as the computation sees them, and in the form that the calls
 * take. */
struct problem {
  int64_t n_in, n_out;
  enum omma_dtype compute;
  float *w, *b; /* [n_out][n_in], [n_out], after rounding to what the weights are kept in */
  float *x;     /* [ROWS][n_in] */
  void *input;  /* [ROWS][n_in + x_gap] of the compute type */
  struct ommai_linear *linear;
};

/* Rows of calls that take all of them. The scalar kernels take rows singly: in small runs 21 rows
 * tell what 128 do. */
static int64_t most_rows(void) { return level == OMMAI_CPU_SCALAR && test_small() ? 21 : ROWS; }

static struct ommai_linear_spec dense(int64_t n_in, enum omma_dtype compute) {
  return (struct ommai_linear_spec){
      .n_in = n_in, .format = compute == OMMA_BF16 ? OMMAI_FORMAT_BF16 : f32_format, .compute = compute};
}

static float rounded(float value, enum omma_dtype type) {
  return type == OMMA_BF16 ? ommai_bf16_to_f32(ommai_bf16_from_f32(value)) : value;
}

static void fill_row(struct problem *p, int64_t row, const float *values) {
  int64_t stride = p->n_in + x_gap;
  for (int64_t k = 0; k < p->n_in; k++) fixture_put(p->input, row * stride + k, values[k], p->compute);
  for (int64_t k = p->n_in; k < stride; k++) fixture_put(p->input, row * stride + k, NAN, p->compute);
}

static void problem_make(struct problem *p, int64_t n_in, int64_t n_out, enum omma_dtype compute, bool bias) {
  struct test_random random = {(uint64_t)(n_in * 131 + n_out)};
  struct omma_error error;
  *p = (struct problem){.n_in = n_in, .n_out = n_out, .compute = compute};
  p->w = calloc((size_t)(n_in * n_out), sizeof(float));
  p->b = calloc((size_t)n_out, sizeof(float));
  p->x = calloc((size_t)(ROWS * n_in), sizeof(float));
  p->input = calloc((size_t)(ROWS * (n_in + x_gap)), sizeof(float));
  float scale = 2.0f / sqrtf((float)n_in);
  for (int64_t i = 0; i < n_in * n_out; i++) p->w[i] = scale * test_random_normal(&random);
  for (int64_t n = 0; bias && n < n_out; n++) p->b[n] = test_random_normal(&random);
  struct ommai_linear_source source = {p->w, OMMA_F32, n_out, bias ? p->b : NULL, OMMA_F32, false, NULL, 0};
  const struct ommai_linear_spec spec = dense(n_in, compute);
  assert_ok(ommai_linear_create(linear_context, &spec, &source, 1, NULL, &p->linear, &error), &error);
  for (int64_t i = 0; i < n_in * n_out; i++)
    p->w[i] = rounded(p->w[i], spec.format == OMMAI_FORMAT_BF16 ? OMMA_BF16 : OMMA_F32);
  for (int64_t i = 0; i < ROWS * n_in; i++) p->x[i] = rounded(test_random_normal(&random), compute);
  for (int64_t row = 0; row < ROWS; row++) fill_row(p, row, p->x + row * n_in);
}

static void problem_free(struct problem *p) {
  ommai_linear_destroy(p->linear);
  free(p->w);
  free(p->b);
  free(p->x);
  free(p->input);
}

static struct ommai_linear_op *make_op(struct problem *p, enum omma_dtype y_type, enum ommai_activation activation,
                                       bool accumulate) {
  struct omma_error error;
  struct ommai_linear_call call = {p->n_in + x_gap, p->n_out + y_gap, y_type, activation, accumulate, 0, 0};
  struct ommai_linear_op *op = NULL;
  assert_ok(ommai_linear_op_create(linear_context, p->linear, &call, &op, &error), &error);
  return op;
}

/* Old contents of y: marks in the gaps, small values elsewhere. */
static void fill_y(const struct problem *p, void *y, enum omma_dtype type) {
  int64_t stride = p->n_out + y_gap;
  for (int64_t i = 0; i < ROWS * stride; i++) {
    fixture_put(y, i, i % stride < p->n_out ? (float)(i % 7) - 3.0f : rounded(MARK, type), type);
  }
}

/* Checks one row of y against double precision. The bound is a few units of the last place of what
 * was added up; an activation may add 2e-6 of the row's root mean square, a bf16 y half a unit of
 * its own. */
static void check_row(const struct problem *p, const float *x, const void *y, int64_t row, enum omma_dtype y_type,
                      enum ommai_activation activation, bool accumulate) {
  int64_t stride = p->n_out + y_gap;
  double *expected = calloc((size_t)p->n_out, sizeof(double)), *bound = calloc((size_t)p->n_out, sizeof(double));
  double square = 0;
  for (int64_t n = 0; n < p->n_out; n++) {
    double sum = p->b[n], size = fabs(sum), old = accumulate ? (double)((row * stride + n) % 7) - 3.0 : 0.0;
    for (int64_t k = 0; k < p->n_in; k++) {
      sum += (double)x[k] * p->w[n * p->n_in + k];
      size += fabs((double)x[k] * p->w[n * p->n_in + k]);
    }
    expected[n] = fixture_activate(sum, activation) + old;
    bound[n] = 4 * 0x1p-24 * (size + fabs(old)) + (y_type == OMMA_BF16 ? 0x1.01p-8 * fabs(expected[n]) : 0);
    square += fixture_activate(sum, activation) * fixture_activate(sum, activation);
  }
  double extra = activation == OMMAI_ACTIVATION_NONE ? 0 : 2e-6 * sqrt(square / (double)p->n_out);
  for (int64_t n = 0; n < p->n_out; n++) {
    double found = fixture_get(y, row * stride + n, y_type);
    if (!(fabs(found - expected[n]) <= bound[n] + extra)) {
      fail_msg("%lld x %lld, compute %d, y %d, activation %d, row %lld, output %lld: %.9g, expected %.9g +- %.2g",
               (long long)p->n_in, (long long)p->n_out, p->compute, y_type, activation, (long long)row, (long long)n, found,
               expected[n], bound[n] + extra);
    }
  }
  for (int64_t n = p->n_out; n < stride; n++) assert_true(fixture_get(y, row * stride + n, y_type) == rounded(MARK, y_type));
  free(expected);
  free(bound);
}

static void set_gaps(bool gaps) {
  x_gap = gaps ? 3 : 0;
  y_gap = gaps ? 5 : 0;
  f32_format = gaps ? OMMAI_FORMAT_BF16 : OMMAI_FORMAT_F32;
}

/* Inputs and outputs. */
static const int64_t shapes[][2] = {{1176, 65}, {215, 63}, {4304, 96}, {96, 4304}, {3420, 70}, {1, 17},
                                    {17, 1},    {63, 65},  {65, 63},   {64, 128},  {1, 1},     {33, 200}};
#define N_SHAPES ((int)(sizeof shapes / sizeof shapes[0]))

/* Where fewer cases are run, long sides are a fourth: still several blocks of inputs, odd in the
 * end. */
static int64_t side_of(int64_t side) { return test_small() && side > 1000 ? side / 4 : side; }

static void problem_make_shape(struct problem *p, int shape, enum omma_dtype compute, bool bias) {
  problem_make(p, side_of(shapes[shape][0]), side_of(shapes[shape][1]), compute, bias);
}

static void check_call(struct problem *p, enum omma_dtype y_type, enum ommai_activation activation, bool accumulate) {
  const int64_t n_rows = most_rows(), rows[] = {0, 5, 16, n_rows * 3 / 5, n_rows - 1};
  struct ommai_linear_op *op = make_op(p, y_type, activation, accumulate);
  void *y = calloc((size_t)(ROWS * (p->n_out + y_gap)), sizeof(float));
  fill_y(p, y, y_type);
  assert_int_equal(ommai_linear_run(op, p->input, y, n_rows, 0, NULL), OMMA_OK);
  for (int i = 0; i < 5; i++) check_row(p, p->x + rows[i] * p->n_in, y, rows[i], y_type, activation, accumulate);
  free(y);
  ommai_linear_op_destroy(op);
}

static void tiles_agree_with_double_precision(void **state) {
  set_gaps(*(bool *)*state);
  for (int i = 0; i < N_SHAPES; i++) {
    for (enum omma_dtype compute = OMMA_F32; compute <= OMMA_BF16; compute++) {
      struct problem p;
      problem_make_shape(&p, i, compute, i % 3 != 2);
      for (enum ommai_activation activation = OMMAI_ACTIVATION_NONE; activation < OMMAI_ACTIVATIONS; activation++) {
        if (i > 5 && activation != OMMAI_ACTIVATION_NONE && activation != (enum ommai_activation)(i % OMMAI_ACTIVATIONS))
          continue;
        check_call(&p, OMMA_F32, activation, false);
        if (activation == OMMAI_ACTIVATION_NONE) check_call(&p, OMMA_F32, activation, true);
        if (compute == OMMA_BF16) check_call(&p, OMMA_BF16, activation, false);
      }
      problem_free(&p);
    }
  }
}

/* A bf16 y is the f32 y, rounded once. */
static void bf16_results_round_once(void **state) {
  (void)state;
  set_gaps(false);
  struct problem p;
  problem_make(&p, 130, 100, OMMA_BF16, true);
  int64_t count = ROWS * (p.n_out + y_gap);
  float *wide = calloc((size_t)count, sizeof *wide);
  ommai_bf16 *narrow = calloc((size_t)count, sizeof *narrow);
  for (enum ommai_activation activation = OMMAI_ACTIVATION_NONE; activation < OMMAI_ACTIVATIONS; activation++) {
    struct ommai_linear_op *f32 = make_op(&p, OMMA_F32, activation, false);
    struct ommai_linear_op *bf16 = make_op(&p, OMMA_BF16, activation, false);
    fill_y(&p, wide, OMMA_F32);
    fill_y(&p, narrow, OMMA_BF16);
    assert_int_equal(ommai_linear_run(f32, p.input, wide, ROWS, 0, NULL), OMMA_OK);
    assert_int_equal(ommai_linear_run(bf16, p.input, narrow, ROWS, 0, NULL), OMMA_OK);
    for (int64_t i = 0; i < count; i++) assert_int_equal(narrow[i], ommai_bf16_from_f32(wide[i]));
    ommai_linear_op_destroy(f32);
    ommai_linear_op_destroy(bf16);
  }
  free(wide);
  free(narrow);
  problem_free(&p);
}

/* Runs n_rows rows that begin with row `first` of the problem and compares them with `base`. */
static void check_same_bits(struct problem *p, const struct ommai_linear_op *op, int64_t first, int64_t n_rows, int worker,
                            const float *base) {
  size_t element = p->compute == OMMA_BF16 ? 2 : 4;
  int64_t x_stride = p->n_in + x_gap, y_stride = p->n_out + y_gap, n_all = most_rows();
  char *x = calloc((size_t)(n_rows * x_stride), element);
  float *y = malloc((size_t)(n_rows * y_stride) * sizeof *y);
  for (int64_t row = 0; row < n_rows; row++) {
    memcpy(x + (size_t)(row * x_stride) * element, (char *)p->input + (size_t)((first + row) % n_all * x_stride) * element,
           (size_t)x_stride * element);
  }
  assert_int_equal(ommai_linear_run(op, x, y, n_rows, worker, NULL), OMMA_OK);
  for (int64_t row = 0; row < n_rows; row++) {
    if (memcmp(y + row * y_stride, base + (first + row) % n_all * y_stride, (size_t)p->n_out * sizeof *y) != 0) {
      fail_msg("%lld x %lld, compute %d: row %lld differs when run as row %lld of %lld", (long long)p->n_in,
               (long long)p->n_out, p->compute, (long long)((first + row) % n_all), (long long)row, (long long)n_rows);
    }
  }
  free(x);
  free(y);
}

/* How far apart are row counts that stand for all: scalar kernels take rows singly. */
static int64_t rows_apart(int64_t step, int64_t singly) {
  if (level == OMMAI_CPU_SCALAR) return test_small() ? most_rows() - 1 : singly;
  return test_small() ? step + 6 : step;
}

static void rows_keep_their_bits(void **state) {
  set_gaps(*(bool *)*state);
  const int64_t n_all = most_rows();
  static const int64_t some[] = {1, 2, 15, 16, 17, 31, 32, 33, 64, 65, 70, 100, 127, 128};
  for (int i = 0; i < N_SHAPES; i++) {
    for (enum omma_dtype compute = OMMA_F32; compute <= OMMA_BF16; compute++) {
      struct problem p;
      problem_make_shape(&p, i, compute, true);
      struct ommai_linear_op *op = make_op(&p, OMMA_F32, (enum ommai_activation)(i % OMMAI_ACTIVATIONS), false);
      float *base = calloc((size_t)(ROWS * (p.n_out + y_gap)), sizeof *base);
      assert_int_equal(ommai_linear_run(op, p.input, base, n_all, 0, NULL), OMMA_OK);
      if (p.n_in * p.n_out <= 64 * 128) {
        for (int64_t n = 1; n <= n_all; n += rows_apart(1, 21)) check_same_bits(&p, op, n * 7 % n_all, n, (int)(n % 2), base);
      }
      for (size_t n = 0; n < sizeof some / sizeof some[0]; n += level == OMMAI_CPU_SCALAR || test_small() ? 4 : 1) {
        if (some[n] <= n_all) check_same_bits(&p, op, 0, some[n], 1, base);
      }
      for (int64_t shift = 1; shift < n_all; shift += level == OMMAI_CPU_SCALAR || test_small() ? ROWS : 37)
        check_same_bits(&p, op, shift, n_all, 0, base);
      free(base);
      ommai_linear_op_destroy(op);
      problem_free(&p);
    }
  }
}

/* Decoding has the bits of tiles: added or not, one row after the other or several. */
static void check_tiles_and_gemv(struct problem *p, bool accumulate, bool singly) {
  struct ommai_linear_op *op = make_op(p, OMMA_F32, OMMAI_ACTIVATION_NONE, accumulate);
  int64_t x_stride = p->n_in + x_gap, y_stride = p->n_out + y_gap, n_all = most_rows();
  size_t bytes = (size_t)(ROWS * y_stride) * sizeof(float), x_bytes = (size_t)x_stride * (p->compute == OMMA_BF16 ? 2 : 4);
  float *tile = malloc(bytes), *few = malloc(bytes);
  fill_y(p, tile, OMMA_F32);
  fill_y(p, few, OMMA_F32);
  assert_int_equal(ommai_linear_run(op, p->input, tile, n_all, 0, NULL), OMMA_OK);
  for (int64_t row = 0, n = singly ? 1 : n_all; row < n_all; row += n, n = row % 16 + 1) {
    ommai_linear_gemv(p->linear, (char *)p->input + (size_t)row * x_bytes, x_stride, n < n_all - row ? n : n_all - row,
                      few + row * y_stride, y_stride, accumulate, 0, ommai_linear_n_panels(p->linear));
  }
  assert_memory_equal(tile, few, bytes);
  free(tile);
  free(few);
  ommai_linear_op_destroy(op);
}

static void tiles_have_the_bits_of_gemv(void **state) {
  set_gaps(*(bool *)*state);
  for (int i = 0; i < 2 * N_SHAPES; i++) {
    struct problem p;
    problem_make_shape(&p, i / 2, i & 1 ? OMMA_BF16 : OMMA_F32, true);
    for (int call = 0; call < 4; call++) check_tiles_and_gemv(&p, call & 1, !(call & 2));
    problem_free(&p);
  }
}

/* A layer in parts, the last one narrow, gives the bits of the whole, and writes nothing else. */
static void parts_keep_the_bits(void **state) {
  (void)state;
  for (int call_index = 0; call_index < 8; call_index++) {
    enum omma_dtype compute = call_index & 1 ? OMMA_BF16 : OMMA_F32, y_type = call_index & 2 ? compute : OMMA_F32;
    bool accumulate = call_index & 4 && y_type == OMMA_F32;
    struct omma_error error;
    struct problem p;
    set_gaps(call_index & 1);
    f32_format = call_index & 2 ? OMMAI_FORMAT_BF16 : OMMAI_FORMAT_F32;
    problem_make(&p, 136, 2 * OMMAI_LINEAR_PART_PANELS * 64 + 70, compute, !accumulate);
    struct ommai_linear_call call = {p.n_in + x_gap, p.n_out + y_gap, y_type, OMMAI_ACTIVATION_NONE, accumulate, 0, 0};
    struct ommai_linear_op *op = make_op(&p, y_type, OMMAI_ACTIVATION_NONE, accumulate);
    struct ommai_linear_parts *parts;
    assert_ok(ommai_linear_parts_create(linear_context, p.linear, &call, &parts, &error), &error);
    assert_int_equal(ommai_linear_parts_count(parts), 3);
    size_t bytes = (size_t)(ROWS * call.y_stride) * sizeof(float);
    void *whole = ommai_allocate(&ommai_default_allocator, bytes, 1), *cut = ommai_allocate(&ommai_default_allocator, bytes, 1);
    for (int64_t count = 1; count <= most_rows(); count += rows_apart(count % 16 == 1 ? 6 : 1, 42)) {
      size_t compared = (size_t)(count * call.y_stride) * (y_type == OMMA_BF16 ? 2 : 4);
      fill_y(&p, whole, y_type);
      fill_y(&p, cut, y_type);
      assert_int_equal(ommai_linear_run(op, p.input, whole, count, 0, NULL), OMMA_OK);
      for (int64_t part = 3; part-- > 0;) {
        assert_int_equal(
            ommai_linear_parts_run(parts, part, &(struct ommai_linear_rows){.x = p.input, .x_stride = p.n_in + x_gap}, 0, cut,
                                   count, (int)part % 2, NULL),
            OMMA_OK);
      }
      assert_memory_equal(cut, whole, compared);
    }
    ommai_release(&ommai_default_allocator, whole, bytes, 1);
    ommai_release(&ommai_default_allocator, cut, bytes, 1);
    ommai_linear_parts_destroy(parts);
    ommai_linear_op_destroy(op);
    problem_free(&p);
  }
}

struct threads_context {
  struct problem *problem;
  const struct ommai_linear_op *op;
  const float *base;
};

static void run_task(void *context, int64_t task, int worker) {
  struct threads_context *c = context;
  check_same_bits(c->problem, c->op, task * 11 % most_rows(), 1 + task * 29 % most_rows(), worker, c->base);
}

static int count_threads(void) {
  FILE *file = fopen("/proc/self/status", "r");
  char line[200];
  int count = -1;
  while (file && fgets(line, sizeof line, file)) sscanf(line, "Threads: %d", &count);
  if (file) fclose(file);
  return count;
}

/* Workers at the same time, no thread that is not ours, and nothing taken from our allocator. */
static void workers_share_a_layer(void **state) {
  (void)state;
  set_gaps(true);
  struct omma_error error;
  struct ommai_team *team;
  assert_ok(ommai_team_create(2, false, &ommai_default_allocator, &team, &error), &error);
  int n_threads = count_threads();
  for (enum omma_dtype compute = OMMA_F32; compute <= OMMA_BF16; compute++) {
    struct problem p;
    problem_make(&p, 300, 130, compute, true);
    struct ommai_linear_op *op = make_op(&p, OMMA_F32, OMMAI_ACTIVATION_SILU, false);
    float *base = calloc((size_t)(ROWS * (p.n_out + y_gap)), sizeof *base);
    assert_int_equal(ommai_linear_run(op, p.input, base, most_rows(), 0, NULL), OMMA_OK);
    int64_t before = allocator.n_allocations;
    struct threads_context context = {&p, op, base};
    ommai_team_run(ommai_team_interface(team), 64, run_task, &context);
    assert_int_equal(allocator.n_allocations, before);
    free(base);
    ommai_linear_op_destroy(op);
    problem_free(&p);
  }
  assert_int_equal(count_threads(), n_threads);
  ommai_team_destroy(team);
}

static void gemv_agrees_with_double_precision(void **state) {
  (void)state;
  set_gaps(true);
  for (int i = 0; i < N_SHAPES; i++) {
    for (enum omma_dtype compute = OMMA_F32; compute <= OMMA_BF16; compute++) {
      struct problem p;
      problem_make_shape(&p, i, compute, i % 3 != 0);
      void *y = calloc((size_t)(ROWS * (p.n_out + y_gap)), sizeof(float));
      for (int accumulate = 0; accumulate <= 1; accumulate++) {
        fill_y(&p, y, OMMA_F32);
        ommai_linear_gemv(p.linear, p.input, p.n_in + x_gap, 7, y, p.n_out + y_gap, accumulate, 0,
                          ommai_linear_n_panels(p.linear));
        for (int64_t row = 0; row < 7; row++) {
          check_row(&p, p.x + row * p.n_in, y, row, OMMA_F32, OMMAI_ACTIVATION_NONE, accumulate);
        }
      }
      free(y);
      problem_free(&p);
    }
  }
}

static void gemv_rows_keep_their_bits(void **state) {
  (void)state;
  set_gaps(true);
  for (int i = 0; i < N_SHAPES; i++) {
    for (enum omma_dtype compute = OMMA_F32; compute <= OMMA_BF16; compute++) {
      struct problem p;
      problem_make_shape(&p, i, compute, true);
      int64_t x_stride = p.n_in + x_gap, y_stride = p.n_out + y_gap, n_panels = ommai_linear_n_panels(p.linear);
      size_t element = compute == OMMA_BF16 ? 2 : 4;
      float *base = calloc((size_t)(40 * y_stride), sizeof *base), *y = calloc((size_t)(40 * y_stride), sizeof *y);
      ommai_linear_gemv(p.linear, p.input, x_stride, 40, base, y_stride, false, 0, n_panels);
      for (int64_t n = 1; n <= 18; n += n < 8 ? 1 : 5) {
        int64_t first = n * 3 % 20;
        for (int64_t panel = n_panels - 1; panel >= 0; panel--) {
          ommai_linear_gemv(p.linear, (char *)p.input + (size_t)(first * x_stride) * element, x_stride, n, y, y_stride, false,
                            panel, 1);
        }
        for (int64_t row = 0; row < n; row++) {
          assert_memory_equal(y + row * y_stride, base + (first + row) * y_stride, (size_t)p.n_out * sizeof *y);
        }
      }
      free(base);
      free(y);
      problem_free(&p);
    }
  }
}

/* Three sources of different types at odd addresses, the last one transposed, are one layer. */
static void sources_stack(void **state) {
  (void)state;
  set_gaps(true);
  enum { N_IN = 77 };
  static const int64_t n_out[3] = {70, 1, 130};
  struct omma_error error;
  struct problem p;
  for (enum omma_dtype compute = OMMA_F32; compute <= OMMA_BF16; compute++) {
    problem_make(&p, N_IN, 201, compute, true);
    for (int64_t i = 0; i < 201 * N_IN; i++) p.w[i] = ommai_bf16_to_f32(ommai_bf16_from_f32(p.w[i]) & 0xfff0u);
    struct ommai_linear_source sources[3];
    char *memory[3];
    for (int64_t s = 0, row = 0; s < 3; row += n_out[s++]) {
      memory[s] = malloc((size_t)(n_out[s] * N_IN) * 4 + 1);
      char *weight = memory[s] + 1;
      for (int64_t i = 0; i < n_out[s] * N_IN; i++) {
        float value = p.w[row * N_IN + i];
        ommai_bf16 bf16 = ommai_bf16_from_f32(value);
        ommai_f16 f16 = ommai_f16_from_f32(value);
        if (s == 0) memcpy(weight + 2 * i, &bf16, 2);
        if (s == 1) memcpy(weight + 2 * i, &f16, 2);
        /* transposed */
        if (s == 2) memcpy(weight + 4 * (i % N_IN * n_out[s] + i / N_IN), &value, 4);
        if (s == 1) p.w[row * N_IN + i] = rounded(ommai_f16_to_f32(f16), OMMA_BF16);
      }
      sources[s] = (struct ommai_linear_source){weight,   (enum omma_dtype[]){OMMA_BF16, OMMA_F16, OMMA_F32}[s],
                                                n_out[s], s == 1 ? NULL : p.b + row,
                                                OMMA_F32, s == 2,
                                                NULL,     0};
      if (s == 1) p.b[row] = 0;
    }
    ommai_linear_destroy(p.linear);
    struct ommai_linear_spec spec = dense(N_IN, compute);
    assert_ok(ommai_linear_create(linear_context, &spec, sources, 3, NULL, &p.linear, &error), &error);
    assert_int_equal(ommai_linear_n_out(p.linear), 201);
    assert_int_equal(ommai_linear_n_in(p.linear), N_IN);
    spec.n_out = 201;
    assert_int_equal(ommai_linear_bytes(p.linear), ommai_linear_bytes_for(linear_context, &spec));
    check_call(&p, OMMA_F32, OMMAI_ACTIVATION_NONE, false);
    for (int s = 0; s < 3; s++) free(memory[s]);
    problem_free(&p);
  }
}

/* A stored matrix whose values are an array's. */
struct stored_array {
  const float *values;
  int64_t n_in;
};

static void stored_values(const void *context, int64_t output, int64_t first, int64_t n, float *out) {
  const struct stored_array *array = context;
  memcpy(out, array->values + output * array->n_in + first, (size_t)n * sizeof *out);
}

static void stored_matrices_pack_as_their_values(void **state) {
  (void)state;
  set_gaps(false);
  enum { N_IN = 97, N_OUT = 130, SKIPPED = 3 };
  for (int compute = 0; compute < 2; compute++) {
    struct problem p;
    struct omma_error error;
    problem_make(&p, N_IN, N_OUT, compute ? OMMA_BF16 : OMMA_F32, true);
    float *above = calloc((N_OUT + SKIPPED) * N_IN, sizeof *above);
    memcpy(above + SKIPPED * N_IN, p.w, sizeof *above * N_OUT * N_IN);
    const struct stored_array array = {above, N_IN};
    const struct ommai_stored_matrix stored = {.context = &array, .values = stored_values};
    const struct ommai_linear_source source = {
        .n_out = N_OUT, .bias = p.b, .bias_type = OMMA_F32, .stored = &stored, .first_output = SKIPPED};
    ommai_linear_destroy(p.linear);
    const struct ommai_linear_spec spec = dense(N_IN, p.compute);
    assert_ok(ommai_linear_create(linear_context, &spec, &source, 1, NULL, &p.linear, &error), &error);
    check_call(&p, OMMA_F32, OMMAI_ACTIVATION_NONE, false);
    free(above);
    problem_free(&p);
  }
}

static void bad_calls_are_refused(void **state) {
  (void)state;
  set_gaps(false);
  struct omma_error error;
  struct ommai_linear *linear;
  struct ommai_linear_op *op;
  struct ommai_linear_context *other;
  struct ommai_linear_source source = {&error, OMMA_F32, 0, NULL, OMMA_F32, false, NULL, 0};
  assert_fails(ommai_linear_context_create(level, 0, &allocator.interface, &other, &error), OMMA_ERROR_ARGUMENT, "0 workers",
               &error);
  struct ommai_linear_spec spec = dense(4, OMMA_F32);
  assert_fails(ommai_linear_create(linear_context, &spec, &source, 1, NULL, &linear, &error), OMMA_ERROR_ARGUMENT, "source 0",
               &error);
  source.n_out = OMMAI_LINEAR_MAX_SIZE + 1;
  assert_fails(ommai_linear_create(linear_context, &spec, &source, 1, NULL, &linear, &error), OMMA_ERROR_LIMIT, "outputs",
               &error);
  source.n_out = 1;
  spec.n_in = 0;
  assert_fails(ommai_linear_create(linear_context, &spec, &source, 1, NULL, &linear, &error), OMMA_ERROR_ARGUMENT, "0 inputs",
               &error);
  spec.n_in = INT64_MAX;
  assert_fails(ommai_linear_create(linear_context, &spec, &source, 1, NULL, &linear, &error), OMMA_ERROR_LIMIT, "inputs",
               &error);
  spec = (struct ommai_linear_spec){.n_in = 4, .format = OMMAI_FORMAT_F32, .compute = OMMA_F16};
  assert_fails(ommai_linear_create(linear_context, &spec, &source, 1, NULL, &linear, &error), OMMA_ERROR_ARGUMENT, "compute",
               &error);
  spec.compute = OMMA_BF16;
  assert_fails(ommai_linear_create(linear_context, &spec, &source, 1, NULL, &linear, &error), OMMA_ERROR_UNSUPPORTED,
               "bf16 over f32", &error);
  spec = dense(5, OMMA_F32);
  assert_int_equal(ommai_linear_bytes_for(linear_context, &spec), 0);
  spec.n_in = spec.n_out = INT64_MAX;
  assert_int_equal(ommai_linear_bytes_for(linear_context, &spec), 0);
  struct problem p;
  problem_make(&p, 8, 9, OMMA_F32, false);
  struct ommai_linear_call call = {7, 9, OMMA_F32, OMMAI_ACTIVATION_NONE, false, 0, 0};
  assert_fails(ommai_linear_op_create(linear_context, p.linear, &call, &op, &error), OMMA_ERROR_ARGUMENT, "strides 7", &error);
  call = (struct ommai_linear_call){8, 9, OMMA_BF16, OMMAI_ACTIVATION_NONE, false, 0, 0};
  assert_fails(ommai_linear_op_create(linear_context, p.linear, &call, &op, &error), OMMA_ERROR_ARGUMENT, "y may be", &error);
  call = (struct ommai_linear_call){8, 9, OMMA_F32, OMMAI_ACTIVATION_SILU, true, 0, 0};
  assert_fails(ommai_linear_op_create(linear_context, p.linear, &call, &op, &error), OMMA_ERROR_ARGUMENT, "without activation",
               &error);
  call = (struct ommai_linear_call){8, 9, OMMA_F32, OMMAI_ACTIVATION_NONE, false, 0, 2};
  assert_fails(ommai_linear_op_create(linear_context, p.linear, &call, &op, &error), OMMA_ERROR_ARGUMENT, "2 panels from 0",
               &error);
  call = (struct ommai_linear_call){8, 9, OMMA_F32, OMMAI_ACTIVATION_NONE, false, 1, 0};
  assert_fails(ommai_linear_op_create(linear_context, p.linear, &call, &op, &error), OMMA_ERROR_ARGUMENT, "0 panels from 1",
               &error);
  call = (struct ommai_linear_call){8, 9, OMMA_F32, OMMAI_ACTIVATION_NONE, false, INT64_MAX, INT64_MAX};
  assert_fails(ommai_linear_op_create(linear_context, p.linear, &call, &op, &error), OMMA_ERROR_ARGUMENT, "panels from",
               &error);
  op = make_op(&p, OMMA_F32, OMMAI_ACTIVATION_NONE, false);
  float y[14];
  assert_int_equal(ommai_linear_run(op, p.input, y, 0, 0, NULL), OMMA_ERROR_ARGUMENT);
  assert_int_equal(ommai_linear_run(op, p.input, y, ROWS + 1, 0, NULL), OMMA_ERROR_ARGUMENT);
  assert_int_equal(ommai_linear_run(op, p.input, y, 1, 2, NULL), OMMA_ERROR_ARGUMENT);
  ommai_linear_op_destroy(op);
  problem_free(&p);
  char text[400];
  ommai_linear_context_describe(linear_context, text, sizeof text);
  print_message("%s: %s\n", ommai_cpu_level_name(level), text);
  assert_non_null(strstr(text, linear_context->bf16_tile ? "bf16: own kernels" : "bf16: as f32"));
}

/* Engine, layer and op in one go, with an allocator that fails. */
static enum omma_status make_all(const struct omma_allocator *failing, struct omma_error *error) {
  static const float weight[20 * 10], bias[10];
  struct ommai_linear_source source = {weight, OMMA_F32, 10, bias, OMMA_F32, false, NULL, 0};
  const struct ommai_linear_spec spec = dense(20, OMMA_BF16);
  struct ommai_linear_call call = {20, 10, OMMA_BF16, OMMAI_ACTIVATION_GELU_TANH, false, 0, 0};
  struct ommai_linear_context *made = NULL;
  struct ommai_linear *linear = NULL;
  struct ommai_linear_op *op = NULL;
  struct ommai_linear_parts *parts = NULL;
  enum omma_status status = ommai_linear_context_create(level, 2, failing, &made, error);
  if (status == OMMA_OK) status = ommai_linear_create(made, &spec, &source, 1, NULL, &linear, error);
  if (status == OMMA_OK) status = ommai_linear_op_create(made, linear, &call, &op, error);
  if (status == OMMA_OK) status = ommai_linear_parts_create(made, linear, &call, &parts, error);
  ommai_linear_parts_destroy(parts);
  ommai_linear_op_destroy(op);
  ommai_linear_destroy(linear);
  ommai_linear_context_destroy(made);
  return status;
}

static void every_failed_allocation_is_reported(void **state) {
  (void)state;
  test_fail_every_allocation(make_all, 101);
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

static bool no_gaps = false, gaps = true;

static int run_level(const char *name) {
  struct omma_error error;
  if (ommai_cpu_select(name, &level, &error) != OMMA_OK) return 1;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_prestate(tiles_agree_with_double_precision, &no_gaps),
      cmocka_unit_test_prestate(tiles_agree_with_double_precision, &gaps),
      cmocka_unit_test(bf16_results_round_once),
      cmocka_unit_test_prestate(rows_keep_their_bits, &no_gaps),
      cmocka_unit_test_prestate(rows_keep_their_bits, &gaps),
      cmocka_unit_test_prestate(tiles_have_the_bits_of_gemv, &no_gaps),
      cmocka_unit_test_prestate(tiles_have_the_bits_of_gemv, &gaps),
      cmocka_unit_test(parts_keep_the_bits),
      cmocka_unit_test(workers_share_a_layer),
      cmocka_unit_test(gemv_agrees_with_double_precision),
      cmocka_unit_test(gemv_rows_keep_their_bits),
      cmocka_unit_test(sources_stack),
      cmocka_unit_test(stored_matrices_pack_as_their_values),
      cmocka_unit_test(bad_calls_are_refused),
      cmocka_unit_test(every_failed_allocation_is_reported),
  };
  return cmocka_run_group_tests_name(name, tests, open_engine, close_engine);
}

int main(void) { return fixture_run_levels(run_level); }
