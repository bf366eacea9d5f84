#include "server/metrics/metrics_text.h"

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/cpu_room.h"

/* Fields of /proc/self/stat, by proc(5). */
struct process {
  unsigned long long user_ticks, system_ticks, start_ticks, virtual_bytes;
  long long resident_pages;
};

/* The name in the second field may hold anything but ends with the last parenthesis. */
static bool read_process(struct process *process) {
  char line[1024];
  FILE *file = fopen("/proc/self/stat", "r");
  if (!file) return false;
  size_t size = fread(line, 1, sizeof line - 1, file);
  fclose(file);
  line[size] = '\0';
  const char *rest = strrchr(line, ')');
  /* From the third field on: state, 10 numbers, utime, stime, 6 numbers, starttime, vsize, rss. */
  return rest &&
         sscanf(rest + 1, " %*c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu %llu %*s %*s %*s %*s %*s %*s %llu %llu %lld",
                &process->user_ticks, &process->system_ticks, &process->start_ticks, &process->virtual_bytes,
                &process->resident_pages) == 5;
}

/* When the machine was started, in seconds of the calendar; 0 where that is not reported. */
static long long boot_time(void) {
  char line[256];
  long long seconds = 0;
  FILE *file = fopen("/proc/stat", "r");
  while (file && !seconds && fgets(line, sizeof line, file)) {
    if (sscanf(line, "btime %lld", &seconds) != 1) seconds = 0;
  }
  if (file) fclose(file);
  return seconds;
}

/* Open descriptors, without the one that this takes; -1 where they cannot be listed. */
static int64_t count_descriptors(void) {
  DIR *folder = opendir("/proc/self/fd");
  if (!folder) return -1;
  int64_t count = -1;
  for (const struct dirent *entry; (entry = readdir(folder));) count += entry->d_name[0] != '.';
  closedir(folder);
  return count;
}

static void write_value(struct ommai_text *out, const char *name, const char *type, const char *help, double value) {
  ommai_metrics_begin(out, name, type, help);
  ommai_text_format(out, "%s %.17g\n", name, value);
}

/* What limits the threads of this process, and how many follow from it. */
static void write_cpus(struct ommai_text *out) {
  struct ommai_cpu_room room;
  ommai_cpu_room_here(&room);
  ommai_metrics_begin(out, "omma:cpus", "gauge",
                      "CPUs of this process: those it may run on, their cores, those of the fastest kind, and the quota of its "
                      "control groups.");
  ommai_text_format(out,
                    "omma:cpus{limit=\"affinity\"} %d\nomma:cpus{limit=\"cores\"} %d\n"
                    "omma:cpus{limit=\"fast_cores\"} %d\n",
                    room.cpus, room.cores, room.fast_cores);
  if (room.quota > 0) ommai_text_format(out, "omma:cpus{limit=\"quota\"} %.17g\n", room.quota);
  write_value(out, "omma:cpu_nodes", "gauge", "Memory nodes (NUMA) that these CPUs lie on.", room.nodes);
  ommai_metrics_begin(out, "omma:default_threads", "gauge",
                      "Threads that compute where --threads does not say, and what sets their number.");
  ommai_text_format(out, "omma:default_threads{limit=\"%s\"} %d\n", ommai_cpu_limit_name(room.limit), room.threads);
}

void ommai_process_metrics_write(struct ommai_text *out) {
  struct process process;
  struct rlimit limit;
  double ticks = (double)sysconf(_SC_CLK_TCK);
  int64_t n_descriptors = count_descriptors();
  if (read_process(&process)) {
    long long boot = boot_time();
    write_value(out, "process_virtual_memory_bytes", "gauge", "Virtual memory size in bytes.", (double)process.virtual_bytes);
    write_value(out, "process_resident_memory_bytes", "gauge", "Resident memory size in bytes.",
                (double)process.resident_pages * (double)sysconf(_SC_PAGESIZE));
    if (boot) {
      write_value(out, "process_start_time_seconds", "gauge", "Start time of the process since unix epoch in seconds.",
                  (double)boot + (double)process.start_ticks / ticks);
    }
    write_value(out, "process_cpu_seconds_total", "counter", "Total user and system CPU time spent in seconds.",
                (double)(process.user_ticks + process.system_ticks) / ticks);
  }
  if (n_descriptors >= 0) {
    write_value(out, "process_open_fds", "gauge", "Number of open file descriptors.", (double)n_descriptors);
  }
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    write_value(out, "process_max_fds", "gauge", "Maximum number of open file descriptors.", (double)limit.rlim_cur);
  }
  write_cpus(out);
}
