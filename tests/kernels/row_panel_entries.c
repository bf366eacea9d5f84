/* The row operations on panels: each value to the bit, and nothing else touched. */
#include <stdlib.h>

#include "base/half.h"
#include "kernels/gemv.h"
#include "kernels/kernel_entry.h"
#include "kernels/row_ops.h"

enum { PANEL = OMMAI_PANEL_COLUMNS, MAX_ROWS = 9, BENCH_ROWS = 24, MAX_GAP = 20 };

enum operation { SCALE, ADD_SCALED, CONVERT, OPERATIONS };
static const char *const names[OPERATIONS] = {"row_scale_panel", "row_add_scaled_panel", "row_convert_panel"};

/* A panel's rows, of which n values each go to rows that are `stride` apart. */
struct problem {
  int64_t n_rows, n, stride;
  enum omma_dtype type; /* of out */
  struct guarded x, scales, bias, out;
};

static struct guarded random_floats(struct test_random *random, int64_t count) {
  struct guarded memory = kernel_memory((size_t)count * sizeof(float));
  for (int64_t i = 0; i < count; i++) ((float *)(void *)memory.data)[i] = test_random_normal(random);
  return memory;
}

static struct problem make_problem(struct test_random *random, int64_t n_rows, int64_t n, int64_t gap, enum omma_dtype type) {
  struct problem problem = {.n_rows = n_rows, .n = n, .stride = n + gap, .type = type};
  problem.x = random_floats(random, n_rows * PANEL);
  problem.scales = random_floats(random, n_rows);
  problem.bias = random_floats(random, n);
  problem.out = kernel_memory((size_t)((n_rows - 1) * problem.stride + n) * (type == OMMA_F32 ? 4 : 2));
  for (size_t i = 0; i < problem.out.size / 2; i++) { /* as either type a number near 1 */
    ((uint16_t *)(void *)problem.out.data)[i] = (uint16_t)(0x3f80 + test_random_range(random, 0, 127));
  }
  return problem;
}

static void free_problem(struct problem *problem) {
  guarded_free(&problem->x);
  guarded_free(&problem->scales);
  guarded_free(&problem->bias);
  guarded_free(&problem->out);
}

static const float *floats(const struct guarded *memory) { return (const float *)(const void *)memory->data; }

static void run(const struct ommai_row_ops *ops, int operation, const struct problem *problem) {
  const float *x = floats(&problem->x), *scales = floats(&problem->scales), *bias = floats(&problem->bias);
  void *out = problem->out.data;
  switch ((enum operation)operation) {
    case SCALE: ops->scale_panel(x, scales, bias, problem->n_rows, problem->n, out, problem->stride); break;
    case ADD_SCALED: ops->add_scaled_panel(out, problem->stride, x, scales, bias, problem->n_rows, problem->n); break;
    case CONVERT: ops->convert_panel(x, problem->n_rows, problem->n, out, problem->stride, problem->type); break;
    case OPERATIONS: break;
  }
}

/* What value `at` of a row becomes, in f32. */
static float expected_at(const struct problem *problem, int operation, int64_t row, int64_t at, float before) {
  float x = floats(&problem->x)[row * PANEL + at], product = x * floats(&problem->scales)[row];
  float scaled = product + floats(&problem->bias)[at];
  return operation == CONVERT ? x : operation == SCALE ? scaled : before + scaled;
}

/* Whether value `at` of a row, from n on of the gap behind it, is as it shall be. */
static bool is_right(const struct problem *problem, int operation, int64_t row, int64_t at, const unsigned char *before) {
  size_t bytes = problem->type == OMMA_F32 ? sizeof(float) : sizeof(ommai_bf16);
  size_t place = (size_t)(row * problem->stride + at) * bytes;
  const unsigned char *found = problem->out.data + place;
  if (at >= problem->n) return memcmp(found, before + place, bytes) == 0;
  float old = 0.0f;
  if (operation == ADD_SCALED) memcpy(&old, before + place, sizeof old);
  float wide = expected_at(problem, operation, row, at, old);
  ommai_bf16 narrow = ommai_bf16_from_f32(wide);
  return memcmp(found, problem->type == OMMA_F32 ? (const void *)&wide : &narrow, bytes) == 0;
}

static double check(const struct kernel_entry *entry, uint64_t seed) {
  struct test_random random = {seed};
  int64_t n_rows = kernel_size(&random, 1, MAX_ROWS, 1), n = kernel_size(&random, 1, PANEL, 16);
  int64_t gap = test_random_range(&random, 0, MAX_GAP);
  bool narrow = test_random_range(&random, 0, 1) && entry->index == CONVERT;
  struct problem problem = make_problem(&random, n_rows, n, gap, narrow ? OMMA_BF16 : OMMA_F32);
  unsigned char *before = malloc(problem.out.size);
  memcpy(before, problem.out.data, problem.out.size);
  run(entry->kernel, entry->index, &problem);
  guarded_check(&problem.out, "out");
  for (int64_t row = 0; row < n_rows; row++) {
    int64_t end = row + 1 < n_rows ? problem.stride : n;
    for (int64_t at = 0; at < end; at++) {
      if (is_right(&problem, entry->index, row, at, before)) continue;
      kernel_fail(entry, seed, "%d rows of %d, %d apart: row %d, value %d", (int)n_rows, (int)n, (int)problem.stride, (int)row,
                  (int)at);
    }
  }
  free(before);
  free_problem(&problem);
  return 0;
}

struct bench {
  const struct kernel_entry *entry;
  struct problem problem;
};

static void bench_run(void *context) {
  struct bench *bench = context;
  run(bench->entry->kernel, bench->entry->index, &bench->problem);
}

static void release_bench(void *context) {
  struct bench *bench = context;
  free_problem(&bench->problem);
  free(bench);
}

static struct kernel_call call(const struct kernel_entry *entry) {
  struct test_random random = {1};
  struct bench *bench = calloc(1, sizeof *bench);
  bench->entry = entry;
  bench->problem = make_problem(&random, BENCH_ROWS, PANEL, 0, entry->index == CONVERT ? OMMA_BF16 : OMMA_F32);
  struct kernel_call call = {.run = bench_run, .release = release_bench, .context = bench};
  snprintf(call.shape, sizeof call.shape, "%d rows", BENCH_ROWS);
  return call;
}

void kernel_list_row_panels(struct kernel_list *list) {
  static const struct kernel_family family = {check, call};
  const struct ommai_row_ops *before = NULL;
  for (int level = 0; level < OMMAI_CPU_LEVELS; level++) {
    const struct ommai_row_ops *ops = ommai_row_ops(level);
    if (ops == before || (int)ops->level != level) continue;
    for (int i = 0; i < OPERATIONS; i++) kernel_list_add(list, &family, names[i], ops->level, ops, i);
    before = ops;
  }
}
