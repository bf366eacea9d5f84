/* Jobs of the encoder and causal modes: pack key blocks; attend one tile, or a whole small pair. */
#include <math.h>
#include <string.h>

#include "attention/attention_address.h"
#include "attention/attention_plan.h"
#include "base/checked.h"
#include "kernels/attention_element.h"

enum { CENTER_KEYS = 256 };

/* The mean of a unit's rows of keys or values, of at most that many that are evenly spaced: any row
 * would do that is the same for all blocks. */
static void find_center(const uint16_t *rows, int64_t n_rows, int64_t stride, int32_t dim, float *center) {
  int64_t n = ommai_min_i64(n_rows, CENTER_KEYS);
  memset(center, 0, (size_t)dim * sizeof *center);
  for (int64_t i = 0; i < n; i++) {
    const uint16_t *row = rows + i * n_rows / n * stride;
    for (int32_t d = 0; d < dim; d++) center[d] += ommai_bf16_to_f32(row[d]);
  }
  for (int32_t d = 0; d < dim; d++) center[d] /= (float)n;
}

/* The largest distance of the same rows from it; 1 where that is next to nothing. */
static void find_spread(const uint16_t *rows, int64_t n_rows, int64_t stride, int32_t dim, const float *center, float *spread) {
  int64_t n = ommai_min_i64(n_rows, CENTER_KEYS);
  memset(spread, 0, (size_t)dim * sizeof *spread);
  for (int64_t i = 0; i < n; i++) {
    const uint16_t *row = rows + i * n_rows / n * stride;
    for (int32_t d = 0; d < dim; d++) spread[d] = fmaxf(spread[d], fabsf(ommai_bf16_to_f32(row[d]) - center[d]));
  }
  for (int32_t d = 0; d < dim; d++) spread[d] = spread[d] > 0x1p-60f ? spread[d] : 1.0f;
}

/* Blocks [first, first + count) of those that the unit's rows see, to their places from `packed`
 * on. */
static void pack_blocks(const struct ommai_attention_run *run, const struct ommai_attention_unit *unit, int32_t kv_head,
                        unsigned char *packed, int64_t first, int64_t count) {
  const struct ommai_attention_problem *problem = &run->plan->problem;
  struct ommai_attention_pack pack = {.k_stride = run->tensors.k_token_stride,
                                      .v_stride = run->tensors.v_token_stride,
                                      .head_dim = problem->head_dim,
                                      .v_head_dim = problem->v_head_dim};
  const struct ommai_attention_tile_kernel *kernel = ommai_attention_kernel_for(problem, unit->n_keys);
  float center[OMMA_ATTENTION_MAX_HEAD_DIM], v_center[OMMA_ATTENTION_MAX_HEAD_DIM], v_spread[OMMA_ATTENTION_MAX_HEAD_DIM];
  if (problem->int8 && kernel == problem->tile) {
    const uint16_t *values = ommai_attention_v_block(run, unit, kv_head, 0);
    find_center(ommai_attention_k_block(run, unit, kv_head, 0), unit->n_keys, pack.k_stride, pack.head_dim, center);
    find_center(values, unit->n_keys, pack.v_stride, pack.v_head_dim, v_center);
    find_spread(values, unit->n_keys, pack.v_stride, pack.v_head_dim, v_center, v_spread);
    pack.center = center;
    pack.v_center = v_center;
    pack.v_spread = v_spread;
  }
  for (int64_t i = first; i < first + count; i++) {
    int64_t block = unit->first_part + i;
    pack.k = ommai_attention_k_block(run, unit, kv_head, block);
    pack.v = ommai_attention_v_block(run, unit, kv_head, block);
    pack.k_scales = ommai_attention_k_scales(run, unit, kv_head, block);
    pack.v_scales = ommai_attention_v_scales(run, unit, kv_head, block);
    pack.n_keys = (int32_t)ommai_min_i64(unit->n_keys - block * OMMAI_ATTENTION_BLOCK, OMMAI_ATTENTION_BLOCK);
    pack.packed = packed + (size_t)i * problem->block_bytes;
    kernel->pack(&pack);
  }
}

