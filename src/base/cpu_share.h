/* The CPUs of engines that share a machine: each has its own, on one memory node where there are
 * enough nodes or cores for that. */
#pragma once

#include "base/cpu_room.h"

#define OMMAI_MAX_ENGINES 64

struct ommai_cpu_share {
  /* One CPU of each of its cores; all CPUs of its nodes where those have too few cores for their
   * engines. */
  cpu_set_t cpus;
  int place; /* from 0: engines with the same place share a node, and its memory */
};

struct ommai_cpu_shares {
  int n_engines, n_places;
  int threads;       /* of each engine: the cores of the smallest share, within the quota */
  int most_of_place; /* engines that one place has at most */
  struct ommai_cpu_share of[OMMAI_MAX_ENGINES];
};

/* Shares the room among n_engines (1 to OMMAI_MAX_ENGINES; 0: as many as it has nodes). More
 * engines than nodes are spread over the nodes; fewer have several neighbouring nodes each, which
 * are one place. threads: of each engine where that is given, else 0; more than there are cores for
 * get the hardware threads of cores too. */
void ommai_cpu_shares(const struct ommai_cpu_room *room, int n_engines, int threads, struct ommai_cpu_shares *shares);

/* The CPUs of all engines of a place. */
cpu_set_t ommai_cpu_shares_at(const struct ommai_cpu_shares *shares, int place);
