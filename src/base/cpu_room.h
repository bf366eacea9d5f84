/* How many threads compute at the same time here: what the affinity mask, the control groups and
 * the processor's cores leave. */
#pragma once

#include <sched.h>
#include <stddef.h>
#include <stdint.h>

/* What sets the number of threads. */
enum ommai_cpu_limit { OMMAI_CPU_LIMIT_CPUS, OMMAI_CPU_LIMIT_CORES, OMMAI_CPU_LIMIT_QUOTA };

/* Nodes that are known as such; CPUs of further ones count for the last. */
#define OMMAI_CPU_MAX_NODES 32

struct ommai_cpu_room {
  /* CPUs that the process may run on: its affinity mask, the cpuset of its groups, and those that
   * are online. */
  int cpus;
  /* Physical cores of these CPUs: two hardware threads of a core compute as one. */
  int cores;
  /* Those of the fastest kind: fewer than `cores` where a processor has cores of several kinds. */
  int fast_cores;
  /* Memory nodes (NUMA) that the CPUs lie on, at least 1. */
  int nodes;
  /* Bytes of the last level of cache that these CPUs have, all instances together; 0: not known. */
  int64_t last_cache_bytes;
  /* CPUs' worth of time that the tightest group gets; 0: no limit. */
  double quota;
  /* The least of CPUs, cores and quota, at least 1; a quota counts in whole CPUs. */
  int threads;
  enum ommai_cpu_limit limit;
  /* The CPUs; the first of those of each core, and of each of the fastest kind. */
  cpu_set_t all, one_of_each_core, one_of_each_fast_core;
  cpu_set_t node_cpus[OMMAI_CPU_MAX_NODES]; /* [nodes], of `all` */
};

/* Reads the files below `root`, "" on a machine, for a process with this affinity mask. What cannot
 * be read is no limit. */
void ommai_cpu_room(const char *root, const cpu_set_t *affinity, struct ommai_cpu_room *room);

/* The same for the calling thread; and on this machine. */
void ommai_cpu_room_below(const char *root, struct ommai_cpu_room *room);
void ommai_cpu_room_here(struct ommai_cpu_room *room);

/* "cpus", "cores" or "quota". */
const char *ommai_cpu_limit_name(enum ommai_cpu_limit limit);

/* "64 CPUs, 32 cores on 2 nodes, a quota of 8.0; by default 8 threads, as the quota has CPUs".
 * Returns out. */
const char *ommai_cpu_room_describe(const struct ommai_cpu_room *room, char *out, size_t size);
#define OMMAI_CPU_ROOM_TEXT 192 /* of `out`, to hold it all */

/* Binds the calling thread, and with it those that it starts from then on, to these CPUs. *before:
 * where it was, to be bound to again. Where the system refuses, nothing changes. */
void ommai_cpu_bind(const cpu_set_t *cpus, cpu_set_t *before);
