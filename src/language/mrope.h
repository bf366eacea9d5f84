/* Rotary positions with three axes (time, row, column): which axis turns which pair of a head, and by what angle.
 * Source: multimodal rotary embedding as implemented in transformers. */
#ifndef OMMAI_LANGUAGE_MROPE_H
#define OMMAI_LANGUAGE_MROPE_H

#include <stdbool.h>
#include <stdint.h>

#define OMMAI_MROPE_MAX_PAIRS 128

struct ommai_mrope {
  int64_t n_pairs; /* head_dim / 2 */
  float frequency[OMMAI_MROPE_MAX_PAIRS];
  uint8_t axis[OMMAI_MROPE_MAX_PAIRS]; /* 0 time, 1 row, 2 column */
};

/* head_dim even, at most 2 * OMMAI_MROPE_MAX_PAIRS; the sections sum to head_dim / 2. Pair j turns by position * theta^(-2j/head_dim).
 * Contiguous: the first section[0] pairs follow time, the next section[1] the row, the rest the column. Interleaved: pair j follows
 * the row where j % 3 == 1 and j < 3 * section[1], the column where j % 3 == 2 and j < 3 * section[2], else time. */
void ommai_mrope_init(struct ommai_mrope *mrope, int64_t head_dim, double theta, const int64_t section[3], bool interleaved);

/* cosine and sine [n_pairs] of one token's angles, in f32. */
void ommai_mrope_angles(const struct ommai_mrope *mrope, const int32_t position[3], float *cosine, float *sine);

#endif
