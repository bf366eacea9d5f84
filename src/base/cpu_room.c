#include "base/cpu_room.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cgroup.h"

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

void ommai_cpu_room(const char *root, const cpu_set_t *affinity, struct ommai_cpu_room *room) {
  struct groups groups = {.cpus = *affinity};
  ommai_cgroup_each(root, "cpu", visit_quota, &groups);
  ommai_cgroup_each(root, "cpuset", visit_cpus, &groups);
  if (CPU_COUNT(&groups.cpus) == 0) groups.cpus = *affinity;
  *room = (struct ommai_cpu_room){.cpus = CPU_COUNT(&groups.cpus), .quota = groups.quota};
  find_cores(root, &groups.cpus, &room->one_of_each_core);
  room->cores = CPU_COUNT(&room->one_of_each_core);
  room->threads = room->cores;
  /* A thread more than whole CPUs of time would wait for the others' share of it. */
  if (room->quota > 0 && room->quota < room->threads) room->threads = (int)room->quota;
  if (room->threads < 1) room->threads = 1;
}

void ommai_cpu_room_here(struct ommai_cpu_room *room) {
  cpu_set_t affinity;
  CPU_ZERO(&affinity);
  if (sched_getaffinity(0, sizeof affinity, &affinity) != 0) CPU_SET(0, &affinity);
  ommai_cpu_room("", &affinity, room);
}
