#include "language/decode.h"

#include <string.h>

#include "base/arena.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/team.h"
#include "base/team_streams.h"
#include "kernels/dtype.h"
#include "language/decode_attention.h"
#include "language/decoder_sizes.h"
#include "language/experts.h"
#include "language/feed_forward.h"
#include "language/mixer.h"

/* Values of a step's rows that are brought to 8 bits, and that are normed or added up, sooner than
 * a team has begun. */
enum { PREPARE_ALONE = 16 * 1024, NORM_ALONE = 64 * 1024 };

struct step {
  const struct ommai_decoder *decoder;
  const struct ommai_kv_cache *cache;
  const struct ommai_decode_row *rows;
  int64_t n_rows;
  const struct omma_team *team;
  float *residual;      /* [n, hidden] */
  void *normed;         /* dtype [n, hidden] */
  float *projected;     /* [n, the widest of what lies in it: qkv, gate with up, ..] */
  void *q, *mixed;      /* dtype [n, the widest q], [n, the widest input of o] */
  void *gated;          /* dtype [n, the widest dense intermediate] */
  float *cosine, *sine; /* [n, rope_dim / 2] */
  void *prepared;       /* rows of x for the layer at hand */
  float *states;        /* [n, hidden]; where they are projected */
  void *joined;         /* dtype [n, 2 hidden]; of a draft head */
  struct ommai_decode_mixing mixing[OMMAI_MAX_STATE_GROUPS];
  /* Routed layers: */
  struct ommai_routing routing;
  float *unrounded;                     /* [n, hidden] */
  float *router_logits;                 /* [n, ommai_router_outputs] */
  struct ommai_experts_scratch experts; /* [slots] rows */
  float *expert_results;                /* [slots, hidden] */
};

static void place_experts(const struct ommai_decoder *decoder, size_t n, struct ommai_arena *arena, struct step *step) {
  const struct ommai_decoder_config *config = &decoder->config;
  const struct ommai_router_config *router = &config->experts.router;
  size_t slots = n * (size_t)router->n_chosen, element = ommai_dtype_size(decoder->dtype);
  size_t hidden = (size_t)config->hidden_size, intermediate = (size_t)config->experts.intermediate_size;
  ommai_routing_place(&step->routing, router, (int64_t)n, arena);
  step->unrounded = ommai_arena_take(arena, n * hidden, sizeof(float));
  step->router_logits = ommai_arena_take(arena, n * (size_t)ommai_router_outputs(router), sizeof(float));
  step->experts.gathered = ommai_arena_take(arena, slots * hidden, element);
  step->experts.projected = ommai_arena_take(arena, slots * 2 * intermediate, sizeof(float));
  step->experts.gated = ommai_arena_take(arena, slots * intermediate, element);
  step->experts.prepared = ommai_arena_take(arena, slots, decoder->gemv_row_bytes);
  step->expert_results = ommai_arena_take(arena, slots * hidden, sizeof(float));
}

static void place(const struct ommai_decoder *decoder, int64_t n_rows, struct ommai_arena *arena, struct step *step) {
  const struct ommai_decoder_config *config = &decoder->config;
  const struct ommai_decoder_widths widths = ommai_decoder_max_widths(config);
  size_t n = (size_t)n_rows, element = ommai_dtype_size(decoder->dtype), dense = (size_t)ommai_decoder_max_dense_size(config);
  size_t pairs = (size_t)ommai_decoder_rope_dim(config) / 2, hidden = (size_t)config->hidden_size;
  size_t projected = (size_t)ommai_max_i64(ommai_max_i64(widths.projected, widths.scratch), 2 * (int64_t)dense);
  /* first: ommai_decode_residual */
  step->residual = ommai_arena_take(arena, n * hidden, sizeof(float));
  step->normed = ommai_arena_take(arena, n * hidden, element);
  step->projected = ommai_arena_take(arena, n * projected, sizeof(float));
  step->q = ommai_arena_take(arena, n * (size_t)widths.q, element);
  step->mixed = ommai_arena_take(arena, n * (size_t)widths.mixed, element);
  step->gated = ommai_arena_take(arena, n * dense, element);
  step->cosine = ommai_arena_take(arena, n * pairs, sizeof(float));
  step->sine = ommai_arena_take(arena, n * pairs, sizeof(float));
  step->prepared = ommai_arena_take(arena, n, decoder->gemv_row_bytes);
  if (config->projected_state) step->states = ommai_arena_take(arena, n * hidden, sizeof(float));
  if (config->n_draft_layers) step->joined = ommai_arena_take(arena, n * 2 * hidden, element);
  if (config->experts.router.n_experts) place_experts(decoder, n, arena, step);
}

