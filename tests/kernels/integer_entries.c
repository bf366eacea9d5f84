/* The kernels for panels of integer weights, all of which have the scalar code's bits. */
#include <math.h>
#include <stdlib.h>

#include "base/checked.h"
#include "kernels/integer_panel.h"
#include "kernels/kernel_entry.h"

enum { PANEL = OMMAI_PANEL_COLUMNS, MAX_ROWS = 40, MAX_K = 2176, S8 = 0, U6, U4, KINDS };

static const struct {
  const char *name;
  int bits, zero; /* without minimums */
} kinds[KINDS] = {{"s8", 8, 0}, {"u6", 6, 32}, {"u4", 4, 8}};

/* A panel and rows, each between its pages. */
struct trial {
  struct ommai_integer_panel panel;
  struct ommai_integer_rows rows;
  struct guarded weights, scales, codes, halves, weight_sums, x, sums, zeros, out;
};

static struct guarded random_bytes(struct test_random *random, int64_t n) {
  struct guarded memory = kernel_memory((size_t)n);
  for (int64_t i = 0; i < n; i++) memory.data[i] = (unsigned char)test_random_range(random, 0, 255);
  return memory;
}

/* Integers as a normal distribution has them, few of which are large. */
static void make_normal(struct test_random *random, int64_t deviation, struct guarded *bytes) {
  int8_t *w = (int8_t *)bytes->data;
  for (size_t i = 0; i < bytes->size; i++) {
    w[i] = (int8_t)fmaxf(-127.0f, fminf((float)deviation * test_random_normal(random), 127.0f));
  }
}

/* int8 weights of the largest magnitudes. */
static void make_extreme(struct test_random *random, struct guarded *weights) {
  for (size_t i = 0; i < weights->size; i++) weights->data[i] = test_random_range(random, 0, 1) ? 127 : 128;
}

/* Products of unsigned weights that all have the largest magnitude and one sign. */
static void make_extreme_unsigned(struct test_random *random, struct trial *t) {
  memset(t->weights.data, test_random_range(random, 0, 1) ? 0xff : 0, t->weights.size);
  memset(t->x.data, test_random_range(random, 0, 1) ? 127 : 0x81, t->x.size);
}

/* Integers -most .. most of 32 bits. */
static struct guarded random_whole(struct test_random *random, int64_t n, int64_t max) {
  struct guarded memory = kernel_memory((size_t)n * sizeof(int32_t));
  int32_t *values = (int32_t *)(void *)memory.data;
  for (int64_t i = 0; i < n; i++) values[i] = (int32_t)(test_random_range(random, 0, 2 * max) - max);
  return memory;
}

static struct guarded random_floats(struct test_random *random, int64_t n) {
  struct guarded memory = kernel_memory((size_t)n * sizeof(float));
  float *values = (float *)(void *)memory.data;
  for (int64_t i = 0; i < n; i++) values[i] = test_random_normal(random);
  return memory;
}

enum { FLOATS = -1, HALVES = -2 }; /* in place of codes */

/* group 0: all inputs. shared: groups that have floats in common, as an exponent of 2, where there
 * are codes. x of symmetric rows has no -128. */
