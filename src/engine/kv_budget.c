#include "engine/kv_budget.h"

#include "base/checked.h"

#define MIN_RESERVE ((int64_t)512 << 20)
#define RESERVED_PART 8 /* the reserve is 1/8 of the room */
#define MIN_PART 8
#define WHERE_ROOM_IS_UNKNOWN ((int64_t)1 << 30)

int64_t ommai_kv_budget(int64_t needed, int64_t room, int64_t taken) {
  if (room < 0) return ommai_min_i64(needed, WHERE_ROOM_IS_UNKNOWN);
  int64_t left = room - taken - ommai_max_i64(room / RESERVED_PART, MIN_RESERVE);
  return ommai_min_i64(needed, ommai_max_i64(left, room / MIN_PART));
}
