/* The control groups (cgroups, version 1 and 2) that this process is in. */
#pragma once

#include <stdbool.h>

/* A group's folder, without a slash at its end. `unified`: its files are version 2's. */
typedef void (*ommai_cgroup_visitor)(void *context, bool unified, const char *folder);

/* Calls `visit` for the process's group of a controller ("cpu", "memory"), and for all groups above
 * it, in both versions. The files are read below `root`, "" on a machine. A group outside of what
 * is mounted here ("/..") is passed over up to the mount's root. */
void ommai_cgroup_each(const char *root, const char *controller, ommai_cgroup_visitor visit, void *context);
