#include "language/mrope.h"

#include <math.h>

/* The place, in values of a head, of the pair that turns `turns` times within the original
 * positions. */
static double place_of(const struct ommai_rope_scaling *scaling, double turns, double head_dim, double theta) {
  double pi = acos(-1.0);
  return head_dim * log((double)scaling->original_positions / (turns * 2 * pi)) / (2 * log(theta));
}

/* The share of a pair that is slowed down: 0 before the ramp, 1 after it. */
static float ramp_at(const struct ommai_rope_scaling *scaling, int64_t pair, int64_t head_dim, double theta) {
  double low = place_of(scaling, scaling->beta_fast, (double)head_dim, theta);
  double high = place_of(scaling, scaling->beta_slow, (double)head_dim, theta);
  if (scaling->truncate) {
    low = floor(low);
    high = ceil(high);
  }
  low = fmax(low, 0);
  high = fmin(high, (double)(head_dim - 1));
  if (low == high) high += 0.001; /* as transformers does it */
  float at = ((float)pair - (float)low) / (float)(high - low);
  return fminf(fmaxf(at, 0), 1);
}

static float scale_frequency(const struct ommai_rope_scaling *scaling, float power, int64_t pair, int64_t head_dim,
                             double theta) {
  if (scaling->kind == OMMAI_SCALING_NONE) return 1.0f / power;
  if (scaling->kind == OMMAI_SCALING_LINEAR) return 1.0f / power / (float)scaling->factor;
  float slow = 1.0f / ((float)scaling->factor * power), fast = 1.0f / power;
  float keep = 1.0f - ramp_at(scaling, pair, head_dim, theta);
  return slow * (1.0f - keep) + fast * keep;
}

void ommai_mrope_init(struct ommai_mrope *mrope, int64_t head_dim, double theta, const struct ommai_rope_scaling *scaling,
                      const int64_t section[3], bool interleaved) {
  mrope->n_pairs = head_dim / 2;
  mrope->scale = scaling->kind == OMMAI_SCALING_YARN ? (float)scaling->attention_factor : 1.0f;
  for (int64_t j = 0; j < mrope->n_pairs; j++) {
    float power = (float)pow(theta, (double)((float)(2 * j) / (float)head_dim));
    mrope->frequency[j] = scale_frequency(scaling, power, j, head_dim, theta);
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
    cosine[j] = cosf(angle) * mrope->scale;
    sine[j] = sinf(angle) * mrope->scale;
  }
}