static struct trial make_trial(struct test_random *random, int kind, int64_t k_padded, int64_t group, int shared,
                               int64_t n_rows, bool minimums, bool zeros) {
  int64_t stride = k_padded + 64, floats = minimums ? 2 * PANEL : PANEL;
  struct trial t = {.panel = {.k_padded = k_padded, .group = group ? group : k_padded, .scale_stride = floats}};
  t.panel.n_groups = (k_padded + t.panel.group - 1) / t.panel.group;
  t.weights = random_bytes(random, k_padded * PANEL * kinds[kind].bits / 8);
  t.panel.shared = ommai_max_i64(shared, 0);
  t.scales = random_floats(random, (((t.panel.n_groups - 1) >> t.panel.shared) + 1) * floats);
  t.codes = random_bytes(random, t.panel.n_groups * floats);
  t.halves = kernel_memory((size_t)(t.panel.n_groups * floats) * sizeof(ommai_f16));
  for (int64_t i = 0; i < t.panel.n_groups * floats; i++) {
    ((ommai_f16 *)(void *)t.halves.data)[i] = ommai_f16_from_f32(test_random_normal(random));
  }
  t.weight_sums = random_whole(random, PANEL, 100000);
  t.x = random_bytes(random, (n_rows - 1) * stride + k_padded);
  t.zeros = random_whole(random, n_rows, 128);
  t.sums = kernel_memory((size_t)(n_rows * t.panel.n_groups) * sizeof(int32_t));
  t.out = kernel_memory((size_t)(n_rows * PANEL) * sizeof(float));
  int8_t *x = (int8_t *)t.x.data;
  int32_t *sums = (int32_t *)(void *)t.sums.data;
  if (test_random_range(random, 0, 1)) make_normal(random, test_random_range(random, 10, 90), &t.x);
  if (kind != S8 && test_random_range(random, 0, 3) == 0) make_extreme_unsigned(random, &t);
  for (int64_t i = 0; !zeros && i < (n_rows - 1) * stride + k_padded; i++) x[i] = (int8_t)(x[i] == -128 ? -127 : x[i]);
  for (int64_t row = 0; row < n_rows; row++) {
    for (int64_t k = 0; k < k_padded; k++) {
      int32_t *sum = &sums[row * t.panel.n_groups + k / t.panel.group];
      *sum = (k % t.panel.group ? *sum : 0) + x[row * stride + k];
    }
  }
  t.panel.weights = t.weights.data;
  t.panel.scales = shared == HALVES ? NULL : (const float *)(void *)t.scales.data;
  t.panel.has_minimums = minimums;
  t.panel.halves = shared == HALVES ? (const ommai_f16 *)(void *)t.halves.data : NULL;
  t.panel.codes = shared < 0 ? NULL : (const int8_t *)t.codes.data;
  t.panel.weight_sums = zeros ? (const int32_t *)(void *)t.weight_sums.data : NULL;
  t.panel.zero = minimums ? 0 : kinds[kind].zero;
  t.rows = (struct ommai_integer_rows){x, stride, sums, (const int32_t *)(void *)t.zeros.data, n_rows};
  return t;
}

static void free_trial(struct trial *t) {
  struct guarded *all[] = {&t->weights, &t->scales, &t->codes, &t->halves, &t->weight_sums,
                           &t->x,       &t->sums,   &t->zeros, &t->out};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) guarded_free(all[i]);
}

static ommai_integer_kernel kernel_of(const struct ommai_integer_kernels *kernels, int kind) {
  return kind == U4 ? kernels->u4 : kind == U6 ? kernels->u6 : kernels->s8;
}

/* 0: all inputs. */
static const int64_t groups[] = {0, 16, 32, 64, 96, 128, 256};

static double check(const struct kernel_entry *entry, uint64_t seed) {
  struct test_random random = {seed};
  const struct ommai_integer_kernels *kernels = entry->kernel;
  int64_t k_padded = 64 * kernel_size(&random, 1, MAX_K / 64, 4), group = groups[kernel_size(&random, 0, 6, 3)];
  int64_t n_rows = kernel_size(&random, 1, MAX_ROWS, 8);
  bool zeros = entry->index == S8 && group == 0 && test_random_range(&random, 0, 1);
  bool minimums = !zeros && test_random_range(&random, 0, 1);
  int shared = group ? (int)test_random_range(&random, HALVES, 4) : (int)test_random_range(&random, HALVES, FLOATS);
  struct trial t = make_trial(&random, entry->index, k_padded, group, shared, n_rows, minimums, zeros);
  if (entry->index == S8 && test_random_range(&random, 0, 3) == 0) {
    make_extreme(&random, &t.weights);
  } else if (entry->index == S8 && test_random_range(&random, 0, 3)) {
    make_normal(&random, test_random_range(&random, 10, 60), &t.weights);
    if (test_random_range(&random, 0, 3) == 0) t.weights.data[test_random_range(&random, 0, (int64_t)t.weights.size - 1)] = 128;
  }
  float *out = (float *)(void *)t.out.data, *expected = malloc(t.out.size);
  kernel_of(kernels, entry->index)(&t.panel, &t.rows, out);
  guarded_check(&t.out, "out");
  kernel_of(ommai_integer_kernels[0], entry->index)(&t.panel, &t.rows, expected);
  for (int64_t i = 0; i < n_rows * PANEL; i++) {
    if (out[i] == expected[i]) continue;
    kernel_fail(entry, seed, "%d inputs in groups of %d, row %d of %d, output %d: %.9g, the scalar code has %.9g",
                (int)k_padded, (int)group, (int)(i / PANEL), (int)n_rows, (int)(i % PANEL), (double)out[i],
                (double)expected[i]);
  }
  free(expected);
  free_trial(&t);
  return 0;
}

