#include "language/prefill_attention.h"

#include <stdatomic.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/team.h"
#include "kernels/dtype.h"
#include "language/mla.h"

enum { PAGE = OMMA_ATTENTION_PAGE_TOKENS };
/* for expanded keys and values, unless one head alone takes more */
#define EXPANDED_BYTES ((int64_t)64 << 20)

static bool is_mla(const struct ommai_decoder *decoder) { return decoder->config.attention == OMMAI_ATTENTION_MLA; }

static struct omma_attention_spec make_spec(const struct ommai_decoder *decoder, int64_t n_heads, int64_t n_rows,
                                            const int64_t *offset) {
  const struct ommai_decoder_config *config = &decoder->config;
  bool latent = is_mla(decoder);
  return (struct omma_attention_spec){.mode = OMMA_ATTENTION_CAUSAL,
                                      .dtype = decoder->dtype,
                                      .n_heads = (int32_t)n_heads,
                                      .n_kv_heads = (int32_t)(latent ? n_heads : config->n_kv_heads),
                                      .head_dim = (int32_t)config->head_dim,
                                      .v_head_dim = (int32_t)config->v_head_dim,
                                      .scale = ommai_decoder_attention_scale(config),
                                      .n_tokens = n_rows,
                                      .n_kv_tokens = *offset + n_rows,
                                      .batch = 1,
                                      .q_offsets = offset,
                                      .paged = !latent,
                                      .bf16_kv = !latent && decoder->kv_type == OMMA_BF16};
}

/* Bytes of one head's expanded context. */
static int64_t head_bytes(const struct ommai_decoder *decoder, int64_t n_pages) {
  return n_pages * PAGE * ommai_mla_expanded_width(&decoder->config) * (int64_t)ommai_dtype_size(decoder->dtype);
}

/* Heads that go together: all, or the largest divisor that fits the budget. */
static int64_t choose_group(const struct ommai_decoder *decoder, int64_t n_pages) {
  int64_t group = decoder->config.n_heads;
  if (!is_mla(decoder)) return group;
  while (group > 1 && (decoder->config.n_heads % group || group * head_bytes(decoder, n_pages) > EXPANDED_BYTES)) group--;
  return group;
}

/* The most that expanded contexts of up to n_pages take. */
static size_t expanded_bound(const struct ommai_decoder *decoder, int64_t n_pages) {
  int64_t one = head_bytes(decoder, n_pages);
  return (size_t)ommai_min_i64(decoder->config.n_heads * one, ommai_max_i64(EXPANDED_BYTES, one));
}

size_t ommai_prefill_attention_size(const struct ommai_decoder *decoder, int64_t max_rows, int64_t max_context, int n_workers) {
  int64_t n_heads = decoder->config.n_heads, offset = max_context - max_rows;
  size_t plan = 0, workspace = 0;
  struct ommai_arena arena;
  ommai_arena_measure(&arena);
  for (int64_t group = n_heads; group >= 1; group--) {
    if (n_heads % group || (group < n_heads && !is_mla(decoder))) continue;
    struct omma_attention_spec spec = make_spec(decoder, group, max_rows, &offset);
    size_t plan_bound = omma_attention_plan_size_bound(decoder->attention, &spec);
    size_t workspace_bound = omma_attention_workspace_bound(decoder->attention, &spec, n_workers);
    if (plan_bound > plan) plan = plan_bound;
    if (workspace_bound > workspace) workspace = workspace_bound;
  }
  ommai_arena_take(&arena, plan, 1);
  ommai_arena_take(&arena, workspace, 1);
  if (is_mla(decoder)) {
    ommai_arena_take(&arena, expanded_bound(decoder, ommai_div_up(max_context, PAGE)), 1);
    ommai_arena_take(&arena, ommai_mla_widened_size(decoder) * (size_t)n_workers, 1);
  }
  return arena.failed ? 0 : arena.used;
}

enum omma_status ommai_prefill_attention_place(struct ommai_prefill_attention *attention, int n_workers,
                                               struct ommai_arena *arena, struct omma_error *error) {
  const struct ommai_decoder *decoder = attention->decoder;
  attention->n_pages = ommai_div_up(attention->first + attention->n_rows, PAGE);
  attention->group_heads = choose_group(decoder, attention->n_pages);
  struct omma_attention_spec spec = make_spec(decoder, attention->group_heads, attention->n_rows, &attention->first);
  size_t plan_size = omma_attention_plan_size_bound(decoder->attention, &spec);
  void *plan_memory = ommai_arena_take(arena, plan_size, 1);
  if (!plan_memory) return ommai_fail_memory(error, "prefill attention plan", arena->used + plan_size);
  OMMAI_TRY(omma_attention_plan_place(decoder->attention, &spec, plan_memory, plan_size, &attention->plan, error));
  attention->workspace_size = omma_attention_plan_workspace_size(attention->plan, n_workers);
  attention->workspace = ommai_arena_take(arena, attention->workspace_size, 1);
  if (!attention->workspace) return ommai_fail_memory(error, "prefill attention workspace", attention->workspace_size);
  if (is_mla(decoder)) {
    size_t bytes = (size_t)(attention->group_heads * head_bytes(decoder, attention->n_pages));
    attention->expanded = ommai_arena_take(arena, bytes, 1);
    attention->widened = ommai_arena_take(arena, ommai_mla_widened_size(decoder) * (size_t)n_workers, 1);
    if (!attention->expanded || arena->failed) return ommai_fail_memory(error, "expanded keys and values", bytes);
  }
  struct omma_attention_plan_info info;
  omma_attention_plan_get_info(attention->plan, &info);
  attention->n_plan_steps = info.n_steps;
  return OMMA_OK;
}

