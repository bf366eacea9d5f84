/* The resampling kernels: integers, so every level gives the same bytes as the formula. */
#include <stdlib.h>

#include "kernels/kernel_entry.h"
#include "kernels/resample.h"

enum { ROW, COLUMN, PRECISION = 14, MAX_LENGTH = 300, BENCH_IN = 640, BENCH_OUT = 448, BENCH_TAPS = 8 };

struct resample {
  struct ommai_resample_pass pass;
  struct ommai_resample_kernels kernels;
  int64_t n_bytes; /* of a row, for the pass down the columns */
  struct guarded in, out;
};

/* Weights of either sign that add up to one, in places that rise from 0 to the end. */
static struct ommai_resample_pass make_pass(struct test_random *random, int32_t n, int32_t m, int32_t max_taps) {
  struct ommai_resample_pass pass = {.n = n, .m = m, .max_taps = max_taps, .precision = PRECISION};
  pass.first = calloc((size_t)m, sizeof *pass.first);
  pass.count = calloc((size_t)m, sizeof *pass.count);
  pass.weights = calloc((size_t)m * (size_t)max_taps, sizeof *pass.weights);
  pass.narrow = calloc((size_t)m * (size_t)max_taps, sizeof *pass.narrow);
  for (int32_t i = 0; i < m; i++) {
    int32_t count = (int32_t)test_random_range(random, 1, max_taps < n ? max_taps : n), left = 1 << PRECISION;
    pass.count[i] = count;
    pass.first[i] = (int32_t)((int64_t)(n - max_taps > 0 ? n - max_taps : 0) * i / (m > 1 ? m - 1 : 1));
    if (pass.first[i] + count > n) pass.count[i] = count = n - pass.first[i];
    for (int32_t j = 0; j < count; j++) {
      int32_t weight = j + 1 == count ? left : (int32_t)test_random_range(random, -1500, 4000);
      if (weight > INT16_MAX) weight = INT16_MAX;
      if (weight < INT16_MIN) weight = INT16_MIN;
      left -= weight;
      pass.weights[(int64_t)i * max_taps + j] = weight;
      pass.narrow[(int64_t)i * max_taps + j] = (int16_t)weight;
    }
  }
  return pass;
}

static struct resample make_resample(struct test_random *random, const struct kernel_entry *entry, int32_t n, int32_t m,
                                     int32_t max_taps, int64_t n_bytes) {
  struct resample r = {.pass = make_pass(random, n, m, max_taps), .n_bytes = n_bytes};
  bool row = entry->index == ROW;
  ommai_resample_select(entry->level, &r.pass, &r.kernels);
  r.in = kernel_memory(row ? (size_t)n * 3 : (size_t)(n * n_bytes));
  r.out = kernel_memory(row ? (size_t)m * 3 : (size_t)(m * n_bytes));
  for (size_t i = 0; i < r.in.size; i++) r.in.data[i] = (unsigned char)test_random_u32(random);
  return r;
}

static void free_resample(struct resample *r) {
  free(r->pass.first);
  free(r->pass.count);
  free(r->pass.weights);
  free(r->pass.narrow);
  guarded_free(&r->in);
  guarded_free(&r->out);
}

static void run(const struct resample *r, int which, int32_t begin, int32_t end) {
  if (which == ROW) {
    r->kernels.row(&r->pass, r->in.data, r->out.data, begin, end);
    return;
  }
  for (int32_t i = begin; i < end; i++) {
    r->kernels.column(&r->pass, i, r->in.data + r->pass.first[i] * r->n_bytes, r->n_bytes, r->out.data + i * r->n_bytes,
                      r->n_bytes);
  }
}

/* Output i at byte `at` of a row, or of a pixel (then bytes are 3 apart). */
static unsigned char expected_at(const struct resample *r, int which, int32_t i, int64_t at) {
  int64_t step = which == ROW ? 3 : r->n_bytes, sum = 1 << (PRECISION - 1);
  for (int32_t j = 0; j < r->pass.count[i]; j++) {
    sum += (int64_t)r->pass.weights[(int64_t)i * r->pass.max_taps + j] * r->in.data[(r->pass.first[i] + j) * step + at];
  }
  sum >>= PRECISION;
  return (unsigned char)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
}

static double check_resample(const struct kernel_entry *entry, uint64_t seed) {
  struct test_random random = {seed};
  int32_t n = (int32_t)kernel_size(&random, 1, MAX_LENGTH, 16), m = (int32_t)kernel_size(&random, 1, MAX_LENGTH, 4);
  int32_t max_taps = OMMAI_RESAMPLE_TAP_STEP * (int32_t)kernel_size(&random, 1, 6, 2);
  struct resample r = make_resample(&random, entry, n, m, max_taps, kernel_size(&random, 1, 120, 32));
  int32_t begin = (int32_t)test_random_range(&random, 0, m - 1), end = (int32_t)test_random_range(&random, begin, m);
  int64_t width = entry->index == ROW ? 3 : r.n_bytes;
  run(&r, entry->index, begin, end);
  guarded_check(&r.out, "out");
  for (int32_t i = 0; i < m; i++) {
    for (int64_t at = 0; at < width; at++) {
      unsigned char found = r.out.data[i * width + at];
      unsigned char expected = i >= begin && i < end ? expected_at(&r, entry->index, i, at) : 0xff;
      if (found != expected) {
        kernel_fail(entry, seed, "%d to %d, %d taps: output %d, byte %d: found %d, expected %d", n, m, max_taps, i, (int)at,
                    found, expected);
      }
    }
  }
  free_resample(&r);
  return 0.0;
}

struct bench {
  const struct kernel_entry *entry;
  struct resample resample;
};

static void bench_run(void *context) {
  const struct bench *bench = context;
  run(&bench->resample, bench->entry->index, 0, BENCH_OUT);
}

static void release_bench(void *context) {
  struct bench *bench = context;
  free_resample(&bench->resample);
  free(bench);
}

static struct kernel_call resample_call(const struct kernel_entry *entry) {
  struct test_random random = {1};
  struct bench *bench = calloc(1, sizeof *bench);
  *bench = (struct bench){entry, make_resample(&random, entry, BENCH_IN, BENCH_OUT, BENCH_TAPS, 96)};
  struct kernel_call call = {.run = bench_run, .release = release_bench, .context = bench};
  snprintf(call.shape, sizeof call.shape, "%d to %d, %d taps", BENCH_IN, BENCH_OUT, BENCH_TAPS);
  return call;
}

/* A kernel belongs to the lowest level that chooses it. */
void kernel_list_resample(struct kernel_list *list) {
  static const struct kernel_family family = {check_resample, resample_call};
  const struct ommai_resample_pass narrow = {.narrow = (int16_t[1]){0}};
  struct ommai_resample_kernels kernels[OMMAI_CPU_LEVELS];
  for (int level = 0; level < OMMAI_CPU_LEVELS; level++) {
    bool row_known = false, column_known = false;
    ommai_resample_select(level, &narrow, &kernels[level]);
    for (int lower = 0; lower < level; lower++) {
      row_known = row_known || kernels[lower].row == kernels[level].row;
      column_known = column_known || kernels[lower].column == kernels[level].column;
    }
    if (!row_known) kernel_list_add(list, &family, "resample_row", level, NULL, ROW);
    if (!column_known) kernel_list_add(list, &family, "resample_column", level, NULL, COLUMN);
  }
}
