/* Jobs of the encoder and causal forms: pack key blocks; attend one tile, or a whole small pair. */
#include <string.h>

#include "attention/attention_plan.h"
#include "base/checked.h"
#include "kernels/attention_element.h"

static void pack_blocks(const struct ommai_attention_run *run, const struct ommai_attention_unit *unit, int32_t kv_head,
                        unsigned char *packed, int64_t first, int64_t end) {
  const struct ommai_attention_problem *problem = &run->plan->problem;
  struct ommai_attention_pack pack = {.k_stride = run->tensors.k_token_stride,
                                      .v_stride = run->tensors.v_token_stride,
                                      .head_dim = problem->head_dim,
                                      .v_head_dim = problem->v_head_dim};
  for (int64_t block = first; block < end; block++) {
    pack.k = ommai_attention_k_block(run, unit, kv_head, block);
    pack.v = ommai_attention_v_block(run, unit, kv_head, block);
    pack.n_keys = (int32_t)ommai_min_i64(unit->n_keys - block * OMMAI_ATTENTION_BLOCK, OMMAI_ATTENTION_BLOCK);
    pack.packed = packed + (size_t)block * problem->block_bytes;
    problem->tile->pack(&pack);
  }
}

void ommai_attention_tile_prepare(const struct ommai_attention_run *run, const struct ommai_attention_job *job) {
  int64_t first = job->index * OMMAI_ATTENTION_PACK_BLOCKS;
  int64_t n_blocks = ommai_div_up(job->unit->n_keys, OMMAI_ATTENTION_BLOCK);
  int64_t end = ommai_min_i64(first + OMMAI_ATTENTION_PACK_BLOCKS, n_blocks);
  pack_blocks(run, job->unit, job->first_head, job->shared, first, end);
}

/* Queries that see no key get zeros. */
static void clear_rows(const struct ommai_attention_run *run, int64_t first, int64_t count, int64_t head) {
  const struct ommai_attention_problem *problem = &run->plan->problem;
  size_t size = (size_t)problem->v_head_dim * ommai_attention_element_size(problem->dtype);
  for (int64_t row = first; row < first + count; row++) memset(ommai_attention_out(run, row, head), 0, size);
}

static void attend_tile(const struct ommai_attention_run *run, const struct ommai_attention_unit *unit, int64_t head,
                        int64_t index, const void *packed, void *scratch, struct ommai_attention_prefetch *prefetch) {
  const struct ommai_attention_problem *problem = &run->plan->problem;
  int64_t first, count;
  ommai_attention_tile_rows(problem->tile, unit->n_rows, index, &first, &count);
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
                                      .packed = packed,
                                      .scale = problem->scale,
                                      .scratch = scratch,
                                      .prefetch = prefetch};
  tile.first_visible = ommai_min_i64(unit->n_keys, unit->first_visible + first);
  tile.n_keys = ommai_min_i64(unit->n_keys, unit->first_visible + first + count - 1);
  problem->tile->attend(&tile);
}

/* One tile of a unit whose blocks are packed. Tiles of a causal unit run from the last, which sees the most keys, to the first. */
static void attend_one(const struct ommai_attention_run *run, const struct ommai_attention_job *job) {
  const struct ommai_attention_problem *problem = &run->plan->problem;
  int64_t n_tiles = ommai_attention_tile_count(problem->tile, job->unit->n_rows);
  int64_t head = (int64_t)job->first_head * problem->group + job->index / n_tiles, index = job->index % n_tiles;
  if (problem->form == OMMA_ATTENTION_CAUSAL) index = n_tiles - 1 - index;
  attend_tile(run, job->unit, head, index, job->shared, job->scratch, NULL);
}

/* The rows that a kv head of a small unit will read and write: too short pieces of memory, too far apart, for the machine to
 * foresee. */
static struct ommai_attention_prefetch rows_of(const struct ommai_attention_run *run, const struct ommai_attention_unit *unit,
                                               int32_t kv_head) {
  const struct ommai_attention_problem *problem = &run->plan->problem;
  const struct omma_attention_tensors *t = &run->tensors;
  int64_t size = (int64_t)ommai_attention_element_size(problem->dtype), head = (int64_t)kv_head * problem->group;
  return (struct ommai_attention_prefetch){
      .base = {ommai_attention_k_block(run, unit, kv_head, 0), ommai_attention_v_block(run, unit, kv_head, 0),
               ommai_attention_q(run, unit->first_row, head), ommai_attention_out(run, unit->first_row, head)},
      .stride = {t->k_token_stride * size, t->v_token_stride * size, t->q_token_stride * size, t->out_token_stride * size},
      .row_bytes = {problem->head_dim * size, problem->v_head_dim * size, problem->head_dim * size, problem->v_head_dim * size},
      .n_rows = (int32_t)ommai_max_i64(unit->n_keys, unit->n_rows)};
}

/* What follows kv head `kv_head - 1` of the unit: the next head, or the first of the next unit. */
static struct ommai_attention_prefetch foresee(const struct ommai_attention_run *run, const struct ommai_attention_unit *unit,
                                               int32_t kv_head) {
  if (kv_head == run->plan->problem.n_kv_heads) {
    kv_head = 0;
    unit++;
  }
  if (unit == run->plan->units + run->plan->n_units || unit->n_keys == 0) return (struct ommai_attention_prefetch){0};
  return rows_of(run, unit, kv_head);
}

/* All of a small pair, in the worker's scratch. */
static void attend_small(const struct ommai_attention_run *run, const struct ommai_attention_job *job) {
  const struct ommai_attention_problem *problem = &run->plan->problem;
  const struct ommai_attention_unit *unit = job->unit;
  int64_t n_tiles = ommai_attention_tile_count(problem->tile, unit->n_rows);
  void *scratch = job->scratch + OMMAI_ATTENTION_SMALL_KEYS / OMMAI_ATTENTION_BLOCK * problem->block_bytes;
  for (int32_t i = 0; i < job->n_heads; i++) {
    int32_t kv_head = job->first_head + i;
    struct ommai_attention_prefetch prefetch = foresee(run, unit, kv_head + 1);
    pack_blocks(run, unit, kv_head, job->scratch, 0, ommai_div_up(unit->n_keys, OMMAI_ATTENTION_BLOCK));
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
