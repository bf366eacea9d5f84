/* The gated delta rule: against the recurrence in double precision; and a row's bits, however many
 * rows of its block come after it. */
#include <math.h>
#include <stdlib.h>

#include "kernels/delta_rule.h"
#include "kernels/kernel_entry.h"
#include "support/guarded.h"

enum { COLUMNS = OMMAI_DELTA_COLUMNS, BENCH_DIM = 128 };

struct head {
  struct ommai_delta_rows rows;
  struct guarded keys_queries, values, factors, state, out;
};

static float *floats(const struct guarded *memory) { return (float *)(void *)memory->data; }

static struct guarded random_floats(struct test_random *random, int64_t n) {
  struct guarded memory = guarded_new((size_t)n * sizeof(float), test_random_range(random, 0, 1));
  for (int64_t i = 0; i < n; i++) floats(&memory)[i] = test_random_normal(random);
  return memory;
}

/* Keys of length 1 and queries of about that, decays and rates in 0 .. 1, some of them 0 or 1. */
static struct head make_head(struct test_random *random, int64_t n, int64_t key_dim, int64_t value_dim) {
  struct head head = {.rows = {.n_rows = n, .key_dim = key_dim, .value_dim = value_dim}};
  head.keys_queries = random_floats(random, 2 * n * key_dim);
  head.values = random_floats(random, n * value_dim);
  head.factors = random_floats(random, 2 * n);
  head.state = random_floats(random, key_dim * value_dim);
  head.out = random_floats(random, n * value_dim);
  for (int64_t i = 0; i < 2 * n; i++) {
    float *row = floats(&head.keys_queries) + i * key_dim, sum = 0, *factor = floats(&head.factors) + i;
    for (int64_t k = 0; k < key_dim; k++) sum += row[k] * row[k];
    for (int64_t k = 0; k < key_dim; k++) row[k] /= sqrtf(sum + 1e-6f);
    *factor = test_random_range(random, 0, 9) ? 1 / (1 + expf(-3 * *factor)) : (float)test_random_range(random, 0, 1);
  }
  head.rows.keys_queries = floats(&head.keys_queries);
  head.rows.values = floats(&head.values);
  head.rows.decays = floats(&head.factors);
  head.rows.rates = floats(&head.factors) + n;
  return head;
}

static void free_head(struct head *head) {
  guarded_free(&head->keys_queries);
  guarded_free(&head->values);
  guarded_free(&head->factors);
  guarded_free(&head->state);
  guarded_free(&head->out);
}

static double *state_at(const struct ommai_delta_rows *rows, double *state, int64_t k, int64_t c) {
  return &state[(c / COLUMNS * rows->key_dim + k) * COLUMNS + c % COLUMNS];
}

/* One row in double, over a state of the kernel's layout. */
static void step(const struct ommai_delta_rows *rows, int64_t row, double *state, double *out) {
  const float *key = rows->keys_queries + 2 * row * rows->key_dim, *query = key + rows->key_dim;
  for (int64_t c = 0; c < rows->value_dim; c++) {
    double seen = 0;
    for (int64_t k = 0; k < rows->key_dim; k++) seen += (*state_at(rows, state, k, c) *= rows->decays[row]) * key[k];
    double change = rows->rates[row] * (rows->values[row * rows->value_dim + c] - seen);
    out[c] = 0;
    for (int64_t k = 0; k < rows->key_dim; k++) out[c] += (*state_at(rows, state, k, c) += key[k] * change) * query[k];
  }
}

/* The larger error; NaN is the largest. */
static double worse(double worst, double error) { return isnan(error) || error > worst ? error : worst; }

/* Outputs of all rows, and the state after them, over what is allowed. */
static double error_of(const struct head *head, const float *before, const float *after) {
  const struct ommai_delta_rows *rows = &head->rows;
  size_t n_state = (size_t)(rows->key_dim * rows->value_dim);
  double *state = calloc(n_state, sizeof *state), *out = calloc((size_t)rows->value_dim, sizeof *out), worst = 0;
  for (size_t i = 0; i < n_state; i++) state[i] = before[i];
  for (int64_t row = 0; row < rows->n_rows; row++) {
    step(rows, row, state, out);
    for (int64_t c = 0; c < rows->value_dim; c++) {
      worst = worse(worst, fabs(floats(&head->out)[row * rows->value_dim + c] - out[c]));
    }
  }
  for (size_t i = 0; i < n_state; i++) worst = worse(worst, fabs(after[i] - state[i]));
  free(state);
  free(out);
  /* sums of key_dim products of numbers of about 1, and of as many as there are rows */
  return worst / (0x1p-23 * 4 * ((double)rows->n_rows + sqrt((double)rows->key_dim)));
}

