/* Rotary positions in a text configuration: rope_theta, and rope_scaling as released files have it
 * or rope_parameters as transformers 5 writes it. Source: RotaryEmbeddingConfigMixin and the yarn
 * and linear functions of transformers 5.23's modeling_rope_utils.py. */
#pragma once

#include "base/json.h"
#include "language/decoder.h"

/* Fills config's rope_theta, rope_scaling and max_positions (read before), which counts what the
 * scaling makes of it; and rotary_dim, of heads of head_dim, where default_part, the share that is
 * rotated without a key for it, is not 0. *rope is the object with more keys of a family, NULL
 * where there is none: of the two the one that is not empty, rope_scaling first. Errors: FORMAT,
 * UNSUPPORTED (a kind of scaling that is not known). */
enum omma_status ommai_rope_parse(const json_t *text, const char *where, double default_theta, double default_part,
                                  struct ommai_decoder_config *config, json_t **rope, struct omma_error *error);

/* What yarn makes of a range of scores by mscale_all_dim: 1 without. Errors: FORMAT. */
enum omma_status ommai_rope_score_factor(const json_t *rope, const char *where, const struct ommai_rope_scaling *scaling,
                                         double *factor, struct omma_error *error);
