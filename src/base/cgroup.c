#include "base/cgroup.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

/* Whether a list such as "cpu,cpuacct" has the name. */
static bool has_name(const char *list, const char *name) {
  size_t size = strlen(name);
  for (const char *at = list; at; at = strchr(at, ',')) {
    at += *at == ',';
    if (!strncmp(at, name, size) && (at[size] == '\0' || at[size] == ',')) return true;
  }
  return false;
}

/* The group and all above it. */
static void each_above(const char *mount, bool unified, char *group, ommai_cgroup_visitor visit, void *context) {
  char folder[PATH_MAX];
  for (char *slash = group + strlen(group); slash; slash = strrchr(group, '/')) {
    *slash = '\0';
    int length = snprintf(folder, sizeof folder, "%s%s", mount, group);
    if (length > 0 && (size_t)length < sizeof folder) visit(context, unified, folder);
  }
}

/* "0::/group" is version 2's line, "N:cpu,cpuacct:/group" version 1's. */
void ommai_cgroup_each(const char *root, const char *controller, ommai_cgroup_visitor visit, void *context) {
  char path[PATH_MAX], mount[PATH_MAX], line[PATH_MAX];
  snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
  FILE *file = fopen(path, "r");
  while (file && fgets(line, sizeof line, file)) {
    line[strcspn(line, "\n")] = '\0';
    char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!group) continue;
    *group++ = '\0';
    bool unified = !strcmp(line, "0:");
    if (!unified && !has_name(controllers + 1, controller)) continue;
    snprintf(mount, sizeof mount, "%s/sys/fs/cgroup%s%s", root, unified ? "" : "/", unified ? "" : controller);
    each_above(mount, unified, group, visit, context);
  }
  if (file) fclose(file);
}
