#include <stdio.h>

#include "base/allocator.h"
#include "base/checked.h"
#include "base/error.h"
#include "linear/linear_objects.h"

/* Row counts of bf16 tiles that give a row the same bits. Unproven places use one count only. */
static const struct ommai_ladder proven_ladder = {4, {16, 32, 64, 128}};
/* For layers cut along their outputs, which get the few rows of a prompt in one call: filled up to eight rows and not to 16, in one
 * product and not in three. As many for every layer would double the start of a small model. */
static const struct ommai_ladder part_ladder = {15, {16, 24, 32, 40, 48, 56, 64, 72, 80, 88, 96, 104, 112, 120, 128}};
static const struct ommai_ladder unproven_ladder = {1, {128}};

static enum omma_status find_products(struct ommai_linear_engine *engine, struct omma_error *error) {
  enum ommai_cpu_level level = engine->level;
  bool proven = ommai_onednn_is_proven(engine->onednn);
  if (level == OMMAI_CPU_AVX512_BF16 || level == OMMAI_CPU_NEON_BF16) {
    OMMAI_TRY(ommai_onednn_takes(engine->onednn, &engine->has_bf16, error));
  }
  engine->ladder = proven ? proven_ladder : unproven_ladder;
  engine->part_ladder = proven ? part_ladder : unproven_ladder;
  return OMMA_OK;
}

enum omma_status ommai_linear_engine_create(enum ommai_cpu_level level, int n_workers, const struct omma_allocator *allocator,
                                            struct ommai_linear_engine **out, struct omma_error *error) {
  if (n_workers < 1 || n_workers > OMMAI_LINEAR_MAX_WORKERS) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "n_workers", "linear engine: %d workers, expected 1 to %d", n_workers,
                            OMMAI_LINEAR_MAX_WORKERS);
  }
  struct ommai_linear_engine *engine = ommai_allocate(allocator, 1, sizeof *engine);
  if (!engine) return ommai_fail_memory(error, "linear engine", sizeof *engine);
  enum omma_status status;
  engine->allocator = *allocator;
  engine->level = level;
  engine->n_workers = n_workers;
  ommai_few_rows_select(level, &engine->few_rows);
  engine->f32_tile = ommai_f32_tile_select(level);
  engine->integer = ommai_integer_select(level);
  engine->row_ops = ommai_row_ops(level);
  engine->scratch = ommai_allocate(allocator, (size_t)n_workers, sizeof *engine->scratch);
  if (!engine->scratch) {
    status = ommai_fail_memory(error, "linear engine's workers", sizeof *engine->scratch * (size_t)n_workers);
    goto fail;
  }
  OMMAI_TRY_GOTO(ommai_onednn_create(level, n_workers, allocator, &engine->onednn, error), fail);
  OMMAI_TRY_GOTO(find_products(engine, error), fail);
  *out = engine;
  return OMMA_OK;
fail:
  ommai_linear_engine_destroy(engine);
  return status;
}

void ommai_linear_engine_pack_on(struct ommai_linear_engine *engine, const struct omma_team *team) {
  engine->packing_team = team;
}

void ommai_linear_engine_destroy(struct ommai_linear_engine *engine) {
  if (!engine) return;
  struct omma_allocator allocator = engine->allocator;
  for (struct ommai_ladder_products *next, *products = engine->products; products; products = next) {
    next = products->next;
    for (int step = 0; step < OMMAI_LADDER_STEPS; step++) ommai_onednn_matmul_destroy(products->steps[step]);
    ommai_release(&allocator, products, 1, sizeof *products);
  }
  for (int worker = 0; engine->scratch && worker < engine->n_workers; worker++) {
    ommai_release(&allocator, engine->scratch[worker].memory, engine->scratch[worker].size, 1);
  }
  ommai_release(&allocator, engine->scratch, (size_t)engine->n_workers, sizeof *engine->scratch);
  ommai_onednn_destroy(engine->onednn);
  ommai_release(&allocator, engine, 1, sizeof *engine);
}

enum omma_status ommai_linear_grow_scratch(struct ommai_linear_engine *engine, size_t size, struct omma_error *error) {
  for (int worker = 0; worker < engine->n_workers; worker++) {
    struct ommai_linear_scratch *scratch = &engine->scratch[worker];
    if (scratch->size >= size) continue;
    void *memory = ommai_allocate(&engine->allocator, size, 1);
    if (!memory) return ommai_fail_memory(error, "linear layers' scratch", size);
    ommai_release(&engine->allocator, scratch->memory, scratch->size, 1);
    *scratch = (struct ommai_linear_scratch){memory, size};
  }
  return OMMA_OK;
}

size_t ommai_linear_engine_scratch_bytes(const struct ommai_linear_engine *engine) {
  size_t bytes = 0;
  for (int worker = 0; worker < engine->n_workers; worker++) bytes += engine->scratch[worker].size;
  return bytes;
}

static void describe_ladder(const struct ommai_ladder *ladder, char *out, size_t size) {
  size_t at = 0;
  for (int step = 0; step < ladder->n_steps && at < size; step++) {
    int written = snprintf(out + at, size - at, "%s%d", step ? "/" : "", (int)ladder->rows[step]);
    if (written > 0) at += (size_t)written;
  }
}

void ommai_linear_engine_describe(const struct ommai_linear_engine *engine, char *out, size_t size) {
  char onednn[160], ladder[32] = "";
  ommai_onednn_describe(engine->onednn, onednn, sizeof onednn);
  describe_ladder(&engine->ladder, ladder, sizeof ladder);
  snprintf(out, size, "f32 arithmetic: own kernels (%d columns a strip); bf16: %s%s; int8 and int4: own kernels%s; %s",
           engine->f32_tile->n_columns, engine->has_bf16 ? "oneDNN, tiles of rows " : "as f32", engine->has_bf16 ? ladder : "",
           engine->integer->uses_vnni ? " (VNNI)" : "", onednn);
}

int64_t ommai_linear_ladder_rows(const struct ommai_linear_engine *engine, enum omma_dtype compute, int64_t n_rows) {
  /* In f32 arithmetic any count would do; these keep a tile's weights and rows in balance. */
  const struct ommai_ladder *ladder = compute == OMMA_BF16 && engine->has_bf16 ? &engine->ladder : &proven_ladder;
  for (int step = 0; step < ladder->n_steps; step++) {
    if (n_rows <= ladder->rows[step]) return ladder->rows[step];
  }
  return ommai_round_up(n_rows, ladder->rows[ladder->n_steps - 1]);
}
