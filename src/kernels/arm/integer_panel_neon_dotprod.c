/* Integer weights by SDOT. */
#include "kernels/arm/integer_lanes_neon.h"

OMMAI_INLINE ivec dot_lane(ivec acc, int8x16_t w, int8x16_t x, const int lane, const bool half) {
  (void)half;
  switch (lane) {
    case 0: return vdotq_laneq_s32(acc, w, x, 0);
    case 1: return vdotq_laneq_s32(acc, w, x, 1);
    case 2: return vdotq_laneq_s32(acc, w, x, 2);
    default: return vdotq_laneq_s32(acc, w, x, 3);
  }
}

#include "kernels/arm/integer_panel_dot_neon.h"

const struct ommai_integer_kernels ommai_integer_neon_dotprod = {.level = OMMAI_CPU_NEON_DOTPROD, .s8 = run_s8, .u4 = run_u4};
