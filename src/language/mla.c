#include "language/mla.h"

#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/first_error.h"
#include "base/half.h"
#include "base/team.h"
#include "kernels/dtype.h"
#include "language/decode_attention.h"
#include "language/prefill_attention.h"

enum { PAGE = OMMA_ATTENTION_PAGE_TOKENS };
/* for expanded keys and values, unless one head alone takes more */
#define EXPANDED_BYTES ((int64_t)64 << 20)

/* ---- shapes ---- */

/* Decoding multiplies a head's two products by the same elements as its expansion has. */
static struct ommai_mixer_shape shape(const struct ommai_decoder_config *config) {
  const struct ommai_mla_config *mla = &config->mla;
  return (struct ommai_mixer_shape){.projected = ommai_decoder_q_width(config) + ommai_mla_width(config),
                                    .q_width = ommai_decoder_q_width(config),
                                    .mixed = ommai_decoder_attended_width(config),
                                    .kept_heads = 1,
                                    .kept_width = ommai_mla_width(config),
                                    .value_width = mla->kv_rank,
                                    .rope_dim = mla->rope_dim,
                                    .head_elements = config->n_heads * mla->kv_rank * (mla->nope_dim + config->v_head_dim),
                                    .seen_elements = config->n_heads * (config->head_dim + config->v_head_dim),
                                    .decode_scratch = config->n_heads * ommai_max_i64(mla->kv_rank, config->v_head_dim)};
}

/* Elements of an expanded row of one head: value, then key. */
static int64_t expanded_width(const struct ommai_decoder_config *config) { return config->v_head_dim + config->head_dim; }

struct ommai_linear_call ommai_mla_call_expand(const struct ommai_decoder_config *config, enum omma_dtype dtype) {
  return (struct ommai_linear_call){.x_stride = ommai_mla_width(config), .y_stride = expanded_width(config), .y_type = dtype};
}

/* ---- one row ---- */

static void finish_row(const struct ommai_decoder *decoder, const struct ommai_kv_cache *cache, int64_t layer, float *projected,
                       const float *cosine, const float *sine, void *q_out, int64_t place) {
  const struct ommai_decoder_config *config = &decoder->config;
  const struct ommai_mla_config *mla = &config->mla;
  const struct ommai_row_ops *ops = decoder->ops;
  enum omma_dtype dtype = decoder->dtype;
  for (int64_t h = 0; h < config->n_heads; h++) {
    const float *q = projected + h * config->head_dim;
    void *out = ommai_element(q_out, h * config->head_dim, dtype);
    ops->convert(q, mla->nope_dim, out, dtype);
    ops->rope_pairs(q + mla->nope_dim, cosine, sine, 1, mla->rope_dim, ommai_element(out, mla->nope_dim, dtype), 0, dtype);
  }
  const float *row = projected + ommai_decoder_q_width(config);
  enum omma_dtype type = cache->dtype;
  void *kept = ommai_element(ommai_kv_layer_keys(cache, layer), place, type);
  ops->rms_norm(row, decoder->layers[layer].mla_norm, mla->norm_eps, mla->kv_rank, kept, type);
  ops->rope_pairs(row + mla->kv_rank, cosine, sine, 1, mla->rope_dim, ommai_element(kept, mla->kv_rank, type), 0, type);
}

/* ---- decode: kept rows serve as keys and, without their rotated part, as values ---- */

/* One of the two products of decoding, a head per task. */
struct head_products {
  const struct ommai_decoder *decoder;
  const struct ommai_mla_head *heads;
  const void *x;
  float *scratch;
  void *out;
  int64_t n_rows;
};

static void run_head(const struct head_products *call, const struct ommai_linear *linear, int64_t head, int64_t x_head_stride) {
  const struct ommai_decoder_config *config = &call->decoder->config;
  int64_t n_out = ommai_linear_n_out(linear);
  const unsigned char *x =
      (const unsigned char *)call->x + (size_t)(head * x_head_stride) * ommai_dtype_size(call->decoder->dtype);
  ommai_linear_gemv(linear, x, config->n_heads * x_head_stride, call->n_rows, call->scratch + head * n_out,
                    config->n_heads * n_out, false, 0, ommai_linear_n_panels(linear));
}

