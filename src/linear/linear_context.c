#include <stdio.h>
#include <string.h>

#include "base/allocator.h"
#include "base/error.h"
#include "linear/linear.h"
#include "linear/linear_objects.h"

static bool has_bf16_products(enum ommai_cpu_level level) {
  return level == OMMAI_CPU_AVX512_BF16 || level == OMMAI_CPU_AMX || level == OMMAI_CPU_NEON_BF16;
}

static void choose_for_small_l1(struct ommai_linear_context *context) {
  if (context->gemv->small_l1) context->gemv = context->gemv->small_l1;
  if (context->bf16_tile && context->bf16_tile->small_l1) context->bf16_tile = context->bf16_tile->small_l1;
  if (context->integer->small_l1) context->integer = context->integer->small_l1;
}

enum omma_status ommai_linear_context_create(enum ommai_cpu_level level, int n_workers, const struct omma_allocator *allocator,
                                             struct ommai_linear_context **out, struct omma_error *error) {
  if (n_workers < 1 || n_workers > OMMAI_LINEAR_MAX_WORKERS) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "n_workers", "linear context: %d workers, expected 1 to %d", n_workers,
                            OMMAI_LINEAR_MAX_WORKERS);
  }
  struct ommai_linear_context *context = ommai_allocate(allocator, 1, sizeof *context);
  if (!context) return ommai_fail_memory(error, "linear context", sizeof *context);
  context->allocator = *allocator;
  context->level = level;
  context->n_workers = n_workers;
  context->n_teams = 1;
  context->gemv = ommai_gemv_select(level);
  context->bf16_tile = has_bf16_products(level) ? ommai_bf16_tile_select(level) : NULL;
  context->f32_tile = ommai_f32_tile_select(level);
  context->integer = ommai_integer_select(level);
  context->row_ops = ommai_row_ops(level);
  if (ommai_cpu_small_l1()) choose_for_small_l1(context);
  context->scratch = ommai_allocate(allocator, (size_t)n_workers, sizeof *context->scratch);
  if (!context->scratch) {
    ommai_linear_context_destroy(context);
    return ommai_fail_memory(error, "linear context's workers", sizeof(struct ommai_linear_scratch) * (size_t)n_workers);
  }
  *out = context;
  return OMMA_OK;
}

void ommai_linear_context_destroy(struct ommai_linear_context *context) {
  if (!context) return;
  struct omma_allocator allocator = context->allocator;
  for (int worker = 0; context->scratch && worker < context->n_workers; worker++) {
    ommai_release(&allocator, context->scratch[worker].memory, context->scratch[worker].size, 1);
  }
  ommai_release(&allocator, context->scratch, (size_t)context->n_workers, sizeof *context->scratch);
  ommai_release(&allocator, context, 1, sizeof *context);
}

void ommai_linear_context_set_teams(struct ommai_linear_context *context, int n_teams) { context->n_teams = n_teams; }

enum omma_status ommai_linear_grow_scratch(struct ommai_linear_context *context, size_t size, struct omma_error *error) {
  for (int worker = 0; worker < context->n_workers; worker++) {
    struct ommai_linear_scratch *scratch = &context->scratch[worker];
    if (scratch->size >= size) continue;
    void *memory = ommai_allocate(&context->allocator, size, 1);
    if (!memory) return ommai_fail_memory(error, "linear layers' scratch", size);
    ommai_release(&context->allocator, scratch->memory, scratch->size, 1);
    scratch->memory = memory;
    scratch->size = size;
  }
  return OMMA_OK;
}

size_t ommai_linear_context_scratch_bytes(const struct ommai_linear_context *context) {
  size_t bytes = 0;
  for (int worker = 0; worker < context->n_workers; worker++) bytes += context->scratch[worker].size;
  return bytes;
}

void ommai_linear_context_describe(const struct ommai_linear_context *context, char *out, size_t size) {
  char integers[64] = "";
  for (enum ommai_weight_format format = 0; format < OMMAI_WEIGHT_FORMATS; format++) {
    size_t used = strlen(integers);
    if (!ommai_linear_format(format)->integer) continue;
    snprintf(integers + used, sizeof integers - used, "%s%s", used ? ", " : "", ommai_linear_format(format)->name);
  }
  snprintf(out, size, "f32 arithmetic: own kernels (%d columns a strip); bf16: %s; %s: own kernels%s",
           context->f32_tile->n_columns, context->bf16_tile ? "own kernels" : "as f32", integers,
           context->integer->uses_vnni ? " (VNNI)" : "");
}
