/* Which experts a row goes to, and with what weights. Source: the routers of the official code
 * named in docs/models/. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

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
};

/* From a row's logits [n_experts] to its n_chosen experts, in rising order, and their weights.
 * Scores are the softmax or the sigmoid of the logits; experts are chosen by score + bias (bias
 * [n_experts] or NULL), a group by the sum of its two best of these; weights are the scores
 * without bias. Ties go to the lower number. All of it in f32. */
void ommai_router_choose(const struct ommai_router_config *config, const float *logits, const float *bias, int32_t *chosen,
                         float *weights);
