/* Every attention kernel of every CPU level this machine has, called directly: against double precision, and what the contract
 * promises about rows, tiles and masked keys. The seed is printed with a failure. */
#include <math.h>
#include <stdlib.h>

#include "kernels/attention_element.h"
#include "kernels/attention_kernels.h"
#include "support/test.h"

enum { BLOCK = OMMAI_ATTENTION_BLOCK, MAX_KEYS = 200, MAX_DIM = 256, MAX_ROWS = 64, PAD = 3 };

static const double limits[3] = {2e-6, 4e-3, 1e-3}; /* by enum omma_dtype, of the sum of |weight value|, in L2 */

/* Rows of q, k and v in one type, each row PAD elements longer than its dimension; the padding is NaN. */
struct problem {
  enum omma_dtype dtype;
  int32_t n_rows, n_keys, head_dim, v_head_dim;
  int64_t first_visible;
  float scale;
  unsigned char *q, *k, *v, *out;
};

static unsigned char *make_rows(struct test_random *random, enum omma_dtype dtype, int64_t n_rows, int64_t dim) {
  size_t size = ommai_attention_element_size(dtype), bytes = (size_t)(n_rows * (dim + PAD)) * size;
  unsigned char *rows = malloc(bytes);
  memset(rows, 0xff, bytes);
  for (int64_t i = 0; i < n_rows; i++) {
    for (int64_t d = 0; d < dim; d++) ommai_attention_store(rows, i * (dim + PAD) + d, dtype, test_random_normal(random));
  }
  return rows;
}

static struct problem make_problem(struct test_random *random, enum omma_dtype dtype, int32_t max_rows, int32_t max_keys) {
  static const int32_t usual[] = {64, 72, 80, 88, 96, 104, 112, 128};
  struct problem problem = {.dtype = dtype,
                            .n_rows = (int32_t)test_random_range(random, 1, max_rows),
                            .n_keys = (int32_t)test_random_range(random, 1, max_keys),
                            .head_dim = usual[test_random_range(random, 0, 7)]};
  problem.v_head_dim = problem.head_dim;
  if (test_random_range(random, 0, 1)) {
    problem.head_dim = (int32_t)test_random_range(random, 1, MAX_DIM);
    problem.v_head_dim = (int32_t)test_random_range(random, 1, MAX_DIM);
  }
  problem.first_visible = problem.n_keys;
  if (problem.n_rows <= problem.n_keys && test_random_range(random, 0, 1)) {
    problem.first_visible = problem.n_keys - problem.n_rows + 1;
  }
  problem.scale = (test_random_range(random, 0, 5) ? 1.0f : -1.5f) / sqrtf((float)problem.head_dim);
  problem.q = make_rows(random, dtype, problem.n_rows, problem.head_dim);
  problem.k = make_rows(random, dtype, problem.n_keys, problem.head_dim);
  problem.v = make_rows(random, dtype, problem.n_keys, problem.v_head_dim);
  problem.out = make_rows(random, dtype, problem.n_rows, problem.v_head_dim);
  return problem;
}

static void free_problem(struct problem *problem) {
  free(problem->q);
  free(problem->k);
  free(problem->v);
  free(problem->out);
}

/* Distance of row `row` from the definition over that of the sum of |weight value| (L2). */
static double row_error(const struct problem *p, int64_t row, int64_t n_keys, const float *found) {
  double weights[MAX_KEYS], sum = 0.0, error = 0.0, magnitude = 0.0, largest = -INFINITY;
  for (int64_t key = 0; key < n_keys; key++) {
    weights[key] = 0.0;
    for (int64_t d = 0; d < p->head_dim; d++) {
      weights[key] += (double)ommai_attention_load(p->q, row * (p->head_dim + PAD) + d, p->dtype) *
                      ommai_attention_load(p->k, key * (p->head_dim + PAD) + d, p->dtype);
    }
    weights[key] *= p->scale;
    largest = fmax(largest, weights[key]);
  }
  for (int64_t key = 0; key < n_keys; key++) sum += weights[key] = exp(weights[key] - largest);
  for (int64_t d = 0; d < p->v_head_dim; d++) {
    double expected = 0.0, terms = 0.0;
    for (int64_t key = 0; key < n_keys; key++) {
      double term = weights[key] / sum * ommai_attention_load(p->v, key * (p->v_head_dim + PAD) + d, p->dtype);
      expected += term;
      terms += fabs(term);
    }
    error += (found[d] - expected) * (found[d] - expected);
    magnitude += terms * terms;
  }
  return sqrt(error / magnitude);
}