size_t ommai_decode_workspace_size(const struct ommai_decoder *decoder, int64_t max_rows, int64_t max_context, int n_workers) {
  if (max_rows < 1 || max_rows > OMMAI_DECODE_MAX_ROWS || max_context < 1 || max_context > OMMA_ATTENTION_MAX_TOKENS / max_rows)
    return 0;
  struct ommai_state_layout layout;
  struct ommai_arena arena;
  ommai_arena_measure(&arena);
  struct step step = {0};
  place(decoder, max_rows, &arena, &step);
  ommai_state_layout_make(&decoder->config, decoder->kv_type, &layout);
  for (int64_t g = 0; g < layout.n_groups; g++) {
    const struct ommai_layer_group *group = &layout.groups[g];
    size_t size = group->mixer->decode_size(decoder, group, max_rows, max_context, n_workers);
    if (!size) return 0;
    ommai_arena_take(&arena, size, 1);
  }
  return arena.failed ? 0 : arena.used;
}

/* A phase of a step's rows, each of n values: on the team where that is worth it. */
static void each_row(const struct step *step, int64_t n, int64_t alone, omma_task task, void *context) {
  bool shared = step->n_rows > 1 && step->n_rows * n >= alone;
  ommai_team_run(shared ? step->team : NULL, step->n_rows, task, context);
}

static void norm_row(const struct step *step, int64_t row, const float *weight, void *out, enum omma_dtype type) {
  const struct ommai_decoder *decoder = step->decoder;
  int64_t hidden = decoder->config.hidden_size;
  decoder->ops->rms_norm(step->residual + row * hidden, weight, decoder->config.norm_eps, hidden,
                         ommai_element(out, row * hidden, type), type);
}

static const float *shared_scales(const struct step *step, int64_t row) {
  return step->routing.shared ? step->routing.shared + row : NULL;
}

/* act(gate) * up of one row. */
static void gate_row(const struct step *step, int64_t layer, int64_t row) {
  int64_t intermediate = ommai_decoder_dense_size(&step->decoder->config, layer);
  ommai_feed_forward_gate(step->decoder, step->projected + row * 2 * intermediate, 1, intermediate, shared_scales(step, row),
                          ommai_element(step->gated, row * intermediate, step->decoder->dtype));
}

/* One linear layer over a few rows, its columns shared out in panels. */
struct gemv {
  const struct step *step;
  const struct ommai_linear *linear;
  const float *norm; /* of the residual, which gives x; NULL: x is there, or */
  bool gates;        /* comes from what gate and up of `layer` have left */
  int64_t layer;
  struct ommai_linear_rows rows;
  float *y;
  int64_t y_stride, panels_per_task;
  bool accumulate;
  int64_t half; /* gate and up: the panels of each */
};

static void prepare_row_task(void *context, int64_t row, int worker) {
  (void)worker;
  const struct gemv *call = context;
  if (call->norm) norm_row(call->step, row, call->norm, call->step->normed, call->step->decoder->dtype);
  if (call->gates) gate_row(call->step, call->layer, row);
  if (ommai_linear_gemv_prepares_rows(call->linear)) ommai_linear_prepare_rows(call->linear, &call->rows, row, 1);
}

static void panels(const struct gemv *call, int64_t first, int64_t count) {
  ommai_linear_few_prepared_rows(call->linear, &call->rows, 0, call->step->n_rows, call->y, call->y_stride, call->accumulate,
                                 first, count);
}

static void gemv_task(void *context, int64_t task, int worker) {
  (void)worker;
  const struct gemv *call = context;
  int64_t first = task * call->panels_per_task;
  panels(call, first, ommai_min_i64(call->panels_per_task, ommai_linear_n_panels(call->linear) - first));
}

