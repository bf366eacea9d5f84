#include "language/router.h"

#include <math.h>
#include <string.h>

#include "base/checked.h"

static void softmax(const float *logits, int64_t n, float *scores) {
  float highest = logits[0], sum = 0;
  for (int64_t i = 1; i < n; i++) highest = fmaxf(highest, logits[i]);
  for (int64_t i = 0; i < n; i++) {
    scores[i] = expf(logits[i] - highest);
    sum += scores[i];
  }
  for (int64_t i = 0; i < n; i++) scores[i] /= sum;
}

static void sigmoid(const float *logits, int64_t n, float *scores) {
  for (int64_t i = 0; i < n; i++) scores[i] = 1.0f / (1.0f + expf(-logits[i]));
}

/* The largest of values that is not taken yet, or the first one left where none is larger than
 * -inf. */
static int64_t next_best(const float *values, const bool *taken, int64_t n) {
  int64_t best = -1;
  for (int64_t i = 0; i < n; i++) {
    if (!taken[i] && (best < 0 || values[i] > values[best])) best = i;
  }
  return best;
}

static float two_best(const float *values, int64_t n) {
  float first = -INFINITY, second = n > 1 ? -INFINITY : 0.0f;
  for (int64_t i = 0; i < n; i++) {
    if (values[i] > first) {
      if (n > 1) second = first;
      first = values[i];
    } else if (values[i] > second && n > 1) {
      second = values[i];
    }
  }
  return first + second;
}

/* Experts outside of the best groups become ineligible. */
static void limit_groups(const struct ommai_router_config *config, float *ranks) {
  float groups[OMMAI_ROUTER_MAX_EXPERTS];
  bool taken[OMMAI_ROUTER_MAX_EXPERTS] = {false};
  int64_t size = config->n_experts / config->n_groups;
  for (int64_t g = 0; g < config->n_groups; g++) groups[g] = two_best(ranks + g * size, size);
  for (int64_t i = 0; i < config->n_chosen_groups; i++) taken[next_best(groups, taken, config->n_groups)] = true;
  for (int64_t i = 0; i < config->n_experts; i++) {
    if (!taken[i / size]) ranks[i] = -INFINITY;
  }
}

void ommai_router_choose(const struct ommai_router_config *config, const float *logits, const float *bias, int32_t *chosen,
                         float *weights) {
  float scores[OMMAI_ROUTER_MAX_EXPERTS], ranks[OMMAI_ROUTER_MAX_EXPERTS], sum = 0;
  bool taken[OMMAI_ROUTER_MAX_EXPERTS] = {false};
  int64_t n = config->n_experts, at = 0;
  if (config->score == OMMAI_ROUTER_SOFTMAX) {
    softmax(logits, n, scores);
  } else {
    sigmoid(logits, n, scores);
  }
  for (int64_t i = 0; i < n; i++) ranks[i] = bias ? scores[i] + bias[i] : scores[i];
  if (config->n_groups > 1) limit_groups(config, ranks);
  for (int64_t i = 0; i < config->n_chosen; i++) taken[next_best(ranks, taken, n)] = true;
  for (int64_t i = 0; i < n; i++) {
    if (!taken[i]) continue;
    chosen[at] = (int32_t)i;
    weights[at++] = scores[i];
    sum += scores[i];
  }
  float factor = config->scale / (config->normalise ? sum + 1e-20f : 1.0f);
  for (int64_t i = 0; i < config->n_chosen; i++) weights[i] *= factor;
}

/* ---- rows by experts ---- */

void ommai_routing_place(struct ommai_routing *routing, const struct ommai_router_config *config, int64_t n_rows,
                         struct ommai_arena *arena) {
  size_t slots = (size_t)(n_rows * config->n_chosen), borders = (size_t)config->n_experts + 1;
  routing->n_experts = config->n_experts;
  routing->n_chosen = config->n_chosen;
  routing->chosen = ommai_arena_take(arena, slots, sizeof(int32_t));
  routing->weights = ommai_arena_take(arena, slots, sizeof(float));
  routing->sorted = ommai_arena_take(arena, slots, sizeof(int32_t));
  routing->places = ommai_arena_take(arena, slots, sizeof(int32_t));
  routing->starts = ommai_arena_take(arena, borders, sizeof(int32_t));
  routing->tasks = ommai_arena_take(arena, borders, sizeof(int32_t));
  routing->shared = config->shared_gate ? ommai_arena_take(arena, (size_t)n_rows, sizeof(float)) : NULL;
}

int64_t ommai_routing_sort(struct ommai_routing *routing, int64_t n_rows, int64_t tile_rows) {
  int64_t n_slots = n_rows * routing->n_chosen;
  int32_t *starts = routing->starts, *tasks = routing->tasks;
  memset(starts, 0, (size_t)(routing->n_experts + 1) * sizeof *starts);
  for (int64_t slot = 0; slot < n_slots; slot++) starts[routing->chosen[slot] + 1]++;
  tasks[0] = 0;
  for (int64_t e = 0; e < routing->n_experts; e++) {
    tasks[e + 1] = tasks[e] + (int32_t)ommai_div_up(starts[e + 1], tile_rows);
    starts[e + 1] += starts[e];
  }
  /* starts[e] runs through the expert's slots and so ends where the next expert begins; then
   * everything moves up by one. */
  for (int32_t slot = 0; slot < n_slots; slot++) {
    routing->places[slot] = starts[routing->chosen[slot]]++;
    routing->sorted[routing->places[slot]] = slot;
  }
  memmove(starts + 1, starts, (size_t)routing->n_experts * sizeof *starts);
  starts[0] = 0;
  return tasks[routing->n_experts];
}

int64_t ommai_routing_expert(const struct ommai_routing *routing, int64_t tile) {
  int64_t low = 0, high = routing->n_experts - 1;
  while (low < high) {
    int64_t middle = (low + high + 1) / 2;
    if (routing->tasks[middle] <= tile) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}
