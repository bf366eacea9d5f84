#include "language/grouped_attention.h"

#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/half.h"
#include "base/team.h"
#include "kernels/dtype.h"
#include "language/decode_attention.h"
#include "language/prefill_attention.h"

/* Rows of a step of output gates, which then takes about as long as one of attention. */
enum { PAGE = OMMA_ATTENTION_PAGE_TOKENS, GATED_ROWS = 64 };

static struct ommai_mixer_shape shape(const struct ommai_decoder_config *config) {
  int64_t q = ommai_decoder_q_width(config);
  return (struct ommai_mixer_shape){.projected = q + 2 * ommai_decoder_kv_width(config) + (config->output_gate ? q : 0),
                                    .q_width = ommai_decoder_q_width(config),
                                    .mixed = ommai_decoder_attended_width(config),
                                    .kept_heads = config->n_kv_heads,
                                    .kept_width = config->head_dim,
                                    .values_apart = true,
                                    .value_width = config->v_head_dim,
                                    .rope_dim = config->rotary_dim ? config->rotary_dim : config->head_dim,
                                    .seen_elements = config->n_heads * (config->head_dim + config->v_head_dim)};
}

/* ---- one row ---- */

static void norm_heads(const struct ommai_decoder *decoder, const float *weight, float *heads, int64_t n_heads) {
  int64_t d = decoder->config.head_dim;
  if (!weight) return;
  for (int64_t h = 0; h < n_heads; h++) {
    decoder->ops->rms_norm(heads + h * d, weight, decoder->config.norm_eps, d, heads + h * d, OMMA_F32);
  }
}

/* n heads of d values, in the decoder's pairs. */
static void turn(const struct ommai_decoder *decoder, const float *x, const float *cosine, const float *sine, int64_t n,
                 int64_t d, void *out, int64_t stride, enum omma_dtype type) {
  if (decoder->config.rope_pairs) {
    decoder->ops->rope_pairs(x, cosine, sine, n, d, out, stride, type);
  } else {
    decoder->ops->rope_half(x, cosine, sine, n, d, out, stride, type);
  }
}

/* n heads one after the other, their first values rotated. */
static void rotate(const struct ommai_decoder *decoder, const float *x, const float *cosine, const float *sine, int64_t n,
                   void *out, int64_t stride, enum omma_dtype type) {
  const struct ommai_row_ops *ops = decoder->ops;
  int64_t d = decoder->config.head_dim, turned = decoder->config.rotary_dim;
  if (turned == 0 || turned == d) {
    turn(decoder, x, cosine, sine, n, d, out, stride, type);
    return;
  }
  for (int64_t h = 0; h < n; h++, x += d) {
    turn(decoder, x, cosine, sine, 1, turned, ommai_element(out, h * stride, type), turned, type);
    ops->convert(x + turned, d - turned, ommai_element(out, h * stride + turned, type), type);
  }
}

static void finish_row(const struct ommai_decoder *decoder, const struct ommai_kv_cache *cache, int64_t layer, float *qkv,
                       const float *cosine, const float *sine, void *q_out, int64_t place) {
  const struct ommai_decoder_config *config = &decoder->config;
  const struct ommai_decoder_layer *weights = &decoder->layers[layer];
  enum omma_dtype kept = cache->dtype;
  int64_t d = config->head_dim, head_stride = ommai_kv_head_stride(cache, layer);
  float *k = qkv + ommai_decoder_q_width(config);
  const float *v = k + ommai_decoder_kv_width(config);
  norm_heads(decoder, weights->q_norm, qkv, config->n_heads);
  norm_heads(decoder, weights->k_norm, k, config->n_kv_heads);
  rotate(decoder, qkv, cosine, sine, config->n_heads, q_out, d, decoder->dtype);
  if (kept == OMMA_INT8) {
    float *rotated = qkv; /* the place of q, which is no smaller and written out */
    rotate(decoder, k, cosine, sine, config->n_kv_heads, rotated, d, OMMA_F32);
    ommai_kv_write_int8(cache, decoder->ops, layer, place, rotated, v);
    return;
  }
  void *k_out = ommai_element(ommai_kv_layer_keys(cache, layer), place, kept);
  void *v_out = ommai_element(ommai_kv_layer_values(cache, layer), place, kept);
  rotate(decoder, k, cosine, sine, config->n_kv_heads, k_out, head_stride, kept);
  for (int64_t h = 0; h < config->n_kv_heads; h++) {
    decoder->ops->convert(v + h * d, d, ommai_element(v_out, h * head_stride, kept), kept);
  }
}