static int64_t task_panels(const struct gemv *call, int n_pieces, int64_t n_panels) {
  const struct omma_team *team = call->step->team;
  return ommai_linear_task_panels(call->linear, n_pieces, n_panels, team ? team->n_workers : 1);
}

/* Makes x, as the layer reads it, of what `call` says of it. */
static void begin_gemv(struct gemv *call, const void *x) {
  const struct step *step = call->step;
  int64_t n_in = ommai_linear_n_in(call->linear);
  call->rows = ommai_linear_rows_place(call->linear, x, n_in, step->n_rows, step->prepared);
  call->y_stride = ommai_linear_n_out(call->linear);
  call->panels_per_task = task_panels(call, 1, ommai_linear_n_panels(call->linear));
  bool prepares = ommai_linear_gemv_prepares_rows(call->linear);
  if (call->norm || call->gates || prepares) {
    each_row(step, n_in, prepares || call->gates ? PREPARE_ALONE : NORM_ALONE, prepare_row_task, call);
  }
}

static void run_gemv(struct gemv *call, const void *x) {
  begin_gemv(call, x);
  ommai_team_run_streams(call->step->team, ommai_div_up(ommai_linear_n_panels(call->linear), call->panels_per_task), gemv_task,
                         call);
}

/* y = layer(x), x from the residual through `norm` where there is one. */
static void gemv(const struct step *step, const struct ommai_linear *linear, const float *norm, const void *x, float *y) {
  struct gemv call = {.step = step, .linear = linear, .norm = norm, .y = y};
  run_gemv(&call, x);
}

/* A phase between linear layers, for each_row: the norm's weights, and what else it reads or
 * writes. */
struct norm_rows {
  const struct step *step;
  const float *norm;
  float *states;
};

static void add_normed_task(void *context, int64_t row, int worker) {
  (void)worker;
  const struct norm_rows *call = context;
  const struct step *step = call->step;
  int64_t hidden = step->decoder->config.hidden_size;
  ommai_decoder_add_normed(step->decoder, call->norm, step->projected + row * hidden, step->residual + row * hidden);
}

/* residual += the layer of `call` over x, through `norm` where there is one. What was projected
 * before is overwritten. */
static void add_branch(struct gemv *call, const void *x, const float *norm) {
  const struct step *step = call->step;
  struct norm_rows rows = {.step = step, .norm = norm};
  call->y = norm ? step->projected : step->residual;
  call->accumulate = !norm;
  run_gemv(call, x);
  if (norm) each_row(step, step->decoder->config.hidden_size, NORM_ALONE, add_normed_task, &rows);
}

/* A phase of a layer, for each_row. */
struct layer_rows {
  const struct step *step;
  int64_t layer;
};

/* q, and k and v where the cache keeps them, of one row. */
static void finish_qkv_task(void *context, int64_t row, int worker) {
  (void)worker;
  const struct layer_rows *call = context;
  const struct step *step = call->step;
  const struct ommai_decoder *decoder = step->decoder;
  const struct ommai_mixer *mixer = decoder->config.layers[call->layer].mixer;
  const struct ommai_mixer_shape shape = mixer->shape(&decoder->config);
  const int32_t *pages = step->rows[row].pages.of_group[step->cache->layout.group[call->layer]];
  int64_t place = ommai_kv_position_offset(step->cache, call->layer, pages, step->rows[row].index);
  float *projected = step->projected + row * shape.projected;
  int64_t pairs = decoder->mrope.n_pairs;
  const float *cosine = step->cosine + row * pairs, *sine = step->sine + row * pairs;
  void *q = ommai_element(step->q, row * shape.q_width, decoder->dtype);
  mixer->finish_row(decoder, step->cache, call->layer, projected, cosine, sine, q, place);
}

static void project_qkv(const struct step *step, int64_t layer) {
  const struct ommai_decoder *decoder = step->decoder;
  const struct ommai_decoder_layer *weights = &decoder->layers[layer];
  struct layer_rows rows = {step, layer};
  gemv(step, weights->qkv.linear, weights->input_norm, step->normed, step->projected);
  if (decoder->config.layers[layer].mixer->finish_row) each_row(step, 1, 0, finish_qkv_task, &rows);
}

/* Some panels of the gate and those that stand as far behind its half: then nothing is left to do
 * for their columns. */
