/* The kernels for tiles of rows in products of bf16. */
#include <math.h>
#include <stdlib.h>

#include "kernels/bf16_tile.h"
#include "kernels/dtype.h"
#include "kernels/kernel_entry.h"

enum { PANEL = OMMAI_PANEL_COLUMNS, MAX_K = 190, MAX_ROWS = 40, BENCH_K = 1152, BENCH_ROWS = 128 };

/* Panels, rows of x, bias and y, each between pages that cannot be touched. */
struct problem {
  struct ommai_bf16_tile tile;
  struct guarded weights, x, bias, y, sums, packed;
};

static void fill_bf16(struct guarded *memory, struct test_random *random) {
  ommai_bf16 *values = (void *)memory->data;
  for (size_t i = 0; i < memory->size / sizeof *values; i++) values[i] = ommai_bf16_from_f32(test_random_normal(random));
}

/* What lies between rows of x is NaN, between rows of y a mark, before packed rows there are
 * others. */
static struct problem make_problem(const struct kernel_entry *entry, struct test_random *random, int64_t n_k, int64_t n_rows,
                                   int64_t gap, int form) {
  const struct ommai_bf16_tile_kernel *kernel = entry->kernel;
  int64_t n_panels = test_random_range(random, 1, kernel->max_panels), columns = n_panels * PANEL;
  struct problem p = {.tile = {.n_k = n_k, .n_rows = n_rows, .n_panels = n_panels, .x_stride = n_k + gap}};
  p.tile.panel_elements = (n_k + 31) / 32 * 32 * PANEL;
  p.tile.y_stride = columns + gap;
  p.tile.y_panel = PANEL;
  p.tile.y_type = form == 2 ? OMMA_BF16 : OMMA_F32;
  p.tile.accumulate = form == 1;
  p.tile.packed.first = test_random_range(random, 0, 2) * OMMAI_BF16_PACKED_ROWS;
  p.tile.packed.n_rows = p.tile.packed.first + ommai_round_up(n_rows, OMMAI_BF16_PACKED_ROWS);
  int64_t sum_rows = kernel->pack ? ommai_round_up(n_rows, OMMAI_BF16_PACKED_ROWS) : n_rows;
  p.weights = kernel_memory((size_t)(n_panels * p.tile.panel_elements) * sizeof(ommai_bf16));
  p.x = kernel_memory((size_t)((n_rows - 1) * p.tile.x_stride + n_k) * sizeof(ommai_bf16));
  p.bias = kernel_memory((size_t)columns * sizeof(float));
  p.y = kernel_memory((size_t)((n_rows - 1) * p.tile.y_stride + columns) * ommai_dtype_size(p.tile.y_type));
  p.sums = kernel_memory((size_t)(sum_rows * columns) * sizeof(float));
  p.packed = kernel_memory(ommai_bf16_packed_bytes(kernel, p.tile.packed.n_rows, n_k));
  fill_bf16(&p.weights, random);
  fill_bf16(&p.x, random);
  for (int64_t row = 0; row + 1 < n_rows; row++) {
    for (int64_t k = n_k; k < p.tile.x_stride; k++) ((ommai_bf16 *)(void *)p.x.data)[row * p.tile.x_stride + k] = 0x7fc0;
  }
  for (int64_t c = 0; c < columns; c++) ((float *)(void *)p.bias.data)[c] = test_random_normal(random);
  memset(p.y.data, 0x3f, p.y.size); /* 0.747 in both types */
  p.tile.weights = (const void *)p.weights.data;
  p.tile.x = (const void *)p.x.data;
  p.tile.bias = (const void *)p.bias.data;
  p.tile.y = p.y.data;
  p.tile.sums = (void *)p.sums.data;
  p.tile.packed.memory = (void *)p.packed.data;
  return p;
}

/* One panel of several. */
static struct ommai_bf16_tile panel_of(const struct ommai_bf16_tile *tile, int64_t panel) {
  struct ommai_bf16_tile one = *tile;
  one.n_panels = 1;
  one.weights += panel * tile->panel_elements;
  one.bias += panel * PANEL;
  one.y = ommai_element(tile->y, panel * tile->y_panel, tile->y_type);
  return one;
}

static void free_problem(struct problem *p) {
  guarded_free(&p->weights);
  guarded_free(&p->x);
  guarded_free(&p->bias);
  guarded_free(&p->y);
  guarded_free(&p->sums);
  guarded_free(&p->packed);
}

static float y_at(const struct ommai_bf16_tile *tile, int64_t at) {
  return tile->y_type == OMMA_F32 ? ((const float *)tile->y)[at] : ommai_bf16_to_f32(((const ommai_bf16 *)tile->y)[at]);
}

