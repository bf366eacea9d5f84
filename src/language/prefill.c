/* Stages and their shapes, n = rows of the chunk:
 *   enter:   embeddings -> residual [n, hidden] -> norm -> qkv -> norms, rope -> q [n, q_width], k and v into pages
 *   attend:  q, pages -> attended [n, q_width]
 *   leave l: attended -> residual -> norm -> gate, up -> down -> residual (+ deepstack l) -> norm and qkv of layer l + 1 */
#include "language/prefill.h"

#include <string.h>

#include "base/arena.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/team.h"
#include "kernels/dtype.h"
#include "linear/row_tiles.h"

enum phase { PHASE_ENTER, PHASE_ATTEND, PHASE_LEAVE, PHASE_DONE };

/* What one worker needs for its tile; every buffer has OMMAI_MAX_TILE_ROWS rows. */
struct scratch {
  void *normed; /* dtype [tile, hidden] */
  float *wide;  /* f32 [tile, max(qkv_width, 2 * intermediate)] */
  void *gated;  /* dtype [tile, intermediate] */
};

struct ommai_prefill {
  const struct ommai_decoder *decoder;
  const struct ommai_kv_cache *cache;
  const int32_t *pages;
  const struct ommai_prompt_row *rows;
  const struct omma_team *team;
  struct ommai_row_tiles tiles;
  int64_t first;
  float *residual;      /* [round_up(n, 128), hidden] */
  void *q, *attended;   /* dtype [round_up(n, 128), q_width] */
  float *cosine, *sine; /* [n, head_dim / 2] */
  struct scratch *scratch;
  struct omma_attention_plan *plan;
  void *attention_workspace;
  size_t attention_workspace_size;
  int64_t n_attention_steps;

  enum phase phase;
  int64_t layer, next_task;
  int64_t first_task; /* of the slice in progress */
  ommai_layer_tap tap;
  void *tap_context;
};

static struct omma_attention_spec attention_spec(const struct ommai_decoder *decoder, int64_t n_rows, const int64_t *offset) {
  return (struct omma_attention_spec){.form = OMMA_ATTENTION_CAUSAL,
                                      .dtype = decoder->dtype,
                                      .n_heads = (int32_t)decoder->config.n_heads,
                                      .n_kv_heads = (int32_t)decoder->config.n_kv_heads,
                                      .head_dim = (int32_t)decoder->config.head_dim,
                                      .n_tokens = n_rows,
                                      .batch = 1,
                                      .q_offsets = offset,
                                      .paged = true};
}

static struct ommai_prefill *place(const struct ommai_decoder *decoder, int64_t n_rows, int n_workers,
                                   struct ommai_arena *arena) {
  const struct ommai_decoder_config *config = &decoder->config;
  enum omma_dtype dtype = decoder->dtype;
  size_t rows = (size_t)ommai_round_up(n_rows, OMMAI_MAX_TILE_ROWS), tile = OMMAI_MAX_TILE_ROWS;
  size_t hidden = (size_t)config->hidden_size, intermediate = (size_t)config->intermediate_size;
  size_t wide = (size_t)ommai_max_i64(ommai_decoder_qkv_width(config), 2 * config->intermediate_size);
  size_t q_width = (size_t)ommai_decoder_q_width(config), pairs = (size_t)config->head_dim / 2;
  struct ommai_prefill *prefill = ommai_arena_take(arena, 1, sizeof *prefill);
  struct ommai_prefill placed = {
      .residual = ommai_arena_take(arena, rows * hidden, sizeof(float)),
      .q = ommai_arena_take(arena, rows * q_width, ommai_dtype_size(dtype)),
      .attended = ommai_arena_take(arena, rows * q_width, ommai_dtype_size(dtype)),
      .cosine = ommai_arena_take(arena, (size_t)n_rows * pairs, sizeof(float)),
      .sine = ommai_arena_take(arena, (size_t)n_rows * pairs, sizeof(float)),
      .scratch = ommai_arena_take(arena, (size_t)n_workers, sizeof(struct scratch)),
  };
  for (int worker = 0; worker < n_workers; worker++) {
    struct scratch one = {.normed = ommai_arena_take(arena, tile * hidden, ommai_dtype_size(dtype)),
                          .wide = ommai_arena_take(arena, tile * wide, sizeof(float)),
                          .gated = ommai_arena_take(arena, tile * intermediate, ommai_dtype_size(dtype))};
    if (placed.scratch) placed.scratch[worker] = one;
  }
  if (prefill) *prefill = placed;
  return prefill;
}