/* ---- output gates ---- */

struct gate_call {
  const struct ommai_decoder *decoder;
  const float *projected; /* of the first row */
  void *out;
};

/* One row's heads times the sigmoids of their gates. */
static void gate_row(void *context, int64_t row, int worker) {
  (void)worker;
  const struct gate_call *call = context;
  const struct ommai_decoder_config *config = &call->decoder->config;
  enum omma_dtype dtype = call->decoder->dtype;
  int64_t d = config->head_dim, q = ommai_decoder_q_width(config), kv = ommai_decoder_kv_width(config);
  const float *gate = call->projected + row * (2 * q + 2 * kv) + q + 2 * kv;
  for (int64_t h = 0; h < config->n_heads; h++) {
    void *out = ommai_element(call->out, row * q + h * d, dtype);
    float head[OMMA_ATTENTION_MAX_HEAD_DIM];
    for (int64_t i = 0; i < d; i++) {
      head[i] = dtype == OMMA_F32 ? ((const float *)out)[i] : ommai_bf16_to_f32(((const ommai_bf16 *)out)[i]);
    }
    call->decoder->ops->sigmoid_mul(gate + h * d, head, d, out, dtype);
  }
}

/* Rows [first, first + n). */
static void gate_rows(const struct ommai_decoder *decoder, const float *projected, void *out, int64_t first, int64_t n,
                      const struct omma_team *team) {
  const struct ommai_decoder_config *config = &decoder->config;
  struct gate_call call = {decoder, projected + first * shape(config).projected,
                           ommai_element(out, first * ommai_decoder_q_width(config), decoder->dtype)};
  ommai_team_run(team, n, gate_row, &call);
}

/* ---- decode ---- */

static size_t decode_size(const struct ommai_decoder *decoder, const struct ommai_layer_group *group, int64_t max_rows,
                          int64_t max_context, int n_workers) {
  struct ommai_arena arena;
  ommai_arena_measure(&arena);
  ommai_decode_attention_measure(decoder, group, max_rows, max_context, n_workers, &arena);
  return arena.failed ? 0 : arena.used;
}

static enum omma_status decode(const struct ommai_decode_mixing *mixing, int64_t layer, const struct omma_team *team,
                               struct omma_error *error) {
  const struct omma_attention_tensors tensors = ommai_decode_attention_tensors(mixing, layer);
  OMMAI_TRY(ommai_decode_attention_run(mixing, &tensors, team, error));
  if (mixing->decoder->config.output_gate) gate_rows(mixing->decoder, mixing->projected, mixing->out, 0, mixing->n_rows, team);
  return OMMA_OK;
}

/* ---- prefill ---- */

static void set_keys(const struct ommai_decoder *decoder, const struct ommai_layer_group *group,
                     struct omma_attention_spec *spec) {
  spec->n_kv_heads = (int32_t)decoder->config.n_kv_heads;
  spec->window = group->state.window;
  spec->paged = true;
  ommai_kv_set_types(decoder->kv_type, spec);
}

static size_t prefill_size(const struct ommai_decoder *decoder, const struct ommai_layer_group *group,
                           const struct ommai_prefill_limits *limits, int n_workers) {
  struct omma_attention_spec spec = ommai_prefill_attention_largest(decoder, decoder->config.n_heads, limits);
  struct ommai_prefill_bound bound = {0};
  struct ommai_arena arena;
  set_keys(decoder, group, &spec);
  ommai_prefill_bound_add(&bound, decoder, &spec, n_workers);
  ommai_arena_measure(&arena);
  ommai_arena_take(&arena, (size_t)(limits->pieces * ommai_div_up(limits->context, PAGE)), sizeof(int32_t));
  ommai_arena_take(&arena, bound.plan, 1);
  ommai_arena_take(&arena, bound.workspace, 1);
  return arena.failed ? 0 : arena.used;
}

