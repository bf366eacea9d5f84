/* A map of the pass. n = rows of the chunk; each line in capitals is a phase, cut into tasks.
 *
 *   ommai_prefill_start:  place memory, plan attention, ommai_mrope_angles of all rows
 *   ommai_prefill_advance, ommai_prefill_advance_for:  run_tasks, next_phase until PHASE_DONE:
 *     ENTER      enter_tile: ommai_decoder_embed, or an image's row -> residual [n, hidden]
 *                begin_layer: norm_rows -> normed [n, hidden]
 *     for each layer (next_layer), with its mixer (mixer.h):
 *       QKV      run_part: normed -> projected [n, width of qkv]
 *       FINISH   finish_tile: finish_row: norms and rope -> q [n, q_width], what is kept -> pages
 *       MIX      the mixer's prefill: q, what is kept -> mixed [n, width of o]
 *       PREPARE  prepare_tile: mixed in 8 bits or packed, where o takes that
 *       O        run_part: residual += o(mixed), or -> projected where it is normed first
 *       LEAVE    leave_tile: add_branch, norm_rows -> normed;  MoE layers: route_rows -> slots
 *       dense layers and shared experts:
 *       GATE_UP  run_part: normed -> projected [n, 2 * intermediate]
 *       GATE     gate_tile: ommai_feed_forward_gate -> gated [n, intermediate]
 *       DOWN     run_part: residual += down(gated), or -> projected
 *       MoE layers:
 *       EXPERTS  run_expert_tile: normed rows by expert -> expert_results [slots, hidden]
 *       all layers:
 *       END      end_tile: add_branch, residual += experts' results, deepstack;  begin_layer of the
 *                next layer
 *     In the last layer, rows whose residuals nothing reads are left out once they are mixed: those
 *     that are read stand before the others (gather_read_rows) until the layer ends.
 *     with a draft head, which keeps what its layer sees of each row and the token after it:
 *       JOIN     join_tile: norms of that token's embedding and of the row's state -> mixed
 *       FC       run_part: mixed -> projected [n, hidden]
 *       NORM     norm_draft_tile: projected -> normed;  then QKV and FINISH
 *   ommai_prefill_residual:  a row for ommai_decode_logits
 *
 * Rows that a linear layer takes in 8 bits or packed are prepared where they are made, once for all
 * parts of the layer.
 *
 * Linear layers are cut along their outputs, and long chunks along their rows as well; what is
 * local to a row goes in small tiles. So weights are read once a chunk, and short prompts occupy
 * every core. Larger teams get smaller blocks of rows (linear/row_tiles.h), on which no bits
 * depend. */
#include "language/prefill.h"

#include <string.h>

#include "base/arena.h"
#include "base/checked.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/team.h"
#include "kernels/dtype.h"
#include "language/decoder_sizes.h"
#include "language/experts.h"
#include "language/feed_forward.h"
#include "language/prefill_attention.h"
#include "linear/row_tiles.h"

/* Rows of one task of a linear layer. */
enum { MAX_BLOCK_ROWS = 256, MIN_BLOCK_ROWS = 32 };

enum phase {
  PHASE_ENTER,
  PHASE_QKV,
  PHASE_FINISH,
  PHASE_MIX,
  PHASE_PREPARE,
  PHASE_O,
  PHASE_LEAVE,
  PHASE_GATE_UP,
  PHASE_GATE,
  PHASE_DOWN,
  PHASE_EXPERTS,
  PHASE_END,
  PHASE_JOIN,
  PHASE_FC,
  PHASE_NORM,
  PHASE_DONE
};
_Static_assert(PHASE_DONE == OMMAI_PREFILL_PHASES, "a pace for each phase");

struct ommai_prefill {
  const struct ommai_decoder *decoder;
  const struct ommai_kv_cache *cache;
  struct ommai_chunk_pieces pieces;
  const struct ommai_prompt_row *rows;
  const struct omma_team *team;
  struct ommai_row_tiles tiles; /* of row-local phases */
  /* Of all rows, n rounded up to OMMAI_MAX_TILE_ROWS: */
  float *residual;      /* [hidden] */
  void *normed;         /* dtype [hidden] */
  float *projected;     /* f32 [the widest of qkv, gate with up and what is normed] */
  void *gated;          /* dtype [the widest dense intermediate] */
  void *q;              /* dtype [the widest q] */
  void *mixed;          /* dtype [the widest input of o, and of a draft head's fc] */
  void *prepared;       /* of the rows that the next linear layer takes */
  float *cosine, *sine; /* [rope_dim / 2] */
  int64_t *read_rows;   /* [n_read] rows whose residuals are read after the last layer, rising */
  struct ommai_prefill_mixing mixing[OMMAI_MAX_STATE_GROUPS];
  /* Routed layers: */
  struct ommai_routing routing;
  float *expert_results;                 /* [n * n_chosen, hidden] */
  struct ommai_experts_scratch *workers; /* [n_workers] */

