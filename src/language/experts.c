#include "language/experts.h"

#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "base/team.h"
#include "base/team_streams.h"
#include "kernels/dtype.h"

void ommai_experts_choose(const struct ommai_decoder *decoder, int64_t layer, const float *logits, int64_t first,
                          int64_t n_rows, const struct ommai_routing *routing) {
  const struct ommai_router_config *config = &decoder->config.experts.router;
  for (int64_t row = 0; row < n_rows; row++) {
    int64_t slot = (first + row) * config->n_chosen;
    const float *outputs = logits + row * ommai_router_outputs(config);
    ommai_router_choose(config, outputs, decoder->layers[layer].router_bias, routing->chosen + slot, routing->weights + slot);
    if (routing->shared) routing->shared[first + row] = 1.0f / (1.0f + expf(-outputs[config->n_experts]));
  }
}

/* Copies the rows of n sorted slots from `place` on together. */
static void gather(const struct ommai_decoder *decoder, const struct ommai_routing *routing, int64_t place, int64_t n,
                   const void *rows, void *gathered) {
  int64_t hidden = decoder->config.hidden_size;
  size_t row_bytes = (size_t)hidden * ommai_dtype_size(decoder->dtype);
  for (int64_t i = 0; i < n; i++) {
    int64_t row = routing->sorted[place + i] / routing->n_chosen;
    memcpy(ommai_element(gathered, i * hidden, decoder->dtype), (const unsigned char *)rows + (size_t)row * row_bytes,
           row_bytes);
  }
}

void ommai_experts_run_tile(const struct ommai_decoder *decoder, int64_t layer, const struct ommai_routing *routing,
                            int64_t tile, const void *rows, float *results, const struct ommai_experts_scratch *scratch,
                            struct ommai_row_tiles *tiles, int worker) {
  int64_t expert = ommai_routing_expert(routing, tile), hidden = decoder->config.hidden_size;
  int64_t place = routing->starts[expert] + (tile - routing->tasks[expert]) * OMMAI_MAX_TILE_ROWS;
  int64_t n = ommai_min_i64(OMMAI_MAX_TILE_ROWS, routing->starts[expert + 1] - place);
  const struct ommai_decoder_expert *weights = &decoder->layers[layer].experts[expert];
  gather(decoder, routing, place, n, rows, scratch->gathered);
  ommai_row_tiles_apply(tiles, weights->gate_up.op, scratch->gathered, scratch->projected, n, worker);
  ommai_feed_forward_gate(decoder, scratch->projected, n, decoder->config.experts.intermediate_size, NULL, scratch->gated);
  ommai_row_tiles_apply(tiles, weights->down.op, scratch->gated, results + place * hidden, n, worker);
}

void ommai_experts_add_row(const struct ommai_decoder *decoder, const struct ommai_routing *routing, int64_t row,
                           const float *results, float *residual) {
  int64_t hidden = decoder->config.hidden_size;
  for (int64_t slot = row * routing->n_chosen; slot < (row + 1) * routing->n_chosen; slot++) {
    const float *result = results + routing->places[slot] * hidden;
    decoder->ops->add_weighted(residual, &result, &routing->weights[slot], 1, hidden);
  }
}

/* One of an expert's two layers over few rows, for every expert that has rows. */
struct few_call {
  const struct ommai_decoder *decoder;
  const struct ommai_decoder_expert *experts;
  const struct ommai_routing *routing;
  const struct ommai_experts_scratch *scratch;
  const void *rows; /* of the step */
  bool down;
  void *x;
  float *y;
  int64_t x_stride, y_stride, n_panels, task_panels, expert_tasks;
};

/* The rows of the expert that is the `index`th with any, and their first slot. Experts need not be
 * stored alike. */
struct expert_rows {
  const struct ommai_linear *linear;
  void *x;
  struct ommai_linear_rows rows;
  int64_t place, n_rows;
};

