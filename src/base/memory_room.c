#include "base/memory_room.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/cgroup.h"
#include "base/checked.h"

#define LINE_SIZE 512

/* The files of one of the two versions of control groups. */
struct layout {
  const char *limit, *usage, *active_file, *inactive_file;
};

static const struct layout version_1 = {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_active_file %lld",
                                        "total_inactive_file %lld"};
static const struct layout version_2 = {"memory.max", "memory.current", "active_file %lld", "inactive_file %lld"};

/* The smaller of two, of which -1 is not known. */
static int64_t smaller(int64_t a, int64_t b) {
  if (a < 0 || b < 0) return a < 0 ? b : a;
  return ommai_min_i64(a, b);
}

/* The number in the first line that `format` reads one from; -1 when there is none. A limit "max"
 * is not a number. */
static int64_t read_number(const char *path, const char *format) {
  char line[LINE_SIZE];
  long long number = -1;
  bool found = false;
  FILE *file = fopen(path, "r");
  while (file && !found && fgets(line, sizeof line, file)) found = sscanf(line, format, &number) == 1;
  if (file) fclose(file);
  return found && number >= 0 ? (int64_t)number : -1;
}

static int64_t read_group_number(const char *folder, const char *name, const char *format) {
  char path[PATH_MAX];
  int length = snprintf(path, sizeof path, "%s/%s", folder, name);
  return length > 0 && (size_t)length < sizeof path ? read_number(path, format) : -1;
}

/* What one group leaves; -1 where it has no limit. */
static int64_t group_room(const struct layout *layout, const char *folder) {
  int64_t limit = read_group_number(folder, layout->limit, "%lld");
  if (limit < 0) return -1;
  int64_t usage = read_group_number(folder, layout->usage, "%lld");
  if (usage < 0) return -1;
  int64_t active = read_group_number(folder, "memory.stat", layout->active_file);
  int64_t inactive = read_group_number(folder, "memory.stat", layout->inactive_file);
  int64_t files = ommai_max_i64(active, 0) + ommai_max_i64(inactive, 0);
  return ommai_max_i64(limit - usage + ommai_min_i64(files, usage), 0);
}

static void visit_group(void *context, bool unified, const char *folder) {
  int64_t *room = context;
  *room = smaller(*room, group_room(unified ? &version_2 : &version_1, folder));
}

static int64_t cgroup_room(const char *root) {
  int64_t room = -1;
  ommai_cgroup_each(root, "memory", visit_group, &room);
  return room;
}

static int64_t address_room(const char *root) {
  char path[PATH_MAX];
  struct rlimit limit;
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur > INT64_MAX) return -1;
  snprintf(path, sizeof path, "%s/proc/self/statm", root);
  int64_t pages = read_number(path, "%lld");
  if (pages < 0) return -1;
  return ommai_max_i64((int64_t)limit.rlim_cur - pages * (int64_t)sysconf(_SC_PAGESIZE), 0);
}

/* A line of /proc/meminfo. */
static int64_t machine_bytes(const char *root, const char *format) {
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s/proc/meminfo", root);
  int64_t kilobytes = read_number(path, format);
  return kilobytes < 0 || kilobytes > INT64_MAX / 1024 ? -1 : kilobytes * 1024;
}

int64_t ommai_memory_room(const char *root) {
  int64_t machine = machine_bytes(root, "MemAvailable: %lld kB");
  return smaller(smaller(machine, cgroup_room(root)), address_room(root));
}

int64_t ommai_memory_limit(const char *root) {
  int64_t room = cgroup_room(root), limit;
  if (room < 0) return -1;
  return ommai_add_i64(room, ommai_max_i64(machine_bytes(root, "SwapFree: %lld kB"), 0), &limit) ? limit : -1;
}
