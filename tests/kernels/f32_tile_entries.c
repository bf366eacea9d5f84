/* The kernels for tiles of rows in f32 arithmetic. */
#include <math.h>
#include <stdlib.h>

#include "kernels/f32_tile.h"
#include "kernels/kernel_entry.h"
#include "kernels/row_groups.h"

enum { PANEL = OMMAI_PANEL_COLUMNS, MAX_ROWS = 40, BENCH_ROWS = 128 };

/* A block of a panel in both layouts, of values that bf16 has, rows of x, and sums of a whole
 * panel. */
struct tile {
  const struct ommai_f32_tile_kernels *kernels;
  const struct ommai_gemv_kernels *gemv;
  int64_t n_k, n_rows;
  struct guarded half, wide, x, group, sums, strip;
};

static float *floats(const struct guarded *memory) { return (float *)(void *)memory->data; }

static struct tile make_tile(struct test_random *random, enum ommai_cpu_level level, int64_t n_k, int64_t n_rows) {
  struct tile t = {.kernels = ommai_f32_tile_select(level), .n_k = n_k, .n_rows = n_rows};
  t.gemv = ommai_gemv_select(level);
  int64_t even = (n_k + 1) / 2 * 2;
  t.half = kernel_memory((size_t)(even * PANEL) * sizeof(ommai_bf16));
  t.wide = kernel_memory((size_t)(n_k * PANEL) * sizeof(float));
  t.x = kernel_memory((size_t)(n_rows * n_k) * sizeof(float));
  t.group = kernel_memory((size_t)(t.kernels->n_rows * n_k) * sizeof(float));
  t.sums = kernel_memory((size_t)(n_rows * PANEL) * sizeof(float));
  t.strip = kernel_memory((size_t)(t.kernels->n_k * t.kernels->n_columns) * sizeof(float));
  for (int64_t k = 0; k < even; k++) {
    for (int c = 0; c < PANEL; c++) {
      ommai_bf16 value = ommai_bf16_from_f32(test_random_normal(random));
      ((ommai_bf16 *)(void *)t.half.data)[(k / 2 * PANEL + c) * 2 + k % 2] = value;
      if (k < n_k) floats(&t.wide)[k * PANEL + c] = ommai_bf16_to_f32(value);
    }
  }
  for (int64_t i = 0; i < n_rows * n_k; i++) floats(&t.x)[i] = test_random_normal(random);
  return t;
}

static void free_tile(struct tile *t) {
  guarded_free(&t->half);
  guarded_free(&t->wide);
  guarded_free(&t->x);
  guarded_free(&t->group);
  guarded_free(&t->sums);
  guarded_free(&t->strip);
}

/* A group of rows as multiply takes it, at the end of its memory. */
static const float *group_rows(const struct tile *t, int64_t first, int n) {
  float *to = floats(&t->group) + (t->kernels->n_rows - n) * t->n_k;
  for (int64_t k = 0; k < t->n_k; k++) {
    for (int row = 0; row < n; row++) to[k * n + row] = floats(&t->x)[(first + row) * t->n_k + k];
  }
  return to;
}

/* The panel strip by strip, over weights of either layout; rows first .. first + count - 1, in
 * groups of at most `most`. */
static void run(const struct tile *t, bool half, int64_t first, int64_t count, int most, float *sums) {
  float *strip = floats(&t->strip);
  for (int column = 0; column < PANEL; column += t->kernels->n_columns) {
    if (half) {
      t->kernels->expand_bf16((const ommai_bf16 *)(void *)t->half.data + 2 * column, t->n_k, strip);
    } else {
      t->kernels->expand_f32(floats(&t->wide) + column, t->n_k, strip);
    }
    for (int64_t row = 0, n; row < count; row += n) {
      n = ommai_next_rows(count - row, most);
      t->kernels->multiply(strip, group_rows(t, first + row, (int)n), (int)n, t->n_k, sums + row * PANEL + column);
    }
  }
}

static double error_at(const struct tile *t, int64_t row, int column, double before, double found) {
  double expected = before, terms = fabs(before);
  for (int64_t k = 0; k < t->n_k; k++) {
    double product = (double)floats(&t->wide)[k * PANEL + column] * floats(&t->x)[row * t->n_k + k];
    expected += product;
    terms += fabs(product);
  }
  return fabs(found - expected) / ((double)(t->n_k + 2) * 0x1p-24 * terms + 1e-30);
}

