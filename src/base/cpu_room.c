#include "base/cpu_room.h"

#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cgroup.h"
#include "base/plural.h"

#define LIST_SIZE 8192

/* What the groups of a process leave. */
struct groups {
  cpu_set_t cpus;
  double quota; /* 0: none */
};

/* The first line of a file, without its end. False when there is none. */
static bool read_line(const char *folder, const char *name, char line[LIST_SIZE]) {
  char path[PATH_MAX];
  int length = snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = length > 0 && (size_t)length < sizeof path ? fopen(path, "r") : NULL;
  bool found = file && fgets(line, LIST_SIZE, file);
  if (file) fclose(file);
  if (found) line[strcspn(line, "\n")] = '\0';
  return found;
}

/* "0-3,8" as a set; false for an empty one and other text. */
static bool parse_list(const char *text, cpu_set_t *set) {
  CPU_ZERO(set);
  while (*text) {
    char *end;
    long first = strtol(text, &end, 10), last = first;
    if (end == text) return false;
    if (*end == '-') {
      text = end + 1;
      last = strtol(text, &end, 10);
      if (end == text) return false;
    }
    for (long cpu = first; cpu >= 0 && cpu <= last && cpu < CPU_SETSIZE; cpu++) CPU_SET(cpu, set);
    if (*end != ',' && *end != '\0') return false;
    text = *end ? end + 1 : end;
  }
  return CPU_COUNT(set) > 0;
}

static void visit_quota(void *context, bool unified, const char *folder) {
  struct groups *groups = context;
  char line[LIST_SIZE];
  double quota = 0, period = 0;
  if (unified) {
    if (!read_line(folder, "cpu.max", line) || sscanf(line, "%lf %lf", &quota, &period) != 2) return;
  } else {
    if (!read_line(folder, "cpu.cfs_quota_us", line) || sscanf(line, "%lf", &quota) != 1) return;
    if (!read_line(folder, "cpu.cfs_period_us", line) || sscanf(line, "%lf", &period) != 1) return;
  }
  if (quota <= 0 || period <= 0) return;
  if (groups->quota == 0 || quota / period < groups->quota) groups->quota = quota / period;
}

static void visit_cpus(void *context, bool unified, const char *folder) {
  struct groups *groups = context;
  char line[LIST_SIZE];
  cpu_set_t listed;
  const char *name = unified ? "cpuset.cpus.effective" : "cpuset.effective_cpus";
  if (!read_line(folder, name, line) || !parse_list(line, &listed)) return;
  CPU_AND(&groups->cpus, &groups->cpus, &listed);
}

/* Takes away what a list of the machine does not have. Where there is none, nothing. */
static void keep_listed(const char *root, const char *name, cpu_set_t *cpus) {
  char folder[PATH_MAX], line[LIST_SIZE];
  cpu_set_t listed;
  snprintf(folder, sizeof folder, "%s/sys/devices/system/cpu", root);
  if (read_line(folder, name, line) && parse_list(line, &listed)) CPU_AND(cpus, cpus, &listed);
}

/* One CPU of `cpus` for each core: the first that its siblings' list names. */
static void find_cores(const char *root, const cpu_set_t *cpus, cpu_set_t *cores) {
  char folder[PATH_MAX], line[LIST_SIZE];
  cpu_set_t siblings;
  CPU_ZERO(cores);
  for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
    if (!CPU_ISSET(cpu, cpus)) continue;
    snprintf(folder, sizeof folder, "%s/sys/devices/system/cpu/cpu%d/topology", root, cpu);
    bool known = read_line(folder, "thread_siblings_list", line) && parse_list(line, &siblings);
    if (known) CPU_AND(&siblings, &siblings, cores);
    if (!known || CPU_COUNT(&siblings) == 0) CPU_SET(cpu, cores);
  }
}

