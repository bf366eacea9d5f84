#include <string.h>

#include "attention/attention_plan.h"
#include "base/allocator.h"
#include "base/error.h"
#include "base/sized.h"

const struct ommai_attention_types ommai_attention_types_at[OMMAI_ATTENTION_TYPES] = {
    [OMMA_F32] = {OMMA_F32, OMMA_F32},
    [OMMA_BF16] = {OMMA_BF16, OMMA_BF16},
    [OMMA_F16] = {OMMA_F16, OMMA_F16},
    [OMMAI_ATTENTION_F32_BF16] = {OMMA_F32, OMMA_BF16},
    [OMMAI_ATTENTION_F32_KV8] = {OMMA_F32, OMMA_INT8},
    [OMMAI_ATTENTION_BF16_KV8] = {OMMA_BF16, OMMA_INT8}};

int ommai_attention_types_index(struct ommai_attention_types types) {
  if (types.kv == OMMA_INT8) return types.q == OMMA_BF16 ? OMMAI_ATTENTION_BF16_KV8 : OMMAI_ATTENTION_F32_KV8;
  return types.q == types.kv ? (int)types.q : OMMAI_ATTENTION_F32_BF16;
}

enum omma_status omma_attention_context_create(const struct omma_attention_options *options,
                                               struct omma_attention_context **context, struct omma_error *error) {
  if (!context) return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "context", "context: expected a pointer, found NULL");
  *context = NULL;
  OMMAI_TAKE_OPTIONS(omma_attention_options, options, error);
  const struct omma_allocator *allocator = options->allocator ? options->allocator : &ommai_default_allocator;
  enum ommai_cpu_level level;
  OMMAI_TRY(ommai_cpu_select(options->isa, &level, error));
  struct omma_attention_context *self = ommai_allocate(allocator, 1, sizeof *self);
  if (!self) return ommai_fail_memory(error, "attention context", sizeof *self);
  self->allocator = *allocator;
  self->level = level;
  for (int i = 0; i < OMMAI_ATTENTION_TYPES; i++) {
    const struct ommai_attention_types types = ommai_attention_types_at[i];
    self->tile[i] = ommai_attention_tile_kernel_find(level, types);
    self->window[i] = ommai_attention_window_kernel_find(level, types);
    self->int8[i] = ommai_attention_int8_kernel_find(level, types);
    self->decode[i] = ommai_attention_decode_kernel_find(level, types);
  }
  *context = self;
  return OMMA_OK;
}

void omma_attention_context_destroy(struct omma_attention_context *context) {
  if (!context) return;
  struct omma_allocator allocator = context->allocator;
  ommai_release(&allocator, context, 1, sizeof *context);
}

const char *omma_attention_context_isa(const struct omma_attention_context *context) {
  return ommai_cpu_level_name(context->level);
}

const char *omma_attention_kernel_name(const struct omma_attention_context *context, enum omma_attention_mode mode,
                                       enum omma_dtype dtype, int32_t head_dim, int32_t v_head_dim) {
  struct omma_attention_spec spec = {
      .mode = mode, .dtype = dtype, .n_heads = 1, .head_dim = head_dim, .v_head_dim = v_head_dim};
  struct ommai_attention_problem problem;
  if (ommai_attention_check_spec(context, &spec, &problem, NULL) != OMMA_OK) return NULL;
  return problem.tile ? problem.tile->name : problem.decode->name;
}