static void fill(float *sums, int64_t n) {
  for (int64_t i = 0; i < n; i++) sums[i] = 0.5f;
}

/* A row's sums must be those of the row alone, of the other layout, and of the few-row kernels. */
static void check_row_bits(const struct kernel_entry *entry, uint64_t seed, const struct tile *t, int64_t row) {
  const float *x = floats(&t->x) + row * t->n_k, *sums = floats(&t->sums) + row * PANEL;
  float alone[4][PANEL];
  for (int i = 0; i < 4; i++) fill(alone[i], PANEL);
  run(t, true, row, 1, 1, alone[0]);
  run(t, false, row, 1, 1, alone[1]);
  t->gemv->panel_mixed((const void *)t->half.data, x, t->n_k, 1, t->n_k, alone[2]);
  t->gemv->panel_f32(floats(&t->wide), x, t->n_k, 1, t->n_k, alone[3]);
  for (int i = 0; i < 4; i++) {
    if (memcmp(alone[i], sums, sizeof alone[i]) == 0) continue;
    kernel_fail(entry, seed, "k %d: row %d of %d differs from way %d", (int)t->n_k, (int)row, (int)t->n_rows, i);
  }
}

static double check_tile(const struct kernel_entry *entry, uint64_t seed) {
  struct test_random random = {seed};
  int64_t n_k = kernel_size(&random, 1, ommai_f32_tile_select(entry->level)->n_k, 16), n_rows = kernel_size(&random, 1, MAX_ROWS, 8);
  struct tile t = make_tile(&random, entry->level, n_k, n_rows);
  double worst = 0.0;
  fill(floats(&t.sums), t.n_rows * PANEL);
  run(&t, seed % 2, 0, t.n_rows, (int)kernel_size(&random, 1, t.kernels->n_rows, 1), floats(&t.sums));
  guarded_check(&t.sums, "sums");
  guarded_check(&t.strip, "strip");
  for (int64_t row = 0; row < t.n_rows; row++) {
    for (int column = (int)(row % 7); column < PANEL; column += 7) {
      double error = error_at(&t, row, column, 0.5, floats(&t.sums)[row * PANEL + column]);
      if (!(error <= 1.0)) {
        kernel_fail(entry, seed, "k %d, row %d of %d, column %d: %.3g of the bound", (int)n_k, (int)row, (int)t.n_rows, column,
                    error);
      }
      worst = fmax(worst, error);
    }
    check_row_bits(entry, seed, &t, row);
  }
  free_tile(&t);
  return worst;
}

static void bench_run(void *context) {
  const struct tile *t = context;
  float *strip = floats(&t->strip), *sums = floats(&t->sums);
  for (int column = 0; column < PANEL; column += t->kernels->n_columns) {
    t->kernels->expand_bf16((const ommai_bf16 *)(void *)t->half.data + 2 * column, t->n_k, strip);
    for (int64_t row = 0, n; row < t->n_rows; row += n) {
      n = ommai_next_rows(t->n_rows - row, t->kernels->n_rows);
      t->kernels->multiply(strip, floats(&t->x) + row * t->n_k, (int)n, t->n_k, sums + row * PANEL + column);
    }
  }
}

static void release_bench(void *context) {
  free_tile(context);
  free(context);
}

static struct kernel_call tile_call(const struct kernel_entry *entry) {
  struct test_random random = {1};
  struct tile *t = calloc(1, sizeof *t);
  *t = make_tile(&random, entry->level, ommai_f32_tile_select(entry->level)->n_k, BENCH_ROWS);
  memset(t->sums.data, 0, t->sums.size);
  struct kernel_call call = {.run = bench_run, .release = release_bench, .context = t};
  call.flops = 2.0 * BENCH_ROWS * (double)t->n_k * PANEL;
  snprintf(call.shape, sizeof call.shape, "%d x %d x %d, bf16 weights", BENCH_ROWS, (int)t->n_k, PANEL);
  return call;
}

void kernel_list_f32_tiles(struct kernel_list *list) {
  static const struct kernel_family family = {check_tile, tile_call};
  for (int i = 0; ommai_f32_tile_kernels[i]; i++) {
    kernel_list_add(list, &family, "f32_tile", ommai_f32_tile_kernels[i]->level, ommai_f32_tile_kernels[i], 0);
  }
}