/* Packs the keys and attends with rows [first, first + count) as one tile. Packed memory and scratch hold garbage before. */
static void run_tile(const struct ommai_attention_tile_kernel *kernel, const struct problem *p, int32_t first, int32_t count) {
  int64_t n_blocks = (p->n_keys + BLOCK - 1) / BLOCK, size = (int64_t)ommai_attention_element_size(p->dtype);
  size_t block_bytes = (kernel->block_bytes(p->head_dim, p->v_head_dim) + 63) / 64 * 64;
  size_t scratch_bytes = (kernel->scratch_bytes(p->head_dim, p->v_head_dim) + 63) / 64 * 64;
  unsigned char *packed = aligned_alloc(64, (size_t)n_blocks * block_bytes), *scratch = aligned_alloc(64, scratch_bytes);
  memset(packed, 0xff, (size_t)n_blocks * block_bytes);
  memset(scratch, 0xff, scratch_bytes);
  for (int64_t block = 0; block < n_blocks; block++) {
    int64_t left = p->n_keys - block * BLOCK;
    struct ommai_attention_pack pack = {.k = p->k + block * BLOCK * (p->head_dim + PAD) * size,
                                        .v = p->v + block * BLOCK * (p->v_head_dim + PAD) * size,
                                        .k_stride = p->head_dim + PAD,
                                        .v_stride = p->v_head_dim + PAD,
                                        .n_keys = (int32_t)(left < BLOCK ? left : BLOCK),
                                        .head_dim = p->head_dim,
                                        .v_head_dim = p->v_head_dim,
                                        .packed = packed + (size_t)block * block_bytes};
    kernel->pack(&pack);
  }
  struct ommai_attention_tile tile = {.q = p->q + first * (p->head_dim + PAD) * size,
                                      .out = p->out + first * (p->v_head_dim + PAD) * size,
                                      .q_stride = p->head_dim + PAD,
                                      .out_stride = p->v_head_dim + PAD,
                                      .n_rows = count,
                                      .head_dim = p->head_dim,
                                      .v_head_dim = p->v_head_dim,
                                      .packed = packed,
                                      .scale = p->scale,
                                      .scratch = scratch};
  tile.first_visible = p->first_visible + first < p->n_keys ? p->first_visible + first : p->n_keys;
  tile.n_keys = tile.first_visible + count - 1 < p->n_keys ? tile.first_visible + count - 1 : p->n_keys;
  kernel->attend(&tile);
  free(packed);
  free(scratch);
}

static void load_row(const struct problem *p, int64_t row, float *out) {
  for (int64_t d = 0; d < p->v_head_dim; d++) out[d] = ommai_attention_load(p->out, row * (p->v_head_dim + PAD) + d, p->dtype);
}

