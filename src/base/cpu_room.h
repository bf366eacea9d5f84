/* How many threads compute at the same time here: what the affinity mask, the control groups and
 * the processor's cores leave. */
#pragma once

#include <sched.h>

struct ommai_cpu_room {
  /* CPUs that the process may run on: its affinity mask, and the cpuset of its groups. */
  int cpus;
  /* Physical cores of these CPUs: two hardware threads of a core compute as one. */
  int cores;
  /* CPUs' worth of time that the tightest group gets; 0: no limit. */
  double quota;
  /* The least of the three, at least 1; a quota counts in whole CPUs. */
  int threads;
  /* The first of the CPUs of each core. */
  cpu_set_t one_of_each_core;
};

/* Reads the files below `root`, "" on a machine, for a process with this affinity mask. What cannot
 * be read is no limit. */
void ommai_cpu_room(const char *root, const cpu_set_t *affinity, struct ommai_cpu_room *room);

/* The same for the calling thread. */
void ommai_cpu_room_here(struct ommai_cpu_room *room);
