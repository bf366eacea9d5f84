#include "kernels/row_ops.h"

#define ROW_OPS_TABLE ommai_row_ops_scalar
#define ROW_OPS_LEVEL OMMAI_CPU_SCALAR
#include "kernels/row_ops_body.h"

const struct ommai_row_ops *ommai_row_ops(enum ommai_cpu_level level) {
#if defined(__x86_64__)
  if (level == OMMAI_CPU_AVX512 || level == OMMAI_CPU_AVX512_BF16) return &ommai_row_ops_avx512;
  if (level == OMMAI_CPU_AVX2 || level == OMMAI_CPU_AVX2_VNNI) return &ommai_row_ops_avx2;
#endif
  (void)level;
  return &ommai_row_ops_scalar;
}
