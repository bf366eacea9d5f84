/* Stages and their shapes, n = rows of the chunk:
 *   enter:   embeddings -> residual [n, hidden] -> norm -> qkv -> norms, rope -> q [n, q_width], the kept part into pages
 *   attend:  q, pages -> attended [n, attended_width]
 *   leave l: attended -> residual -> norm -> dense feed-forward -> residual; where layer l is routed: router -> slots, then
 *   experts: normed rows by expert -> results [slots, hidden]
 *   combine: results -> residual
 *   and at the end of a layer: deepstack l -> residual -> norm and qkv of layer l + 1 */
#include "language/prefill.h"

#include <string.h>

#include "base/arena.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/team.h"
#include "kernels/dtype.h"
#include "language/experts.h"
#include "language/grouped_attention.h"
#include "language/latent_attention.h"
#include "language/prefill_attention.h"
#include "linear/row_tiles.h"

enum phase { PHASE_ENTER, PHASE_ATTEND, PHASE_LEAVE, PHASE_EXPERTS, PHASE_COMBINE, PHASE_DONE };

/* What one worker needs for its tile; every buffer has OMMAI_MAX_TILE_ROWS rows. */
struct scratch {
  void *normed;     /* dtype [tile, hidden] */
  float *unrounded; /* f32 [tile, hidden], for the router */
  float *wide;      /* f32 [tile, the widest of qkv, gate with up, router logits] */
  void *gated;      /* dtype [tile, the widest intermediate] */
  struct ommai_experts_scratch experts;
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
  void *q;              /* dtype [round_up(n, 128), q_width] */
  void *attended;       /* dtype [round_up(n, 128), attended_width] */
  float *cosine, *sine; /* [n, rope_dim / 2] */
  struct scratch *scratch;
  struct ommai_prefill_attention attention;
  struct ommai_routing routing;
  void *routed_rows;     /* dtype [n, hidden], the experts' input */
  float *expert_results; /* [n * n_chosen, hidden] */

  enum phase phase;
  int64_t layer, next_task, n_expert_tiles;
  int64_t first_task; /* of the slice in progress */
  ommai_layer_tap tap;
  void *tap_context;
};

static bool has_experts(const struct ommai_decoder *decoder) { return decoder->config.experts.router.n_experts > 0; }

static struct scratch place_scratch(const struct ommai_decoder *decoder, struct ommai_arena *arena) {
  const struct ommai_decoder_config *config = &decoder->config;
  size_t tile = OMMAI_MAX_TILE_ROWS, hidden = (size_t)config->hidden_size, element = ommai_dtype_size(decoder->dtype);
  int64_t dense = ommai_decoder_max_dense_size(config), expert = config->experts.intermediate_size;
  int64_t intermediate = ommai_max_i64(dense, expert);
  int64_t wide =
      ommai_max_i64(ommai_decoder_qkv_width(config), ommai_max_i64(2 * intermediate, config->experts.router.n_experts));
  struct scratch scratch = {.normed = ommai_arena_take(arena, tile * hidden, element),
                            .wide = ommai_arena_take(arena, tile * (size_t)wide, sizeof(float)),
                            .gated = ommai_arena_take(arena, tile * (size_t)intermediate, element)};
  if (!has_experts(decoder)) return scratch;
  scratch.unrounded = ommai_arena_take(arena, tile * hidden, sizeof(float));
  /* The router's input and an expert's output are never wanted at the same time. */
  scratch.experts = (struct ommai_experts_scratch){scratch.normed, scratch.wide, scratch.gated, scratch.unrounded};
  return scratch;
}