size_t ommai_prefill_workspace_size(const struct ommai_decoder *decoder, int64_t max_rows, int64_t max_context, int n_workers) {
  if (max_rows < 1 || max_rows > max_context || max_context > OMMA_ATTENTION_MAX_TOKENS / 2 || n_workers < 1) return 0;
  struct ommai_arena arena;
  ommai_arena_measure(&arena);
  place(decoder, max_rows, n_workers, &arena);
  int64_t offset = max_context - max_rows;
  struct omma_attention_spec spec = attention_spec(decoder, max_rows, &offset);
  ommai_arena_take(&arena, omma_attention_plan_size_bound(decoder->attention, &spec), 1);
  ommai_arena_take(&arena, omma_attention_workspace_bound(decoder->attention, &spec, n_workers), 1);
  return arena.failed ? 0 : arena.used;
}

static enum omma_status place_attention(struct ommai_prefill *prefill, int n_workers, struct ommai_arena *arena,
                                        struct omma_error *error) {
  const struct ommai_decoder *decoder = prefill->decoder;
  struct omma_attention_spec spec = attention_spec(decoder, prefill->tiles.n_rows, &prefill->first);
  size_t plan_size = omma_attention_plan_size_bound(decoder->attention, &spec);
  void *plan_memory = ommai_arena_take(arena, plan_size, 1);
  if (!plan_memory) return ommai_fail_memory(error, "prefill attention plan", arena->used + plan_size);
  OMMAI_TRY(omma_attention_plan_place(decoder->attention, &spec, plan_memory, plan_size, &prefill->plan, error));
  prefill->attention_workspace_size = omma_attention_plan_workspace_size(prefill->plan, n_workers);
  prefill->attention_workspace = ommai_arena_take(arena, prefill->attention_workspace_size, 1);
  if (!prefill->attention_workspace) {
    return ommai_fail_memory(error, "prefill attention workspace", prefill->attention_workspace_size);
  }
  struct omma_attention_plan_info info;
  omma_attention_plan_get_info(prefill->plan, &info);
  prefill->n_attention_steps = info.n_steps;
  return OMMA_OK;
}

enum omma_status ommai_prefill_start(const struct ommai_decoder *decoder, const struct ommai_kv_cache *cache,
                                     const int32_t *pages, int64_t first, const struct ommai_prompt_row *rows, int64_t n_rows,
                                     void *workspace, size_t workspace_size, const struct omma_team *team,
                                     struct ommai_prefill **out, struct omma_error *error) {
  int n_workers = team ? team->n_workers : 1;
  struct ommai_arena arena;
  ommai_arena_init(&arena, workspace, workspace_size);
  struct ommai_prefill *prefill = place(decoder, n_rows, n_workers, &arena);
  if (arena.failed) return ommai_fail_memory(error, "prefill workspace", arena.used);
  prefill->decoder = decoder;
  prefill->cache = cache;
  prefill->pages = pages;
  prefill->rows = rows;
  prefill->team = team;
  prefill->first = first;
  ommai_row_tiles_init(&prefill->tiles, decoder->linear_engine, decoder->dtype, n_rows);
  OMMAI_TRY(place_attention(prefill, n_workers, &arena, error));
  int64_t pairs = decoder->mrope.n_pairs;
  for (int64_t row = 0; row < n_rows; row++) {
    ommai_mrope_angles(&decoder->mrope, rows[row].position, prefill->cosine + row * pairs, prefill->sine + row * pairs);
  }
  *out = prefill;
  return OMMA_OK;
}

