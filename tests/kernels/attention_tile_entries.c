/* The tile kernels, packing and attending: against double precision, and what the contract promises
 * about rows, tiles and masked keys. Packed memory, scratch, inputs and outputs all lie between
 * pages that cannot be touched. */
#include <math.h>
#include <stdlib.h>

#include "kernels/attention_element.h"
#include "kernels/attention_kernels.h"
#include "kernels/attention_rows.h"

enum { BLOCK = OMMAI_ATTENTION_BLOCK, BENCH_KEYS = 1024, BENCH_DIM = 72 };
enum { TILE, WINDOW, INT8 }; /* index of an entry */

typedef const struct ommai_attention_tile_kernel *tile_kernel;

static size_t whole_lines(size_t bytes) { return (bytes + 63) / 64 * 64; }

static int64_t n_blocks_of(const struct attention_problem *p) { return (p->n_keys + BLOCK - 1) / BLOCK; }

/* What kernels with scores of integers take off every key. */
static const float *center(void) {
  static float values[ATTENTION_MAX_DIM];
  for (int d = 0; d < ATTENTION_MAX_DIM; d++) values[d] = 0.125f * (float)(d % 7) - 0.25f;
  return values;
}

/* And off every value, and what they divide it by. */
static const float *v_center(void) {
  static float values[ATTENTION_MAX_DIM];
  for (int d = 0; d < ATTENTION_MAX_DIM; d++) values[d] = 0.25f * (float)(d % 5) - 0.5f;
  return values;
}
static const float *v_spread(void) {
  static float values[ATTENTION_MAX_DIM];
  for (int d = 0; d < ATTENTION_MAX_DIM; d++) values[d] = 0.75f + 0.25f * (float)(d % 3);
  return values;
}

static void pack_block(tile_kernel kernel, const struct attention_problem *p, int64_t block, void *packed) {
  int64_t left = p->n_keys - block * BLOCK;
  struct ommai_attention_pack pack = {.k = attention_row(&p->k, block * BLOCK),
                                      .v = attention_row(&p->v, block * BLOCK),
                                      .k_scales = attention_row_scales(&p->k, block * BLOCK),
                                      .v_scales = attention_row_scales(&p->v, block * BLOCK),
                                      .k_stride = p->k.stride,
                                      .v_stride = p->v.stride,
                                      .n_keys = (int32_t)(left < BLOCK ? left : BLOCK),
                                      .head_dim = p->head_dim,
                                      .v_head_dim = p->v_head_dim,
                                      .center = center(),
                                      .v_center = v_center(),
                                      .v_spread = v_spread(),
                                      .packed = packed};
  kernel->pack(&pack);
}

/* The blocks of a problem, each alone between its pages while it is packed. */
static struct guarded pack_all(tile_kernel kernel, const struct attention_problem *p) {
  size_t bytes = whole_lines(kernel->block_bytes(p->head_dim, p->v_head_dim));
  struct guarded packed = kernel_memory((size_t)n_blocks_of(p) * bytes), block = kernel_memory(bytes);
  for (int64_t i = 0; i < n_blocks_of(p); i++) {
    memset(block.data, 0xff, bytes);
    pack_block(kernel, p, i, block.data);
    guarded_check(&block, "packed block");
    memcpy(packed.data + (size_t)i * bytes, block.data, bytes);
  }
  guarded_free(&block);
  return packed;
}

/* The keys that a row sees end here, and begin there. */
static int64_t end_of(const struct attention_problem *p, int64_t row) {
  return p->first_visible + row < p->n_keys ? p->first_visible + row : p->n_keys;
}
static int64_t begin_of(const struct attention_problem *p, int64_t row) {
  return end_of(p, row) > p->window_keys ? end_of(p, row) - p->window_keys : 0;
}

/* packed: all blocks. */
static struct ommai_attention_tile tile_of(tile_kernel kernel, const struct attention_problem *p, int32_t first, int32_t count,
                                           const unsigned char *packed, void *scratch) {
  struct ommai_attention_tile tile = {.q = attention_row(&p->q, first),
                                      .out = attention_row(&p->out, first),
                                      .q_stride = p->q.stride,
                                      .out_stride = p->out.stride,
                                      .n_rows = count,
                                      .head_dim = p->head_dim,
                                      .v_head_dim = p->v_head_dim,
                                      .window_keys = p->window_keys,
                                      .scale = p->scale,
                                      .scratch = scratch};
  size_t block_bytes = whole_lines(kernel->block_bytes(p->head_dim, p->v_head_dim));
  tile.first_visible = end_of(p, first);
  tile.n_keys = end_of(p, first + count - 1);
  tile.first_key = begin_of(p, first) / BLOCK * BLOCK;
  tile.packed = packed + (size_t)(tile.first_key / BLOCK) * block_bytes;
  return tile;
}

