/* Decode kernels in f32 for AVX2: f32 and bf16, which is widened when loaded, and f32 queries over
 * bf16 keys; and both over integers with scales. */
#include "kernels/x86/lanes_avx2.h"

#include "kernels/attention_decode_lanes.h"

DECODE_KERNEL(f32, F32, F32, AVX2, avx2);
DECODE_KERNEL(f32_bf16, F32, BF16, AVX2, avx2);
DECODE_KERNEL(f32_kv8, F32, INT8, AVX2, avx2);
DECODE_KERNEL(bf16, BF16, BF16, AVX2, avx2);
DECODE_KERNEL(bf16_kv8, BF16, INT8, AVX2, avx2);