static void absorb_head(void *context, int64_t head, int worker) {
  (void)worker;
  const struct head_products *call = context;
  const struct ommai_decoder_config *config = &call->decoder->config;
  const struct ommai_mla_config *mla = &config->mla;
  enum omma_dtype dtype = call->decoder->dtype;
  size_t element = ommai_dtype_size(dtype);
  int64_t width = ommai_mla_width(config);
  run_head(call, call->heads[head].absorb, head, config->head_dim);
  for (int64_t row = 0; row < call->n_rows; row++) {
    int64_t at = row * config->n_heads + head;
    const unsigned char *rotated = (const unsigned char *)call->x + (size_t)(at * config->head_dim + mla->nope_dim) * element;
    call->decoder->ops->convert(call->scratch + at * mla->kv_rank, mla->kv_rank, ommai_element(call->out, at * width, dtype),
                                dtype);
    memcpy(ommai_element(call->out, at * width + mla->kv_rank, dtype), rotated, (size_t)mla->rope_dim * element);
  }
}

static void value_head(void *context, int64_t head, int worker) {
  (void)worker;
  const struct head_products *call = context;
  const struct ommai_decoder_config *config = &call->decoder->config;
  enum omma_dtype dtype = call->decoder->dtype;
  run_head(call, call->heads[head].value, head, config->mla.kv_rank);
  for (int64_t row = 0; row < call->n_rows; row++) {
    int64_t at = (row * config->n_heads + head) * config->v_head_dim;
    call->decoder->ops->convert(call->scratch + at, config->v_head_dim, ommai_element(call->out, at, dtype), dtype);
  }
}

/* The products of n_rows rows. */
static void place_products(struct ommai_decode_mixing *mixing, const struct ommai_decoder *decoder, int64_t n_rows,
                           struct ommai_arena *arena) {
  const struct ommai_decoder_config *config = &decoder->config;
  size_t heads = (size_t)(n_rows * config->n_heads), element = ommai_dtype_size(decoder->dtype);
  mixing->mla_q = ommai_arena_take(arena, heads * (size_t)ommai_mla_width(config), element);
  mixing->mla_sums = ommai_arena_take(arena, heads * (size_t)config->mla.kv_rank, element);
}

static size_t decode_size(const struct ommai_decoder *decoder, const struct ommai_layer_group *group, int64_t max_rows,
                          int64_t max_context, int n_workers) {
  struct ommai_decode_mixing mixing;
  struct ommai_arena arena;
  ommai_arena_measure(&arena);
  place_products(&mixing, decoder, max_rows, &arena);
  ommai_decode_attention_measure(decoder, group, max_rows, max_context, n_workers, &arena);
  return arena.failed ? 0 : arena.used;
}

static enum omma_status place_decode(struct ommai_decode_mixing *mixing, int n_workers, struct ommai_arena *arena,
                                     struct omma_error *error) {
  place_products(mixing, mixing->decoder, mixing->n_rows, arena);
  return ommai_decode_attention_plan(mixing, n_workers, arena, error);
}

static enum omma_status decode(const struct ommai_decode_mixing *mixing, int64_t layer, const struct omma_team *team,
                               struct omma_error *error) {
  const struct ommai_decoder *decoder = mixing->decoder;
  struct head_products call = {.decoder = decoder,
                               .heads = decoder->layers[layer].mla_heads,
                               .x = mixing->q,
                               .scratch = mixing->projected,
                               .out = mixing->mla_q,
                               .n_rows = mixing->n_rows};
  ommai_team_run(team, decoder->config.n_heads, absorb_head, &call);
  struct omma_attention_tensors tensors = ommai_decode_attention_tensors(mixing, layer);
  tensors.q = mixing->mla_q;
  tensors.v = tensors.k;
  tensors.v_token_stride = ommai_mla_width(&decoder->config);
  tensors.out = mixing->mla_sums;
  OMMAI_TRY(ommai_decode_attention_run(mixing, &tensors, team, error));
  call.x = mixing->mla_sums;
  call.out = mixing->out;
  ommai_team_run(team, decoder->config.n_heads, value_head, &call);
  return OMMA_OK;
}

