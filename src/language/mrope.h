/* Rotary positions with three axes (time, row, column): which axis turns which pair of a head, and
 * by what angle. Source: multimodal rotary embedding and modeling_rope_utils.py of transformers,
 * in the same types. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define OMMAI_MROPE_MAX_PAIRS 128

/* Rotations slowed down for contexts longer than the model was trained on. LINEAR: all by `factor`.
 * YARN: pairs that turn less than beta_slow times within original_positions by `factor`, those
 * that turn more than beta_fast times not, between them by a ramp; and cosine and sine times
 * attention_factor. */
enum ommai_scaling_kind { OMMAI_SCALING_NONE, OMMAI_SCALING_LINEAR, OMMAI_SCALING_YARN };
struct ommai_rope_scaling {
  enum ommai_scaling_kind kind;
  double factor, attention_factor, beta_fast, beta_slow;
  int64_t original_positions;
  bool truncate; /* the ramp begins and ends at whole pairs */
};

struct ommai_mrope {
  int64_t n_pairs; /* head_dim / 2 */
  float scale;     /* of cosines and sines */
  float frequency[OMMAI_MROPE_MAX_PAIRS];
  uint8_t axis[OMMAI_MROPE_MAX_PAIRS]; /* 0 time, 1 row, 2 column */
};

/* head_dim even, at most 2 * OMMAI_MROPE_MAX_PAIRS; the sections sum to head_dim / 2. Pair j turns
 * by position * theta^(-2j/head_dim). Contiguous: the first section[0] pairs follow time, the next
 * section[1] the row, the rest the column. Interleaved: pair j follows the row where j % 3 == 1
 * and j < 3 * section[1], the column where j % 3 == 2 and j < 3 * section[2], else time. */
void ommai_mrope_init(struct ommai_mrope *mrope, int64_t head_dim, double theta, const struct ommai_rope_scaling *scaling,
                      const int64_t section[3], bool interleaved);

/* cosine and sine [n_pairs] of one token's angles, in f32. */
void ommai_mrope_angles(const struct ommai_mrope *mrope, const int32_t position[3], float *cosine, float *sine);