static struct expert_rows expert_rows(const struct few_call *call, int64_t index) {
  int64_t expert = ommai_routing_expert(call->routing, index), place = call->routing->starts[expert];
  const struct ommai_decoder_expert *weights = &call->experts[expert];
  struct expert_rows of = {.linear = call->down ? weights->down.linear : weights->gate_up.linear,
                           .x = ommai_element(call->x, place * call->x_stride, call->decoder->dtype),
                           .place = place,
                           .n_rows = call->routing->starts[expert + 1] - place};
  unsigned char *prepared = call->scratch->prepared;
  if (prepared) prepared += (size_t)place * call->decoder->gemv_row_bytes;
  of.rows = ommai_linear_rows_place(of.linear, of.x, call->x_stride, of.n_rows, prepared);
  return of;
}

/* Makes x for one expert: its rows, or the product of what gate and up have left of them. */
static void begin_task(void *context, int64_t task, int worker) {
  (void)worker;
  const struct few_call *call = context;
  const struct expert_rows of = expert_rows(call, task);
  if (call->down) {
    float *projected = call->scratch->projected + of.place * 2 * call->x_stride;
    ommai_feed_forward_gate(call->decoder, projected, of.n_rows, call->x_stride, NULL, of.x);
  } else {
    gather(call->decoder, call->routing, of.place, of.n_rows, call->rows, of.x);
  }
  if (ommai_linear_gemv_prepares_rows(of.linear)) ommai_linear_prepare_rows(of.linear, &of.rows, 0, of.n_rows);
}

/* Some panels of one expert. */
static void few_task(void *context, int64_t task, int worker) {
  (void)worker;
  const struct few_call *call = context;
  const struct expert_rows of = expert_rows(call, task / call->expert_tasks);
  int64_t first = task % call->expert_tasks * call->task_panels;
  ommai_linear_few_prepared_rows(of.linear, &of.rows, 0, of.n_rows, call->y + of.place * call->y_stride, call->y_stride, false,
                                 first, ommai_min_i64(call->task_panels, call->n_panels - first));
}

static void run_few(struct few_call *call, bool down, void *x, float *y, int64_t n_active, const struct omma_team *team) {
  const struct ommai_linear *shape = down ? call->experts->down.linear : call->experts->gate_up.linear;
  call->down = down;
  call->x = x;
  call->y = y;
  call->x_stride = ommai_linear_n_in(shape);
  call->y_stride = ommai_linear_n_out(shape);
  call->n_panels = ommai_linear_n_panels(shape);
  call->task_panels = ommai_linear_task_panels(shape, 1, n_active * call->n_panels, team ? team->n_workers : 1);
  call->expert_tasks = ommai_div_up(call->n_panels, call->task_panels);
  ommai_team_run_streams(team, n_active, begin_task, call);
  ommai_team_run_streams(team, n_active * call->expert_tasks, few_task, call);
}

void ommai_experts_run_few(const struct ommai_decoder *decoder, int64_t layer, struct ommai_routing *routing, int64_t n_rows,
                           const void *rows, const struct ommai_experts_scratch *scratch, float *results,
                           const struct omma_team *team) {
  int64_t n_active = ommai_routing_sort(routing, n_rows, n_rows * routing->n_chosen);
  struct few_call call = {
      .decoder = decoder, .experts = decoder->layers[layer].experts, .routing = routing, .scratch = scratch, .rows = rows};
  run_few(&call, false, scratch->gathered, scratch->projected, n_active, team);
  run_few(&call, true, scratch->gated, results, n_active, team);
}

static int64_t shared_size(const struct ommai_decoder_config *config) { return config->experts.shared_size; }

static int64_t chosen_size(const struct ommai_decoder_config *config) {
  return config->experts.router.n_chosen * config->experts.intermediate_size;
}

const struct ommai_ffn ommai_ffn_experts = {.routed = true, .dense_size = shared_size, .chosen_size = chosen_size};