static void gate_up_task(void *context, int64_t task, int worker) {
  (void)worker;
  const struct gemv *call = context;
  const struct step *step = call->step;
  int64_t first = task * call->panels_per_task, count = ommai_min_i64(call->panels_per_task, call->half - first);
  panels(call, first, count);
  panels(call, call->half + first, count);
  ommai_feed_forward_gate_columns(step->decoder, step->projected, step->n_rows, call->half * OMMAI_PANEL_COLUMNS,
                                  shared_scales(step, 0), step->gated, first * OMMAI_PANEL_COLUMNS,
                                  count * OMMAI_PANEL_COLUMNS);
}

/* gate x and up x, x from the residual through `norm`, or, without it, step->normed. True where
 * their product is made of them, too: else that is left to who reads it, since rows are brought to
 * 8 bits whole, or a panel has columns of both. */
static bool gate_and_up(const struct step *step, int64_t layer, const float *norm) {
  const struct ommai_decoder_dense *weights = &step->decoder->layers[layer].dense;
  int64_t intermediate = ommai_decoder_dense_size(&step->decoder->config, layer);
  struct gemv call = {.step = step, .linear = weights->gate_up.linear, .norm = norm, .y = step->projected};
  if (intermediate % OMMAI_PANEL_COLUMNS || ommai_linear_gemv_prepares_rows(weights->down.linear)) {
    run_gemv(&call, step->normed);
    return false;
  }
  begin_gemv(&call, step->normed);
  call.layer = layer;
  call.half = intermediate / OMMAI_PANEL_COLUMNS;
  call.panels_per_task = task_panels(&call, 2, call.half);
  ommai_team_run_streams(step->team, ommai_div_up(call.half, call.panels_per_task), gate_up_task, &call);
  return true;
}

/* The MLP that every row takes over the residual through `norm`, or, without it, over
 * step->normed. */
static void feed_forward(const struct step *step, int64_t layer, const float *norm) {
  const struct ommai_decoder *decoder = step->decoder;
  struct gemv down = {.step = step, .linear = decoder->layers[layer].dense.down.linear, .layer = layer};
  if (ommai_decoder_dense_size(&decoder->config, layer) == 0) return;
  down.gates = !gate_and_up(step, layer, norm);
  add_branch(&down, step->gated, decoder->layers[layer].ffn_norm);
}

static void norm_routed_task(void *context, int64_t row, int worker) {
  (void)worker;
  const struct layer_rows *call = context;
  const struct ommai_decoder *decoder = call->step->decoder;
  int64_t hidden = decoder->config.hidden_size;
  norm_row(call->step, row, decoder->layers[call->layer].post_norm, call->step->unrounded, OMMA_F32);
  decoder->ops->convert(call->step->unrounded + row * hidden, hidden,
                        ommai_element(call->step->normed, row * hidden, decoder->dtype), decoder->dtype);
}

static void choose_task(void *context, int64_t row, int worker) {
  (void)worker;
  const struct layer_rows *call = context;
  const struct step *step = call->step;
  const float *logits = step->router_logits + row * ommai_router_outputs(&step->decoder->config.experts.router);
  ommai_experts_choose(step->decoder, call->layer, logits, row, 1, &step->routing);
}

static void add_experts_task(void *context, int64_t row, int worker) {
  (void)worker;
  const struct layer_rows *call = context;
  const struct step *step = call->step;
  ommai_experts_add_row(step->decoder, &step->routing, row, step->expert_results,
                        step->residual + row * step->decoder->config.hidden_size);
}

/* The routed part: the router sees the norm's f32 values; leaves them rounded in step->normed. */
static void run_experts(struct step *step, int64_t layer) {
  const struct ommai_decoder *decoder = step->decoder;
  const struct ommai_decoder_layer *weights = &decoder->layers[layer];
  struct layer_rows rows = {step, layer};
  each_row(step, decoder->config.hidden_size, NORM_ALONE, norm_routed_task, &rows);
  gemv(step, weights->router.linear, NULL, step->unrounded, step->router_logits);
  each_row(step, 1, 0, choose_task, &rows);
  ommai_experts_run_few(decoder, layer, &step->routing, step->n_rows, step->normed, &step->experts, step->expert_results,
                        step->team);
}