static double error_at(const struct ommai_bf16_tile *tile, int64_t row, int column) {
  double before = tile->accumulate ? ommai_f32_from_bits(0x3f3f3f3f) : 0.0, expected = before + tile->bias[column];
  double terms = fabs(before) + fabs(tile->bias[column]);
  for (int64_t k = 0; k < tile->n_k; k++) {
    double w = ommai_bf16_to_f32(tile->weights[(k / 2 * PANEL + column) * 2 + k % 2]);
    double product = w * ommai_bf16_to_f32(tile->x[row * tile->x_stride + k]);
    expected += product;
    terms += fabs(product);
  }
  double rounding = tile->y_type == OMMA_BF16 ? 0x1.01p-8 * fabs(expected) : 0.0;
  return fabs(y_at(tile, row * tile->y_stride + column) - expected) /
         ((double)(tile->n_k + 3) * 0x1p-24 * terms + rounding + 1e-30);
}

/* The sum that bf16_tile.h has for the level amx. */
static float sum_by_32(const struct ommai_bf16_tile *tile, int64_t row, int column) {
  float sum = 0.0f;
  for (int64_t k = 0; k < tile->n_k; k += 32) {
    float chains[2] = {0.0f, 0.0f};
    for (int64_t i = k; i < k + 32 && i < tile->n_k; i++) {
      float w = ommai_bf16_to_f32(tile->weights[(i / 2 * PANEL + column) * 2 + i % 2]);
      chains[i % 2] = fmaf(ommai_bf16_to_f32(tile->x[row * tile->x_stride + i]), w, chains[i % 2]);
    }
    sum += chains[0] + chains[1];
  }
  return sum;
}

/* a + b rounded as BFMMLA and BFDOT round: towards zero, and the last bit set unless that is exact.
 * First in double, which leaves enough bits for the second time. */
static double odd_sum(double a, double b) {
  double sum = a + b, part = sum - a, rest = (a - (sum - part)) + (b - part);
  uint64_t bits;
  memcpy(&bits, &sum, sizeof bits);
  if (rest != 0.0 && bits % 2 == 0) sum = nextafter(sum, rest > 0.0 ? INFINITY : -INFINITY);
  float rounded = (float)sum;
  if ((double)rounded == sum) return rounded;
  if (fabs((double)rounded) > fabs(sum)) rounded = nextafterf(rounded, 0.0f);
  return ommai_f32_from_bits(ommai_bits_from_f32(rounded) | 1u);
}

/* The sum that bf16_tile.h has for the level neon_bf16. */
static float sum_of_odd(const struct ommai_bf16_tile *tile, int64_t row, int column) {
  double sum = 0.0;
  for (int64_t k = 0; k < tile->n_k; k += 2) {
    double products[2] = {0.0, 0.0};
    for (int64_t i = k; i < k + 2 && i < tile->n_k; i++) {
      products[i % 2] = (double)ommai_bf16_to_f32(tile->weights[(k / 2 * PANEL + column) * 2 + i % 2]) *
                        ommai_bf16_to_f32(tile->x[row * tile->x_stride + i]);
    }
    sum = odd_sum(sum, odd_sum(products[0], products[1]));
  }
  return (float)sum;
}

typedef float (*sum_form)(const struct ommai_bf16_tile *tile, int64_t row, int column);

/* The sums of a level whose chain is another than the scalar code's; NULL: the scalar code's. */
static sum_form sum_of_level(enum ommai_cpu_level level) {
  return level == OMMAI_CPU_AMX ? sum_by_32 : level == OMMAI_CPU_NEON_BF16 ? sum_of_odd : NULL;
}

static void run_sums(const struct ommai_bf16_tile *tile, sum_form sum) {
  for (int64_t row = 0; row < tile->n_rows; row++) {
    for (int column = 0; column < PANEL; column++) {
      int64_t at = row * tile->y_stride + column;
      float value = sum(tile, row, column) + tile->bias[column];
      if (tile->y_type == OMMA_BF16) {
        ((ommai_bf16 *)tile->y)[at] = ommai_bf16_from_f32(value);
      } else {
        ((float *)tile->y)[at] = tile->accumulate ? ((float *)tile->y)[at] + value : value;
      }
    }
  }
}

/* The bits of the readable form, or of the level's own one, gaps between rows among them: normal
 * values make no denormal sum. */
static void check_bits(const struct kernel_entry *entry, uint64_t seed, const struct problem *p) {
  struct ommai_bf16_tile tile = p->tile;
  tile.y = malloc(p->y.size);
  memset(tile.y, 0x3f, p->y.size);
  for (int64_t panel = 0; panel < tile.n_panels; panel++) {
    const struct ommai_bf16_tile one = panel_of(&tile, panel);
    if (sum_of_level(entry->level)) {
      run_sums(&one, sum_of_level(entry->level));
    } else {
      ommai_bf16_tile_scalar.run(&one);
    }
  }
  if (memcmp(tile.y, p->tile.y, p->y.size) != 0) {
    kernel_fail(entry, seed, "k %d, %d rows: not the scalar code's bits", (int)tile.n_k, (int)tile.n_rows);
  }
  free(tile.y);
}