/* Window kernels serve one block of keys that every row sees. */
static void check_tile(const struct ommai_attention_tile_kernel *kernel, bool window, uint64_t seed) {
  struct test_random random = {seed};
  int32_t max_rows = kernel->rows < MAX_ROWS ? kernel->rows : MAX_ROWS;
  struct problem p = make_problem(&random, kernel->dtype, max_rows, window ? BLOCK : MAX_KEYS);
  if (window) p.first_visible = p.n_keys;
  run_tile(kernel, &p, 0, p.n_rows);
  float together[MAX_ROWS][MAX_DIM], alone[MAX_DIM];
  for (int32_t row = 0; row < p.n_rows; row++) {
    load_row(&p, row, together[row]);
    int64_t seen = p.first_visible + row < p.n_keys ? p.first_visible + row : p.n_keys;
    double error = row_error(&p, row, seen, together[row]);
    if (!(error <= limits[p.dtype])) {
      fail_msg("%s, seed %d: D %d/%d, %d keys, row %d of %d: error %.3g", kernel->name, (int)seed, p.head_dim, p.v_head_dim,
               p.n_keys, row, p.n_rows, error);
    }
    unsigned char padding[4] = {0};
    size_t size = ommai_attention_element_size(p.dtype);
    if (row + 1 < p.n_rows) {
      memcpy(padding, p.out + (size_t)(row * (p.v_head_dim + PAD) + p.v_head_dim) * size, size);
      for (size_t i = 0; i < size; i++) assert_int_equal(padding[i], 0xff);
    }
  }
  /* A row has the same bits in a tile of its own, and in one that begins at it. */
  int32_t row = (int32_t)test_random_range(&random, 0, p.n_rows - 1);
  for (int round = 0; round < 2; round++) {
    run_tile(kernel, &p, row, round ? p.n_rows - row : 1);
    load_row(&p, row, alone);
    if (memcmp(alone, together[row], (size_t)p.v_head_dim * sizeof *alone) != 0) {
      fail_msg("%s, seed %d: D %d/%d, %d keys: row %d differs from that in a tile of %d", kernel->name, (int)seed, p.head_dim,
               p.v_head_dim, p.n_keys, row, p.n_rows);
    }
  }
  free_problem(&p);
}

static void tile_kernels(void **state) {
  (void)state;
  for (int i = 0; ommai_attention_tile_kernels[i]; i++) {
    if (!ommai_cpu_has(ommai_attention_tile_kernels[i]->level)) continue;
    for (uint64_t seed = 1; seed <= 120; seed++) check_tile(ommai_attention_tile_kernels[i], false, seed);
  }
}

static void window_kernels(void **state) {
  (void)state;
  for (int i = 0; ommai_attention_window_kernels[i]; i++) {
    const struct ommai_attention_tile_kernel *kernel = ommai_attention_window_kernels[i];
    if (!ommai_cpu_has(kernel->level)) continue;
    for (uint64_t seed = 1; seed <= 400; seed++) check_tile(kernel, true, seed);
  }
}

/* The row's keys in blocks of any length, the group's heads together and one by one. */
static void check_decode(const struct ommai_attention_decode_kernel *kernel, uint64_t seed) {
  struct test_random random = {seed};
  struct problem p = make_problem(&random, kernel->dtype, 9, MAX_KEYS); /* the rows of q are the heads */
  int64_t stride = OMMAI_ATTENTION_STATE_OUT + (p.v_head_dim + 15) / 16 * 16;
  size_t state_bytes = (size_t)(p.n_rows * stride) * sizeof(float), size = ommai_attention_element_size(p.dtype);
  float *states[2] = {aligned_alloc(64, state_bytes), aligned_alloc(64, state_bytes)};
  for (int alone = 0; alone < 2; alone++) {
    memset(states[alone], 0xff, state_bytes);
    for (int32_t head = 0; head < p.n_rows; head += alone ? 1 : p.n_rows) {
      for (int32_t key = 0; key < p.n_keys; key += BLOCK) {
        struct ommai_attention_decode_block block = {.q = p.q + (size_t)(head * (p.head_dim + PAD)) * size,
                                                     .k = p.k + (size_t)(key * (p.head_dim + PAD)) * size,
                                                     .v = p.v + (size_t)(key * (p.v_head_dim + PAD)) * size,
                                                     .q_head_stride = p.head_dim + PAD,
                                                     .k_stride = p.head_dim + PAD,
                                                     .v_stride = p.v_head_dim + PAD,
                                                     .n_heads = alone ? 1 : p.n_rows,
                                                     .n_keys = p.n_keys - key < BLOCK ? p.n_keys - key : BLOCK,
                                                     .head_dim = p.head_dim,
                                                     .v_head_dim = p.v_head_dim,
                                                     .scale = p.scale,
                                                     .first = key == 0,
                                                     .state = states[alone] + head * stride,
                                                     .state_stride = stride};
        kernel->block(&block);
      }
    }
  }
  for (int32_t head = 0; head < p.n_rows; head++) {
    float *found = states[0] + head * stride, sum = found[OMMAI_ATTENTION_STATE_SUM];
    float *out = found + OMMAI_ATTENTION_STATE_OUT;
    assert_memory_equal(found, states[1] + head * stride, 2 * sizeof(float));
    assert_memory_equal(out, states[1] + head * stride + OMMAI_ATTENTION_STATE_OUT, (size_t)p.v_head_dim * sizeof(float));
    for (int32_t d = 0; d < p.v_head_dim; d++) out[d] /= sum;
    double error = row_error(&p, head, p.n_keys, out);
    if (!(error <= limits[p.dtype])) {
      fail_msg("%s, seed %d: D %d/%d, %d keys, head %d of %d: error %.3g", kernel->name, (int)seed, p.head_dim, p.v_head_dim,
               p.n_keys, head, p.n_rows, error);
    }
  }
  free(states[0]);
  free(states[1]);
  free_problem(&p);
}