static void begin_row_task(void *context, int64_t row, int worker) {
  (void)worker;
  const struct step *step = context;
  const struct ommai_decoder *decoder = step->decoder;
  const struct ommai_decode_row *source = &step->rows[row];
  int64_t pairs = decoder->mrope.n_pairs;
  ommai_decoder_embed(decoder, source->token, step->residual + row * decoder->config.hidden_size);
  ommai_mrope_angles(&decoder->mrope, source->position, step->cosine + row * pairs, step->sine + row * pairs);
}

/* What the draft head begins from: the token's embedding, next to a state. */
static void join_task(void *context, int64_t row, int worker) {
  (void)worker;
  const struct norm_rows *call = context;
  const struct step *step = call->step;
  const struct ommai_decoder *decoder = step->decoder;
  int64_t hidden = decoder->config.hidden_size;
  float eps = decoder->config.norm_eps;
  void *out = ommai_element(step->joined, row * 2 * hidden, decoder->dtype);
  decoder->ops->rms_norm(step->residual + row * hidden, decoder->draft.embedding_norm, eps, hidden, out, decoder->dtype);
  decoder->ops->rms_norm(call->states + row * hidden, decoder->draft.state_norm, eps, hidden,
                         ommai_element(out, hidden, decoder->dtype), decoder->dtype);
}

/* The residual through a norm to where it is wanted in f32. */
static void leave_task(void *context, int64_t row, int worker) {
  (void)worker;
  const struct norm_rows *call = context;
  norm_row(call->step, row, call->norm, call->states, OMMA_F32);
}

static void project_logits(const struct step *step, float *logits) {
  gemv(step, step->decoder->lm_head, step->decoder->final_norm, step->normed, logits);
}

static enum omma_status place_mixing(struct step *step, int64_t group, int n_workers, struct ommai_arena *arena,
                                     struct omma_error *error) {
  step->mixing[group] = (struct ommai_decode_mixing){.decoder = step->decoder,
                                                     .cache = step->cache,
                                                     .group = group,
                                                     .rows = step->rows,
                                                     .n_rows = step->n_rows,
                                                     .q = step->q,
                                                     .projected = step->projected,
                                                     .out = step->mixed};
  return step->cache->layout.groups[group].mixer->place_decode(&step->mixing[group], n_workers, arena, error);
}

static enum omma_status run_layer(struct step *step, int64_t layer, struct omma_error *error) {
  const struct ommai_decoder *decoder = step->decoder;
  const struct ommai_decoder_layer *weights = &decoder->layers[layer];
  project_qkv(step, layer);
  const struct ommai_layer_config *parts = &decoder->config.layers[layer];
  OMMAI_TRY(parts->mixer->decode(&step->mixing[step->cache->layout.group[layer]], layer, step->team, error));
  struct gemv o = {.step = step, .linear = weights->o.linear};
  add_branch(&o, step->mixed, weights->mixed_norm);
  if (!parts->ffn->routed) {
    feed_forward(step, layer, weights->post_norm);
    return OMMA_OK;
  }
  struct layer_rows rows = {step, layer};
  run_experts(step, layer);
  feed_forward(step, layer, NULL);
  each_row(step, decoder->config.hidden_size * decoder->config.experts.router.n_chosen, NORM_ALONE, add_experts_task, &rows);
  return OMMA_OK;
}

enum omma_status ommai_decode_run(const struct ommai_decoder *decoder, const struct ommai_kv_cache *cache,
                                  const struct ommai_decode_row *rows, int64_t n_rows, void *workspace, size_t workspace_size,
                                  const struct omma_team *team, float *logits, struct omma_error *error) {
  struct step step = {.decoder = decoder, .cache = cache, .rows = rows, .n_rows = n_rows, .team = team};
  struct ommai_arena arena;
  ommai_arena_init(&arena, workspace, workspace_size);
  place(decoder, n_rows, &arena, &step);
  if (arena.failed) return ommai_fail_memory(error, "decode workspace", arena.used);
  each_row(&step, decoder->config.hidden_size, NORM_ALONE, begin_row_task, &step);
  for (int64_t g = 0; g < cache->layout.n_groups; g++) {
    OMMAI_TRY(place_mixing(&step, g, team ? team->n_workers : 1, &arena, error));
  }
  for (int64_t layer = 0; layer < decoder->config.n_layers; layer++) OMMAI_TRY(run_layer(&step, layer, error));
  if (logits) project_logits(&step, logits);
  return OMMA_OK;
}

