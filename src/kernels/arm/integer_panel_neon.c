/* Integer weights by plain NEON: products of bytes in 16 bits, added up in pairs. */
#include "kernels/arm/integer_lanes_neon.h"

/* Four inputs in every lane. */
OMMAI_INLINE int8x16_t spread(int8x16_t x, const int lane) {
  int32x4_t fours = vreinterpretq_s32_s8(x);
  switch (lane) {
    case 0: return vreinterpretq_s8_s32(vdupq_laneq_s32(fours, 0));
    case 1: return vreinterpretq_s8_s32(vdupq_laneq_s32(fours, 1));
    case 2: return vreinterpretq_s8_s32(vdupq_laneq_s32(fours, 2));
    default: return vreinterpretq_s8_s32(vdupq_laneq_s32(fours, 3));
  }
}

/* Two products of int8 may take 17 bits: -128 times -128, twice. */
OMMAI_INLINE ivec dot_lane(ivec acc, int8x16_t w, int8x16_t x, const int lane, const bool half) {
  int8x16_t four = spread(x, lane);
  int16x8_t low = vmull_s8(vget_low_s8(w), vget_low_s8(four)), high = vmull_high_s8(w, four);
  if (half) return vpadalq_s16(acc, vpaddq_s16(low, high));
  return vaddq_s32(acc, vpaddq_s32(vpaddlq_s16(low), vpaddlq_s16(high)));
}

#include "kernels/arm/integer_panel_dot_neon.h"

const struct ommai_integer_kernels ommai_integer_neon = {.level = OMMAI_CPU_NEON, .s8 = run_s8, .u4 = run_u4};
