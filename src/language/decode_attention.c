#include "language/decode_attention.h"

#include "base/error.h"
#include "language/attention_kind.h"

static struct omma_attention_spec attention_spec(const struct ommai_decoder *decoder, int64_t n_rows, const int64_t *starts,
                                                 const int64_t *offsets) {
  const struct ommai_decoder_config *config = &decoder->config;
  const struct ommai_attention_shape shape = config->attention->shape(config);
  struct omma_attention_spec spec = {.mode = OMMA_ATTENTION_DECODE,
                                     .dtype = decoder->dtype,
                                     .n_heads = (int32_t)config->n_heads,
                                     .n_kv_heads = (int32_t)shape.kept_heads,
                                     .head_dim = (int32_t)shape.kept_width,
                                     .v_head_dim = (int32_t)shape.value_width,
                                     .scale = ommai_decoder_attention_scale(config),
                                     .n_tokens = n_rows,
                                     .index_type = OMMA_INDEX_INT64,
                                     .n_segments = n_rows,
                                     .cu_seqlens = starts,
                                     .q_offsets = offsets,
                                     .paged = true};
  ommai_kv_set_types(decoder->kv_type, &spec);
  return spec;
}

void ommai_decode_attention_measure(const struct ommai_decoder *decoder, int64_t max_rows, int64_t max_context, int n_workers,
                                    struct ommai_arena *arena) {
  int64_t starts[OMMAI_DECODE_MAX_ROWS + 1], offsets[OMMAI_DECODE_MAX_ROWS];
  for (int64_t i = 0; i <= max_rows; i++) starts[i] = i;
  for (int64_t i = 0; i < max_rows; i++) offsets[i] = max_context - 1;
  struct omma_attention_spec spec = attention_spec(decoder, max_rows, starts, offsets);
  ommai_arena_take(arena, omma_attention_plan_size_bound(decoder->attention, &spec), 1);
  ommai_arena_take(arena, omma_attention_workspace_bound(decoder->attention, &spec, n_workers), 1);
}

enum omma_status ommai_decode_attention_plan(struct ommai_decode_attention *attention, const int64_t *starts,
                                             const int64_t *offsets, int n_workers, struct ommai_arena *arena,
                                             struct omma_error *error) {
  const struct omma_attention_context *context = attention->decoder->attention;
  struct omma_attention_spec spec = attention_spec(attention->decoder, attention->n_rows, starts, offsets);
  size_t size = omma_attention_plan_size_bound(context, &spec);
  void *memory = ommai_arena_take(arena, size, 1);
  if (!memory) return ommai_fail_memory(error, "decode attention plan", size);
  OMMAI_TRY(omma_attention_plan_place(context, &spec, memory, size, &attention->plan, error));
  attention->workspace_size = omma_attention_plan_workspace_size(attention->plan, n_workers);
  attention->workspace = ommai_arena_take(arena, attention->workspace_size, 1);
  if (!attention->workspace) return ommai_fail_memory(error, "decode attention workspace", attention->workspace_size);
  return OMMA_OK;
}

struct omma_attention_tensors ommai_decode_attention_tensors(const struct ommai_decode_attention *attention, int64_t layer) {
  struct omma_attention_tensors tensors = {
      .q = attention->q, .out = attention->out, .page_table = attention->page_table, .page_table_stride = attention->max_pages};
  ommai_kv_set_tensors(attention->cache, layer, &tensors);
  return tensors;
}

enum omma_status ommai_decode_attention_run(const struct ommai_decode_attention *attention,
                                            const struct omma_attention_tensors *tensors, const struct omma_team *team,
                                            struct omma_error *error) {
  return omma_attention_run(attention->plan, tensors, attention->workspace, attention->workspace_size, team, error);
}
