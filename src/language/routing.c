#include "language/routing.h"

#include <string.h>

#include "base/checked.h"

void ommai_routing_place(struct ommai_routing *routing, const struct ommai_router_config *config, int64_t n_rows,
                         struct ommai_arena *arena) {
  size_t slots = (size_t)(n_rows * config->n_chosen), borders = (size_t)config->n_experts + 1;
  routing->n_experts = config->n_experts;
  routing->n_chosen = config->n_chosen;
  routing->chosen = ommai_arena_take(arena, slots, sizeof(int32_t));
  routing->weights = ommai_arena_take(arena, slots, sizeof(float));
  routing->sorted = ommai_arena_take(arena, slots, sizeof(int32_t));
  routing->starts = ommai_arena_take(arena, borders, sizeof(int32_t));
  routing->tasks = ommai_arena_take(arena, borders, sizeof(int32_t));
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
  for (int32_t slot = 0; slot < n_slots; slot++) routing->sorted[starts[routing->chosen[slot]]++] = slot;
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
