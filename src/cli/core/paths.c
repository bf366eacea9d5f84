#include "cli/core/paths.h"

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/core/diagnostics.h"

/* The directory of the running program, without a slash at the end. */
static bool executable_directory(char *out, size_t size) {
  ssize_t length = readlink("/proc/self/exe", out, size);
  if (length <= 0 || (size_t)length >= size) return false;
  out[length] = '\0';
  char *slash = strrchr(out, '/');
  if (!slash) return false;
  *slash = '\0';
  return true;
}

/* `directory` without its last `n` parts. */
static void ascend(char *directory, int n) {
  for (; n > 0; n--) {
    char *slash = strrchr(directory, '/');
    if (!slash) return;
    *slash = '\0';
  }
}

static bool holds_model(const char *directory) {
  char config[OMMAI_MAX_PATH];
  return ommai_path_join(config, sizeof config, directory, "config.json") && ommai_file_exists(config);
}

static bool place(char *out, int levels_up, const char *below) {
  char directory[OMMAI_MAX_PATH];
  if (!executable_directory(directory, sizeof directory)) return false;
  ascend(directory, levels_up);
  return ommai_path_join(out, OMMAI_MAX_PATH, directory, below);
}

bool ommai_find_demo_model(char *out, size_t size) {
  static const struct {
    int levels_up;
    const char *below;
  } places[] = {{2, "models/demo"}, {1, "share/ommatidia/demo"}, {4, "share/ommatidia/demo"}};
  char found[3][OMMAI_MAX_PATH] = {"", "", ""};
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    if (!place(found[i], places[i].levels_up, places[i].below) || !holds_model(found[i])) continue;
    snprintf(out, size, "%s", found[i]);
    return true;
  }
  snprintf(out, size, "%s and %s", found[0], found[1]);
  return false;
}

bool ommai_find_neighbour(char *out, const char *name) { return place(out, 0, name); }

const char *ommai_directory_pattern(const char *directory, char *out, size_t size) {
  snprintf(out, size, "%s%s", directory, ommai_path_ends_with(directory, "/") ? "" : "/");
  return out;
}

int ommai_check_output_path(const char *path) {
  const char *slash = strrchr(path, '/');
  int size = slash ? (int)(slash - path) + 1 : 0;
  char folder[OMMAI_MAX_PATH];
  struct stat found;
  if (strcmp(path, "-") == 0) {
    return ommai_usage_error("--output -: the file is not written to standard output: give it a name (./- is a name)");
  }
  if (snprintf(folder, sizeof folder, "%.*s.", size, path) >= (int)sizeof folder) {
    return ommai_failed("--output: the path is too long");
  }
  if (stat(path, &found) == 0 && S_ISDIR(found.st_mode)) {
    errno = EISDIR;
  } else if (access(folder, W_OK | X_OK) == 0) {
    return OMMAI_EXIT_DONE;
  } else if (errno == ENOENT) {
    return ommai_failed("--output %s: the folder that it is to lie in is missing", path);
  }
  return ommai_failed("--output %s: %s", path, strerror(errno));
}

const char *ommai_home_directory(void) {
  const char *given = getenv("HOME");
  if (given && *given) return given;
  const struct passwd *user = getpwuid(getuid());
  return user ? user->pw_dir : NULL;
}

bool ommai_history_path(char *out, size_t size) {
  const char *state = getenv("XDG_STATE_HOME"), *home = ommai_home_directory();
  /* The specification has relative paths ignored. */
  if (state && *state == '/') return ommai_path_join(out, size, state, "omma/history");
  return home && ommai_path_join(out, size, home, ".local/state/omma/history");
}