void ommai_prefill_set_tap(struct ommai_prefill *prefill, ommai_layer_tap tap, void *context) {
  prefill->tap = tap;
  prefill->tap_context = context;
}

static void norm_rows(const struct ommai_prefill *prefill, const float *weight, struct ommai_row_tile tile, void *out) {
  const struct ommai_decoder *decoder = prefill->decoder;
  int64_t hidden = decoder->config.hidden_size;
  for (int64_t row = 0; row < tile.n_rows; row++) {
    decoder->ops->rms_norm(prefill->residual + (tile.first + row) * hidden, weight, decoder->config.norm_eps, hidden,
                           ommai_element(out, row * hidden, decoder->dtype), decoder->dtype);
  }
}

/* Norm and fused projections of `layer` for a tile; keys and values go to their pages. */
static void project_qkv(struct ommai_prefill *prefill, struct ommai_row_tile tile, int64_t layer, int worker) {
  const struct ommai_decoder *decoder = prefill->decoder;
  const struct ommai_decoder_layer *weights = &decoder->layers[layer];
  struct scratch *scratch = &prefill->scratch[worker];
  int64_t qkv_width = ommai_decoder_qkv_width(&decoder->config), q_width = ommai_decoder_q_width(&decoder->config);
  int64_t pairs = decoder->mrope.n_pairs;
  void *keys = ommai_kv_layer_keys(prefill->cache, layer), *values = ommai_kv_layer_values(prefill->cache, layer);
  norm_rows(prefill, weights->input_norm, tile, scratch->normed);
  ommai_row_tiles_apply(&prefill->tiles, weights->qkv.op, scratch->normed, scratch->wide, tile.n_rows, worker);
  for (int64_t row = 0; row < tile.n_rows; row++) {
    int64_t at = tile.first + row;
    int64_t offset = ommai_kv_position_offset(prefill->cache, prefill->pages, prefill->first + at);
    ommai_decoder_finish_qkv(decoder, weights, scratch->wide + row * qkv_width, prefill->cosine + at * pairs,
                             prefill->sine + at * pairs, ommai_element(prefill->q, at * q_width, decoder->dtype),
                             ommai_element(keys, offset, decoder->dtype), ommai_element(values, offset, decoder->dtype),
                             ommai_kv_head_stride(prefill->cache));
  }
}

static void enter_tile(void *context, int64_t task, int worker) {
  struct ommai_prefill *prefill = context;
  struct ommai_row_tile tile = ommai_row_tile_at(&prefill->tiles, prefill->first_task + task);
  int64_t hidden = prefill->decoder->config.hidden_size;
  for (int64_t row = tile.first; row < tile.first + tile.n_rows; row++) {
    float *to = prefill->residual + row * hidden;
    if (prefill->rows[row].picture) {
      memcpy(to, prefill->rows[row].picture, (size_t)hidden * sizeof(float));
    } else {
      ommai_decoder_embed(prefill->decoder, prefill->rows[row].token, to);
    }
  }
  project_qkv(prefill, tile, 0, worker);
}

static void feed_forward(struct ommai_prefill *prefill, struct ommai_row_tile tile, int worker) {
  const struct ommai_decoder *decoder = prefill->decoder;
  const struct ommai_decoder_layer *weights = &decoder->layers[prefill->layer];
  struct scratch *scratch = &prefill->scratch[worker];
  int64_t intermediate = decoder->config.intermediate_size;
  norm_rows(prefill, weights->post_norm, tile, scratch->normed);
  ommai_row_tiles_apply(&prefill->tiles, weights->gate_up.op, scratch->normed, scratch->wide, tile.n_rows, worker);
  for (int64_t row = 0; row < tile.n_rows; row++) {
    const float *gate = scratch->wide + row * 2 * intermediate;
    decoder->ops->silu_mul(gate, gate + intermediate, intermediate,
                           ommai_element(scratch->gated, row * intermediate, decoder->dtype), decoder->dtype);
  }
  ommai_row_tiles_apply(&prefill->tiles, weights->down.op, scratch->gated,
                        prefill->residual + tile.first * decoder->config.hidden_size, tile.n_rows, worker);
}

