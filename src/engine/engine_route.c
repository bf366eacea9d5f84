#include "engine/engine_route.h"

#include <string.h>

static bool goes_before(const struct ommai_route_engine *a, const struct ommai_route_engine *b) {
  int64_t of_a = a->load + a->missing, of_b = b->load + b->missing;
  return of_a != of_b ? of_a < of_b : a->n_sent < b->n_sent;
}

int ommai_engine_route_choose(const struct ommai_route_engine *engines, int n) {
  int best = -1;
  for (int i = 0; i < n; i++) {
    if (!engines[i].out && (best < 0 || goes_before(&engines[i], &engines[best]))) best = i;
  }
  return best;
}

static uint64_t start_of(const uint8_t key[32]) {
  uint64_t start;
  memcpy(&start, key, sizeof start);
  return start;
}

uint64_t ommai_engine_route_find(const struct ommai_route_known *known, const uint8_t key[32]) {
  uint64_t start = start_of(key), place = start % OMMAI_ENGINE_ROUTE_PLACES;
  return known->places[place].key == start ? known->places[place].engines : 0;
}

void ommai_engine_route_note(struct ommai_route_known *known, const uint8_t key[32], int engine) {
  uint64_t start = start_of(key), place = start % OMMAI_ENGINE_ROUTE_PLACES;
  if (known->places[place].key != start) known->places[place].engines = 0;
  known->places[place].key = start;
  known->places[place].engines |= (uint64_t)1 << engine;
}

void ommai_engine_route_forget(struct ommai_route_known *known, int engine) {
  for (int64_t place = 0; place < OMMAI_ENGINE_ROUTE_PLACES; place++) known->places[place].engines &= ~((uint64_t)1 << engine);
}
