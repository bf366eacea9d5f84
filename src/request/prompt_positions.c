#include "request/prompt_positions.h"

#include "base/checked.h"

void ommai_position_text(int32_t *counter, int32_t position[3]) {
  for (int axis = 0; axis < 3; axis++) position[axis] = *counter;
  ++*counter;
}

int32_t ommai_position_time(int64_t temporal_patch, double seconds, double tokens_per_second) {
  float step = (float)tokens_per_second * (float)seconds;
  return (int32_t)((float)temporal_patch * step);
}

void ommai_position_image(int32_t counter, int32_t time, int64_t row, int64_t column, int32_t position[3]) {
  position[0] = counter + time;
  position[1] = counter + (int32_t)row;
  position[2] = counter + (int32_t)column;
}

void ommai_position_after_image(int32_t *counter, int64_t rows, int64_t columns) {
  *counter += (int32_t)ommai_max_i64(rows, columns);
}