static void leave_tile(void *context, int64_t task, int worker) {
  struct ommai_prefill *prefill = context;
  const struct ommai_decoder *decoder = prefill->decoder;
  struct ommai_row_tile tile = ommai_row_tile_at(&prefill->tiles, prefill->first_task + task);
  int64_t hidden = decoder->config.hidden_size, q_width = ommai_decoder_q_width(&decoder->config);
  ommai_row_tiles_apply(&prefill->tiles, decoder->layers[prefill->layer].o.op,
                        ommai_element(prefill->attended, tile.first * q_width, decoder->dtype),
                        prefill->residual + tile.first * hidden, tile.n_rows, worker);
  feed_forward(prefill, tile, worker);
  if (prefill->layer < decoder->config.n_deepstack) {
    for (int64_t row = tile.first; row < tile.first + tile.n_rows; row++) {
      const struct ommai_prompt_row *source = &prefill->rows[row];
      if (!source->picture) continue;
      decoder->ops->add(prefill->residual + row * hidden, source->picture + (1 + prefill->layer) * source->picture_stride,
                        hidden);
    }
  }
  if (prefill->layer + 1 < decoder->config.n_layers) project_qkv(prefill, tile, prefill->layer + 1, worker);
}

static enum omma_status attend(struct ommai_prefill *prefill, int64_t count, struct omma_error *error) {
  struct omma_attention_tensors tensors = {.q = prefill->q,
                                           .k = ommai_kv_layer_keys(prefill->cache, prefill->layer),
                                           .v = ommai_kv_layer_values(prefill->cache, prefill->layer),
                                           .out = prefill->attended,
                                           .page_table = prefill->pages,
                                           .k_page_stride = ommai_kv_page_stride(prefill->cache),
                                           .v_page_stride = ommai_kv_page_stride(prefill->cache)};
  return omma_attention_run_range(prefill->plan, &tensors, prefill->attention_workspace, prefill->attention_workspace_size,
                                  prefill->team, prefill->first_task, count, error);
}

static void next_phase(struct ommai_prefill *prefill) {
  prefill->next_task = 0;
  if (prefill->phase == PHASE_ENTER) {
    prefill->phase = PHASE_ATTEND;
  } else if (prefill->phase == PHASE_ATTEND) {
    prefill->phase = PHASE_LEAVE;
  } else {
    int64_t hidden = prefill->decoder->config.hidden_size;
    if (prefill->tap) prefill->tap(prefill->tap_context, prefill->layer, prefill->residual, prefill->tiles.n_rows, hidden);
    prefill->layer++;
    prefill->phase = prefill->layer < prefill->decoder->config.n_layers ? PHASE_ATTEND : PHASE_DONE;
  }
}

enum omma_status ommai_prefill_advance(struct ommai_prefill *prefill, int64_t max_tasks, struct omma_error *error) {
  if (prefill->phase == PHASE_DONE) return OMMA_OK;
  int64_t total = prefill->phase == PHASE_ATTEND ? prefill->n_attention_steps : prefill->tiles.n_tiles;
  int64_t count = ommai_min_i64(ommai_max_i64(max_tasks, 1), total - prefill->next_task);
  prefill->first_task = prefill->next_task;
  if (prefill->phase == PHASE_ATTEND) {
    OMMAI_TRY(attend(prefill, count, error));
  } else {
    ommai_team_run(prefill->team, count, prefill->phase == PHASE_ENTER ? enter_tile : leave_tile, prefill);
    if (atomic_load(&prefill->tiles.failed)) return ommai_fail(error, OMMA_ERROR_INTERNAL, "decoder: a linear layer failed");
  }
  prefill->next_task += count;
  if (prefill->next_task == total) next_phase(prefill);
  return OMMA_OK;
}

bool ommai_prefill_done(const struct ommai_prefill *prefill) { return prefill->phase == PHASE_DONE; }

const float *ommai_prefill_residual(const struct ommai_prefill *prefill, int64_t row) {
  return prefill->residual + row * prefill->decoder->config.hidden_size;
}
