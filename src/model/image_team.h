/* The threads that prepare images. The engine's own team belongs to its one thread; images are
 * prepared by whoever makes a request, so they have a team next to it, taken by one caller at a
 * time. */
#pragma once

#include <omma/host.h>
#include <omma/status.h>

struct ommai_image_team;

/* Errors: MEMORY, INTERNAL (a thread cannot be started). */
enum omma_status ommai_image_team_create(int n_threads, const struct omma_allocator *allocator, struct ommai_image_team **team,
                                         struct omma_error *error);
/* NULL is allowed. */
void ommai_image_team_destroy(struct ommai_image_team *team);

/* The team for one piece of work, or the caller's thread alone while another caller has it: what is
 * computed is the same. Give it back with ommai_image_team_return. Thread-safe. */
const struct omma_team *ommai_image_team_borrow(struct ommai_image_team *team);
void ommai_image_team_return(struct ommai_image_team *team, const struct omma_team *borrowed);