/* Each row must be what it is as the last of its block. */
static void check_rows_alone(const struct kernel_entry *entry, uint64_t seed, const struct head *head, const float *before,
                             float *scratch) {
  const struct ommai_delta_kernels *kernels = entry->kernel;
  const struct ommai_delta_rows *rows = &head->rows;
  float out[OMMAI_DELTA_ROWS * OMMAI_DELTA_MAX_DIM];
  for (int64_t n = 1; n < rows->n_rows; n++) {
    struct ommai_delta_rows fewer = *rows;
    fewer.n_rows = n;
    kernels->run(&fewer, before, scratch, out);
    if (memcmp(out, floats(&head->out), (size_t)(n * rows->value_dim) * sizeof *out) == 0) continue;
    kernel_fail(entry, seed, "rows of %d differ as a block of their own from those of %d", (int)n, (int)rows->n_rows);
  }
}

static double check_delta(const struct kernel_entry *entry, uint64_t seed) {
  const struct ommai_delta_kernels *kernels = entry->kernel;
  struct test_random random = {seed};
  bool released = test_random_range(&random, 0, 1);
  int64_t key_dim = released ? BENCH_DIM : test_random_range(&random, 1, OMMAI_DELTA_MAX_DIM);
  int64_t value_dim = released ? BENCH_DIM : COLUMNS * test_random_range(&random, 1, OMMAI_DELTA_MAX_DIM / COLUMNS);
  struct head head = make_head(&random, test_random_range(&random, 1, OMMAI_DELTA_ROWS), key_dim, value_dim);
  struct guarded other = guarded_new(head.state.size, true), scratch = guarded_new(head.state.size, true);
  kernels->run(&head.rows, floats(&head.state), floats(&other), floats(&head.out));
  guarded_check(&other, "state");
  guarded_check(&head.out, "out");
  double error = error_of(&head, floats(&head.state), floats(&other));
  if (!(error <= 1.0)) {
    kernel_fail(entry, seed, "%d rows, %d x %d: %.3g of the bound", (int)head.rows.n_rows, (int)key_dim, (int)value_dim, error);
  }
  check_rows_alone(entry, seed, &head, floats(&head.state), floats(&scratch));
  kernels->run(&head.rows, floats(&head.state), floats(&head.state), floats(&head.out));
  if (memcmp(head.state.data, other.data, other.size) != 0) kernel_fail(entry, seed, "%s", "the state differs in place");
  guarded_free(&other);
  guarded_free(&scratch);
  free_head(&head);
  return error;
}

struct bench {
  const struct ommai_delta_kernels *kernels;
  struct head head;
};

static void run_bench(void *context) {
  const struct bench *bench = context;
  float *state = floats(&bench->head.state);
  bench->kernels->run(&bench->head.rows, state, state, floats(&bench->head.out));
}

static void release_bench(void *context) {
  struct bench *bench = context;
  free_head(&bench->head);
  free(bench);
}

/* flops: those of the recurrence, three products of the state's size for each row. */
static struct kernel_call delta_call(const struct kernel_entry *entry) {
  struct test_random random = {1};
  struct bench *bench = calloc(1, sizeof *bench);
  int64_t n = entry->index ? 1 : OMMAI_DELTA_ROWS;
  *bench = (struct bench){entry->kernel, make_head(&random, n, BENCH_DIM, BENCH_DIM)};
  struct kernel_call call = {.run = run_bench, .release = release_bench, .context = bench};
  call.flops = 6.0 * (double)n * BENCH_DIM * BENCH_DIM;
  snprintf(call.shape, sizeof call.shape, "%d rows, %d x %d", (int)n, BENCH_DIM, BENCH_DIM);
  return call;
}

void kernel_list_delta(struct kernel_list *list) {
  static const struct kernel_family family = {check_delta, delta_call};
  for (int i = 0; ommai_delta_kernels[i]; i++) {
    kernel_list_add(list, &family, "delta_block", ommai_delta_kernels[i]->level, ommai_delta_kernels[i], 0);
    kernel_list_add(list, &family, "delta_step", ommai_delta_kernels[i]->level, ommai_delta_kernels[i], 1);
  }
}