static ommai_integer_row_kernel row_kernel_of(const struct ommai_integer_kernels *kernels, int kind) {
  return kind == U4 ? kernels->row_u4 : kind == S8 ? kernels->row_s8 : NULL;
}

/* One row over panels side by side: the scalar code's bits for each. */
static double check_row(const struct kernel_entry *entry, uint64_t seed) {
  struct test_random random = {seed};
  int64_t k_padded = 64 * kernel_size(&random, 1, MAX_K / 64, 4), group = groups[kernel_size(&random, 0, 6, 3)];
  bool minimums = test_random_range(&random, 0, 1);
  struct trial trials[OMMAI_GEMV_PANELS];
  struct ommai_integer_panel panels[OMMAI_GEMV_PANELS];
  struct guarded out = kernel_memory(OMMAI_GEMV_PANELS * PANEL * sizeof(float));
  const float *sums = (const float *)(const void *)out.data;
  for (int i = 0; i < OMMAI_GEMV_PANELS; i++) {
    trials[i] = make_trial(&random, entry->index, k_padded, group, -1, 1, minimums, false);
    panels[i] = trials[i].panel;
  }
  row_kernel_of(entry->kernel, entry->index)(panels, &trials[0].rows, (float *)(void *)out.data);
  guarded_check(&out, "out");
  for (int i = 0; i < OMMAI_GEMV_PANELS; i++) {
    float expected[PANEL];
    kernel_of(ommai_integer_kernels[0], entry->index)(&panels[i], &trials[0].rows, expected);
    for (int column = 0; column < PANEL; column++) {
      float found = sums[i * PANEL + column];
      if (found == expected[column]) continue;
      kernel_fail(entry, seed, "%d inputs in groups of %d, panel %d, output %d: %.9g, the scalar code has %.9g", (int)k_padded,
                  (int)group, i, column, (double)found, (double)expected[column]);
    }
  }
  guarded_free(&out);
  for (int i = 0; i < OMMAI_GEMV_PANELS; i++) free_trial(&trials[i]);
  return 0;
}

struct bench {
  struct trial trial;
  ommai_integer_kernel kernel;
};

static void bench_run(void *context) {
  struct bench *bench = context;
  bench->kernel(&bench->trial.panel, &bench->trial.rows, (float *)(void *)bench->trial.out.data);
}

static void release_bench(void *context) {
  struct bench *bench = context;
  free_trial(&bench->trial);
  free(bench);
}