  enum phase phase;
  int64_t layer, next_task, n_expert_tiles, n_read;
  bool gathered;      /* only the rows that are read take part */
  int64_t first_task; /* of the slice in progress */
  ommai_layer_observer observer;
  void *observer_context;
};

/* ---- memory ---- */

/* A worker's, for the tiles of an expert, and for the router's logits, which are in `projected`. */
static struct ommai_experts_scratch place_worker(const struct ommai_decoder *decoder, struct ommai_arena *arena) {
  const struct ommai_experts_config *experts = &decoder->config.experts;
  size_t tile = OMMAI_MAX_TILE_ROWS, hidden = (size_t)decoder->config.hidden_size, element = ommai_dtype_size(decoder->dtype);
  size_t projected = (size_t)ommai_max_i64(2 * experts->intermediate_size, ommai_router_outputs(&experts->router));
  return (struct ommai_experts_scratch){
      .gathered = ommai_arena_take(arena, tile * hidden, element),
      .projected = ommai_arena_take(arena, tile * projected, sizeof(float)),
      .gated = ommai_arena_take(arena, tile * (size_t)experts->intermediate_size, element),
  };
}

static void place_experts(const struct ommai_decoder *decoder, int64_t n_rows, int n_workers, struct ommai_arena *arena,
                          struct ommai_prefill *prefill) {
  const struct ommai_router_config *router = &decoder->config.experts.router;
  ommai_routing_place(&prefill->routing, router, n_rows, arena);
  prefill->expert_results =
      ommai_arena_take(arena, (size_t)(n_rows * router->n_chosen * decoder->config.hidden_size), sizeof(float));
  prefill->workers = ommai_arena_take(arena, (size_t)n_workers, sizeof *prefill->workers);
  for (int worker = 0; worker < n_workers; worker++) {
    struct ommai_experts_scratch one = place_worker(decoder, arena);
    if (prefill->workers) prefill->workers[worker] = one;
  }
}

static struct ommai_chunk_pieces place_pieces(int64_t n, struct ommai_arena *arena) {
  return (struct ommai_chunk_pieces){.n = n,
                                     .borders = ommai_arena_take(arena, (size_t)n + 1, sizeof(int64_t)),
                                     .firsts = ommai_arena_take(arena, (size_t)n, sizeof(int64_t)),
                                     .pages = ommai_arena_take(arena, (size_t)n, sizeof(struct ommai_state_pages)),
                                     .next = ommai_arena_take(arena, (size_t)n, sizeof(struct ommai_prompt_row)),
                                     .dropped = ommai_arena_take(arena, (size_t)n, sizeof(bool))};
}

static struct ommai_prefill *place(const struct ommai_decoder *decoder, int64_t n_rows, int64_t n_pieces, int n_workers,
                                   struct ommai_arena *arena) {
  const struct ommai_decoder_config *config = &decoder->config;
  size_t rows = (size_t)ommai_round_up(n_rows, OMMAI_MAX_TILE_ROWS), element = ommai_dtype_size(decoder->dtype);
  size_t hidden = (size_t)config->hidden_size, pairs = (size_t)ommai_decoder_rope_dim(config) / 2;
  size_t intermediate = (size_t)ommai_decoder_max_dense_size(config);
  const struct ommai_decoder_widths widths = ommai_decoder_max_widths(config);
  size_t projected = (size_t)ommai_max_i64(widths.projected, 2 * (int64_t)intermediate);
  size_t mixed = (size_t)ommai_max_i64(widths.mixed, config->n_draft_layers ? 2 * (int64_t)hidden : 0);
  struct ommai_prefill *prefill = ommai_arena_take(arena, 1, sizeof *prefill);
  struct ommai_prefill placed = {
      .pieces = place_pieces(n_pieces, arena),
      .residual = ommai_arena_take(arena, rows * hidden, sizeof(float)),
      .normed = ommai_arena_take(arena, rows * hidden, element),
      .projected = ommai_arena_take(arena, rows * projected, sizeof(float)),
      .gated = ommai_arena_take(arena, rows * intermediate, element),
      .q = ommai_arena_take(arena, rows * (size_t)widths.q, element),
      .mixed = ommai_arena_take(arena, rows * mixed, element),
      .prepared = ommai_arena_take(arena, rows, decoder->prepared_row_bytes),
      .cosine = ommai_arena_take(arena, rows * pairs, sizeof(float)),
      .sine = ommai_arena_take(arena, rows * pairs, sizeof(float)),
      .read_rows = ommai_arena_take(arena, (size_t)n_rows, sizeof(int64_t)),
  };
  if (config->experts.router.n_experts) place_experts(decoder, n_rows, n_workers, arena, &placed);
  if (prefill) *prefill = placed;
  return prefill;
}

