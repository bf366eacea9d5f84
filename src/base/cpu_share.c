#include "base/cpu_share.h"

static int least(int a, int b) { return a < b ? a : b; }

/* The CPUs of a set that come after `first` others, n of them, in rising order. */
static cpu_set_t slice(const cpu_set_t *from, int first, int n) {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  for (int cpu = 0; cpu < CPU_SETSIZE && n > 0; cpu++) {
    if (!CPU_ISSET(cpu, from) || first-- > 0) continue;
    CPU_SET(cpu, &cpus);
    n--;
  }
  return cpus;
}

/* Part `index` of n of what lies at a place; returns its cores, at least 1. */
static int take_part(const struct ommai_cpu_room *room, const cpu_set_t *place, int index, int n, int threads,
                     struct ommai_cpu_share *share) {
  cpu_set_t cores;
  CPU_AND(&cores, place, &room->one_of_each_core);
  int n_cores = CPU_COUNT(&cores), n_cpus = CPU_COUNT(place);
  share->cpus = *place;
  if (n_cores < n) return 1;
  int first = index * n_cores / n, end = (index + 1) * n_cores / n;
  int first_cpu = index * n_cpus / n, end_cpu = (index + 1) * n_cpus / n;
  share->cpus = threads > end - first ? slice(place, first_cpu, end_cpu - first_cpu) : slice(&cores, first, end - first);
  return end - first;
}

void ommai_cpu_shares(const struct ommai_cpu_room *room, int n_engines, int threads, struct ommai_cpu_shares *shares) {
  int n = n_engines ? n_engines : room->nodes, n_places = least(n, room->nodes), cores = room->threads;
  *shares = (struct ommai_cpu_shares){.n_engines = n, .n_places = n_places};
  for (int place = 0; place < n_places; place++) {
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    for (int node = place * room->nodes / n_places; node < (place + 1) * room->nodes / n_places; node++) {
      CPU_OR(&cpus, &cpus, &room->node_cpus[node]);
    }
    int first = place * n / n_places, end = (place + 1) * n / n_places;
    if (end - first > shares->most_of_place) shares->most_of_place = end - first;
    for (int i = first; i < end; i++) {
      cores = least(cores, take_part(room, &cpus, i - first, end - first, threads, &shares->of[i]));
      shares->of[i].place = place;
    }
  }
  int of_quota = room->threads / n;
  shares->threads = threads ? threads : least(cores, of_quota > 0 ? of_quota : 1);
}

cpu_set_t ommai_cpu_shares_at(const struct ommai_cpu_shares *shares, int place) {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  for (int i = 0; i < shares->n_engines; i++) {
    if (shares->of[i].place == place) CPU_OR(&cpus, &cpus, &shares->of[i].cpus);
  }
  return cpus;
}