/* Pages behind the window of a piece's first row are not read. */
static void fill_page_table(const struct ommai_prefill_mixing *mixing, int64_t window, int64_t piece) {
  const struct ommai_chunk_pieces *pieces = mixing->pieces;
  int64_t first = window ? ommai_max_i64(pieces->firsts[piece] - window + 1, 0) / PAGE : 0;
  int64_t end = ommai_div_up(ommai_chunk_piece_end(pieces, piece), PAGE);
  memcpy(mixing->page_table + piece * mixing->n_pages + first, pieces->pages[piece].of_group[mixing->group] + first,
         (size_t)(end - first) * sizeof(int32_t));
}

static enum omma_status place_prefill(struct ommai_prefill_mixing *mixing, int n_workers, struct ommai_arena *arena,
                                      struct omma_error *error) {
  const struct ommai_chunk_pieces *pieces = mixing->pieces;
  const struct ommai_layer_group *group = &mixing->cache->layout.groups[mixing->group];
  struct omma_attention_spec spec = ommai_prefill_attention_spec(mixing->decoder, mixing->decoder->config.n_heads, pieces);
  set_keys(mixing->decoder, group, &spec);
  for (int64_t i = 0; i < pieces->n; i++) spec.n_kv_tokens = ommai_max_i64(spec.n_kv_tokens, ommai_chunk_piece_end(pieces, i));
  mixing->n_pages = ommai_div_up(spec.n_kv_tokens, PAGE);
  size_t n_entries = (size_t)(pieces->n * mixing->n_pages);
  mixing->page_table = ommai_arena_take(arena, n_entries, sizeof(int32_t));
  if (!mixing->page_table) return ommai_fail_memory(error, "prefill page table", n_entries * sizeof(int32_t));
  for (int64_t i = 0; i < pieces->n; i++) fill_page_table(mixing, group->state.window, i);
  OMMAI_TRY(ommai_prefill_attention_plan(mixing, &spec, n_workers, arena, error));
  mixing->n_steps =
      mixing->n_plan_steps + (mixing->decoder->config.output_gate ? ommai_div_up(pieces->borders[pieces->n], GATED_ROWS) : 0);
  return OMMA_OK;
}

static enum omma_status prefill(const struct ommai_prefill_mixing *mixing, int64_t layer, int64_t first, int64_t *count,
                                const struct omma_team *team, struct omma_error *error) {
  struct omma_attention_tensors tensors = {
      .q = mixing->q, .out = mixing->out, .page_table = mixing->page_table, .page_table_stride = mixing->n_pages};
  if (first >= mixing->n_plan_steps) {
    int64_t row = (first - mixing->n_plan_steps) * GATED_ROWS, end = mixing->pieces->borders[mixing->pieces->n];
    *count = ommai_min_i64(*count, mixing->n_steps - first);
    gate_rows(mixing->decoder, mixing->projected, mixing->out, row, ommai_min_i64(*count * GATED_ROWS, end - row), team);
    return OMMA_OK;
  }
  ommai_kv_set_tensors(mixing->cache, layer, &tensors);
  *count = ommai_min_i64(*count, mixing->n_plan_steps - first);
  return ommai_prefill_attention_run(mixing, &tensors, first, *count, team, error);
}

const struct ommai_mixer ommai_grouped_attention = {.shape = shape,
                                                    .int8_cache = true,
                                                    .finish_row = finish_row,
                                                    .decode_size = decode_size,
                                                    .place_decode = ommai_decode_attention_plan,
                                                    .decode = decode,
                                                    .prefill_size = prefill_size,
                                                    .place_prefill = place_prefill,
                                                    .prefill = prefill};