/* Rows [first, first + count) as one tile; `with_prefetch`: with a hint at rows that cannot be
 * touched. */
static void run_tile(tile_kernel kernel, const struct attention_problem *p, int32_t first, int32_t count, bool with_prefetch) {
  struct guarded packed = pack_all(kernel, p), nothing = guarded_untouchable(4096);
  struct guarded scratch = kernel_memory(whole_lines(kernel->scratch_bytes(p->head_dim, p->v_head_dim)));
  struct ommai_attention_tile tile = tile_of(kernel, p, first, count, packed.data, scratch.data);
  struct ommai_attention_prefetch prefetch = {.base = {nothing.data, nothing.data, nothing.data, nothing.data},
                                              .stride = {64, 64, 64, 64},
                                              .row_bytes = {64, 64, 64, 64},
                                              .n_rows = 64,
                                              .rows_per_step = 2};
  if (with_prefetch) tile.prefetch = &prefetch;
  kernel->attend(&tile);
  guarded_check(&scratch, "scratch");
  guarded_free(&packed);
  guarded_free(&scratch);
  guarded_free(&nothing);
}

static void load_row(const struct attention_problem *p, int64_t row, float *out) {
  for (int64_t d = 0; d < p->v_head_dim; d++) {
    out[d] = ommai_attention_load(attention_row(&p->out, row), d, p->types.q);
  }
}

/* Nothing but the rows of out was written. */
static bool padding_holds(const struct attention_problem *p) {
  size_t size = ommai_attention_element_size(p->types.q);
  for (int64_t row = 0; row + 1 < p->n_rows; row++) {
    const unsigned char *from = attention_row(&p->out, row) + (size_t)p->v_head_dim * size;
    for (const unsigned char *at = from; at < attention_row(&p->out, row + 1); at++) {
      if (*at != 0xff) return false;
    }
  }
  return true;
}

/* Window kernels serve one block of keys that every row sees. */
static struct attention_limits limits_of(const struct kernel_entry *entry) {
  tile_kernel kernel = entry->kernel;
  bool window = entry->index == WINDOW;
  return (struct attention_limits){.rows = kernel->rows < ATTENTION_MAX_ROWS ? kernel->rows : ATTENTION_MAX_ROWS,
                                   .row_step = kernel->row_step,
                                   .keys = window ? BLOCK : ATTENTION_MAX_KEYS,
                                   .dim = ATTENTION_MAX_DIM,
                                   .masked = !window,
                                   .sliding = entry->index == TILE};
}

/* Rows [first, end) of `rows` to the nearest multiples of the 127th part of the largest, which it
 * returns. */
static double to_int8(struct attention_rows *rows, int64_t first, int64_t end) {
  float largest = 0.0f;
  for (int round = 0; round < 2; round++) {
    for (int64_t row = first; row < end; row++) {
      float *x = (float *)(void *)attention_row(rows, row);
      for (int64_t d = 0; d < rows->dim; d++) {
        if (round == 0) {
          largest = fmaxf(largest, fabsf(x[d]));
        } else {
          x[d] = largest > 0x1p-100f ? rintf(x[d] * (127.0f / largest)) * (largest / 127.0f) : 0.0f;
        }
      }
    }
  }
  return largest > 0x1p-100f ? (double)(largest / 127.0f) : 0x1p-100;
}

/* x = (x - less) / by, or with `back` the other way round; NULL: as it is. */
static void shift_rows(struct attention_rows *rows, const float *less, const float *by, bool back) {
  for (int64_t row = 0; row < rows->n; row++) {
    float *x = (float *)(void *)attention_row(rows, row);
    for (int64_t d = 0; d < rows->dim; d++) {
      float divisor = by ? by[d] : 1.0f;
      x[d] = back ? x[d] * divisor + less[d] : (x[d] - less[d]) / divisor;
    }
  }
}

/* The problem that a kernel of 8-bit integers computes, but for its weights: q, k and v in f32,
 * with values that such integers have. value_step: of each block of keys. */
