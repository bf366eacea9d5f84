#include <stdio.h>
#include <string.h>

#include "base/allocator.h"
#include "base/checked.h"
#include "base/error.h"
#include "linear/linear_objects.h"

/* Row counts of oneDNN's tiles that give a row the same bits. Unproven places use one count
 * only. */
static const struct ommai_row_steps proven_row_steps = {4, {16, 32, 64, 128}};
/* For layers cut along their outputs, which get the few rows of a prompt in one call: filled up to
 * eight rows and not to 16, in one product and not in three. As many for every layer would double
 * the start of a small model. */
static const struct ommai_row_steps part_row_steps = {15, {16, 24, 32, 40, 48, 56, 64, 72, 80, 88, 96, 104, 112, 120, 128}};
static const struct ommai_row_steps unproven_row_steps = {1, {128}};

/* oneDNN's products, where the CPU has some that it knows. */
static enum omma_status open_onednn(struct ommai_linear_context *context, struct omma_error *error) {
  OMMAI_TRY(ommai_onednn_create(context->level, context->n_workers, &context->allocator, &context->onednn, error));
  bool proven = ommai_onednn_is_proven(context->onednn);
  context->row_steps = proven ? proven_row_steps : unproven_row_steps;
  context->part_row_steps = proven ? part_row_steps : unproven_row_steps;
  return ommai_onednn_takes(context->onednn, &context->has_bf16, error);
}

/* Own kernels serve every CPU with products of bf16; oneDNN serves tests. */
static enum omma_status find_products(struct ommai_linear_context *context, enum ommai_bf16_products products,
                                      struct omma_error *error) {
  enum ommai_cpu_level level = context->level;
  if (level != OMMAI_CPU_AVX512_BF16 && level != OMMAI_CPU_AMX && level != OMMAI_CPU_NEON_BF16) return OMMA_OK;
  if (products == OMMAI_BF16_OF_ONEDNN) return open_onednn(context, error);
  context->bf16_tile = ommai_bf16_tile_select(context->level);
  context->has_bf16 = true;
  return OMMA_OK;
}

enum omma_status ommai_linear_context_create(enum ommai_cpu_level level, int n_workers, const struct omma_allocator *allocator,
                                             struct ommai_linear_context **out, struct omma_error *error) {
  return ommai_linear_context_create_with(level, n_workers, allocator, OMMAI_BF16_FASTEST, out, error);
}

enum omma_status ommai_linear_context_create_with(enum ommai_cpu_level level, int n_workers,
                                                  const struct omma_allocator *allocator, enum ommai_bf16_products products,
                                                  struct ommai_linear_context **out, struct omma_error *error) {
  if (n_workers < 1 || n_workers > OMMAI_LINEAR_MAX_WORKERS) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "n_workers", "linear context: %d workers, expected 1 to %d", n_workers,
                            OMMAI_LINEAR_MAX_WORKERS);
  }
  struct ommai_linear_context *context = ommai_allocate(allocator, 1, sizeof *context);
  if (!context) return ommai_fail_memory(error, "linear context", sizeof *context);
  enum omma_status status;
  context->allocator = *allocator;
  context->level = level;
  context->n_workers = n_workers;
  context->gemv = ommai_gemv_select(level);
  context->f32_tile = ommai_f32_tile_select(level);
  context->integer = ommai_integer_select(level);
  context->row_ops = ommai_row_ops(level);
  context->scratch = ommai_allocate(allocator, (size_t)n_workers, sizeof *context->scratch);
  if (!context->scratch) {
    status = ommai_fail_memory(error, "linear context's workers", sizeof *context->scratch * (size_t)n_workers);
    goto fail;
  }
  OMMAI_TRY_GOTO(find_products(context, products, error), fail);
  *out = context;
  return OMMA_OK;
fail:
  ommai_linear_context_destroy(context);
  return status;
}

