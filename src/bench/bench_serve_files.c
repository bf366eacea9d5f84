/* The files that omma bench serve leaves: the result and the drawing. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "bench/bench_serve.h"
#include "bench_client/bench_plot.h"
#include "cli/core/diagnostics.h"
#include "cli/core/paths.h"

static int cannot_write(const char *path) { return ommai_failed("bench serve: %s: cannot write: %s", path, strerror(errno)); }

static int too_long(const char *path) { return ommai_failed("bench serve: %s: the path is too long", path); }

/* Makes a directory and those above it. */
static int make_directories(const char *path) {
  char part[OMMAI_MAX_PATH];
  size_t size = strlen(path);
  if (size >= sizeof part) return too_long(path);
  for (size_t i = 1; i <= size; i++) {
    if (path[i] != '/' && path[i] != '\0') continue;
    snprintf(part, sizeof part, "%.*s", (int)i, path);
    if (mkdir(part, 0777) != 0 && errno != EEXIST) return ommai_failed("bench serve: %s: %s", part, strerror(errno));
  }
  return OMMAI_EXIT_DONE;
}

/* Whether `path` can be written, without making it. */
static int check_file(const char *path) {
  char directory[OMMAI_MAX_PATH] = ".";
  const char *slash = strrchr(path, '/');
  struct stat found;
  if (stat(path, &found) == 0) {
    if (S_ISDIR(found.st_mode)) return ommai_failed("bench serve: %s: cannot write: it is a directory", path);
    return access(path, W_OK) == 0 ? OMMAI_EXIT_DONE : cannot_write(path);
  }
  if (errno != ENOENT) return cannot_write(path);
  if (slash && (size_t)(slash - path) >= sizeof directory) return too_long(path);
  if (slash) snprintf(directory, sizeof directory, "%.*s", slash == path ? 1 : (int)(slash - path), path);
  return access(directory, W_OK | X_OK) == 0 ? OMMAI_EXIT_DONE : cannot_write(path);
}

static bool has_result(const struct ommai_bench_serve_values *values) { return values->save || values->append; }

/* Where a result of this name goes. */
static int find_result(const struct ommai_bench_serve_values *values, const char *name, char path[OMMAI_MAX_PATH]) {
  const char *directory = values->result_dir && name[0] != '/' ? values->result_dir : NULL;
  if (directory) return ommai_path_join(path, OMMAI_MAX_PATH, directory, name) ? OMMAI_EXIT_DONE : too_long(directory);
  return snprintf(path, OMMAI_MAX_PATH, "%s", name) < OMMAI_MAX_PATH ? OMMAI_EXIT_DONE : too_long(name);
}

static int check_result(const struct ommai_bench_serve_values *values) {
  char name[OMMAI_MAX_PATH], path[OMMAI_MAX_PATH];
  OMMAI_TRY_CODE(values->result_dir ? make_directories(values->result_dir) : OMMAI_EXIT_DONE);
  if (values->result_file) {
    snprintf(name, sizeof name, "%s", values->result_file);
  } else {
    /* The rest of the name is known after the run; its directory, which a label may have,
     * counts. */
    snprintf(name, sizeof name, "%s-.json", values->label ? values->label : "");
  }
  int code = find_result(values, name, path);
  return code == OMMAI_EXIT_DONE ? check_file(path) : code;
}

int ommai_bench_serve_check_files(const struct ommai_bench_serve_values *values) {
  int code = has_result(values) ? check_result(values) : OMMAI_EXIT_DONE;
  return code == OMMAI_EXIT_DONE && values->plot ? check_file(values->plot) : code;
}

static int write_result(const struct ommai_bench_serve_values *values, const struct ommai_bench_report *report) {
  char name[OMMAI_MAX_PATH], path[OMMAI_MAX_PATH];
  ommai_report_file_name(report, name, sizeof name);
  OMMAI_TRY_CODE(find_result(values, values->result_file ? values->result_file : name, path));
  json_t *result = ommai_report_json(report, values->detailed);
  if (!result) return ommai_failed("bench serve: out of memory: the result");
  FILE *file = fopen(path, values->append ? "a" : "w");
  if (!file) {
    json_decref(result);
    return cannot_write(path);
  }
  fseek(file, 0, SEEK_END);
  if (ftell(file) > 0) fputc('\n', file);
  int failed = json_dumpf(result, file, 0);
  failed |= fclose(file);
  json_decref(result);
  return failed ? cannot_write(path) : OMMAI_EXIT_DONE;
}

static int write_plot(const char *path, bool as_png, const struct ommai_bench_report *report,
                      const struct omma_allocator *allocator) {
  struct omma_error error;
  FILE *file = fopen(path, "w");
  if (!file) return cannot_write(path);
  enum omma_status status =
      as_png ? ommai_bench_plot_png(report, allocator, file, &error) : ommai_bench_plot(report, allocator, file, &error);
  int failed = ferror(file);
  failed |= fclose(file);
  if (status != OMMA_OK) return ommai_failed_call(&error);
  return failed ? cannot_write(path) : OMMAI_EXIT_DONE;
}

int ommai_bench_serve_write_files(const struct ommai_bench_serve_values *values,
                                  const struct ommai_bench_serve_settings *settings, const struct ommai_bench_report *report,
                                  const struct omma_allocator *allocator) {
  int written = has_result(values) ? write_result(values, report) : OMMAI_EXIT_DONE;
  int drawn = values->plot ? write_plot(values->plot, settings->plot_is_png, report, allocator) : OMMAI_EXIT_DONE;
  return written == OMMAI_EXIT_DONE ? drawn : written;
}
