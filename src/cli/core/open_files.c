#include "cli/core/open_files.h"

#include <sys/resource.h>

#include "cli/core/diagnostics.h"

/* Open files besides connections: the server's own 32 for health checks and refusals; the model's
 * files, which stay mapped but not open; epoll sets, the log, stores; images that are read or
 * fetched, one for each of 64 workers. */
#define OTHER_FILES 128

int ommai_open_files_make_room(const char *command, int *max_connections) {
  struct rlimit limit;
  rlim_t needed = (rlim_t)*max_connections + OTHER_FILES;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed) return OMMAI_EXIT_DONE;
  limit.rlim_cur = limit.rlim_max < needed ? limit.rlim_max : needed;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) getrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur >= needed) return OMMAI_EXIT_DONE;
  unsigned long long found = limit.rlim_cur;
  if (found <= OTHER_FILES) {
    return ommai_failed(
        "%s: at least %d open files are needed, and the limit is %llu (ulimit -n, or LimitNOFILE= of a service)", command,
        OTHER_FILES + 1, found);
  }
  int room = (int)(found - OTHER_FILES);
  ommai_warn(
      "%s: --max-connections %d needs %llu open files, and the limit is %llu (ulimit -n, or LimitNOFILE= of a service): "
      "at most %d connections",
      command, *max_connections, (unsigned long long)needed, found, room);
  *max_connections = room;
  return OMMAI_EXIT_DONE;
}