/* A CPU's share of the fastest one's speed in 1/1024, as the scheduler has it; 0: not known. */
static long capacity_of(const char *root, int cpu) {
  char folder[PATH_MAX], line[LIST_SIZE];
  snprintf(folder, sizeof folder, "%s/sys/devices/system/cpu/cpu%d", root, cpu);
  return read_line(folder, "cpu_capacity", line) ? strtol(line, NULL, 10) : 0;
}

/* Cores of the fastest kind. Intel's other kind has a list of its own; elsewhere capacities tell.
 * Cores of one kind differ by some per cent in them, kinds by a third and more. */
static void find_fast_cores(const char *root, const cpu_set_t *cores, cpu_set_t *fast) {
  enum { SAME_KIND_PERCENT = 80 };
  char folder[PATH_MAX], line[LIST_SIZE];
  cpu_set_t slow;
  long most = 0;
  snprintf(folder, sizeof folder, "%s/sys/devices/cpu_atom", root);
  bool listed = read_line(folder, "cpus", line) && parse_list(line, &slow);
  for (int cpu = 0; cpu < CPU_SETSIZE && !listed; cpu++) {
    if (!CPU_ISSET(cpu, cores)) continue;
    long capacity = capacity_of(root, cpu);
    if (capacity > most) most = capacity;
  }
  CPU_ZERO(fast);
  for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
    if (!CPU_ISSET(cpu, cores)) continue;
    bool is_slow = listed ? CPU_ISSET(cpu, &slow) : capacity_of(root, cpu) * 100 < most * SAME_KIND_PERCENT;
    if (!is_slow) CPU_SET(cpu, fast);
  }
  if (CPU_COUNT(fast) == 0) *fast = *cores; /* all are of the other kind */
}

/* Nodes that have some of the CPUs; all are on one where nothing else is known. */
static void find_nodes(const char *root, struct ommai_cpu_room *room) {
  char folder[PATH_MAX], line[LIST_SIZE];
  cpu_set_t online, of_node;
  room->nodes = 1;
  room->node_cpus[0] = room->all;
  snprintf(folder, sizeof folder, "%s/sys/devices/system/node", root);
  if (!read_line(folder, "online", line) || !parse_list(line, &online)) return;
  int count = 0;
  for (int node = 0; node < CPU_SETSIZE; node++) {
    if (!CPU_ISSET(node, &online)) continue;
    snprintf(folder, sizeof folder, "%s/sys/devices/system/node/node%d", root, node);
    if (!read_line(folder, "cpulist", line) || !parse_list(line, &of_node)) continue;
    CPU_AND(&of_node, &of_node, &room->all);
    if (CPU_COUNT(&of_node) == 0) continue;
    if (count < OMMAI_CPU_MAX_NODES) {
      room->node_cpus[count++] = of_node;
    } else {
      CPU_OR(&room->node_cpus[count - 1], &room->node_cpus[count - 1], &of_node);
    }
  }
  if (count) room->nodes = count;
}

/* Bytes of the cache of the highest level that this CPU has, and the CPUs that share it. */
static int64_t last_cache_of(const char *root, int cpu, cpu_set_t *shared) {
  char folder[PATH_MAX], line[LIST_SIZE];
  long last = 0;
  int64_t bytes = 0;
  for (int i = 0;; i++) {
    snprintf(folder, sizeof folder, "%s/sys/devices/system/cpu/cpu%d/cache/index%d", root, cpu, i);
    if (!read_line(folder, "level", line)) break;
    long level = strtol(line, NULL, 10), kib;
    if (level <= last || !read_line(folder, "size", line) || sscanf(line, "%ldK", &kib) != 1) continue;
    if (!read_line(folder, "shared_cpu_list", line) || !parse_list(line, shared)) continue;
    last = level;
    bytes = (int64_t)kib * 1024;
  }
  return bytes;
}

