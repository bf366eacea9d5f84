#include "fuzz_folder.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fuzz_input.h"

enum { MAX_NAMES = 32, PATH_SIZE = 160 };

static char folder[] = "/tmp/omma-fuzz-XXXXXX";
static const char *known[MAX_NAMES];
static int n_known;

static void path_of(const char *name, char path[PATH_SIZE]) { snprintf(path, PATH_SIZE, "%s/%s", folder, name); }

static void remove_folder(void) {
  char path[PATH_SIZE];
  for (int i = 0; i < n_known; i++) {
    path_of(known[i], path);
    unlink(path);
  }
  rmdir(folder);
}

const char *fuzz_folder(void) {
  static int made;
  if (!made) {
    FUZZ_CHECK(mkdtemp(folder));
    made = 1;
    atexit(remove_folder);
  }
  return folder;
}

static void remember(const char *name) {
  for (int i = 0; i < n_known; i++) {
    if (strcmp(known[i], name) == 0) return;
  }
  FUZZ_CHECK(n_known < MAX_NAMES);
  known[n_known++] = name;
}

void fuzz_folder_fill(const char *const *names, int n_names, const uint8_t *bytes, size_t size) {
  char path[PATH_SIZE];
  const uint8_t *at = bytes, *end = bytes ? bytes + size : NULL;
  fuzz_folder();
  for (int i = 0; i < n_names; i++) {
    const uint8_t *stop = at && i + 1 < n_names ? memchr(at, 0, (size_t)(end - at)) : NULL;
    size_t length = at ? (size_t)((stop ? stop : end) - at) : 0;
    if (names[i]) {
      remember(names[i]);
      path_of(names[i], path);
      if (at) {
        FILE *file = fopen(path, "wb");
        FUZZ_CHECK(file && fwrite(at, 1, length, file) == length && fclose(file) == 0);
      } else {
        unlink(path);
      }
    }
    at = stop ? stop + 1 : NULL;
  }
}
