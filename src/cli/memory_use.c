#include "cli/memory_use.h"

#include <stdio.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

/* A line of /proc/self/status in bytes; -1 when there is none. */
static int64_t read_status(const char *format) {
  FILE *file = fopen("/proc/self/status", "r");
  char line[256];
  long long kilobytes = -1;
  while (file && kilobytes < 0 && fgets(line, sizeof line, file)) sscanf(line, format, &kilobytes);
  if (file) fclose(file);
  return kilobytes < 0 ? -1 : kilobytes * 1024;
}

void ommai_memory_return_freed(void) {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

int64_t ommai_memory_watch(void) {
  /* 5: the peak becomes what is held now. Where that is refused, the peak is that of the process and an upper bound. */
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