static int64_t find_last_cache(const char *root, const cpu_set_t *cpus) {
  cpu_set_t shared, counted;
  int64_t bytes = 0;
  CPU_ZERO(&counted);
  for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
    if (!CPU_ISSET(cpu, cpus) || CPU_ISSET(cpu, &counted)) continue;
    CPU_ZERO(&shared);
    bytes += last_cache_of(root, cpu, &shared);
    CPU_OR(&counted, &counted, &shared);
  }
  return bytes;
}

static void choose_threads(struct ommai_cpu_room *room) {
  room->threads = room->cores;
  room->limit = room->cores < room->cpus ? OMMAI_CPU_LIMIT_CORES : OMMAI_CPU_LIMIT_CPUS;
  /* A thread more than whole CPUs of time would wait for the others' share of it. */
  if (room->quota > 0 && room->quota < room->threads) {
    room->threads = room->quota < 1 ? 1 : (int)room->quota;
    room->limit = OMMAI_CPU_LIMIT_QUOTA;
  }
}

void ommai_cpu_room(const char *root, const cpu_set_t *affinity, struct ommai_cpu_room *room) {
  struct groups groups = {.cpus = *affinity};
  ommai_cgroup_each(root, "cpu", visit_quota, &groups);
  ommai_cgroup_each(root, "cpuset", visit_cpus, &groups);
  keep_listed(root, "online", &groups.cpus);
  if (CPU_COUNT(&groups.cpus) == 0) groups.cpus = *affinity;
  *room = (struct ommai_cpu_room){.cpus = CPU_COUNT(&groups.cpus), .quota = groups.quota, .all = groups.cpus};
  find_cores(root, &groups.cpus, &room->one_of_each_core);
  find_fast_cores(root, &room->one_of_each_core, &room->one_of_each_fast_core);
  room->cores = CPU_COUNT(&room->one_of_each_core);
  room->fast_cores = CPU_COUNT(&room->one_of_each_fast_core);
  find_nodes(root, room);
  room->last_cache_bytes = find_last_cache(root, &room->all);
  choose_threads(room);
}

void ommai_cpu_room_below(const char *root, struct ommai_cpu_room *room) {
  cpu_set_t affinity;
  CPU_ZERO(&affinity);
  if (sched_getaffinity(0, sizeof affinity, &affinity) != 0) CPU_SET(0, &affinity);
  ommai_cpu_room(root, &affinity, room);
}

void ommai_cpu_room_here(struct ommai_cpu_room *room) { ommai_cpu_room_below("", room); }

const char *ommai_cpu_limit_name(enum ommai_cpu_limit limit) {
  static const char *const names[] = {"cpus", "cores", "quota"};
  return names[limit];
}

const char *ommai_cpu_room_describe(const struct ommai_cpu_room *room, char *out, size_t size) {
  static const char *const reasons[] = {"one for each CPU", "one for each core", "as the quota has CPUs"};
  char fast[32] = "", nodes[32] = "", quota[48] = "no quota";
  if (room->fast_cores < room->cores) snprintf(fast, sizeof fast, " (%d of the fast kind)", room->fast_cores);
  if (room->nodes > 1) snprintf(nodes, sizeof nodes, " on %d nodes", room->nodes);
  if (room->quota > 0) snprintf(quota, sizeof quota, "a quota of %.1f", room->quota);
  snprintf(out, size, "%d CPU%s, %d core%s%s%s, %s; by default %d thread%s, %s", room->cpus, ommai_plural(room->cpus),
           room->cores, ommai_plural(room->cores), fast, nodes, quota, room->threads, ommai_plural(room->threads),
           reasons[room->limit]);
  return out;
}

void ommai_cpu_bind(const cpu_set_t *cpus, cpu_set_t *before) {
  cpu_set_t own = *cpus;
  pthread_getaffinity_np(pthread_self(), sizeof *before, before);
  pthread_setaffinity_np(pthread_self(), sizeof own, &own);
}
