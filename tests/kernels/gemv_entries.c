/* The micro-kernels for A few rows times a weight matrix. */
#include <math.h>
#include <stdlib.h>

#include "kernels/gemv.h"
#include "kernels/kernel_entry.h"

enum { COLUMNS = OMMAI_PANEL_COLUMNS, GROUP = OMMAI_GEMV_GROUP, MAX_K = 700, BENCH_K = 1024, BENCH_ROWS = 4 };
enum operation { PANEL_BF16, PANEL_F32, PANEL_MIXED, OPERATIONS };

static const char *const names[OPERATIONS] = {"gemv_panel_bf16", "gemv_panel_f32", "gemv_panel_mixed"};

/* A panel [k][64] (bf16: [k / 2][64][2]) and rows of x. */
struct product {
  enum operation operation;
  const struct ommai_gemv_kernels *kernels;
  int64_t n_k, x_stride;
  int n_rows, n_columns;
  struct guarded weights, x, sums;
};

static bool half_weights(enum operation operation) { return operation != PANEL_F32; }
static bool half_x(enum operation operation) { return operation == PANEL_BF16; }

static void store(struct guarded *memory, int64_t index, bool half, float value) {
  if (half) {
    ((ommai_bf16 *)(void *)memory->data)[index] = ommai_bf16_from_f32(value);
  } else {
    ((float *)(void *)memory->data)[index] = value;
  }
}

static double load(const struct guarded *memory, int64_t index, bool half) {
  return half ? ommai_bf16_to_f32(((const ommai_bf16 *)(void *)memory->data)[index])
              : ((const float *)(void *)memory->data)[index];
}

static int64_t weight_index(const struct product *p, int64_t k, int column) {
  return half_weights(p->operation) ? (k / 2 * COLUMNS + column) * 2 + k % 2 : k * COLUMNS + column;
}

static struct product make_product(struct test_random *random, enum operation operation, int64_t n_k, int n_rows, int64_t gap) {
  struct product p = {.operation = operation, .n_k = n_k, .n_rows = n_rows, .n_columns = COLUMNS};
  p.x_stride = n_k + gap;
  int64_t weights_k = half_weights(operation) ? (n_k + 1) / 2 * 2 : n_k;
  p.weights = kernel_memory((size_t)(weights_k * p.n_columns) * (half_weights(operation) ? 2 : 4));
  p.x = kernel_memory((size_t)((p.n_rows - 1) * p.x_stride + n_k) * (half_x(operation) ? 2 : 4));
  p.sums = kernel_memory((size_t)(p.n_rows * p.n_columns) * sizeof(float));
  for (int64_t k = 0; k < weights_k; k++) {
    for (int column = 0; column < p.n_columns; column++) {
      store(&p.weights, weight_index(&p, k, column), half_weights(operation), test_random_normal(random));
    }
  }
  for (int row = 0; row < p.n_rows; row++) {
    for (int64_t k = 0; k < n_k; k++) store(&p.x, row * p.x_stride + k, half_x(operation), test_random_normal(random));
  }
  return p;
}

static void free_product(struct product *p) {
  guarded_free(&p->weights);
  guarded_free(&p->x);
  guarded_free(&p->sums);
}

/* Sums of rows [first, first + count) from what is in `sums` on. */
static void run(const struct product *p, int first, int count, float *sums) {
  const unsigned char *x = p->x.data + (size_t)(first * p->x_stride) * (half_x(p->operation) ? 2 : 4);
  const void *weights = p->weights.data, *rows = x;
  switch (p->operation) {
    case PANEL_BF16: p->kernels->panel_bf16(weights, rows, p->x_stride, count, p->n_k, sums); break;
    case PANEL_F32: p->kernels->panel_f32(weights, rows, p->x_stride, count, p->n_k, sums); break;
    default: p->kernels->panel_mixed(weights, rows, p->x_stride, count, p->n_k, sums);
  }
}

/* Error of one sum over the largest that a chain of additions may make. */
static double error_at(const struct product *p, int row, int column, double before, double found) {
  double expected = before, terms = fabs(before);
  for (int64_t k = 0; k < p->n_k; k++) {
    double product = load(&p->weights, weight_index(p, k, column), half_weights(p->operation)) *
                     load(&p->x, row * p->x_stride + k, half_x(p->operation));
    expected += product;
    terms += fabs(product);
  }
  return fabs(found - expected) / ((double)(p->n_k + 2) * 0x1p-24 * terms + 1e-30);
}