void ommai_attention_tile_prepare(const struct ommai_attention_run *run, const struct ommai_attention_job *job) {
  int64_t first = job->index * OMMAI_ATTENTION_PACK_BLOCKS;
  int64_t count = ommai_min_i64(OMMAI_ATTENTION_PACK_BLOCKS, job->unit->n_parts - first);
  pack_blocks(run, job->unit, job->first_head, job->shared, first, count);
}

/* Queries that see no key get zeros. */
static void clear_rows(const struct ommai_attention_run *run, int64_t first, int64_t count, int64_t head) {
  const struct ommai_attention_problem *problem = &run->plan->problem;
  size_t size = (size_t)problem->v_head_dim * ommai_attention_element_size(problem->types.q);
  for (int64_t row = first; row < first + count; row++) memset(ommai_attention_out(run, row, head), 0, size);
}

static void attend_tile(const struct ommai_attention_run *run, const struct ommai_attention_unit *unit, int64_t head,
                        int64_t index, const unsigned char *packed, void *scratch, struct ommai_attention_prefetch *prefetch) {
  const struct ommai_attention_problem *problem = &run->plan->problem;
  const struct ommai_attention_tile_kernel *kernel = ommai_attention_kernel_for(problem, unit->n_keys);
  int64_t first, count;
  ommai_attention_tile_rows(kernel, unit->n_rows, index, &first, &count);
  if (unit->n_keys == 0) {
    clear_rows(run, unit->first_row + first, count, head);
    return;
  }
  struct ommai_attention_tile tile = {.q = ommai_attention_q(run, unit->first_row + first, head),
                                      .out = ommai_attention_out(run, unit->first_row + first, head),
                                      .q_stride = run->tensors.q_token_stride,
                                      .out_stride = run->tensors.out_token_stride,
                                      .n_rows = (int32_t)count,
                                      .head_dim = problem->head_dim,
                                      .v_head_dim = problem->v_head_dim,
                                      .window_keys = problem->window_keys,
                                      .scale = problem->scale,
                                      .scratch = scratch,
                                      .prefetch = prefetch};
  tile.first_visible = ommai_min_i64(unit->n_keys, unit->first_visible + first);
  tile.n_keys = ommai_min_i64(unit->n_keys, unit->first_visible + first + count - 1);
  int64_t block = ommai_attention_first_key(problem, tile.first_visible) / OMMAI_ATTENTION_BLOCK;
  tile.first_key = block * OMMAI_ATTENTION_BLOCK;
  tile.packed = packed + (size_t)(block - unit->first_part) * problem->block_bytes;
  kernel->attend(&tile);
}

static int64_t tile_count(const struct ommai_attention_problem *problem, const struct ommai_attention_unit *unit) {
  return ommai_attention_tile_count(ommai_attention_kernel_for(problem, unit->n_keys), unit->n_rows);
}

/* The next head's packed keys and values are prefetched up to this size: those of two heads, scores
 * and rows stay in the second level of cache. A kernel prefetches at least once in that many
 * keys. */
enum { PREFETCHED_PACKED_BYTES = 384 << 10, PREFETCH_STEP_KEYS = 8 };

/* Tile `number` of a unit whose blocks are packed, counted through all heads. Those of a causal
 * unit run from the last, which sees the most keys, to the first. */
struct unit_tile {
  int64_t head, index;
};

static struct unit_tile unit_tile_at(const struct ommai_attention_problem *problem, const struct ommai_attention_unit *unit,
                                     int64_t number) {
  int64_t n_tiles = tile_count(problem, unit), index = number % n_tiles;
  return (struct unit_tile){number / n_tiles, problem->mode == OMMA_ATTENTION_CAUSAL ? n_tiles - 1 - index : index};
}

/* The rows of the tile that this worker is likely to get next, and a share of the next head's
 * packed blocks, which follow this head's at `packed`: where each worker has a few tiles of a head,
 * it will read all of them. */