enum omma_status ommai_decode_draft(const struct ommai_decoder *decoder, const struct ommai_kv_cache *cache,
                                    const struct ommai_decode_row *rows, float *states, int64_t n_rows, void *workspace,
                                    size_t workspace_size, const struct omma_team *team, struct omma_error *error) {
  struct step step = {.decoder = decoder, .cache = cache, .rows = rows, .n_rows = n_rows, .team = team};
  int64_t layer = decoder->config.n_layers, hidden = decoder->config.hidden_size;
  struct ommai_arena arena;
  ommai_arena_init(&arena, workspace, workspace_size);
  place(decoder, n_rows, &arena, &step);
  if (arena.failed) return ommai_fail_memory(error, "decode workspace", arena.used);
  each_row(&step, hidden, NORM_ALONE, begin_row_task, &step);
  struct norm_rows call = {&step, decoder->draft.norm, states};
  each_row(&step, 2 * hidden, NORM_ALONE, join_task, &call);
  gemv(&step, decoder->draft.fc.linear, NULL, step.joined, step.residual);
  OMMAI_TRY(place_mixing(&step, cache->layout.group[layer], team ? team->n_workers : 1, &arena, error));
  OMMAI_TRY(run_layer(&step, layer, error));
  each_row(&step, hidden, NORM_ALONE, leave_task, &call);
  return OMMA_OK;
}

enum omma_status ommai_decode_draft_logits(const struct ommai_decoder *decoder, const float *states, int64_t n_rows,
                                           void *workspace, size_t workspace_size, const struct omma_team *team, float *logits,
                                           struct omma_error *error) {
  struct step step = {.decoder = decoder, .n_rows = n_rows, .team = team};
  struct ommai_arena arena;
  ommai_arena_init(&arena, workspace, workspace_size);
  place(decoder, n_rows, &arena, &step);
  if (arena.failed) return ommai_fail_memory(error, "decode workspace", arena.used);
  decoder->ops->convert(states, n_rows * decoder->config.hidden_size, step.normed, decoder->dtype);
  gemv(&step, decoder->lm_head, NULL, step.normed, logits);
  return OMMA_OK;
}

const float *ommai_decode_residual(const void *workspace) { return workspace; }

/* A step of rows that are through all layers. */
static enum omma_status place_residuals(struct step *step, const float *const *residuals, void *workspace,
                                        size_t workspace_size, struct omma_error *error) {
  struct ommai_arena arena;
  ommai_arena_init(&arena, workspace, workspace_size);
  place(step->decoder, step->n_rows, &arena, step);
  if (arena.failed) return ommai_fail_memory(error, "decode workspace", arena.used);
  int64_t hidden = step->decoder->config.hidden_size;
  for (int64_t row = 0; row < step->n_rows; row++) {
    memcpy(step->residual + row * hidden, residuals[row], (size_t)hidden * sizeof(float));
  }
  return OMMA_OK;
}

enum omma_status ommai_decode_logits(const struct ommai_decoder *decoder, const float *const *residuals, int64_t n_rows,
                                     void *workspace, size_t workspace_size, const struct omma_team *team, float *logits,
                                     struct omma_error *error) {
  struct step step = {.decoder = decoder, .n_rows = n_rows, .team = team};
  OMMAI_TRY(place_residuals(&step, residuals, workspace, workspace_size, error));
  project_logits(&step, logits);
  return OMMA_OK;
}

enum omma_status ommai_decode_project(const struct ommai_decoder *decoder, const float *const *residuals, int64_t n_rows,
                                      void *workspace, size_t workspace_size, const struct omma_team *team, float *states,
                                      struct omma_error *error) {
  struct step step = {.decoder = decoder, .n_rows = n_rows, .team = team};
  OMMAI_TRY(place_residuals(&step, residuals, workspace, workspace_size, error));
  struct norm_rows call = {&step, decoder->final_norm, step.states};
  each_row(&step, decoder->config.hidden_size, NORM_ALONE, leave_task, &call);
  gemv(&step, decoder->state_projection, NULL, step.states, states);
  return OMMA_OK;
}