/* Expansion, one page of one head per task. */
struct expansion {
  const struct ommai_prefill_attention *attention;
  int64_t layer, first_head, first_task;
  atomic_bool failed;
};

static int64_t expand_tasks(const struct ommai_prefill_attention *attention) {
  return is_mla(attention->decoder) ? attention->group_heads * attention->n_pages : 0;
}

static void expand_task(void *context, int64_t task, int worker) {
  struct expansion *expansion = context;
  const struct ommai_prefill_attention *attention = expansion->attention;
  const struct ommai_decoder *decoder = attention->decoder;
  int64_t place = expansion->first_task + task, head = place / attention->n_pages, page = place % attention->n_pages;
  int64_t n_rows = ommai_min_i64(PAGE, attention->first + attention->n_rows - page * PAGE);
  void *out = ommai_element(attention->expanded, place * PAGE * ommai_mla_expanded_width(&decoder->config), decoder->dtype);
  float *widened = (float *)(void *)(attention->widened + ommai_mla_widened_size(decoder) * (size_t)worker);
  if (!ommai_mla_expand(decoder, attention->cache, expansion->layer, expansion->first_head + head, attention->pages[page],
                        n_rows, widened, out, worker)) {
    atomic_store(&expansion->failed, true);
  }
}

static enum omma_status expand(const struct ommai_prefill_attention *attention, int64_t layer, int64_t first_head,
                               int64_t first_task, int64_t count, const struct omma_team *team, struct omma_error *error) {
  struct expansion expansion = {.attention = attention, .layer = layer, .first_head = first_head, .first_task = first_task};
  atomic_init(&expansion.failed, false);
  ommai_team_run(team, count, expand_task, &expansion);
  if (!atomic_load(&expansion.failed)) return OMMA_OK;
  return ommai_fail(error, OMMA_ERROR_MEMORY, "decoder: out of memory in a linear layer");
}

static struct omma_attention_tensors paged_tensors(const struct ommai_prefill_attention *attention, int64_t layer) {
  return (struct omma_attention_tensors){.q = attention->q,
                                         .k = ommai_kv_layer_keys(attention->cache, layer),
                                         .v = ommai_kv_layer_values(attention->cache, layer),
                                         .out = attention->out,
                                         .page_table = attention->pages,
                                         .k_page_stride = ommai_kv_page_stride(attention->cache),
                                         .v_page_stride = ommai_kv_page_stride(attention->cache)};
}

static struct omma_attention_tensors expanded_tensors(const struct ommai_prefill_attention *attention, int64_t first_head) {
  const struct ommai_decoder_config *config = &attention->decoder->config;
  enum omma_dtype dtype = attention->decoder->dtype;
  int64_t width = ommai_mla_expanded_width(config);
  const unsigned char *q = attention->q;
  return (struct omma_attention_tensors){.q = q + (size_t)(first_head * config->head_dim) * ommai_dtype_size(dtype),
                                         .k = ommai_element(attention->expanded, config->v_head_dim, dtype),
                                         .v = attention->expanded,
                                         .out = ommai_element(attention->out, first_head * config->v_head_dim, dtype),
                                         .q_token_stride = ommai_decoder_q_width(config),
                                         .out_token_stride = ommai_decoder_attended_width(config),
                                         .k_token_stride = width,
                                         .v_token_stride = width,
                                         .k_head_stride = attention->n_pages * PAGE * width,
                                         .v_head_stride = attention->n_pages * PAGE * width};
}

int64_t ommai_prefill_attention_steps(const struct ommai_prefill_attention *attention) {
  int64_t n_groups = attention->decoder->config.n_heads / attention->group_heads;
  return n_groups * (expand_tasks(attention) + attention->n_plan_steps);
}

enum omma_status ommai_prefill_attention_run(const struct ommai_prefill_attention *attention, int64_t layer, int64_t first,
                                             int64_t *count, const struct omma_team *team, struct omma_error *error) {
  int64_t n_expand = expand_tasks(attention), n_group = n_expand + attention->n_plan_steps;
  int64_t first_head = first / n_group * attention->group_heads, step = first % n_group;
  if (step < n_expand) {
    *count = ommai_min_i64(*count, n_expand - step);
    return expand(attention, layer, first_head, step, *count, team, error);
  }
  *count = ommai_min_i64(*count, n_group - step);
  bool latent = is_mla(attention->decoder);
  struct omma_attention_tensors tensors = latent ? expanded_tensors(attention, first_head) : paged_tensors(attention, layer);
  return omma_attention_run_range(attention->plan, &tensors, attention->workspace, attention->workspace_size, team,
                                  step - n_expand, *count, error);
}