static struct ommai_attention_prefetch next_tile(const struct ommai_attention_run *run, const struct ommai_attention_unit *unit,
                                                 int64_t number, const unsigned char *packed) {
  const struct ommai_attention_problem *problem = &run->plan->problem;
  const struct omma_attention_tensors *t = &run->tensors;
  int64_t next = number + run->n_workers, per_head = unit->attend_per_pair, n_tiles = per_head * unit->n_pairs;
  if (next >= n_tiles || unit->n_keys == 0) return (struct ommai_attention_prefetch){0};
  struct unit_tile tile = unit_tile_at(problem, unit, next);
  int64_t first, count, size = (int64_t)ommai_attention_element_size(problem->types.q);
  ommai_attention_tile_rows(ommai_attention_kernel_for(problem, unit->n_keys), unit->n_rows, tile.index, &first, &count);
  int64_t n_keys = ommai_min_i64(unit->n_keys, problem->window_keys);
  int64_t steps = ommai_div_up(n_keys, PREFETCH_STEP_KEYS), half = (int64_t)unit->bytes_per_pair / 2, share = 0;
  bool few = per_head < 2 * run->n_workers, last = number / per_head + 1 == unit->n_pairs;
  if (!few && !last && unit->bytes_per_pair <= PREFETCHED_PACKED_BYTES)
    share = ommai_round_up(ommai_div_up(half * run->n_workers, per_head * count), 64);
  const unsigned char *keys = packed + unit->bytes_per_pair + number % per_head / run->n_workers * count * share;
  return (struct ommai_attention_prefetch){
      .base = {ommai_attention_q(run, unit->first_row + first, tile.head),
               ommai_attention_out(run, unit->first_row + first, tile.head), keys, keys + half},
      .stride = {t->q_token_stride * size, t->out_token_stride * size, share, share},
      .row_bytes = {problem->head_dim * size, problem->v_head_dim * size, share, share},
      .n_rows = (int32_t)count,
      .rows_per_step = (int32_t)ommai_div_up(4 * count, steps)};
}

static void attend_one(const struct ommai_attention_run *run, const struct ommai_attention_job *job) {
  const struct ommai_attention_unit *unit = job->unit;
  int64_t number = job->first_head * unit->attend_per_pair + job->index;
  struct unit_tile tile = unit_tile_at(&run->plan->problem, unit, number);
  struct ommai_attention_prefetch prefetch = next_tile(run, unit, number, job->shared);
  attend_tile(run, unit, tile.head, tile.index, job->shared, job->scratch, &prefetch);
}

/* kv heads whose rows are asked for together: enough that the pieces are longer than the cache
 * lines that they share with their neighbours, few enough that those in work and those on the way
 * stay in the second level. */
enum { PREFETCHED_HEADS = 4, ROWS_PER_STEP = 2 };

/* Whether the heads of a row follow each other without gaps, in all four tensors. */
static bool heads_adjoin(const struct ommai_attention_run *run) {
  const struct ommai_attention_problem *problem = &run->plan->problem;
  const struct omma_attention_tensors *t = &run->tensors;
  return t->q_head_stride == problem->head_dim && t->k_head_stride == problem->head_dim &&
         t->v_head_stride == problem->v_head_dim && t->out_head_stride == problem->v_head_dim;
}

/* Share `index` of `n_heads` shares of the rows that a unit reads and writes for kv heads
 * [first_head, first_head + n_heads). */