static struct ommai_prefill *place(const struct ommai_decoder *decoder, int64_t n_rows, int n_workers,
                                   struct ommai_arena *arena) {
  const struct ommai_decoder_config *config = &decoder->config;
  size_t rows = (size_t)ommai_round_up(n_rows, OMMAI_MAX_TILE_ROWS), element = ommai_dtype_size(decoder->dtype);
  size_t hidden = (size_t)config->hidden_size, pairs = (size_t)ommai_decoder_rope_dim(config) / 2;
  struct ommai_prefill *prefill = ommai_arena_take(arena, 1, sizeof *prefill);
  struct ommai_prefill placed = {
      .residual = ommai_arena_take(arena, rows * hidden, sizeof(float)),
      .q = ommai_arena_take(arena, rows * (size_t)ommai_decoder_q_width(config), element),
      .attended = ommai_arena_take(arena, rows * (size_t)ommai_decoder_attended_width(config), element),
      .cosine = ommai_arena_take(arena, (size_t)n_rows * pairs, sizeof(float)),
      .sine = ommai_arena_take(arena, (size_t)n_rows * pairs, sizeof(float)),
      .scratch = ommai_arena_take(arena, (size_t)n_workers, sizeof(struct scratch)),
  };
  for (int worker = 0; worker < n_workers; worker++) {
    struct scratch one = place_scratch(decoder, arena);
    if (placed.scratch) placed.scratch[worker] = one;
  }
  if (has_experts(decoder)) {
    size_t slots = (size_t)(n_rows * config->experts.router.n_chosen);
    ommai_routing_place(&placed.routing, &config->experts.router, n_rows, arena);
    placed.routed_rows = ommai_arena_take(arena, (size_t)n_rows * hidden, element);
    placed.expert_results = ommai_arena_take(arena, slots * hidden, sizeof(float));
  }
  if (prefill) *prefill = placed;
  return prefill;
}

