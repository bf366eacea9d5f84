/* The rows of a chunk or step, sorted by the experts they go to, so that each expert's weights are
 * read once.
 *
 * Slot r * n_chosen + j is row r's j-th expert, in rising order of experts. A row's sum over its
 * experts runs in that order, whoever else goes to the same experts. */
#pragma once

#include "base/arena.h"
#include "language/router.h"

struct ommai_routing {
  int64_t n_experts, n_chosen;
  int32_t *chosen; /* [slots] expert of a slot */
  float *weights;  /* [slots] */
  int32_t *sorted; /* [slots] slots by expert; those of one expert in rising order */
  int32_t *starts; /* [n_experts + 1] where an expert's slots begin in `sorted` */
  int32_t *tasks;  /* [n_experts + 1] where an expert's tiles begin in the list of all tiles */
};

/* Places the arrays for n_rows rows. */
void ommai_routing_place(struct ommai_routing *routing, const struct ommai_router_config *config, int64_t n_rows,
                         struct ommai_arena *arena);

/* Fills sorted, starts and tasks from chosen; tiles of at most tile_rows slots. Returns the number
 * of tiles. */
int64_t ommai_routing_sort(struct ommai_routing *routing, int64_t n_rows, int64_t tile_rows);

/* The expert that a tile belongs to. */
int64_t ommai_routing_expert(const struct ommai_routing *routing, int64_t tile);
