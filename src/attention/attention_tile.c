/* Jobs of the encoder and causal forms: pack key blocks; attend one tile, or a whole small pair. */
#include <string.h>

#include "attention/attention_plan.h"
#include "base/checked.h"
#include "kernels/attention_element.h"

static void pack_blocks(const struct ommai_attention_run *run, const struct ommai_attention_job *job, unsigned char *packed,
                        int64_t first, int64_t end) {
  const struct ommai_attention_problem *problem = &run->plan->problem;
  struct ommai_attention_pack pack = {.k_stride = run->tensors.k_token_stride,
                                      .v_stride = run->tensors.v_token_stride,
                                      .head_dim = problem->head_dim,
                                      .v_head_dim = problem->v_head_dim};
  for (int64_t block = first; block < end; block++) {
    pack.k = ommai_attention_k_block(run, job->unit, job->kv_head, block);
    pack.v = ommai_attention_v_block(run, job->unit, job->kv_head, block);
    pack.n_keys = (int32_t)ommai_min_i64(job->unit->n_keys - block * OMMAI_ATTENTION_BLOCK, OMMAI_ATTENTION_BLOCK);
    pack.packed = packed + (size_t)block * problem->block_bytes;
    problem->tile->pack(&pack);
  }
}

void ommai_attention_tile_prepare(const struct ommai_attention_run *run, const struct ommai_attention_job *job) {
  int64_t first = job->index * OMMAI_ATTENTION_PACK_BLOCKS;
  int64_t n_blocks = ommai_div_up(job->unit->n_keys, OMMAI_ATTENTION_BLOCK);
  pack_blocks(run, job, job->shared, first, ommai_min_i64(first + OMMAI_ATTENTION_PACK_BLOCKS, n_blocks));
}

/* Queries that see no key get zeros. */
static void clear_rows(const struct ommai_attention_run *run, int64_t first, int64_t count, int64_t head) {
  const struct ommai_attention_problem *problem = &run->plan->problem;
  size_t size = (size_t)problem->v_head_dim * ommai_attention_element_size(problem->dtype);
  for (int64_t row = first; row < first + count; row++) memset(ommai_attention_out(run, row, head), 0, size);
}

static void attend_tile(const struct ommai_attention_run *run, const struct ommai_attention_unit *unit, int64_t head,
                        int64_t index, const void *packed, void *scratch) {
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
                                      .scratch = scratch};
  tile.first_visible = ommai_min_i64(unit->n_keys, unit->first_visible + first);
  tile.n_keys = ommai_min_i64(unit->n_keys, unit->first_visible + first + count - 1);
  problem->tile->attend(&tile);
}

/* Tiles of a causal unit run from the last, which sees the most keys, to the first. */
static int64_t tile_in_order(const struct ommai_attention_problem *problem, int64_t n_tiles, int64_t index) {
  return problem->form == OMMA_ATTENTION_CAUSAL ? n_tiles - 1 - index : index;
}

void ommai_attention_tile_attend(const struct ommai_attention_run *run, const struct ommai_attention_job *job) {
  const struct ommai_attention_problem *problem = &run->plan->problem;
  const struct ommai_attention_unit *unit = job->unit;
  int64_t n_tiles = ommai_attention_tile_count(problem->tile, unit->n_rows);
  int64_t head = (int64_t)job->kv_head * problem->group;
  if (!unit->small) {
    int64_t index = tile_in_order(problem, n_tiles, job->index % n_tiles);
    attend_tile(run, unit, head + job->index / n_tiles, index, job->shared, job->scratch);
    return;
  }
  unsigned char *packed = job->scratch;
  void *scratch = job->scratch + OMMAI_ATTENTION_SMALL_KEYS / OMMAI_ATTENTION_BLOCK * problem->block_bytes;
  pack_blocks(run, job, packed, 0, ommai_div_up(unit->n_keys, OMMAI_ATTENTION_BLOCK));
  for (int32_t i = 0; i < problem->group; i++) {
    for (int64_t index = 0; index < n_tiles; index++) attend_tile(run, unit, head + i, index, packed, scratch);
  }
}
