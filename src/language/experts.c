#include "language/experts.h"

#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "base/team.h"
#include "base/team_streams.h"
#include "kernels/dtype.h"

void ommai_experts_choose(const struct ommai_decoder *decoder, int64_t layer, const float *logits, int64_t first,
                          int64_t n_rows, struct ommai_routing *routing) {
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
  ommai_row_tiles_apply(tiles, weights->down.op, scratch->gated, scratch->out, n, worker);
  for (int64_t i = 0; i < n; i++) {
    memcpy(results + routing->sorted[place + i] * hidden, scratch->out + i * hidden, (size_t)hidden * sizeof(float));
  }
}

void ommai_experts_add_row(const struct ommai_decoder *decoder, const struct ommai_routing *routing, int64_t row,
                           const float *results, float *residual) {
  int64_t hidden = decoder->config.hidden_size;
  for (int64_t slot = row * routing->n_chosen; slot < (row + 1) * routing->n_chosen; slot++) {
    const float *result = results + slot * hidden;
    decoder->ops->add_weighted(residual, &result, &routing->weights[slot], 1, hidden);
  }
}

/* One of an expert's two layers over few rows, for every expert that has rows; some panels of one
 * expert per task. */
struct few_call {
  const struct ommai_decoder_expert *experts;
  const struct ommai_routing *routing;
  bool down;
  const unsigned char *x;
  unsigned char *prepared;
  float *y;
  int64_t x_stride, y_stride, n_panels, task_panels, expert_tasks;
  size_t x_row_bytes, gemv_row_bytes;
};

/* The rows of the expert that is the `index`th with any, and their first slot. Experts need not be
 * stored alike. */
struct expert_rows {
  const struct ommai_linear *linear;
  struct ommai_linear_rows rows;
  int64_t place, n_rows;
};

static struct expert_rows expert_rows(const struct few_call *call, int64_t index) {
  int64_t expert = ommai_routing_expert(call->routing, index), place = call->routing->starts[expert];
  const struct ommai_decoder_expert *weights = &call->experts[expert];
  struct expert_rows of = {.linear = call->down ? weights->down.linear : weights->gate_up.linear,
                           .place = place,
                           .n_rows = call->routing->starts[expert + 1] - place};
  unsigned char *memory = call->prepared ? call->prepared + (size_t)place * call->gemv_row_bytes : NULL;
  of.rows = ommai_linear_rows_place(of.linear, call->x + (size_t)place * call->x_row_bytes, call->x_stride, of.n_rows, memory);
  return of;
}

static void prepare_task(void *context, int64_t task, int worker) {
  (void)worker;
  const struct expert_rows of = expert_rows(context, task);
  if (ommai_linear_gemv_prepares_rows(of.linear)) ommai_linear_prepare_rows(of.linear, &of.rows, 0, of.n_rows);
}

static void few_task(void *context, int64_t task, int worker) {
  (void)worker;
  const struct few_call *call = context;
  const struct expert_rows of = expert_rows(call, task / call->expert_tasks);
  int64_t first = task % call->expert_tasks * call->task_panels;
  ommai_linear_few_prepared_rows(of.linear, &of.rows, 0, of.n_rows, call->y + of.place * call->y_stride, call->y_stride, false,
                                 first, ommai_min_i64(call->task_panels, call->n_panels - first));
}

static void run_few(const struct ommai_decoder *decoder, int64_t layer, const struct ommai_routing *routing, int64_t n_active,
                    bool down, const void *x, void *prepared, float *y, const struct omma_team *team) {
  const struct ommai_decoder_expert *experts = decoder->layers[layer].experts;
  const struct ommai_linear *shape = down ? experts->down.linear : experts->gate_up.linear;
  struct few_call call = {.experts = experts,
                          .routing = routing,
                          .down = down,
                          .x = x,
                          .prepared = prepared,
                          .y = y,
                          .x_stride = ommai_linear_n_in(shape),
                          .y_stride = ommai_linear_n_out(shape),
                          .n_panels = ommai_linear_n_panels(shape),
                          .gemv_row_bytes = decoder->gemv_row_bytes};
  call.task_panels = ommai_linear_task_panels(shape, 1, n_active * call.n_panels, team ? team->n_workers : 1);
  call.expert_tasks = ommai_div_up(call.n_panels, call.task_panels);
  call.x_row_bytes = (size_t)call.x_stride * ommai_dtype_size(decoder->dtype);
  if (decoder->gemv_row_bytes) ommai_team_run(team, n_active, prepare_task, &call);
  ommai_team_run_streams(team, n_active * call.expert_tasks, few_task, &call);
}

void ommai_experts_run_few(const struct ommai_decoder *decoder, int64_t layer, struct ommai_routing *routing, int64_t n_rows,
                           const void *rows, const struct ommai_experts_scratch *scratch, float *results,
                           const struct omma_team *team) {
  int64_t n_slots = n_rows * routing->n_chosen, hidden = decoder->config.hidden_size;
  int64_t n_active = ommai_routing_sort(routing, n_rows, n_slots);
  gather(decoder, routing, 0, n_slots, rows, scratch->gathered);
  run_few(decoder, layer, routing, n_active, false, scratch->gathered, scratch->prepared, scratch->projected, team);
  ommai_feed_forward_gate(decoder, scratch->projected, n_slots, decoder->config.experts.intermediate_size, NULL,
                          scratch->gated);
  run_few(decoder, layer, routing, n_active, true, scratch->gated, scratch->prepared, scratch->out, team);
  for (int64_t i = 0; i < n_slots; i++) {
    memcpy(results + routing->sorted[i] * hidden, scratch->out + i * hidden, (size_t)hidden * sizeof(float));
  }
}

static int64_t shared_size(const struct ommai_decoder_config *config) { return config->experts.shared_size; }

static int64_t chosen_size(const struct ommai_decoder_config *config) {
  return config->experts.router.n_chosen * config->experts.intermediate_size;
}

const struct ommai_ffn ommai_ffn_experts = {.routed = true, .dense_size = shared_size, .chosen_size = chosen_size};
