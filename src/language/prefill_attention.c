#include "language/prefill_attention.h"

#include "base/error.h"

struct omma_attention_spec ommai_prefill_attention_largest(const struct ommai_decoder *decoder, int64_t n_heads,
                                                           const struct ommai_prefill_limits *limits) {
  const struct ommai_decoder_config *config = &decoder->config;
  return (struct omma_attention_spec){.mode = OMMA_ATTENTION_CAUSAL,
                                      .dtype = decoder->dtype,
                                      .n_heads = (int32_t)n_heads,
                                      .n_kv_heads = (int32_t)n_heads,
                                      .head_dim = (int32_t)config->head_dim,
                                      .v_head_dim = (int32_t)config->v_head_dim,
                                      .scale = ommai_decoder_attention_scale(config),
                                      .n_tokens = limits->rows,
                                      .n_kv_tokens = limits->context,
                                      .index_type = OMMA_INDEX_INT64,
                                      .n_segments = limits->pieces};
}

struct omma_attention_spec ommai_prefill_attention_spec(const struct ommai_decoder *decoder, int64_t n_heads,
                                                        const struct ommai_chunk_pieces *pieces) {
  const struct ommai_prefill_limits limits = {.rows = pieces->borders[pieces->n], .pieces = pieces->n};
  struct omma_attention_spec spec = ommai_prefill_attention_largest(decoder, n_heads, &limits);
  spec.cu_seqlens = pieces->borders;
  spec.q_offsets = pieces->firsts;
  return spec;
}

void ommai_prefill_bound_add(struct ommai_prefill_bound *bound, const struct ommai_decoder *decoder,
                             const struct omma_attention_spec *spec, int n_workers) {
  size_t plan = omma_attention_plan_size_bound(decoder->attention, spec);
  size_t workspace = omma_attention_workspace_bound(decoder->attention, spec, n_workers);
  if (plan > bound->plan) bound->plan = plan;
  if (workspace > bound->workspace) bound->workspace = workspace;
}

enum omma_status ommai_prefill_attention_plan(struct ommai_prefill_mixing *mixing, const struct omma_attention_spec *spec,
                                              int n_workers, struct ommai_arena *arena, struct omma_error *error) {
  const struct omma_attention_context *context = mixing->decoder->attention;
  size_t size = omma_attention_plan_size_bound(context, spec);
  void *memory = ommai_arena_take(arena, size, 1);
  if (!memory) return ommai_fail_memory(error, "prefill attention plan", arena->used + size);
  OMMAI_TRY(omma_attention_plan_place(context, spec, memory, size, &mixing->plan, error));
  mixing->workspace_size = omma_attention_plan_workspace_size(mixing->plan, n_workers);
  mixing->workspace = ommai_arena_take(arena, mixing->workspace_size, 1);
  if (!mixing->workspace) return ommai_fail_memory(error, "prefill attention workspace", mixing->workspace_size);
  struct omma_attention_plan_info info;
  omma_attention_plan_get_info(mixing->plan, &info);
  mixing->n_plan_steps = info.n_steps;
  return OMMA_OK;
}

enum omma_status ommai_prefill_attention_run(const struct ommai_prefill_mixing *mixing,
                                             const struct omma_attention_tensors *tensors, int64_t first, int64_t count,
                                             const struct omma_team *team, struct omma_error *error) {
  return omma_attention_run_range(mixing->plan, tensors, mixing->workspace, mixing->workspace_size, team, first, count, error);
}