static double check_gemv(const struct kernel_entry *entry, uint64_t seed) {
  struct test_random random = {seed};
  int64_t n_k = kernel_size(&random, 1, MAX_K, test_random_range(&random, 0, 1) ? 32 : 256);
  int n_rows = (int)kernel_size(&random, 1, GROUP, 4);
  struct product p = make_product(&random, (enum operation)entry->index, n_k, n_rows, test_random_range(&random, 0, 5));
  p.kernels = entry->kernel;
  float *sums = (float *)(void *)p.sums.data, before = 0.5f, alone[COLUMNS];
  for (int i = 0; i < p.n_rows * p.n_columns; i++) sums[i] = before;
  run(&p, 0, p.n_rows, sums);
  guarded_check(&p.sums, "sums");
  double worst = 0.0;
  for (int row = 0; row < p.n_rows; row++) {
    for (int column = 0; column < p.n_columns; column++) {
      double error = error_at(&p, row, column, before, sums[row * p.n_columns + column]);
      if (!(error <= 1.0)) {
        kernel_fail(entry, seed, "k %d, row %d of %d, column %d: %.3g of the bound", (int)n_k, row, p.n_rows, column, error);
      }
      worst = fmax(worst, error);
    }
    for (int column = 0; column < p.n_columns; column++) alone[column] = before;
    run(&p, row, 1, alone);
    if (memcmp(alone, sums + row * p.n_columns, (size_t)p.n_columns * sizeof *alone) != 0) {
      kernel_fail(entry, seed, "k %d: row %d of %d differs from that alone", (int)n_k, row, p.n_rows);
    }
  }
  free_product(&p);
  return worst;
}

static void bench_run(void *context) {
  const struct product *p = context;
  run(p, 0, p->n_rows, (float *)(void *)p->sums.data);
}

static void release_bench(void *context) {
  free_product(context);
  free(context);
}

static struct kernel_call gemv_call(const struct kernel_entry *entry) {
  struct test_random random = {1};
  struct product *p = calloc(1, sizeof *p);
  *p = make_product(&random, (enum operation)entry->index, BENCH_K, BENCH_ROWS, 0);
  p->kernels = entry->kernel;
  memset(p->sums.data, 0, p->sums.size);
  struct kernel_call call = {.run = bench_run, .release = release_bench, .context = p};
  call.flops = 2.0 * BENCH_K * p->n_rows * p->n_columns;
  call.half = half_x(p->operation);
  snprintf(call.shape, sizeof call.shape, "%d x %d x %d", p->n_rows, BENCH_K, p->n_columns);
  return call;
}

/* ---- panels side by side -------------------------------------------------------------------- */

enum { MAX_WIDE_ROWS = OMMAI_GEMV_WIDE_GROUP };

/* As many panels, apart from each other by some elements more than they have. */
struct side_by_side {
  const struct ommai_gemv_kernels *kernels;
  struct product product; /* of which a panel has weights of its own */
  int64_t panel_elements;
  int n_panels;
  struct guarded weights, sums;
};

static int64_t padded(int64_t n_k) { return (n_k + 31) / 32 * 32; }

static struct side_by_side make_side_by_side(struct test_random *random, const struct ommai_gemv_kernels *kernels, int64_t n_k,
                                             int n_rows, int n_panels) {
  struct side_by_side p = {.kernels = kernels, .n_panels = n_panels};
  p.product = make_product(random, PANEL_BF16, n_k, n_rows, test_random_range(random, 0, 5));
  p.panel_elements = padded(n_k) * COLUMNS + 2 * test_random_range(random, 0, 40);
  int64_t n = (n_panels - 1) * p.panel_elements + padded(n_k) * COLUMNS;
  p.weights = kernel_memory((size_t)n * sizeof(ommai_bf16));
  p.sums = kernel_memory((size_t)(n_panels * n_rows * COLUMNS) * sizeof(float));
  for (int64_t i = 0; i < n; i++) store(&p.weights, i, true, test_random_normal(random));
  return p;
}

static void free_side_by_side(struct side_by_side *p) {
  free_product(&p->product);
  guarded_free(&p->weights);
  guarded_free(&p->sums);
}

static ommai_bf16 *weights_of(const struct side_by_side *p, int panel) {
  return (ommai_bf16 *)(void *)p->weights.data + panel * p->panel_elements;
}

static const ommai_bf16 *row_of(const struct side_by_side *p, int row) {
  return (const ommai_bf16 *)(const void *)p->product.x.data + row * p->product.x_stride;
}

static void run_side_by_side(void *context) {
  const struct side_by_side *p = context;
  p->kernels->panels_bf16(weights_of(p, 0), p->panel_elements, p->n_panels, row_of(p, 0), p->product.x_stride,
                          p->product.n_rows, p->product.n_k, (float *)(void *)p->sums.data);
}

