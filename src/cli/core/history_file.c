#include "cli/core/history_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/allocator.h"
#include "base/file.h"
#include "cli/core/diagnostics.h"
#include "cli/core/paths.h"

#define MAX_BYTES ((size_t)16 << 20)

static bool failed(const char *path, const char *why) {
  ommai_note("history: %s: %s: lines are kept for this conversation alone", path, why);
  return false;
}

/* Makes the folders above a file. */
static bool make_folders(const char *path) {
  char folder[OMMAI_MAX_PATH];
  if (snprintf(folder, sizeof folder, "%s", path) >= (int)sizeof folder) return false;
  for (char *slash = strchr(folder + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
    *slash = '\0';
    if (mkdir(folder, 0700) != 0 && errno != EEXIST) return false;
    *slash = '/';
  }
  return true;
}

/* In one call, so that lines of several programs stay whole. */
static bool write_file(const char *path, int flags, const char *data, size_t size) {
  int file = open(path, O_WRONLY | O_CLOEXEC | O_CREAT | flags, 0600);
  if (file < 0 && errno == ENOENT && make_folders(path)) file = open(path, O_WRONLY | O_CLOEXEC | O_CREAT | flags, 0600);
  if (file < 0) return failed(path, strerror(errno));
  ssize_t written = write(file, data, size);
  if (written >= 0 && (size_t)written < size) errno = ENOSPC;
  bool whole = written == (ssize_t)size;
  if (!whole) failed(path, strerror(errno));
  close(file);
  return whole;
}

bool ommai_history_append(const char *path, const char *line) {
  char *ended;
  int size = asprintf(&ended, "%s\n", line);
  if (size < 0) return failed(path, "out of memory");
  bool whole = write_file(path, O_APPEND, ended, (size_t)size);
  free(ended);
  return whole;
}

/* The start of the last `n` lines, and how many there are in all. */
static char *last_lines(char *data, size_t size, size_t n, size_t *total) {
  char *start = data;
  *total = 0;
  for (char *end = data + size; end > data; end--) {
    if (end[-1] != '\n' && end != data + size) continue;
    if (*total == n) start = end;
    ++*total;
  }
  return start;
}

bool ommai_history_load(const char *path, void (*take)(void *context, const char *line), void *context) {
  const struct omma_allocator *allocator = &ommai_default_allocator;
  struct omma_error error;
  char *data;
  size_t size, n_lines;
  /* Whoever wants no history may have made it a link to /dev/null. */
  if (!ommai_file_exists(path)) return true;
  if (ommai_file_read(path, MAX_BYTES, allocator, &data, &size, &error) != OMMA_OK) return failed(path, error.message);
  char *line = last_lines(data, size, OMMAI_HISTORY_LINES, &n_lines);
  bool usable = n_lines < 2 * OMMAI_HISTORY_LINES || write_file(path, O_TRUNC, line, (size_t)(data + size - line));
  while (line < data + size) {
    size_t length = strcspn(line, "\n");
    line[length] = '\0';
    if (length) take(context, line);
    line += length + 1;
  }
  ommai_release(allocator, data, size + 1, 1);
  return usable;
}