static struct ommai_attention_prefetch rows_of(const struct ommai_attention_run *run, const struct ommai_attention_unit *unit,
                                               int32_t first_head, int32_t n_heads, int32_t index) {
  const struct ommai_attention_problem *problem = &run->plan->problem;
  const struct omma_attention_tensors *t = &run->tensors;
  int64_t size = (int64_t)ommai_attention_element_size(problem->types.q), head = (int64_t)first_head * problem->group;
  int64_t block = unit->first_part, n_keys = unit->n_keys - block * OMMAI_ATTENTION_BLOCK;
  int64_t n_rows = ommai_max_i64(n_keys, unit->n_rows), first = n_rows * index / n_heads;
  int64_t kv_size = (int64_t)ommai_attention_element_size(problem->types.kv), q_heads = (int64_t)n_heads * problem->group;
  int64_t q_stride = t->q_token_stride * size, k_stride = t->k_token_stride * kv_size;
  int64_t v_stride = t->v_token_stride * kv_size, out_stride = t->out_token_stride * size;
  return (struct ommai_attention_prefetch){
      .base = {(const char *)ommai_attention_k_block(run, unit, first_head, block) + first * k_stride,
               (const char *)ommai_attention_v_block(run, unit, first_head, block) + first * v_stride,
               (const char *)ommai_attention_q(run, unit->first_row, head) + first * q_stride,
               (const char *)ommai_attention_out(run, unit->first_row, head) + first * out_stride},
      .stride = {k_stride, v_stride, q_stride, out_stride},
      .row_bytes = {problem->head_dim * kv_size * n_heads, problem->v_head_dim * kv_size * n_heads,
                    problem->head_dim * size * q_heads, problem->v_head_dim * size * q_heads},
      .n_rows = (int32_t)(n_rows * (index + 1) / n_heads - first),
      .rows_per_step = ROWS_PER_STEP * PREFETCHED_HEADS / n_heads};
}

/* What is to be asked for during head `index` of a job: a share of the heads that follow, in the
 * job or in the one that this worker is likely to get next. Rows are too short pieces of memory,
 * too far apart, for the hardware's prefetchers. */
static struct ommai_attention_prefetch next_prefetch(const struct ommai_attention_run *run,
                                                     const struct ommai_attention_job *job, int32_t index) {
  const struct ommai_attention_unit *unit = job->unit;
  int32_t n_heads = heads_adjoin(run) ? (int32_t)ommai_min_i64(job->n_heads, PREFETCHED_HEADS) : 1;
  int32_t next = index / n_heads * n_heads + n_heads, first_head = job->first_head + next;
  if (next == job->n_heads) {
    int64_t pair = job->first_head / job->n_heads + run->n_workers;
    int64_t left = run->plan->units + run->plan->n_units - unit;
    if (pair / unit->n_pairs >= left) return (struct ommai_attention_prefetch){0};
    first_head = (int32_t)(pair % unit->n_pairs) * job->n_heads;
    unit += pair / unit->n_pairs;
  }
  if (unit->n_keys == 0) return (struct ommai_attention_prefetch){0};
  return rows_of(run, unit, first_head, n_heads, index % n_heads);
}

/* All of a small pair, in the worker's scratch. */
static void attend_small(const struct ommai_attention_run *run, const struct ommai_attention_job *job) {
  const struct ommai_attention_problem *problem = &run->plan->problem;
  const struct ommai_attention_unit *unit = job->unit;
  int64_t n_tiles = tile_count(problem, unit);
  void *scratch = job->scratch + OMMAI_ATTENTION_SMALL_KEYS / OMMAI_ATTENTION_BLOCK * problem->block_bytes;
  for (int32_t i = 0; i < job->n_heads; i++) {
    int32_t kv_head = job->first_head + i;
    struct ommai_attention_prefetch prefetch = next_prefetch(run, job, i);
    pack_blocks(run, unit, kv_head, job->scratch, 0, unit->n_parts);
    for (int64_t j = 0; j < problem->group * n_tiles; j++) {
      int64_t head = (int64_t)kv_head * problem->group + j / n_tiles;
      attend_tile(run, unit, head, j % n_tiles, job->scratch, scratch, &prefetch);
    }
  }
}

void ommai_attention_tile_attend(const struct ommai_attention_run *run, const struct ommai_attention_job *job) {
  if (job->unit->small) {
    attend_small(run, job);
  } else {
    attend_one(run, job);
  }
}