size_t ommai_prefill_workspace_size(const struct ommai_decoder *decoder, int64_t max_rows, int64_t max_pieces,
                                    int64_t max_context, int n_workers) {
  const struct ommai_prefill_limits limits = {max_rows, max_pieces, max_context};
  if (max_rows < 1 || max_rows > max_context || max_context > OMMA_ATTENTION_MAX_TOKENS / 2 || n_workers < 1) return 0;
  if (max_pieces < 1 || max_pieces > OMMAI_PREFILL_MAX_PIECES) return 0;
  struct ommai_state_layout layout;
  struct ommai_arena arena;
  ommai_arena_measure(&arena);
  place(decoder, max_rows, max_pieces, n_workers, &arena);
  ommai_state_layout_make(&decoder->config, decoder->kv_type, &layout);
  for (int64_t g = 0; g < layout.n_groups; g++) {
    const struct ommai_layer_group *group = &layout.groups[g];
    size_t size = group->mixer->prefill_size(decoder, group, &limits, n_workers);
    if (!size) return 0;
    ommai_arena_take(&arena, size, 1);
  }
  return arena.failed ? 0 : arena.used;
}

static enum omma_status place_mixing(struct ommai_prefill *prefill, int n_workers, struct ommai_arena *arena,
                                     struct omma_error *error) {
  for (int64_t g = 0; g < prefill->cache->layout.n_groups; g++) {
    prefill->mixing[g] = (struct ommai_prefill_mixing){.decoder = prefill->decoder,
                                                       .cache = prefill->cache,
                                                       .group = g,
                                                       .pieces = &prefill->pieces,
                                                       .q = prefill->q,
                                                       .projected = prefill->projected,
                                                       .out = prefill->mixed};
    OMMAI_TRY(prefill->cache->layout.groups[g].mixer->place_prefill(&prefill->mixing[g], n_workers, arena, error));
  }
  return OMMA_OK;
}

static void set_pieces(const struct ommai_prefill_piece *pieces, struct ommai_chunk_pieces *out) {
  out->borders[0] = 0;
  for (int64_t i = 0; i < out->n; i++) {
    out->borders[i + 1] = out->borders[i] + pieces[i].n_rows;
    out->firsts[i] = pieces[i].first;
    out->pages[i] = pieces[i].pages;
    out->next[i] = pieces[i].next;
    out->dropped[i] = false;
  }
}

static void list_read_rows(struct ommai_prefill *prefill, const struct ommai_prefill_piece *pieces) {
  for (int64_t i = 0; i < prefill->pieces.n; i++) {
    for (int64_t row = pieces[i].first_read; row < pieces[i].n_rows; row++) {
      prefill->read_rows[prefill->n_read++] = prefill->pieces.borders[i] + row;
    }
  }
}

enum omma_status ommai_prefill_start(const struct ommai_decoder *decoder, const struct ommai_kv_cache *cache,
                                     const struct ommai_prefill_piece *pieces, int64_t n_pieces,
                                     const struct ommai_prompt_row *rows, void *workspace, size_t workspace_size,
                                     const struct omma_team *team, struct ommai_prefill **out, struct omma_error *error) {
  int n_workers = team ? team->n_workers : 1;
  int64_t n_rows = 0;
  struct ommai_arena arena;
  for (int64_t i = 0; i < n_pieces; i++) n_rows += pieces[i].n_rows;
  ommai_arena_init(&arena, workspace, workspace_size);
  struct ommai_prefill *prefill = place(decoder, n_rows, n_pieces, n_workers, &arena);
  if (arena.failed) return ommai_fail_memory(error, "prefill workspace", arena.used);
  set_pieces(pieces, &prefill->pieces);
  list_read_rows(prefill, pieces);
  prefill->decoder = decoder;
  prefill->cache = cache;
  prefill->rows = rows;
  prefill->team = team;
  ommai_row_tiles_init_small(&prefill->tiles, n_rows, n_workers);
  OMMAI_TRY(place_mixing(prefill, n_workers, &arena, error));
  int64_t pairs = decoder->mrope.n_pairs;
  for (int64_t row = 0; row < n_rows; row++) {
    ommai_mrope_angles(&decoder->mrope, rows[row].position, prefill->cosine + row * pairs, prefill->sine + row * pairs);
  }
  *out = prefill;
  return OMMA_OK;
}