size_t ommai_prefill_workspace_size(const struct ommai_decoder *decoder, int64_t max_rows, int64_t max_context, int n_workers) {
  if (max_rows < 1 || max_rows > max_context || max_context > OMMA_ATTENTION_MAX_TOKENS / 2 || n_workers < 1) return 0;
  struct ommai_arena arena;
  ommai_arena_measure(&arena);
  place(decoder, max_rows, n_workers, &arena);
  size_t attention = ommai_prefill_attention_size(decoder, max_rows, max_context, n_workers);
  ommai_arena_take(&arena, attention, 1);
  return arena.failed || attention == 0 ? 0 : arena.used;
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
  prefill->attention = (struct ommai_prefill_attention){.decoder = decoder,
                                                        .cache = cache,
                                                        .pages = pages,
                                                        .first = first,
                                                        .n_rows = n_rows,
                                                        .q = prefill->q,
                                                        .out = prefill->attended};
  OMMAI_TRY(ommai_prefill_attention_place(&prefill->attention, n_workers, &arena, error));
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

static void norm_rows(const struct ommai_prefill *prefill, const float *weight, struct ommai_row_tile tile, void *out,
                      enum omma_dtype type) {
  const struct ommai_decoder *decoder = prefill->decoder;
  int64_t hidden = decoder->config.hidden_size;
  for (int64_t row = 0; row < tile.n_rows; row++) {
    decoder->ops->rms_norm(prefill->residual + (tile.first + row) * hidden, weight, decoder->config.norm_eps, hidden,
                           ommai_element(out, row * hidden, type), type);
  }
}

/* Norm and fused projections of `layer` for a tile; what is kept goes to its pages. */
static void project_qkv(struct ommai_prefill *prefill, struct ommai_row_tile tile, int64_t layer, int worker) {
  const struct ommai_decoder *decoder = prefill->decoder;
  const struct ommai_decoder_layer *weights = &decoder->layers[layer];
  struct scratch *scratch = &prefill->scratch[worker];
  int64_t width = ommai_decoder_qkv_width(&decoder->config), q_width = ommai_decoder_q_width(&decoder->config);
  int64_t pairs = decoder->mrope.n_pairs;
  norm_rows(prefill, weights->input_norm, tile, scratch->normed, decoder->dtype);
  ommai_row_tiles_apply(&prefill->tiles, weights->qkv.op, scratch->normed, scratch->wide, tile.n_rows, worker);
  for (int64_t row = 0; row < tile.n_rows; row++) {
    int64_t at = tile.first + row, place = ommai_kv_position_offset(prefill->cache, prefill->pages, prefill->first + at);
    float *projected = scratch->wide + row * width;
    const float *cosine = prefill->cosine + at * pairs, *sine = prefill->sine + at * pairs;
    void *q = ommai_element(prefill->q, at * q_width, decoder->dtype);
    if (decoder->config.attention == OMMAI_ATTENTION_LATENT) {
      ommai_latent_finish_row(decoder, prefill->cache, layer, projected, cosine, sine, q, place);
    } else {
      ommai_grouped_finish_row(decoder, prefill->cache, layer, projected, cosine, sine, q, place);
    }
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

/* The dense part over a tile whose normed rows are in `normed`. */
static void feed_forward(struct ommai_prefill *prefill, struct ommai_row_tile tile, const void *normed, int worker) {
  const struct ommai_decoder *decoder = prefill->decoder;
  const struct ommai_gated_linear *weights = &decoder->layers[prefill->layer].dense;
  struct scratch *scratch = &prefill->scratch[worker];
  int64_t intermediate = ommai_decoder_dense_size(&decoder->config, prefill->layer);
  if (intermediate == 0) return;
  ommai_row_tiles_apply(&prefill->tiles, weights->gate_up.op, normed, scratch->wide, tile.n_rows, worker);
  for (int64_t row = 0; row < tile.n_rows; row++) {
    const float *gate = scratch->wide + row * 2 * intermediate;
    decoder->ops->silu_mul(gate, gate + intermediate, intermediate,
                           ommai_element(scratch->gated, row * intermediate, decoder->dtype), decoder->dtype);
  }
  ommai_row_tiles_apply(&prefill->tiles, weights->down.op, scratch->gated,
                        prefill->residual + tile.first * decoder->config.hidden_size, tile.n_rows, worker);
}

/* Sends a tile's rows to their experts. The router sees the norm's f32 values. */
static void route_rows(struct ommai_prefill *prefill, struct ommai_row_tile tile, int worker) {
  const struct ommai_decoder *decoder = prefill->decoder;
  const struct ommai_decoder_layer *weights = &decoder->layers[prefill->layer];
  struct scratch *scratch = &prefill->scratch[worker];
  int64_t hidden = decoder->config.hidden_size;
  norm_rows(prefill, weights->post_norm, tile, scratch->unrounded, OMMA_F32);
  decoder->ops->convert(scratch->unrounded, tile.n_rows * hidden, scratch->normed, decoder->dtype);
  memcpy(ommai_element(prefill->routed_rows, tile.first * hidden, decoder->dtype), scratch->normed,
         (size_t)(tile.n_rows * hidden) * ommai_dtype_size(decoder->dtype));
  ommai_row_tiles_apply(&prefill->tiles, weights->router.op, scratch->unrounded, scratch->wide, tile.n_rows, worker);
  ommai_experts_choose(decoder, prefill->layer, scratch->wide, tile.first, tile.n_rows, &prefill->routing);
}

/* What comes after a layer's last addition to the residual. */
static void finish_layer(struct ommai_prefill *prefill, struct ommai_row_tile tile, int worker) {
  const struct ommai_decoder *decoder = prefill->decoder;
  int64_t hidden = decoder->config.hidden_size;
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

static void leave_tile(void *context, int64_t task, int worker) {
  struct ommai_prefill *prefill = context;
  const struct ommai_decoder *decoder = prefill->decoder;
  const struct ommai_decoder_layer *weights = &decoder->layers[prefill->layer];
  struct ommai_row_tile tile = ommai_row_tile_at(&prefill->tiles, prefill->first_task + task);
  int64_t hidden = decoder->config.hidden_size, width = ommai_decoder_attended_width(&decoder->config);
  void *normed = prefill->scratch[worker].normed;
  ommai_row_tiles_apply(&prefill->tiles, weights->o.op, ommai_element(prefill->attended, tile.first * width, decoder->dtype),
                        prefill->residual + tile.first * hidden, tile.n_rows, worker);
  if (decoder->config.routed[prefill->layer]) {
    route_rows(prefill, tile, worker);
    feed_forward(prefill, tile, normed, worker);
  } else {
    norm_rows(prefill, weights->post_norm, tile, normed, decoder->dtype);
    feed_forward(prefill, tile, normed, worker);
    finish_layer(prefill, tile, worker);
  }
}

static void expert_tile(void *context, int64_t task, int worker) {
  struct ommai_prefill *prefill = context;
  ommai_experts_run_tile(prefill->decoder, prefill->layer, &prefill->routing, prefill->first_task + task, prefill->routed_rows,
                         prefill->expert_results, &prefill->scratch[worker].experts, &prefill->tiles, worker);
}

static void combine_tile(void *context, int64_t task, int worker) {
  struct ommai_prefill *prefill = context;
  struct ommai_row_tile tile = ommai_row_tile_at(&prefill->tiles, prefill->first_task + task);
  for (int64_t row = tile.first; row < tile.first + tile.n_rows; row++) {
    ommai_experts_add_row(prefill->decoder, &prefill->routing, row, prefill->expert_results,
                          prefill->residual + row * prefill->decoder->config.hidden_size);
  }
  finish_layer(prefill, tile, worker);
}

static void next_layer(struct ommai_prefill *prefill) {
  const struct ommai_decoder_config *config = &prefill->decoder->config;
  if (prefill->tap) {
    prefill->tap(prefill->tap_context, prefill->layer, prefill->residual, prefill->tiles.n_rows, config->hidden_size);
  }
  prefill->layer++;
  prefill->phase = prefill->layer < config->n_layers ? PHASE_ATTEND : PHASE_DONE;
}

static void next_phase(struct ommai_prefill *prefill) {
  prefill->next_task = 0;
  switch (prefill->phase) {
    case PHASE_ENTER: prefill->phase = PHASE_ATTEND; break;
    case PHASE_ATTEND: prefill->phase = PHASE_LEAVE; break;
    case PHASE_LEAVE:
      if (!prefill->decoder->config.routed[prefill->layer]) {
        next_layer(prefill);
        break;
      }
      prefill->n_expert_tiles = ommai_routing_sort(&prefill->routing, prefill->tiles.n_rows, OMMAI_MAX_TILE_ROWS);
      prefill->phase = PHASE_EXPERTS;
      break;
    case PHASE_EXPERTS: prefill->phase = PHASE_COMBINE; break;
    case PHASE_COMBINE: next_layer(prefill); break;
    case PHASE_DONE: break;
  }
}

static int64_t phase_tasks(const struct ommai_prefill *prefill) {
  if (prefill->phase == PHASE_ATTEND) return ommai_prefill_attention_steps(&prefill->attention);
  return prefill->phase == PHASE_EXPERTS ? prefill->n_expert_tiles : prefill->tiles.n_tiles;
}

enum omma_status ommai_prefill_advance(struct ommai_prefill *prefill, int64_t max_tasks, struct omma_error *error) {
  static const omma_task tasks[] = {
      [PHASE_ENTER] = enter_tile, [PHASE_LEAVE] = leave_tile, [PHASE_EXPERTS] = expert_tile, [PHASE_COMBINE] = combine_tile};
  if (prefill->phase == PHASE_DONE) return OMMA_OK;
  int64_t total = phase_tasks(prefill);
  int64_t count = ommai_min_i64(ommai_max_i64(max_tasks, 1), total - prefill->next_task);
  prefill->first_task = prefill->next_task;
  if (prefill->phase == PHASE_ATTEND) {
    OMMAI_TRY(
        ommai_prefill_attention_run(&prefill->attention, prefill->layer, prefill->first_task, &count, prefill->team, error));
  } else {
    ommai_team_run(prefill->team, count, tasks[prefill->phase], prefill);
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
