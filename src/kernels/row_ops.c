#include "kernels/row_ops.h"

#include <stddef.h>

#define ROW_OPS_ENTRY(level) &ommai_row_ops_##level,
static const struct ommai_row_ops *const tables[] = {OMMAI_ROW_OPS_LEVELS(ROW_OPS_ENTRY) NULL};

OMMAI_CHOOSE_BY_LEVEL(ommai_row_ops, ommai_row_ops, tables)
