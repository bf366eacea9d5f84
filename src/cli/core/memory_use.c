#include "cli/core/memory_use.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* A line of /proc/self/status in bytes; -1 when there is none. */
static int64_t read_status(const char *format) {
  FILE *file = fopen("/proc/self/status", "r");
  char line[256];
  long long kilobytes = -1;
  while (file && kilobytes < 0 && fgets(line, sizeof line, file)) sscanf(line, format, &kilobytes);
  if (file) fclose(file);
  return kilobytes < 0 ? -1 : kilobytes * 1024;
}

/* Whether the line begins a mapping of /proc/self/smaps ("5581a000-5581b000 r-xp ..."), and then
 * whether it can be executed. */
static bool begins_mapping(const char *line, bool *executable) {
  char modes[5];
  if (sscanf(line, "%*x-%*x %4s", modes) != 1) return false;
  *executable = strchr(modes, 'x') != NULL;
  return true;
}

int64_t ommai_memory_of_code(void) {
  FILE *file = fopen("/proc/self/smaps", "r");
  char line[512];
  long long total = 0, kilobytes;
  bool executable = false;
  if (!file) return -1;
  while (fgets(line, sizeof line, file)) {
    if (begins_mapping(line, &executable) || !executable) continue;
    if (sscanf(line, "Rss: %lld kB", &kilobytes) == 1) total += kilobytes;
  }
  fclose(file);
  return total * 1024;
}

int64_t ommai_memory_watch(void) {
  /* 5: the peak becomes what is held now. Where that is refused, the peak is that of the process
   * and an upper bound. */
  FILE *file = fopen("/proc/self/clear_refs", "w");
  if (file) {
    fputs("5", file);
    fclose(file);
  }
  return read_status("VmRSS: %lld kB");
}

int64_t ommai_memory_peak_since(int64_t start) {
  int64_t peak = read_status("VmHWM: %lld kB");
  return start < 0 || peak < 0 ? -1 : peak - start;
}