void ommai_prefill_drop(struct ommai_prefill *prefill, int64_t piece) {
  prefill->pieces.dropped[piece] = true;
  prefill->pieces.next[piece] = (struct ommai_prompt_row){.token = -1};
}

void ommai_prefill_set_observer(struct ommai_prefill *prefill, ommai_layer_observer observer, void *context) {
  prefill->observer = observer;
  prefill->observer_context = context;
}

/* ---- row-local phases ---- */

/* Of the present layer. */
static const struct ommai_layer_config *layer_config(const struct ommai_prefill *prefill) {
  return &prefill->decoder->config.layers[prefill->layer];
}

/* The chunk's rows of x for a layer. */
static struct ommai_linear_rows rows_for(const struct ommai_prefill *prefill, const struct ommai_linear *linear,
                                         const void *x) {
  return ommai_linear_rows_place(linear, x, ommai_linear_n_in(linear), prefill->tiles.n_rows, prefill->prepared);
}

static void prepare_tile(const struct ommai_prefill *prefill, const struct ommai_linear *linear, const void *x,
                         struct ommai_row_tile tile) {
  const struct ommai_linear_rows rows = rows_for(prefill, linear, x);
  ommai_linear_prepare_rows(linear, &rows, tile.first, tile.n_rows);
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

static void *normed_rows(const struct ommai_prefill *prefill, struct ommai_row_tile tile) {
  return ommai_element(prefill->normed, tile.first * prefill->decoder->config.hidden_size, prefill->decoder->dtype);
}

static void begin_layer(const struct ommai_prefill *prefill, struct ommai_row_tile tile, int64_t layer) {
  const struct ommai_decoder_layer *weights = &prefill->decoder->layers[layer];
  norm_rows(prefill, weights->input_norm, tile, normed_rows(prefill, tile), prefill->decoder->dtype);
  prepare_tile(prefill, weights->qkv.linear, prefill->normed, tile);
}

static void enter_row(const struct ommai_prefill *prefill, const struct ommai_prompt_row *row, float *to) {
  if (row->image) {
    memcpy(to, row->image, (size_t)prefill->decoder->config.hidden_size * sizeof(float));
  } else {
    ommai_decoder_embed(prefill->decoder, row->token, to);
  }
}

static void enter_tile(const struct ommai_prefill *prefill, struct ommai_row_tile tile) {
  int64_t hidden = prefill->decoder->config.hidden_size;
  for (int64_t row = tile.first; row < tile.first + tile.n_rows; row++) {
    enter_row(prefill, &prefill->rows[row], prefill->residual + row * hidden);
  }
  begin_layer(prefill, tile, 0);
}

static bool in_draft_head(const struct ommai_prefill *prefill) { return prefill->layer == prefill->decoder->config.n_layers; }

/* Whether the draft head has nothing to keep of a row: the token after it is not there yet. */
static bool lacks_next(const struct ommai_prefill *prefill, int64_t piece, int64_t at) {
  return in_draft_head(prefill) && at + 1 == prefill->pieces.borders[piece + 1] && prefill->pieces.next[piece].token < 0;
}

/* A row of a piece that was dropped has no place for what is kept; its q is a number. */
static void finish_row(const struct ommai_prefill *prefill, int64_t piece, int64_t at) {
  const struct ommai_decoder *decoder = prefill->decoder;
  const struct ommai_chunk_pieces *pieces = &prefill->pieces;
  const struct ommai_mixer *mixer = layer_config(prefill)->mixer;
  const struct ommai_mixer_shape shape = mixer->shape(&decoder->config);
  int64_t pairs = decoder->mrope.n_pairs;
  void *q = ommai_element(prefill->q, at * shape.q_width, decoder->dtype);
  if (pieces->dropped[piece] || lacks_next(prefill, piece, at)) {
    memset(q, 0, (size_t)shape.q_width * ommai_dtype_size(decoder->dtype));
    return;
  }
  const int32_t *pages = pieces->pages[piece].of_group[prefill->cache->layout.group[prefill->layer]];
  int64_t position = pieces->firsts[piece] + at - pieces->borders[piece];
  int64_t place = ommai_kv_position_offset(prefill->cache, prefill->layer, pages, position);
  mixer->finish_row(decoder, prefill->cache, prefill->layer, prefill->projected + at * shape.projected,
                    prefill->cosine + at * pairs, prefill->sine + at * pairs, q, place);
}

static void finish_tile(const struct ommai_prefill *prefill, struct ommai_row_tile tile) {
  int64_t piece = 0;
  for (int64_t at = tile.first; at < tile.first + tile.n_rows; at++) {
    while (at >= prefill->pieces.borders[piece + 1]) piece++;
    finish_row(prefill, piece, at);
  }
}

/* Sends a tile's rows to their experts. The router sees the norm's f32 values, which lie where the
 * experts' results will, the layers after it the rounded ones. */
static void route_rows(struct ommai_prefill *prefill, struct ommai_row_tile tile, int worker) {
  const struct ommai_decoder *decoder = prefill->decoder;
  const struct ommai_decoder_layer *weights = &decoder->layers[prefill->layer];
  int64_t hidden = decoder->config.hidden_size;
  float *unrounded = prefill->expert_results + tile.first * hidden, *logits = prefill->workers[worker].projected;
  norm_rows(prefill, weights->post_norm, tile, unrounded, OMMA_F32);
  decoder->ops->convert(unrounded, tile.n_rows * hidden, normed_rows(prefill, tile), decoder->dtype);
  ommai_row_tiles_apply(&prefill->tiles, weights->router.op, unrounded, logits, tile.n_rows, worker);
  ommai_experts_choose(decoder, prefill->layer, logits, tile.first, tile.n_rows, &prefill->routing);
}

/* Adds what o or down left in `projected` to the residual, where it goes through a norm. */
static void add_branch(const struct ommai_prefill *prefill, struct ommai_row_tile tile, const float *norm) {
  int64_t hidden = prefill->decoder->config.hidden_size;
  for (int64_t row = tile.first; norm && row < tile.first + tile.n_rows; row++) {
    ommai_decoder_add_normed(prefill->decoder, norm, prefill->projected + row * hidden, prefill->residual + row * hidden);
  }
}

static void leave_tile(struct ommai_prefill *prefill, struct ommai_row_tile tile, int worker) {
  const struct ommai_decoder *decoder = prefill->decoder;
  const struct ommai_decoder_layer *weights = &decoder->layers[prefill->layer];
  add_branch(prefill, tile, weights->mixed_norm);
  if (layer_config(prefill)->ffn->routed) {
    route_rows(prefill, tile, worker);
  } else {
    norm_rows(prefill, weights->post_norm, tile, normed_rows(prefill, tile), decoder->dtype);
  }
  if (ommai_decoder_dense_size(&decoder->config, prefill->layer) > 0) {
    prepare_tile(prefill, weights->dense.gate_up.linear, prefill->normed, tile);
  }
}

static void gate_tile(const struct ommai_prefill *prefill, struct ommai_row_tile tile) {
  const struct ommai_decoder *decoder = prefill->decoder;
  int64_t intermediate = ommai_decoder_dense_size(&decoder->config, prefill->layer);
  const float *shared = prefill->routing.shared ? prefill->routing.shared + tile.first : NULL;
  ommai_feed_forward_gate(decoder, prefill->projected + tile.first * 2 * intermediate, tile.n_rows, intermediate, shared,
                          ommai_element(prefill->gated, tile.first * intermediate, decoder->dtype));
  prepare_tile(prefill, decoder->layers[prefill->layer].dense.down.linear, prefill->gated, tile);
}

/* What the experts made, the tower's addition, the next layer's norm. */
static void end_tile(const struct ommai_prefill *prefill, struct ommai_row_tile tile) {
  const struct ommai_decoder *decoder = prefill->decoder;
  int64_t hidden = decoder->config.hidden_size, layer = prefill->layer;
  add_branch(prefill, tile, decoder->layers[layer].ffn_norm);
  for (int64_t row = tile.first; row < tile.first + tile.n_rows; row++) {
    const struct ommai_prompt_row *source = &prefill->rows[row];
    float *residual = prefill->residual + row * hidden;
    if (layer_config(prefill)->ffn->routed) {
      ommai_experts_add_row(decoder, &prefill->routing, row, prefill->expert_results, residual);
    }
    if (layer < decoder->config.n_deepstack && source->image) {
      decoder->ops->add(residual, source->image + (1 + layer) * source->image_stride, hidden);
    }
  }
  if (layer + 1 < decoder->config.n_layers) begin_layer(prefill, tile, layer + 1);
}

/* ---- the draft head ---- */

static int64_t piece_of(const struct ommai_prefill *prefill, int64_t row) {
  int64_t piece = 0;
  while (row >= prefill->pieces.borders[piece + 1]) piece++;
  return piece;
}

/* `projected` serves for a row's embedding and state. */
static void join_tile(const struct ommai_prefill *prefill, struct ommai_row_tile tile) {
  const struct ommai_decoder *decoder = prefill->decoder;
  int64_t hidden = decoder->config.hidden_size, piece = piece_of(prefill, tile.first);
  float eps = decoder->config.norm_eps;
  for (int64_t row = tile.first; row < tile.first + tile.n_rows; row++) {
    while (row >= prefill->pieces.borders[piece + 1]) piece++;
    bool last = row + 1 == prefill->pieces.borders[piece + 1];
    const struct ommai_prompt_row *next = last ? &prefill->pieces.next[piece] : &prefill->rows[row + 1];
    if (last && lacks_next(prefill, piece, row)) next = &prefill->rows[row];
    float *scratch = prefill->projected + row * hidden;
    void *out = ommai_element(prefill->mixed, row * 2 * hidden, decoder->dtype);
    enter_row(prefill, next, scratch);
    decoder->ops->rms_norm(scratch, decoder->draft.embedding_norm, eps, hidden, out, decoder->dtype);
    decoder->ops->rms_norm(prefill->residual + row * hidden, decoder->final_norm, eps, hidden, scratch, OMMA_F32);
    decoder->ops->rms_norm(scratch, decoder->draft.state_norm, eps, hidden, ommai_element(out, hidden, decoder->dtype),
                           decoder->dtype);
  }
  prepare_tile(prefill, decoder->draft.fc.linear, prefill->mixed, tile);
}

static void norm_draft_tile(const struct ommai_prefill *prefill, struct ommai_row_tile tile) {
  const struct ommai_decoder *decoder = prefill->decoder;
  const struct ommai_decoder_layer *weights = &decoder->layers[decoder->config.n_layers];
  int64_t hidden = decoder->config.hidden_size;
  for (int64_t row = tile.first; row < tile.first + tile.n_rows; row++) {
    decoder->ops->rms_norm(prefill->projected + row * hidden, weights->input_norm, decoder->config.norm_eps, hidden,
                           ommai_element(prefill->normed, row * hidden, decoder->dtype), decoder->dtype);
  }
  prepare_tile(prefill, weights->qkv.linear, prefill->normed, tile);
}

static void run_tile(void *context, int64_t task, int worker) {
  struct ommai_prefill *prefill = context;
  struct ommai_row_tile tile = ommai_row_tile_at(&prefill->tiles, prefill->first_task + task);
  switch (prefill->phase) {
    case PHASE_ENTER: enter_tile(prefill, tile); break;
    case PHASE_FINISH: finish_tile(prefill, tile); break;
    case PHASE_PREPARE: prepare_tile(prefill, prefill->decoder->layers[prefill->layer].o.linear, prefill->mixed, tile); break;
    case PHASE_LEAVE: leave_tile(prefill, tile, worker); break;
    case PHASE_GATE: gate_tile(prefill, tile); break;
    case PHASE_JOIN: join_tile(prefill, tile); break;
    case PHASE_NORM: norm_draft_tile(prefill, tile); break;
    default: end_tile(prefill, tile);
  }
}

static void run_expert_tile(void *context, int64_t task, int worker) {
  struct ommai_prefill *prefill = context;
  ommai_experts_run_tile(prefill->decoder, prefill->layer, &prefill->routing, prefill->first_task + task, prefill->normed,
                         prefill->expert_results, &prefill->workers[worker], &prefill->tiles, worker);
}

/* ---- linear layers ---- */

struct layer_call {
  const struct ommai_linear *linear;
  const struct ommai_linear_parts *parts;
  const void *x; /* of the compute type */
  float *y;
};

/* The layer of the present phase; parts NULL in other phases. */
static struct layer_call layer_call(const struct ommai_prefill *prefill) {
  const struct ommai_decoder_layer *weights = &prefill->decoder->layers[prefill->layer];
  const struct ommai_decoder_linear *qkv = &weights->qkv, *o = &weights->o;
  const struct ommai_decoder_linear *gate_up = &weights->dense.gate_up, *down = &weights->dense.down;
  const struct ommai_decoder_linear *fc = &prefill->decoder->draft.fc;
  float *branch = prefill->decoder->config.branch_norms ? prefill->projected : prefill->residual;
  switch (prefill->phase) {
    case PHASE_QKV: return (struct layer_call){qkv->linear, qkv->parts, prefill->normed, prefill->projected};
    case PHASE_FC: return (struct layer_call){fc->linear, fc->parts, prefill->mixed, prefill->projected};
    case PHASE_O: return (struct layer_call){o->linear, o->parts, prefill->mixed, branch};
    case PHASE_GATE_UP: return (struct layer_call){gate_up->linear, gate_up->parts, prefill->normed, prefill->projected};
    case PHASE_DOWN: return (struct layer_call){down->linear, down->parts, prefill->gated, branch};
    default: return (struct layer_call){0};
  }
}

static int64_t block_rows(const struct ommai_prefill *prefill, const struct ommai_linear_parts *parts) {
  return ommai_rows_of_task(prefill->tiles.n_rows, ommai_linear_parts_count(parts),
                            prefill->team ? prefill->team->n_workers : 1, MAX_BLOCK_ROWS, MIN_BLOCK_ROWS);
}

static void run_part(void *context, int64_t task, int worker) {
  struct ommai_prefill *prefill = context;
  struct layer_call call = layer_call(prefill);
  int64_t place = prefill->first_task + task, block = block_rows(prefill, call.parts);
  int64_t n_blocks = ommai_div_up(prefill->tiles.n_rows, block), row = place % n_blocks * block;
  int64_t n_rows = ommai_min_i64(block, prefill->tiles.n_rows - row);
  const struct ommai_linear_rows rows = rows_for(prefill, call.linear, call.x);
  float *y = call.y + row * ommai_linear_n_out(call.linear);
  struct omma_error error;
  if (ommai_linear_parts_run(call.parts, place / n_blocks, &rows, row, y, n_rows, worker, &error) != OMMA_OK) {
    ommai_first_error_keep(&prefill->tiles.failure, &error);
  }
}

/* ---- rows that nothing reads ---- */

static int64_t n_chunk_rows(const struct ommai_prefill *prefill) { return prefill->pieces.borders[prefill->pieces.n]; }

/* Whether rows can be left out of the rest of this layer: after the last one, nothing but the
 * residuals that are read is needed. */
static bool leaves_rows_out(const struct ommai_prefill *prefill) {
  const struct ommai_decoder_config *config = &prefill->decoder->config;
  bool is_last = prefill->layer + 1 == config->n_layers && config->n_draft_layers == 0;
  return is_last && prefill->layer >= config->n_deepstack && prefill->n_read < n_chunk_rows(prefill);
}

/* Row read_rows[i] of what the rest of the layer takes becomes row i, which is none after it. */
static void gather_read_rows(struct ommai_prefill *prefill) {
  const struct ommai_decoder *decoder = prefill->decoder;
  size_t residual = (size_t)decoder->config.hidden_size * sizeof(float);
  size_t mixed = (size_t)ommai_linear_n_in(decoder->layers[prefill->layer].o.linear) * ommai_dtype_size(decoder->dtype);
  for (int64_t i = 0; i < prefill->n_read; i++) {
    size_t to = (size_t)i, from = (size_t)prefill->read_rows[i];
    if (from == to) continue;
    memcpy((char *)prefill->residual + to * residual, (const char *)prefill->residual + from * residual, residual);
    memcpy((char *)prefill->mixed + to * mixed, (const char *)prefill->mixed + from * mixed, mixed);
  }
  ommai_row_tiles_init_small(&prefill->tiles, prefill->n_read, prefill->team ? prefill->team->n_workers : 1);
  prefill->gathered = true;
}

/* Residuals go back to where they are read. */
static void scatter_read_rows(struct ommai_prefill *prefill) {
  int64_t hidden = prefill->decoder->config.hidden_size;
  for (int64_t i = prefill->n_read - 1; i >= 0 && prefill->read_rows[i] != i; i--) {
    memcpy(prefill->residual + prefill->read_rows[i] * hidden, prefill->residual + i * hidden, (size_t)hidden * sizeof(float));
  }
}

/* ---- phases ---- */

static void next_layer(struct ommai_prefill *prefill) {
  const struct ommai_decoder_config *config = &prefill->decoder->config;
  if (prefill->gathered) scatter_read_rows(prefill);
  if (prefill->observer) {
    prefill->observer(prefill->observer_context, prefill->layer, prefill->residual, n_chunk_rows(prefill), config->hidden_size);
  }
  prefill->layer++;
  prefill->phase = prefill->layer < config->n_layers ? PHASE_QKV : config->n_draft_layers ? PHASE_JOIN : PHASE_DONE;
}

/* Of a prompt's rows, a draft head needs what it keeps and nothing more. */
static enum phase next_draft_phase(enum phase phase) {
  switch (phase) {
    case PHASE_NORM: return PHASE_QKV;
    case PHASE_FINISH: return PHASE_DONE;
    default: return phase + 1;
  }
}

/* From one phase to the next that has anything to do in this layer. */
static void next_phase(struct ommai_prefill *prefill) {
  prefill->next_task = 0;
  if (in_draft_head(prefill)) {
    prefill->phase = next_draft_phase(prefill->phase);
    return;
  }
  const struct ommai_decoder_config *config = &prefill->decoder->config;
  bool dense = ommai_decoder_dense_size(config, prefill->layer) > 0, routed = layer_config(prefill)->ffn->routed;
  /* what is kept is there before rows are mixed, or after */
  bool keeps_first = layer_config(prefill)->mixer->finish_row != NULL;
  bool is_over = leaves_rows_out(prefill) && prefill->n_read == 0 && prefill->phase == (keeps_first ? PHASE_FINISH : PHASE_MIX);
  if (prefill->phase == PHASE_END || is_over) {
    next_layer(prefill);
    return;
  }
  if (prefill->phase == PHASE_MIX && leaves_rows_out(prefill)) gather_read_rows(prefill);
  prefill->phase++;
  if (prefill->phase == PHASE_FINISH && !layer_config(prefill)->mixer->finish_row) prefill->phase = PHASE_MIX;
  if (prefill->phase == PHASE_PREPARE && !ommai_linear_prepares_rows(prefill->decoder->layers[prefill->layer].o.linear)) {
    prefill->phase = PHASE_O;
  }
  if (prefill->phase == PHASE_GATE_UP && !dense) prefill->phase = PHASE_EXPERTS;
  if (prefill->phase == PHASE_EXPERTS && !routed) prefill->phase = PHASE_END;
  if (prefill->phase == PHASE_EXPERTS) {
    prefill->n_expert_tiles = ommai_routing_sort(&prefill->routing, prefill->tiles.n_rows, OMMAI_MAX_TILE_ROWS);
  }
}

static const struct ommai_prefill_mixing *mixing(const struct ommai_prefill *prefill) {
  return &prefill->mixing[prefill->cache->layout.group[prefill->layer]];
}

/* How many tasks the present phase has, and what a task is; NULL for the mixer, whose steps have a
 * team of their own. */
static int64_t phase_tasks(const struct ommai_prefill *prefill, omma_task *task) {
  struct layer_call call = layer_call(prefill);
  *task = NULL;
  if (prefill->phase == PHASE_MIX) return mixing(prefill)->n_steps;
  *task = prefill->phase == PHASE_EXPERTS ? run_expert_tile : call.parts ? run_part : run_tile;
  if (prefill->phase == PHASE_EXPERTS) return prefill->n_expert_tiles;
  if (!call.parts) return prefill->tiles.n_tiles;
  return ommai_linear_parts_count(call.parts) * ommai_div_up(prefill->tiles.n_rows, block_rows(prefill, call.parts));
}

/* At most max_tasks of the present phase; *count: how many. */
static enum omma_status run_tasks(struct ommai_prefill *prefill, int64_t max_tasks, int64_t *count, struct omma_error *error) {
  omma_task task;
  int64_t total = phase_tasks(prefill, &task);
  *count = ommai_min_i64(ommai_max_i64(max_tasks, 1), total - prefill->next_task);
  prefill->first_task = prefill->next_task;
  if (task) {
    ommai_team_run(prefill->team, *count, task, prefill);
    OMMAI_TRY(ommai_first_error_result(&prefill->tiles.failure, "decoder", error));
  } else {
    OMMAI_TRY(layer_config(prefill)->mixer->prefill(mixing(prefill), prefill->layer, prefill->first_task, count, prefill->team,
                                                    error));
  }
  prefill->next_task += *count;
  if (prefill->next_task == total) next_phase(prefill);
  return OMMA_OK;
}

enum omma_status ommai_prefill_advance(struct ommai_prefill *prefill, int64_t max_tasks, struct omma_error *error) {
  int64_t count;
  return prefill->phase == PHASE_DONE ? OMMA_OK : run_tasks(prefill, max_tasks, &count, error);
}

enum omma_status ommai_prefill_advance_for(struct ommai_prefill *prefill, int64_t ns, struct ommai_prefill_pace *paces,
                                           struct omma_error *error) {
  int64_t n_workers = prefill->team ? prefill->team->n_workers : 1, start = ommai_clock_ns(), now = start, count;
  while (prefill->phase != PHASE_DONE) {
    struct ommai_pace *pace = &paces->phases[prefill->phase];
    double left = (double)(ns - (now - start));
    if (now > start && (left <= 0 || left < 0.5 * pace->round_ns)) break;
    bool gathered = prefill->gathered;
    OMMAI_TRY(run_tasks(prefill, ommai_pace_tasks(pace, (int64_t)left, n_workers), &count, error));
    int64_t before = now;
    now = ommai_clock_ns();
    /* the few rows that are left say nothing of what the next layers' tasks take */
    if (!gathered) ommai_pace_record(pace, now - before, count, n_workers);
  }
  return OMMA_OK;
}

bool ommai_prefill_done(const struct ommai_prefill *prefill) { return prefill->phase == PHASE_DONE; }

const float *ommai_prefill_residual(const struct ommai_prefill *prefill, int64_t row) {
  return prefill->residual + row * prefill->decoder->config.hidden_size;
}