/* ---- prefill: kept rows are expanded for a group of heads, then that group attends ---- */

/* Bytes that a worker needs to widen a page's kept rows; 0 where they are of the type that linear
 * layers take. */
static size_t widened_size(const struct ommai_decoder *decoder) {
  if (decoder->kv_type == decoder->dtype) return 0;
  return PAGE * (size_t)ommai_mla_width(&decoder->config) * sizeof(float);
}

/* The first n_rows kept rows of a page in the type that linear layers take: in place, or
 * widened. */
static const void *kept_rows(const struct ommai_decoder *decoder, const struct ommai_kv_cache *cache, int64_t layer,
                             int32_t page, int64_t n_rows, float *widened) {
  const void *rows = ommai_element(ommai_kv_layer_keys(cache, layer), page * ommai_kv_page_stride(cache, layer), cache->dtype);
  if (cache->dtype == decoder->dtype) return rows;
  const ommai_bf16 *halves = rows;
  int64_t n = n_rows * ommai_mla_width(&decoder->config);
  for (int64_t i = 0; i < n; i++) widened[i] = ommai_bf16_to_f32(halves[i]);
  return widened;
}

/* Expands n_rows (at most a page) kept rows of `page` for one head into out dtype [64,
 * expanded_width]. Errors: the linear layer's. */
static enum omma_status expand_page(const struct ommai_decoder *decoder, const struct ommai_kv_cache *cache, int64_t layer,
                                    int64_t head, int32_t page, int64_t n_rows, float *widened, void *out, int worker,
                                    struct omma_error *error) {
  const struct ommai_decoder_config *config = &decoder->config;
  enum omma_dtype dtype = decoder->dtype;
  int64_t width = ommai_mla_width(config), expanded = expanded_width(config);
  int64_t rotated_at = config->v_head_dim + config->mla.nope_dim;
  size_t rotated_bytes = (size_t)config->mla.rope_dim * ommai_dtype_size(dtype);
  const unsigned char *rows = kept_rows(decoder, cache, layer, page, n_rows, widened);
  OMMAI_TRY(ommai_linear_run(decoder->layers[layer].mla_heads[head].expand.op, rows, out, n_rows, worker, error));
  for (int64_t row = 0; row < n_rows; row++) {
    memcpy(ommai_element(out, row * expanded + rotated_at, dtype),
           rows + (size_t)(row * width + config->mla.kv_rank) * ommai_dtype_size(dtype), rotated_bytes);
  }
  return OMMA_OK;
}

/* Bytes of one head's expanded context. */
static int64_t head_bytes(const struct ommai_decoder *decoder, int64_t n_pages) {
  return n_pages * PAGE * expanded_width(&decoder->config) * (int64_t)ommai_dtype_size(decoder->dtype);
}

/* Heads that go together: all, or the largest divisor that fits the budget. */
static int64_t choose_group(const struct ommai_decoder *decoder, int64_t n_pages) {
  int64_t group = decoder->config.n_heads;
  while (group > 1 && (decoder->config.n_heads % group || group * head_bytes(decoder, n_pages) > EXPANDED_BYTES)) group--;
  return group;
}

/* The maximum size of expanded contexts of up to n_pages. */
static size_t expanded_bound(const struct ommai_decoder *decoder, int64_t n_pages) {
  int64_t one = head_bytes(decoder, n_pages);
  return (size_t)ommai_min_i64(decoder->config.n_heads * one, ommai_max_i64(EXPANDED_BYTES, one));
}