/* A row has the sums of the few-row kernel of its level. */
static void check_gemv(const struct kernel_entry *entry, uint64_t seed, const struct ommai_bf16_tile *tile, int64_t row) {
  float sums[PANEL] = {0};
  const ommai_bf16 *x = tile->x + row * tile->x_stride;
  const struct ommai_gemv_kernels *kernels = ommai_gemv_select(entry->level);
  if (kernels->panels_bf16) {
    kernels->panels_bf16(tile->weights, 0, 1, x, tile->x_stride, 1, tile->n_k, sums);
  } else {
    kernels->panel_bf16(tile->weights, x, tile->x_stride, 1, tile->n_k, sums);
  }
  for (int c = 0; c < PANEL; c++) {
    if (sums[c] + tile->bias[c] == y_at(tile, row * tile->y_stride + c)) continue;
    kernel_fail(entry, seed, "k %d: row %d differs from few rows", (int)tile->n_k, (int)row);
  }
}

/* The largest error of a panel, in parts of the bound. */
static double check_panel(const struct kernel_entry *entry, uint64_t seed, const struct ommai_bf16_tile *tile) {
  double worst = 0.0;
  for (int64_t row = 0; row < tile->n_rows; row++) {
    for (int column = (int)(row % 7); column < PANEL; column += 7) {
      double error = error_at(tile, row, column);
      if (!(error <= 1.0)) {
        kernel_fail(entry, seed, "k %d, row %d of %d, column %d: %.3g of the bound", (int)tile->n_k, (int)row,
                    (int)tile->n_rows, column, error);
      }
      worst = fmax(worst, error);
    }
    if (entry->level != OMMAI_CPU_SCALAR && seed % 3 == 0) check_gemv(entry, seed, tile, row);
  }
  return worst;
}

/* Rows are packed a few at a time, as their callers do. */
static void pack_rows(const struct ommai_bf16_tile_kernel *kernel, struct ommai_bf16_tile tile) {
  int64_t n_rows = tile.n_rows, few = 1 + n_rows / 3;
  for (int64_t row = 0; kernel->pack && row < n_rows; row += few, tile.x += few * tile.x_stride, tile.packed.first += few) {
    tile.n_rows = ommai_min_i64(few, n_rows - row);
    kernel->pack(&tile);
  }
}

static double check_tile(const struct kernel_entry *entry, uint64_t seed) {
  struct test_random random = {seed};
  int64_t n_k = kernel_size(&random, 1, MAX_K, 32) + 256 * kernel_size(&random, 0, 8, 4);
  int64_t n_rows = kernel_size(&random, 1, MAX_ROWS, 8), gap = test_random_range(&random, 0, 5);
  struct problem p = make_problem(entry, &random, n_k, n_rows, gap, (int)(seed % 3));
  const struct ommai_bf16_tile_kernel *kernel = entry->kernel;
  double worst = 0.0;
  pack_rows(kernel, p.tile);
  kernel->run(&p.tile);
  guarded_check(&p.y, "y");
  guarded_check(&p.sums, "sums");
  guarded_check(&p.packed, "packed");
  for (int64_t panel = 0; panel < p.tile.n_panels; panel++) {
    const struct ommai_bf16_tile one = panel_of(&p.tile, panel);
    worst = fmax(worst, check_panel(entry, seed, &one));
  }
  check_bits(entry, seed, &p);
  free_problem(&p);
  return worst;
}

struct bench {
  struct problem problem;
  const struct ommai_bf16_tile_kernel *kernel;
};

static void bench_run(void *context) {
  const struct bench *bench = context;
  bench->kernel->run(&bench->problem.tile);
}

static void release_bench(void *context) {
  struct bench *bench = context;
  free_problem(&bench->problem);
  free(bench);
}

static struct kernel_call tile_call(const struct kernel_entry *entry) {
  struct test_random random = {1};
  struct bench *bench = calloc(1, sizeof *bench);
  bench->problem = make_problem(entry, &random, BENCH_K, BENCH_ROWS, 0, 0);
  bench->kernel = entry->kernel;
  if (bench->kernel->pack) bench->kernel->pack(&bench->problem.tile);
  struct kernel_call call = {.run = bench_run, .release = release_bench, .context = bench};
  call.flops = 2.0 * BENCH_ROWS * BENCH_K * PANEL * (double)bench->problem.tile.n_panels;
  call.half = true;
  snprintf(call.shape, sizeof call.shape, "%d x %d x %d", BENCH_ROWS, BENCH_K, PANEL * (int)bench->problem.tile.n_panels);
  return call;
}

void kernel_list_bf16_tiles(struct kernel_list *list) {
  static const struct kernel_family family = {check_tile, tile_call};
  for (int i = 0; ommai_bf16_tile_kernels[i]; i++) {
    const struct ommai_bf16_tile_kernel *kernel = ommai_bf16_tile_kernels[i];
    kernel_list_add(list, &family, "bf16_tile", kernel->level, kernel, 0);
    if (!kernel->small_l1) continue;
    struct kernel_entry *entry = kernel_list_add(list, &family, "bf16_tile_small_l1", kernel->level, kernel->small_l1, 0);
    snprintf(entry->scalar, sizeof entry->scalar, "bf16_tile_scalar");
  }
}