static void decode_kernels(void **state) {
  (void)state;
  for (int i = 0; ommai_attention_decode_kernels[i]; i++) {
    if (!ommai_cpu_has(ommai_attention_decode_kernels[i]->level)) continue;
    for (uint64_t seed = 1; seed <= 120; seed++) check_decode(ommai_attention_decode_kernels[i], seed);
  }
}

/* A window's block fits where one of the tile kernel's would be. */
static void window_blocks_fit(void **state) {
  (void)state;
  for (int i = 0; ommai_attention_window_kernels[i]; i++) {
    const struct ommai_attention_tile_kernel *window = ommai_attention_window_kernels[i];
    const struct ommai_attention_tile_kernel *tile = ommai_attention_tile_kernel_find(window->level, window->dtype);
    assert_ptr_equal(ommai_attention_window_kernel_find(window->level, window->dtype), window);
    assert_int_equal(window->rows % window->row_step, 0);
    for (int32_t dim = 1; dim <= MAX_DIM; dim++) {
      assert_true(window->block_bytes(dim, 72) <= tile->block_bytes(dim, 72));
      assert_true(window->block_bytes(72, dim) <= tile->block_bytes(72, dim));
    }
  }
}

/* The lists ascend by level within a type, every type has a scalar kernel, and the tiles are multiples of their steps. */
static void lists_are_in_order(void **state) {
  (void)state;
  for (int dtype = OMMA_F32; dtype <= OMMA_F16; dtype++) {
    assert_non_null(ommai_attention_tile_kernel_find(OMMAI_CPU_SCALAR, dtype));
    enum ommai_cpu_level level = OMMAI_CPU_SCALAR;
    for (int i = 0; ommai_attention_tile_kernels[i]; i++) {
      const struct ommai_attention_tile_kernel *kernel = ommai_attention_tile_kernels[i];
      if (kernel->dtype != (enum omma_dtype)dtype) continue;
      assert_true(kernel->level >= level);
      assert_int_equal(kernel->rows % kernel->row_step, 0);
      level = kernel->level;
    }
  }
  assert_non_null(ommai_attention_decode_kernel_find(OMMAI_CPU_SCALAR, OMMA_F32));
  assert_non_null(ommai_attention_decode_kernel_find(OMMAI_CPU_SCALAR, OMMA_BF16));
  assert_null(ommai_attention_decode_kernel_find(OMMAI_CPU_LEVELS - 1, OMMA_F16));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tile_kernels),      cmocka_unit_test(window_kernels),     cmocka_unit_test(decode_kernels),
      cmocka_unit_test(window_blocks_fit), cmocka_unit_test(lists_are_in_order),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
