#include "language/mrope.h"

#include <math.h>

void ommai_mrope_init(struct ommai_mrope *mrope, int64_t head_dim, double theta, const int64_t section[3], bool interleaved) {
  mrope->n_pairs = head_dim / 2;
  for (int64_t j = 0; j < mrope->n_pairs; j++) {
    mrope->frequency[j] = 1.0f / (float)pow(theta, (double)((float)(2 * j) / (float)head_dim));
    if (interleaved) {
      int64_t axis = j % 3;
      mrope->axis[j] = axis > 0 && j < 3 * section[axis] ? (uint8_t)axis : 0;
    } else {
      mrope->axis[j] = j < section[0] ? 0 : j < section[0] + section[1] ? 1 : 2;
    }
  }
}

void ommai_mrope_angles(const struct ommai_mrope *mrope, const int32_t position[3], float *cosine, float *sine) {
  for (int64_t j = 0; j < mrope->n_pairs; j++) {
    float angle = (float)position[mrope->axis[j]] * mrope->frequency[j];
    cosine[j] = cosf(angle);
    sine[j] = sinf(angle);
  }
}
