#define ROW_OPS_TABLE ommai_row_ops_avx2
#define ROW_OPS_LEVEL OMMAI_CPU_AVX2
#include "kernels/row_ops_body.h"