static struct attention_problem in_int8(const struct attention_problem *p, double *value_step) {
  struct attention_problem made = *p;
  struct attention_rows *from[3] = {&made.q, &made.k, &made.v};
  for (int i = 0; i < 3; i++) {
    const struct attention_rows rows = *from[i];
    *from[i] = (struct attention_rows){.type = OMMA_F32, .n = rows.n, .dim = rows.dim, .stride = rows.dim};
    from[i]->memory = kernel_memory((size_t)(rows.n * rows.dim) * sizeof(float));
    for (int64_t at = 0; at < rows.n * rows.dim; at++) {
      float x = ommai_attention_load(attention_row(&rows, at / rows.dim), at % rows.dim, rows.type);
      ommai_attention_store(from[i]->memory.data, at, OMMA_F32, x);
    }
  }
  shift_rows(&made.k, center(), NULL, false);
  shift_rows(&made.v, v_center(), v_spread(), false);
  for (int64_t row = 0; row < p->n_rows; row++) to_int8(&made.q, row, row + 1);
  for (int64_t key = 0; key < p->n_keys; key += BLOCK) {
    int64_t end = key + BLOCK < p->n_keys ? key + BLOCK : p->n_keys;
    to_int8(&made.k, key, end);
    value_step[key / BLOCK] = to_int8(&made.v, key, end);
  }
  shift_rows(&made.v, v_center(), v_spread(), true);
  return made;
}

static double check_tile(const struct kernel_entry *entry, uint64_t seed) {
  tile_kernel kernel = entry->kernel;
  struct test_random random = {seed};
  const struct attention_limits limits = limits_of(entry);
  struct attention_problem p = attention_problem_random(&random, kernel->types, &limits);
  float together[ATTENTION_MAX_ROWS][ATTENTION_MAX_DIM], alone[ATTENTION_MAX_DIM];
  char name[80];
  double worst = 0.0;
  p.k.in_bf16 = p.v.in_bf16 = kernel->types.q == OMMA_BF16;
  double value_step[(ATTENTION_MAX_KEYS + BLOCK - 1) / BLOCK];
  struct attention_problem exact = entry->index == INT8 ? in_int8(&p, value_step) : p;
  const struct attention_whole_weights whole = {v_center(), value_step};
  attention_problem_name(&p, name, sizeof name);
  run_tile(kernel, &p, 0, p.n_rows, test_random_range(&random, 0, 1));
  for (int32_t row = 0; row < p.n_rows; row++) {
    load_row(&p, row, together[row]);
    double error = attention_row_error(&exact, row, begin_of(&p, row), end_of(&p, row), together[row],
                                       entry->index == INT8 ? &whole : NULL);
    if (!(error <= 1.0)) kernel_fail(entry, seed, "%s: row %d of %d: %.3g of the bound", name, row, p.n_rows, error);
    worst = fmax(worst, error);
  }
  /* A row has the same bits in a tile of its own, and in one that begins at it. */
  int32_t row = (int32_t)test_random_range(&random, 0, p.n_rows - 1);
  for (int round = 0; round < 2; round++) {
    run_tile(kernel, &p, row, round ? p.n_rows - row : 1, false);
    load_row(&p, row, alone);
    if (memcmp(alone, together[row], (size_t)p.v_head_dim * sizeof *alone) != 0) {
      kernel_fail(entry, seed, "%s: row %d differs from that in a tile of %d", name, row, p.n_rows);
    }
  }
  if (!padding_holds(&p)) kernel_fail(entry, seed, "%s: wrote between the rows of out", name);
  guarded_check(&p.out.memory, "out");
  if (entry->index == INT8) {
    guarded_free(&exact.q.memory);
    guarded_free(&exact.k.memory);
    guarded_free(&exact.v.memory);
  }
  attention_problem_free(&p);
  return worst;
}

/* Packed blocks depend on the keys and values alone: not on strides, alignment, or what lay there
 * before, as far as the kernel writes at all. */
static double check_pack(const struct kernel_entry *entry, uint64_t seed) {
  tile_kernel kernel = entry->kernel;
  struct test_random random = {seed};
  const struct attention_limits limits = limits_of(entry);
  struct attention_problem p = attention_problem_random(&random, kernel->types, &limits), moved = p;
  size_t size = ommai_attention_element_size(p.types.kv);
  struct attention_rows *from[2] = {&p.k, &p.v}, *to[2] = {&moved.k, &moved.v};
  for (int i = 0; i < 2; i++) {
    to[i]->stride = from[i]->dim + test_random_range(&random, 0, 70);
    to[i]->type = from[i]->type;
    to[i]->memory = kernel_memory((size_t)((to[i]->n - 1) * to[i]->stride + to[i]->dim) * size);
    for (int64_t row = 0; row < to[i]->n; row++) {
      memcpy(attention_row(to[i], row), attention_row(from[i], row), (size_t)to[i]->dim * size);
    }
  }
  struct guarded packed[2] = {pack_all(kernel, &p), pack_all(kernel, &moved)};
  if (memcmp(packed[0].data, packed[1].data, packed[0].size) != 0) {
    char name[80];
    kernel_fail(entry, seed, "%s: other strides, other bytes", attention_problem_name(&p, name, sizeof name));
  }
  for (int i = 0; i < 2; i++) {
    guarded_free(&packed[i]);
    guarded_free(&to[i]->memory);
  }
  attention_problem_free(&p);
  return 0.0;
}

