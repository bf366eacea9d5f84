#include "cli/core/folder_files.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>

#include "base/file.h"
#include "cli/core/diagnostics.h"
#include "cli/core/paths.h"

static int is_shown(const struct dirent *entry) { return *entry->d_name != '.'; }

int ommai_each_file_of(const char *folder, bool (*wanted)(const char *name), int (*take)(void *context, const char *path),
                       void *context, int *code) {
  struct dirent **entries;
  char path[OMMAI_MAX_PATH];
  bool fits = true;
  int n_taken = 0, n = scandir(folder, &entries, is_shown, alphasort);
  *code = OMMAI_EXIT_DONE;
  if (n < 0) return -1;
  for (int i = 0; i < n; i++) {
    if (fits && *code == OMMAI_EXIT_DONE && wanted(entries[i]->d_name)) {
      fits = ommai_path_join(path, sizeof path, folder, entries[i]->d_name);
      if (fits) *code = take(context, path);
      n_taken++;
    }
    free(entries[i]);
  }
  free(entries);
  if (!fits) errno = ENAMETOOLONG;
  return fits ? n_taken : -1;
}
