#include "language/decode_attention.h"

#include <string.h>

#include "base/checked.h"
#include "base/error.h"

enum { PAGE = OMMA_ATTENTION_PAGE_TOKENS };

static struct omma_attention_spec attention_spec(const struct ommai_decoder *decoder, const struct ommai_layer_group *group,
                                                 int64_t n_rows, const int64_t *starts, const int64_t *offsets) {
  const struct ommai_decoder_config *config = &decoder->config;
  const struct ommai_mixer_shape shape = group->mixer->shape(config);
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
                                     .window = group->state.window,
                                     .paged = true};
  ommai_kv_set_types(decoder->kv_type, &spec);
  return spec;
}

void ommai_decode_attention_measure(const struct ommai_decoder *decoder, const struct ommai_layer_group *group,
                                    int64_t max_rows, int64_t max_context, int n_workers, struct ommai_arena *arena) {
  int64_t starts[OMMAI_DECODE_MAX_ROWS + 1], offsets[OMMAI_DECODE_MAX_ROWS];
  for (int64_t i = 0; i <= max_rows; i++) starts[i] = i;
  for (int64_t i = 0; i < max_rows; i++) offsets[i] = max_context - 1;
  struct omma_attention_spec spec = attention_spec(decoder, group, max_rows, starts, offsets);
  ommai_arena_take(arena, (size_t)(max_rows * ommai_div_up(max_context, PAGE)), sizeof(int32_t));
  ommai_arena_take(arena, omma_attention_plan_size_bound(decoder->attention, &spec), 1);
  ommai_arena_take(arena, omma_attention_workspace_bound(decoder->attention, &spec, n_workers), 1);
}

/* Row i is a segment of its own. */
static struct omma_attention_spec step_spec(const struct ommai_decode_mixing *mixing, int64_t *starts, int64_t *offsets) {
  for (int64_t row = 0; row < mixing->n_rows; row++) {
    starts[row] = row;
    offsets[row] = mixing->rows[row].index;
  }
  starts[mixing->n_rows] = mixing->n_rows;
  return attention_spec(mixing->decoder, &mixing->cache->layout.groups[mixing->group], mixing->n_rows, starts, offsets);
}

/* Pages behind the window are not read. */
static void fill_page_table(struct ommai_decode_mixing *mixing) {
  int64_t window = mixing->cache->layout.groups[mixing->group].state.window;
  for (int64_t row = 0; row < mixing->n_rows; row++) {
    const struct ommai_decode_row *source = &mixing->rows[row];
    int64_t first = window ? ommai_max_i64(source->index - window + 1, 0) / PAGE : 0;
    memcpy(mixing->page_table + row * mixing->max_pages + first, source->pages.of_group[mixing->group] + first,
           (size_t)(source->index / PAGE + 1 - first) * sizeof(int32_t));
  }
}

enum omma_status ommai_decode_attention_plan(struct ommai_decode_mixing *mixing, int n_workers, struct ommai_arena *arena,
                                             struct omma_error *error) {
  int64_t starts[OMMAI_DECODE_MAX_ROWS + 1], offsets[OMMAI_DECODE_MAX_ROWS], last = 0;
  const struct omma_attention_context *context = mixing->decoder->attention;
  for (int64_t row = 0; row < mixing->n_rows; row++) last = ommai_max_i64(last, mixing->rows[row].index);
  mixing->max_pages = last / PAGE + 1;
  mixing->page_table = ommai_arena_take(arena, (size_t)(mixing->n_rows * mixing->max_pages), sizeof(int32_t));
  const struct omma_attention_spec spec = step_spec(mixing, starts, offsets);
  size_t size = omma_attention_plan_size_bound(context, &spec);
  void *memory = ommai_arena_take(arena, size, 1);
  if (arena->failed) return ommai_fail_memory(error, "decode attention plan", size);
  fill_page_table(mixing);
  OMMAI_TRY(omma_attention_plan_place(context, &spec, memory, size, &mixing->plan, error));
  mixing->workspace_size = omma_attention_plan_workspace_size(mixing->plan, n_workers);
  mixing->workspace = ommai_arena_take(arena, mixing->workspace_size, 1);
  if (!mixing->workspace) return ommai_fail_memory(error, "decode attention workspace", mixing->workspace_size);
  return OMMA_OK;
}

struct omma_attention_tensors ommai_decode_attention_tensors(const struct ommai_decode_mixing *mixing, int64_t layer) {
  struct omma_attention_tensors tensors = {
      .q = mixing->q, .out = mixing->out, .page_table = mixing->page_table, .page_table_stride = mixing->max_pages};
  ommai_kv_set_tensors(mixing->cache, layer, &tensors);
  return tensors;
}

enum omma_status ommai_decode_attention_run(const struct ommai_decode_mixing *mixing,
                                            const struct omma_attention_tensors *tensors, const struct omma_team *team,
                                            struct omma_error *error) {
  return omma_attention_run(mixing->plan, tensors, mixing->workspace, mixing->workspace_size, team, error);
}
