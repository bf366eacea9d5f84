#include "engine/prompt_positions.h"

#include "base/checked.h"

void ommai_position_text(int32_t *counter, int32_t position[3]) {
  for (int axis = 0; axis < 3; axis++) position[axis] = *counter;
  ++*counter;
}

void ommai_position_picture(int32_t counter, int64_t row, int64_t column, int32_t position[3]) {
  position[0] = counter;
  position[1] = counter + (int32_t)row;
  position[2] = counter + (int32_t)column;
}

void ommai_position_after_picture(int32_t *counter, int64_t rows, int64_t columns) {
  *counter += (int32_t)ommai_max_i64(rows, columns);
}
