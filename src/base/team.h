/* The library's own thread team: pinned threads in groups of eight, which take tasks from their
 * group's counter and then from those of others. */
#pragma once

#include <omma/host.h>
#include <omma/status.h>
#include <sched.h>
#include <stdbool.h>

struct ommai_team;

/* Workers of a group: those of worker w are 8 (w / 8) to 8 (w / 8) + 7. A run of n tasks is shared
 * by as many groups as have 8 tasks or the rest of them; the first of g groups has tasks 0, g, 2 g,
 * ..., and takes those of the others when it has none left. */
enum { OMMAI_TEAM_GROUP = 8 };

/* Threads that compute at the same time here (base/cpu_room.h); at least 1. */
int ommai_team_cpu_count(void);

/* Makes a team of n_threads workers: n_threads - 1 threads and the calling thread of each run. With
 * `pin`, the own threads are bound to distinct CPUs of the process's affinity mask (the caller's
 * thread is left alone). One run at a time. Errors: MEMORY, INTERNAL (thread creation failed; the
 * threads made so far are joined). */
enum omma_status ommai_team_create(int n_threads, bool pin, const struct omma_allocator *allocator, struct ommai_team **team,
                                   struct omma_error *error);
void ommai_team_destroy(struct ommai_team *team);

/* Binds the calling thread to the CPU that a team of n_threads leaves to its caller where it is
 * made with `pin`, if the team has a thread for each CPU: a caller that the scheduler has put on
 * the CPU of a worker waits for it, and may do so for many runs while another program has its own.
 * *before: where the thread was. False: it is left alone. */
bool ommai_team_bind_caller(int n_threads, cpu_set_t *before);

/* The interface to hand down. Valid as long as the team. */
const struct omma_team *ommai_team_interface(const struct ommai_team *team);

/* A team of one: the calling thread runs the tasks in order. */
extern const struct omma_team ommai_serial_team;

/* Runs tasks on `team`, or on the calling thread alone when team is NULL. */
void ommai_team_run(const struct omma_team *team, int64_t n_tasks, omma_task task, void *context);
