#define ROW_OPS_TABLE ommai_row_ops_scalar
#define ROW_OPS_LEVEL OMMAI_CPU_SCALAR
#include "kernels/row_ops_body.h"