static size_t prefill_size(const struct ommai_decoder *decoder, const struct ommai_layer_group *group,
                           const struct ommai_prefill_limits *limits, int n_workers) {
  (void)group; /* one kind of page, no window */
  int64_t n_heads = decoder->config.n_heads, n_pages = ommai_div_up(limits->context, PAGE);
  struct ommai_prefill_bound bound = {0};
  struct ommai_arena arena;
  for (int64_t heads = n_heads; heads >= 1; heads--) {
    if (n_heads % heads) continue;
    struct omma_attention_spec spec = ommai_prefill_attention_largest(decoder, heads, limits);
    spec.n_kv_tokens = n_pages * PAGE;
    ommai_prefill_bound_add(&bound, decoder, &spec, n_workers);
  }
  ommai_arena_measure(&arena);
  ommai_arena_take(&arena, 2 * (size_t)n_pages, sizeof(int32_t));
  ommai_arena_take(&arena, bound.plan, 1);
  ommai_arena_take(&arena, bound.workspace, 1);
  ommai_arena_take(&arena, expanded_bound(decoder, n_pages), 1);
  ommai_arena_take(&arena, widened_size(decoder) * (size_t)n_workers, 1);
  return arena.failed ? 0 : arena.used;
}

/* Tasks that expand a group of heads: one page of one head each. */
static int64_t expand_tasks(const struct ommai_prefill_mixing *mixing) { return mixing->group_heads * mixing->n_pages; }

/* The pages of all pieces, one after the other; keys [n + 1]: where those of each piece begin. */
static enum omma_status list_pages(struct ommai_prefill_mixing *mixing, int64_t *keys, struct ommai_arena *arena,
                                   struct omma_error *error) {
  const struct ommai_chunk_pieces *pieces = mixing->pieces;
  keys[0] = 0;
  for (int64_t i = 0; i < pieces->n; i++) keys[i + 1] = keys[i] + ommai_round_up(ommai_chunk_piece_end(pieces, i), PAGE);
  mixing->n_pages = keys[pieces->n] / PAGE;
  mixing->page_table = ommai_arena_take(arena, 2 * (size_t)mixing->n_pages, sizeof(int32_t));
  if (!mixing->page_table) return ommai_fail_memory(error, "prefill page table", arena->used);
  mixing->page_rows = mixing->page_table + mixing->n_pages;
  for (int64_t i = 0, at = 0; i < pieces->n; i++) {
    int64_t end = ommai_chunk_piece_end(pieces, i);
    for (int64_t page = 0; page * PAGE < end; page++, at++) {
      mixing->page_table[at] = pieces->pages[i].of_group[mixing->group][page];
      mixing->page_rows[at] = (int32_t)ommai_min_i64(PAGE, end - page * PAGE);
    }
  }
  return OMMA_OK;
}

static enum omma_status place_prefill(struct ommai_prefill_mixing *mixing, int n_workers, struct ommai_arena *arena,
                                      struct omma_error *error) {
  const struct ommai_decoder *decoder = mixing->decoder;
  int64_t keys[OMMAI_PREFILL_MAX_PIECES + 1];
  OMMAI_TRY(list_pages(mixing, keys, arena, error));
  mixing->group_heads = choose_group(decoder, mixing->n_pages);
  struct omma_attention_spec spec = ommai_prefill_attention_spec(decoder, mixing->group_heads, mixing->pieces);
  spec.cu_seqlens_k = keys;
  spec.n_kv_tokens = mixing->n_pages * PAGE;
  OMMAI_TRY(ommai_prefill_attention_plan(mixing, &spec, n_workers, arena, error));
  size_t bytes = (size_t)(mixing->group_heads * head_bytes(decoder, mixing->n_pages));
  mixing->expanded = ommai_arena_take(arena, bytes, 1);
  mixing->widened = ommai_arena_take(arena, widened_size(decoder) * (size_t)n_workers, 1);
  if (!mixing->expanded || arena->failed) return ommai_fail_memory(error, "expanded keys and values", bytes);
  int64_t n_groups = decoder->config.n_heads / mixing->group_heads;
  mixing->n_steps = n_groups * (expand_tasks(mixing) + mixing->n_plan_steps);
  return OMMA_OK;
}

