#include "cli/model/gguf_path.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "cli/core/paths.h"

static bool begins_as_gguf(const char *path) {
  char magic[4] = "";
  FILE *file = fopen(path, "rb");
  bool read = file && fread(magic, sizeof magic, 1, file) == 1;
  if (file) fclose(file);
  return read && memcmp(magic, "GGUF", sizeof magic) == 0;
}

static bool holds_gguf(const char *directory) {
  char path[OMMAI_MAX_PATH];
  if (!ommai_path_join(path, sizeof path, directory, "config.json") || ommai_file_exists(path)) return false;
  return ommai_directory_has(directory, ".gguf");
}

bool ommai_is_gguf(const char *path) {
  struct stat found;
  if (stat(path, &found) != 0) return false;
  if (S_ISDIR(found.st_mode)) return holds_gguf(path);
  return S_ISREG(found.st_mode) && begins_as_gguf(path);
}