/* A tile, int8 with a scale for each output, others in groups. */
static struct kernel_call call(const struct kernel_entry *entry) {
  /* With this deviation the largest of 2,048 values is 127. */
  enum { BENCH_K = 2048, BENCH_ROWS = 128, BENCH_GROUP = 64, BENCH_DEVIATION = 36 };
  struct test_random random = {1};
  struct bench *bench = calloc(1, sizeof *bench);
  int64_t group = entry->index == S8 ? 0 : BENCH_GROUP;
  bench->kernel = kernel_of(entry->kernel, entry->index);
  bench->trial = make_trial(&random, entry->index, BENCH_K, group, -1, BENCH_ROWS, false, false);
  if (entry->index == S8) make_normal(&random, BENCH_DEVIATION, &bench->trial.weights);
  struct kernel_call made = {.run = bench_run, .release = release_bench, .context = bench};
  made.flops = 2.0 * BENCH_K * PANEL * BENCH_ROWS;
  snprintf(made.shape, sizeof made.shape, "%d rows, k %d, group %d", BENCH_ROWS, BENCH_K, (int)group);
  return made;
}

/* ---- one row over panels side by side, as a benchmark --------------------------------------- */

struct row_bench {
  struct trial trials[OMMAI_GEMV_PANELS];
  struct ommai_integer_panel panels[OMMAI_GEMV_PANELS];
  float sums[OMMAI_GEMV_PANELS * PANEL];
  ommai_integer_row_kernel kernel;
};

static void row_bench_run(void *context) {
  struct row_bench *bench = context;
  bench->kernel(bench->panels, &bench->trials[0].rows, bench->sums);
}

static void release_row_bench(void *context) {
  struct row_bench *bench = context;
  for (int i = 0; i < OMMAI_GEMV_PANELS; i++) free_trial(&bench->trials[i]);
  free(bench);
}

static struct kernel_call row_call(const struct kernel_entry *entry) {
  enum { BENCH_K = 2048, BENCH_GROUP = 64 };
  struct test_random random = {1};
  struct row_bench *bench = calloc(1, sizeof *bench);
  int64_t group = entry->index == S8 ? 0 : BENCH_GROUP;
  bench->kernel = row_kernel_of(entry->kernel, entry->index);
  for (int i = 0; i < OMMAI_GEMV_PANELS; i++) {
    bench->trials[i] = make_trial(&random, entry->index, BENCH_K, group, -1, 1, false, false);
    bench->panels[i] = bench->trials[i].panel;
  }
  struct kernel_call made = {.run = row_bench_run, .release = release_row_bench, .context = bench};
  made.flops = 2.0 * BENCH_K * PANEL * OMMAI_GEMV_PANELS;
  snprintf(made.shape, sizeof made.shape, "1 row, k %d, %d outputs, group %d", BENCH_K, OMMAI_GEMV_PANELS * PANEL, (int)group);
  return made;
}

void kernel_list_integer(struct kernel_list *list) {
  static const struct kernel_family family = {check, call}, row_family = {check_row, row_call};
  for (int i = 0; ommai_integer_kernels[i]; i++) {
    const struct ommai_integer_kernels *kernels = ommai_integer_kernels[i];
    if (ommai_cpu_has(kernels->level) && !ommai_integer_runs(kernels)) continue;
    for (int kind = S8; kind < KINDS; kind++) {
      char name[KERNEL_NAME_SIZE];
      if (!kernel_of(kernels, kind)) continue;
      snprintf(name, sizeof name, "integer_%s%s", kinds[kind].name,
               kernels->uses_vnni && kernels->level == OMMAI_CPU_AVX512 ? "_vnni" : "");
      struct kernel_entry *entry = kernel_list_add(list, &family, name, kernels->level, kernels, kind);
      snprintf(entry->scalar, sizeof entry->scalar, "integer_%s_scalar", kinds[kind].name);
      if (kernels->small_l1) {
        strcat(name, "_small_l1");
        struct kernel_entry *small = kernel_list_add(list, &family, name, kernels->level, kernels->small_l1, kind);
        snprintf(small->scalar, sizeof small->scalar, "%s", entry->scalar);
      }
      if (!row_kernel_of(kernels, kind)) continue;
      snprintf(name, sizeof name, "integer_row_%s", kinds[kind].name);
      struct kernel_entry *row = kernel_list_add(list, &row_family, name, kernels->level, kernels, kind);
      snprintf(row->scalar, sizeof row->scalar, "%s", entry->scalar);
    }
  }
}