struct bench {
  tile_kernel kernel;
  struct attention_problem problem;
  struct guarded packed, scratch;
  struct ommai_attention_tile tile;
};

static void bench_attend(void *context) {
  struct bench *bench = context;
  bench->kernel->attend(&bench->tile);
}

static void bench_pack(void *context) {
  struct bench *bench = context;
  pack_block(bench->kernel, &bench->problem, 0, bench->packed.data);
}

static void release_bench(void *context) {
  struct bench *bench = context;
  attention_problem_free(&bench->problem);
  guarded_free(&bench->packed);
  guarded_free(&bench->scratch);
  free(bench);
}

static struct bench *make_bench(const struct kernel_entry *entry) {
  tile_kernel kernel = entry->kernel;
  struct bench *bench = calloc(1, sizeof *bench);
  bench->kernel = kernel;
  int32_t n_keys = entry->index == WINDOW ? BLOCK : BENCH_KEYS;
  bench->problem = attention_problem_fixed(kernel->types, kernel->rows, n_keys, BENCH_DIM);
  bench->packed = pack_all(kernel, &bench->problem);
  bench->scratch = kernel_memory(whole_lines(kernel->scratch_bytes(BENCH_DIM, BENCH_DIM)));
  bench->tile = tile_of(kernel, &bench->problem, 0, kernel->rows, bench->packed.data, bench->scratch.data);
  return bench;
}

static struct kernel_call attend_call(const struct kernel_entry *entry) {
  struct bench *bench = make_bench(entry);
  struct kernel_call call = {.run = bench_attend, .release = release_bench, .context = bench};
  call.flops = 4.0 * BENCH_DIM * bench->problem.n_keys * bench->kernel->rows;
  call.half = bench->kernel->types.q == OMMA_BF16;
  snprintf(call.shape, sizeof call.shape, "%d rows, %d keys, D %d", bench->kernel->rows, bench->problem.n_keys, BENCH_DIM);
  return call;
}

static struct kernel_call pack_call(const struct kernel_entry *entry) {
  struct kernel_call call = {.run = bench_pack, .release = release_bench, .context = make_bench(entry)};
  snprintf(call.shape, sizeof call.shape, "%d keys, D %d", BLOCK, BENCH_DIM);
  return call;
}

/* Which list a kernel is in, as names have it. */
static const char *const kinds[] = {[TILE] = "tile", [WINDOW] = "window", [INT8] = "int8"};

/* A kernel's two entries. There is no scalar window kernel: both kinds are compared with the scalar
 * tile. */
static void add_kernel(struct kernel_list *list, tile_kernel kernel, int index) {
  static const struct kernel_family families[2] = {{check_tile, attend_call}, {check_pack, pack_call}};
  static const char *const parts[2] = {"", "_pack"};
  const char *type = attention_types_name(kernel->types);
  char operation[KERNEL_NAME_SIZE];
  for (int i = 0; i < 2; i++) {
    snprintf(operation, sizeof operation, "attention_%s%s_%s", kinds[index], parts[i], type);
    struct kernel_entry *entry = kernel_list_add(list, &families[i], operation, kernel->level, kernel, index);
    snprintf(entry->scalar, sizeof entry->scalar, "attention_%s%s_%s_scalar", kinds[index == WINDOW ? TILE : index], parts[i],
             type);
  }
}

void kernel_list_attention_tiles(struct kernel_list *list) {
  for (int i = 0; ommai_attention_tile_kernels[i]; i++) add_kernel(list, ommai_attention_tile_kernels[i], TILE);
  for (int i = 0; ommai_attention_window_kernels[i]; i++) add_kernel(list, ommai_attention_window_kernels[i], WINDOW);
  for (int i = 0; ommai_attention_int8_kernels[i]; i++) {
    if (ommai_attention_int8_supported(ommai_attention_int8_kernels[i]))
      add_kernel(list, ommai_attention_int8_kernels[i], INT8);
  }
}
