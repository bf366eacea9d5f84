/* One row over four panels of integer weights side by side, on CPUs with AMX: their memory brings
 * four streams faster than one (docs/speed-log.md). */
#define PREFETCH_BYTES 2048
#include "kernels/x86/integer_stream_vnni.h"

void ommai_integer_row_s8_amx(const struct ommai_integer_panel *panels, const struct ommai_integer_rows *row, float *sums) {
  stream(panels, OMMAI_GEMV_PANELS, ASKS_NEAR, row, 8, 1, sums);
}

void ommai_integer_row_u4_amx(const struct ommai_integer_panel *panels, const struct ommai_integer_rows *row, float *sums) {
  stream(panels, OMMAI_GEMV_PANELS, ASKS_NEAR, row, 4, 1, sums);
}
