#include "model/image_team.h"

#include <stdatomic.h>

#include "base/allocator.h"
#include "base/error.h"
#include "base/team.h"

struct ommai_image_team {
  struct omma_allocator allocator;
  struct ommai_team *team;
  atomic_bool taken;
};

enum omma_status ommai_image_team_create(int n_threads, const struct omma_allocator *allocator, struct ommai_image_team **out,
                                         struct omma_error *error) {
  struct ommai_image_team *team = ommai_allocate(allocator, 1, sizeof *team);
  if (!team) return ommai_fail_memory(error, "image threads", sizeof *team);
  team->allocator = *allocator;
  enum omma_status status = ommai_team_create(n_threads, false, allocator, &team->team, error);
  if (status != OMMA_OK) {
    ommai_release(allocator, team, 1, sizeof *team);
    return status;
  }
  *out = team;
  return OMMA_OK;
}

void ommai_image_team_destroy(struct ommai_image_team *team) {
  if (!team) return;
  struct omma_allocator allocator = team->allocator;
  ommai_team_destroy(team->team);
  ommai_release(&allocator, team, 1, sizeof *team);
}

const struct omma_team *ommai_image_team_borrow(struct ommai_image_team *team) {
  if (atomic_exchange(&team->taken, true)) return &ommai_serial_team;
  return ommai_team_interface(team->team);
}

void ommai_image_team_return(struct ommai_image_team *team, const struct omma_team *borrowed) {
  if (borrowed != &ommai_serial_team) atomic_store(&team->taken, false);
}