struct expansion {
  const struct ommai_prefill_mixing *mixing;
  int64_t layer, first_head, first_task;
  struct ommai_first_error failure;
};

static void expand_task(void *context, int64_t task, int worker) {
  struct expansion *expansion = context;
  const struct ommai_prefill_mixing *mixing = expansion->mixing;
  const struct ommai_decoder *decoder = mixing->decoder;
  int64_t place = expansion->first_task + task, head = place / mixing->n_pages, page = place % mixing->n_pages;
  void *out = ommai_element(mixing->expanded, place * PAGE * expanded_width(&decoder->config), decoder->dtype);
  float *widened = (float *)(void *)(mixing->widened + widened_size(decoder) * (size_t)worker);
  struct omma_error error;
  if (expand_page(decoder, mixing->cache, expansion->layer, expansion->first_head + head, mixing->page_table[page],
                  mixing->page_rows[page], widened, out, worker, &error) != OMMA_OK) {
    ommai_first_error_keep(&expansion->failure, &error);
  }
}

static enum omma_status expand(const struct ommai_prefill_mixing *mixing, int64_t layer, int64_t first_head, int64_t first_task,
                               int64_t count, const struct omma_team *team, struct omma_error *error) {
  struct expansion expansion = {.mixing = mixing, .layer = layer, .first_head = first_head, .first_task = first_task};
  ommai_first_error_init(&expansion.failure);
  ommai_team_run(team, count, expand_task, &expansion);
  return ommai_first_error_result(&expansion.failure, "decoder", error);
}

static struct omma_attention_tensors expanded_tensors(const struct ommai_prefill_mixing *mixing, int64_t first_head) {
  const struct ommai_decoder_config *config = &mixing->decoder->config;
  enum omma_dtype dtype = mixing->decoder->dtype;
  int64_t width = expanded_width(config);
  const unsigned char *q = mixing->q;
  return (struct omma_attention_tensors){.q = q + (size_t)(first_head * config->head_dim) * ommai_dtype_size(dtype),
                                         .k = ommai_element(mixing->expanded, config->v_head_dim, dtype),
                                         .v = mixing->expanded,
                                         .out = ommai_element(mixing->out, first_head * config->v_head_dim, dtype),
                                         .q_token_stride = ommai_decoder_q_width(config),
                                         .out_token_stride = ommai_decoder_attended_width(config),
                                         .k_token_stride = width,
                                         .v_token_stride = width,
                                         .k_head_stride = mixing->n_pages * PAGE * width,
                                         .v_head_stride = mixing->n_pages * PAGE * width};
}

static enum omma_status prefill(const struct ommai_prefill_mixing *mixing, int64_t layer, int64_t first, int64_t *count,
                                const struct omma_team *team, struct omma_error *error) {
  int64_t n_expand = expand_tasks(mixing), n_group = n_expand + mixing->n_plan_steps;
  int64_t first_head = first / n_group * mixing->group_heads, step = first % n_group;
  if (step < n_expand) {
    *count = ommai_min_i64(*count, n_expand - step);
    return expand(mixing, layer, first_head, step, *count, team, error);
  }
  *count = ommai_min_i64(*count, n_group - step);
  const struct omma_attention_tensors tensors = expanded_tensors(mixing, first_head);
  return ommai_prefill_attention_run(mixing, &tensors, step - n_expand, *count, team, error);
}

const struct ommai_mixer ommai_mla_attention = {.shape = shape,
                                                .head_weights = true,
                                                .finish_row = finish_row,
                                                .decode_size = decode_size,
                                                .place_decode = place_decode,
                                                .decode = decode,
                                                .prefill_size = prefill_size,
                                                .place_prefill = place_prefill,
                                                .prefill = prefill};
