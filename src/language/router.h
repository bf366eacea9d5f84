/* Which experts a row goes to, and with what weights. Source: the routers of the official code
 * named in docs/models/. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"

#define OMMAI_ROUTER_MAX_EXPERTS 1024

enum ommai_router_score { OMMAI_ROUTER_SOFTMAX, OMMAI_ROUTER_SIGMOID };

struct ommai_router_config {
  int64_t n_experts, n_chosen; /* n_chosen in 1 .. n_experts */
  int64_t n_groups,
      /* groups of neighbouring experts, of which only the best stay eligible; 1 and 1: no limit */
      n_chosen_groups;
  enum ommai_router_score score;
  bool normalise; /* the chosen weights are divided by their sum */
  float scale;
  /* one output more, whose sigmoid the shared expert is multiplied by */
  bool shared_gate;
};

static inline int64_t ommai_router_outputs(const struct ommai_router_config *config) {
  return config->n_experts + (config->shared_gate ? 1 : 0);
}

/* From a row's logits [n_experts] to its n_chosen experts, in rising order, and their weights.
 * Scores are the softmax or the sigmoid of the logits; experts are chosen by score + bias (bias
 * [n_experts] or NULL), a group by the sum of its two best of these; weights are the scores
 * without bias. Ties go to the lower number. All of it in f32. */
void ommai_router_choose(const struct ommai_router_config *config, const float *logits, const float *bias, int32_t *chosen,
                         float *weights);

/* The rows of a chunk or step, sorted by the experts they go to, so that each expert's weights are
 * read once.
 *
 * Slot r * n_chosen + j is row r's j-th expert, in rising order of experts. A row's sum over its
 * experts runs in that order, whoever else goes to the same experts. */
struct ommai_routing {
  int64_t n_experts, n_chosen;
  int32_t *chosen; /* [slots] expert of a slot */
  float *weights;  /* [slots] */
  int32_t *sorted; /* [slots] slots by expert; those of one expert in rising order */
  int32_t *places; /* [slots] where a slot is in `sorted`, and what its expert makes of its row */
  int32_t *starts; /* [n_experts + 1] where an expert's slots begin in `sorted` */
  int32_t *tasks;  /* [n_experts + 1] where an expert's tiles begin in the list of all tiles */
  float *shared;   /* [n_rows] what the shared expert is multiplied by; NULL: nothing */
};

/* Places the arrays for n_rows rows. */
void ommai_routing_place(struct ommai_routing *routing, const struct ommai_router_config *config, int64_t n_rows,
                         struct ommai_arena *arena);

/* Fills sorted, places, starts and tasks from chosen; tiles of at most tile_rows slots. Returns the
 * number of tiles. */
int64_t ommai_routing_sort(struct ommai_routing *routing, int64_t n_rows, int64_t tile_rows);

/* The expert that a tile belongs to. */
int64_t ommai_routing_expert(const struct ommai_routing *routing, int64_t tile);