void ommai_linear_context_destroy(struct ommai_linear_context *context) {
  if (!context) return;
  struct omma_allocator allocator = context->allocator;
  for (struct ommai_step_products *next, *products = context->products; products; products = next) {
    next = products->next;
    for (int step = 0; step < OMMAI_ROW_STEPS; step++) ommai_onednn_matmul_destroy(products->steps[step]);
    ommai_release(&allocator, products, 1, sizeof *products);
  }
  for (int worker = 0; context->scratch && worker < context->n_workers; worker++) {
    ommai_release(&allocator, context->scratch[worker].memory, context->scratch[worker].size, 1);
  }
  ommai_release(&allocator, context->scratch, (size_t)context->n_workers, sizeof *context->scratch);
  ommai_onednn_destroy(context->onednn);
  ommai_release(&allocator, context, 1, sizeof *context);
}

enum omma_status ommai_linear_grow_scratch(struct ommai_linear_context *context, size_t size, struct omma_error *error) {
  for (int worker = 0; worker < context->n_workers; worker++) {
    struct ommai_linear_scratch *scratch = &context->scratch[worker];
    if (scratch->size >= size) continue;
    void *memory = ommai_allocate(&context->allocator, size, 1);
    if (!memory) return ommai_fail_memory(error, "linear layers' scratch", size);
    ommai_release(&context->allocator, scratch->memory, scratch->size, 1);
    *scratch = (struct ommai_linear_scratch){memory, size};
  }
  return OMMA_OK;
}

size_t ommai_linear_context_scratch_bytes(const struct ommai_linear_context *context) {
  size_t bytes = 0;
  for (int worker = 0; worker < context->n_workers; worker++) bytes += context->scratch[worker].size;
  return bytes;
}

static void describe_row_steps(const struct ommai_row_steps *row_steps, char *out, size_t size) {
  size_t at = 0;
  for (int step = 0; step < row_steps->n_steps && at < size; step++) {
    int written = snprintf(out + at, size - at, "%s%d", step ? "/" : "", (int)row_steps->rows[step]);
    if (written > 0) at += (size_t)written;
  }
}

/* What computes in bf16, in words. */
static void describe_bf16(const struct ommai_linear_context *context, char *out, size_t size) {
  char onednn[160], row_steps[32] = "";
  if (!context->onednn) {
    snprintf(out, size, "%s", context->has_bf16 ? "own kernels" : "as f32");
    return;
  }
  ommai_onednn_describe(context->onednn, onednn, sizeof onednn);
  describe_row_steps(&context->row_steps, row_steps, sizeof row_steps);
  snprintf(out, size, "%s%s (%s)", context->has_bf16 ? "oneDNN, tiles of rows " : "as f32", context->has_bf16 ? row_steps : "",
           onednn);
}

void ommai_linear_context_describe(const struct ommai_linear_context *context, char *out, size_t size) {
  char bf16[240], integers[64] = "";
  describe_bf16(context, bf16, sizeof bf16);
  for (enum ommai_weight_format format = 0; format < OMMAI_WEIGHT_FORMATS; format++) {
    size_t used = strlen(integers);
    if (!ommai_linear_format(format)->integer) continue;
    snprintf(integers + used, sizeof integers - used, "%s%s", used ? ", " : "", ommai_linear_format(format)->name);
  }
  snprintf(out, size, "f32 arithmetic: own kernels (%d columns a strip); bf16: %s; %s: own kernels%s",
           context->f32_tile->n_columns, bf16, integers, context->integer->uses_vnni ? " (VNNI)" : "");
}

int64_t ommai_linear_step_rows(const struct ommai_linear_context *context, enum omma_dtype compute, int64_t n_rows) {
  /* For own kernels any count would do; these keep a tile's weights and rows in balance. */
  const struct ommai_row_steps *row_steps = compute == OMMA_BF16 && context->onednn ? &context->row_steps : &proven_row_steps;
  for (int step = 0; step < row_steps->n_steps; step++) {
    if (n_rows <= row_steps->rows[step]) return row_steps->rows[step];
  }
  return ommai_round_up(n_rows, row_steps->rows[row_steps->n_steps - 1]);
}
