/* How much memory this process may still take before the machine swaps or the kernel ends it. */
#pragma once

#include <stdint.h>

/* Bytes: the minimum of /proc/meminfo's MemAvailable, the room that the process's control groups
 * leave (version 1 or 2, each up to the root; file pages that the kernel can drop count as room),
 * and what `ulimit -v` leaves of addresses. -1 where none of them is known. `root` is put before
 * every path: "" for this machine. Thread-safe. Source: cgroup-v2.rst and proc(5). */
int64_t ommai_memory_room(const char *root);

/* Bytes beyond which the kernel ends this process: what its control groups leave, and the machine's
 * free swap. -1 where no group has a limit. */
int64_t ommai_memory_limit(const char *root);