/* A row of a panel: within the bound, and with the bits that it has alone. */
static double check_row(const struct kernel_entry *entry, uint64_t seed, struct side_by_side *p, int panel, int row) {
  const float *sums = (const float *)(const void *)p->sums.data + (panel * p->product.n_rows + row) * COLUMNS;
  float alone[COLUMNS];
  double worst = 0.0;
  for (int column = 0; column < COLUMNS; column++) {
    double error = error_at(&p->product, row, column, 0.0, sums[column]);
    if (!(error <= 1.0)) {
      kernel_fail(entry, seed, "k %d, panel %d, row %d of %d, column %d: %.3g of the bound", (int)p->product.n_k, panel, row,
                  p->product.n_rows, column, error);
    }
    worst = fmax(worst, error);
  }
  p->kernels->panels_bf16(weights_of(p, panel), 0, 1, row_of(p, row), 0, 1, p->product.n_k, alone);
  if (memcmp(alone, sums, sizeof alone) != 0) {
    kernel_fail(entry, seed, "k %d: panel %d, row %d of %d differ from those alone", (int)p->product.n_k, panel, row,
                p->product.n_rows);
  }
  return worst;
}

static double check_side_by_side(const struct kernel_entry *entry, uint64_t seed) {
  struct test_random random = {seed};
  int64_t n_k = kernel_size(&random, 1, MAX_K, test_random_range(&random, 0, 1) ? 32 : 256);
  int n_rows = (int)kernel_size(&random, 1, MAX_WIDE_ROWS, 16),
      n_panels = (int)test_random_range(&random, 1, OMMAI_GEMV_PANELS);
  struct side_by_side p = make_side_by_side(&random, entry->kernel, n_k, n_rows, n_panels);
  double worst = 0.0;
  run_side_by_side(&p);
  guarded_check(&p.sums, "sums");
  for (int panel = 0; panel < n_panels; panel++) {
    memcpy(p.product.weights.data, weights_of(&p, panel), p.product.weights.size);
    for (int row = 0; row < n_rows; row++) worst = fmax(worst, check_row(entry, seed, &p, panel, row));
  }
  free_side_by_side(&p);
  return worst;
}

static void release_side_by_side(void *context) {
  free_side_by_side(context);
  free(context);
}

static struct kernel_call side_by_side_call(const struct kernel_entry *entry) {
  struct test_random random = {1};
  struct side_by_side *p = calloc(1, sizeof *p);
  *p = make_side_by_side(&random, entry->kernel, BENCH_K, BENCH_ROWS, OMMAI_GEMV_PANELS);
  struct kernel_call call = {.run = run_side_by_side, .release = release_side_by_side, .context = p};
  call.flops = 2.0 * BENCH_K * BENCH_ROWS * OMMAI_GEMV_PANELS * COLUMNS;
  call.half = true;
  snprintf(call.shape, sizeof call.shape, "%d x %d x %d", BENCH_ROWS, BENCH_K, OMMAI_GEMV_PANELS * COLUMNS);
  return call;
}

/* ---- entries -------------------------------------------------------------------------------- */

static bool same_kernel(const struct ommai_gemv_kernels *a, const struct ommai_gemv_kernels *b, int operation) {
  switch ((enum operation)operation) {
    case PANEL_BF16: return a->panel_bf16 == b->panel_bf16;
    case PANEL_F32: return a->panel_f32 == b->panel_f32;
    default: return a->panel_mixed == b->panel_mixed;
  }
}

/* A kernel that the scalar level has under another name. */
static void add_named(struct kernel_list *list, const struct kernel_family *family, const char *name,
                      const struct ommai_gemv_kernels *kernels, int operation) {
  struct kernel_entry *entry = kernel_list_add(list, family, name, kernels->level, kernels, operation);
  snprintf(entry->scalar, sizeof entry->scalar, "%s_scalar", names[operation]);
}

/* What a table has of its own for a small first level of cache. */
static void add_small_l1(struct kernel_list *list, const struct kernel_family *family,
                         const struct ommai_gemv_kernels *kernels) {
  for (int i = 0; i < OPERATIONS; i++) {
    char name[64];
    snprintf(name, sizeof name, "%s_small_l1", names[i]);
    if (!same_kernel(kernels, kernels->small_l1, i)) add_named(list, family, name, kernels->small_l1, i);
  }
}

/* A kernel belongs to the lowest level that has it. */
void kernel_list_gemv(struct kernel_list *list) {
  static const struct kernel_family family = {check_gemv, gemv_call}, side_by_side = {check_side_by_side, side_by_side_call};
  for (int table = 0; ommai_gemv_kernels[table]; table++) {
    const struct ommai_gemv_kernels *kernels = ommai_gemv_kernels[table];
    for (int i = kernels->panels_bf16 ? PANEL_F32 : PANEL_BF16; i < OPERATIONS; i++) {
      bool known = false;
      for (int lower = 0; lower < table; lower++) known = known || same_kernel(ommai_gemv_kernels[lower], kernels, i);
      if (!known) kernel_list_add(list, &family, names[i], kernels->level, kernels, i);
    }
    if (kernels->panels_bf16) add_named(list, &side_by_side, "gemv_panels_bf16", kernels, PANEL_BF16);
    if (kernels->small_l1) add_small_l1(list, &family, kernels);
  }
}
