#include "families/gguf_files.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/allocator.h"
#include "base/error.h"
#include "base/file.h"

static bool is_directory(const char *path) {
  struct stat found;
  return stat(path, &found) == 0 && S_ISDIR(found.st_mode);
}

bool ommai_gguf_files_meant(const char *path) {
  struct stat found;
  char config[PATH_MAX];
  if (stat(path, &found) != 0) return false;
  if (!S_ISDIR(found.st_mode)) return S_ISREG(found.st_mode);
  if (!ommai_path_join(config, sizeof config, path, "config.json") || ommai_file_exists(config)) return false;
  return ommai_directory_has(path, ".gguf");
}

static bool is_text(struct ommai_gguf_text text, const char *expected) {
  return text.size == strlen(expected) && memcmp(text.bytes, expected, text.size) == 0;
}

static enum omma_status is_mmproj(const struct ommai_gguf *file, bool *is, struct omma_error *error) {
  struct ommai_gguf_text architecture = {0};
  OMMAI_TRY(ommai_gguf_string(file, "general.architecture", true, &architecture, error));
  *is = is_text(architecture, "clip");
  return OMMA_OK;
}

/* ---- a directory ---- */

/* The two files of a directory; "" where there is none. */
struct found {
  char model[PATH_MAX], mmproj[PATH_MAX];
};

/* STEM-0000K-of-0000N.gguf with K of 2 or more: no model of its own. */
static bool is_later_part(const char *name) {
  int part, count, end = 0;
  size_t size = strlen(name);
  enum { SUFFIX = sizeof "-00001-of-00001.gguf" - 1 };
  if (size <= SUFFIX) return false;
  if (sscanf(name + size - SUFFIX, "-%5d-of-%5d.gguf%n", &part, &count, &end) != 2) return false;
  return end == SUFFIX && part > 1;
}

static enum omma_status note_file(const char *directory, const char *name, const struct omma_allocator *allocator,
                                  struct found *found, struct omma_error *error) {
  char path[PATH_MAX];
  struct ommai_gguf *file;
  bool tower = false;
  if (!ommai_path_join(path, sizeof path, directory, name)) {
    return ommai_fail(error, OMMA_ERROR_ARGUMENT, "%.200s...: the path is too long", directory);
  }
  OMMAI_TRY(ommai_gguf_open(path, allocator, &file, error));
  enum omma_status status = is_mmproj(file, &tower, error);
  ommai_gguf_close(file);
  if (status != OMMA_OK) return status;
  char *place = tower ? found->mmproj : found->model;
  if (*place) {
    return ommai_fail_field(
        error, OMMA_ERROR_ARGUMENT, tower ? "mmproj" : "model",
        "%.200s: more than one %s lies here, %.160s for one: name the files, with --model FILE.gguf and --mmproj "
        "FILE.gguf",
        directory, tower ? "vision tower (mmproj)" : "language model", name);
  }
  memcpy(place, path, strlen(path) + 1);
  return OMMA_OK;
}

static enum omma_status search(const char *directory, const struct omma_allocator *allocator, struct found *found,
                               struct omma_error *error) {
  enum omma_status status = OMMA_OK;
  const struct dirent *entry;
  int n = 0;
  DIR *folder = opendir(directory);
  if (!folder) return ommai_fail(error, OMMA_ERROR_IO, "%.200s: %s", directory, strerror(errno));
  while (status == OMMA_OK && (entry = readdir(folder))) {
    if (!ommai_path_ends_with(entry->d_name, ".gguf") || is_later_part(entry->d_name)) continue;
    if (++n > OMMAI_GGUF_MAX_FOLDER) {
      status = ommai_fail(error, OMMA_ERROR_LIMIT, "%.200s: more than %d GGUF files: name one with --model", directory,
                          OMMAI_GGUF_MAX_FOLDER);
    } else {
      status = note_file(directory, entry->d_name, allocator, found, error);
    }
  }
  closedir(folder);
  if (status == OMMA_OK && !*found->model) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "model", "%.200s: a vision tower (mmproj) and no language model",
                            directory);
  }
  return status;
}

/* ---- the files ---- */

/* The path of part `index` of `count`, which is `first` with another number. */
static bool part_path(char path[PATH_MAX], const char *first, int64_t index, int64_t count) {
  char suffix[64], wanted[64];
  snprintf(suffix, sizeof suffix, "-%05d-of-%05lld.gguf", 1, (long long)count);
  snprintf(wanted, sizeof wanted, "-%05lld-of-%05lld.gguf", (long long)index + 1, (long long)count);
  if (!ommai_path_ends_with(first, suffix)) return false;
  int stem = (int)(strlen(first) - strlen(suffix));
  return snprintf(path, PATH_MAX, "%.*s%s", stem, first, wanted) < PATH_MAX;
}

static enum omma_status check_part(const struct ommai_gguf *file, int64_t index, int64_t count, struct omma_error *error) {
  int64_t number = 0, of = 1;
  OMMAI_TRY(ommai_gguf_integer(file, "split.no", false, 0, OMMAI_GGUF_MAX_PARTS, &number, error));
  OMMAI_TRY(ommai_gguf_integer(file, "split.count", false, 0, OMMAI_GGUF_MAX_PARTS, &of, error));
  if (number == index && of == count) return OMMA_OK;
  return ommai_fail(error, OMMA_ERROR_FORMAT, "%.200s: its metadata state part %lld of %lld, expected part %lld of %lld%s",
                    ommai_gguf_path(file), (long long)number + 1, (long long)of, (long long)index + 1, (long long)count,
                    index == 0 ? ": give the first part, which finds the others" : "");
}

/* All parts together have the tensors that the first one announces. */
static enum omma_status check_tensors(const struct ommai_gguf_files *files, struct omma_error *error) {
  int64_t announced = -1, found = 0;
  OMMAI_TRY(ommai_gguf_integer(files->parts[0], "split.tensors.count", false, 0, INT32_MAX, &announced, error));
  for (int64_t i = 0; i < files->n_parts; i++) found += ommai_gguf_count(files->parts[i]);
  if (announced < 0 || announced == found) return OMMA_OK;
  return ommai_fail(error, OMMA_ERROR_FORMAT, "%.200s: announces %lld tensors, its %lld parts have %lld",
                    ommai_gguf_path(files->parts[0]), (long long)announced, (long long)files->n_parts, (long long)found);
}

static enum omma_status open_parts(struct ommai_gguf_files *files, const char *path, struct omma_error *error) {
  struct ommai_gguf *first;
  int64_t count = 1;
  OMMAI_TRY(ommai_gguf_open(path, &files->allocator, &first, error));
  enum omma_status status = ommai_gguf_integer(first, "split.count", false, 0, OMMAI_GGUF_MAX_PARTS, &count, error);
  if (count < 1) count = 1; /* so do files that were joined again */
  if (status == OMMA_OK) files->parts = ommai_allocate(&files->allocator, (size_t)count, sizeof *files->parts);
  if (!files->parts) {
    ommai_gguf_close(first);
    return status == OMMA_OK ? ommai_fail_memory(error, path, (size_t)count * sizeof *files->parts) : status;
  }
  files->n_parts = count;
  files->parts[0] = first;
  if (count == 1) return OMMA_OK;
  OMMAI_TRY(check_part(first, 0, count, error));
  for (int64_t i = 1; i < count; i++) {
    char other[PATH_MAX];
    if (!part_path(other, path, i, count)) {
      return ommai_fail(error, OMMA_ERROR_FORMAT, "%.200s: part 1 of %lld, and not called ...-00001-of-%05lld.gguf", path,
                        (long long)count, (long long)count);
    }
    OMMAI_TRY(ommai_gguf_open(other, &files->allocator, &files->parts[i], error));
    OMMAI_TRY(check_part(files->parts[i], i, count, error));
  }
  return check_tensors(files, error);
}

static enum omma_status open_both(struct ommai_gguf_files *files, const char *path, const char *mmproj,
                                  struct omma_error *error) {
  bool tower;
  OMMAI_TRY(open_parts(files, path, error));
  OMMAI_TRY(is_mmproj(files->parts[0], &tower, error));
  if (tower) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "model",
                            "%.200s: a vision tower (mmproj): it goes to --mmproj, and the language model to --model", path);
  }
  if (!mmproj || !*mmproj) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "mmproj",
                            "%.200s: the language model alone; its vision tower is a file of its own: give it with --mmproj "
                            "FILE.gguf",
                            path);
  }
  OMMAI_TRY(ommai_gguf_open(mmproj, &files->allocator, &files->mmproj, error));
  OMMAI_TRY(is_mmproj(files->mmproj, &tower, error));
  if (tower) return OMMA_OK;
  return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "mmproj",
                          "%.200s: no vision tower: its general.architecture is not \"clip\"", mmproj);
}

enum omma_status ommai_gguf_files_open(const char *path, const char *mmproj, const struct omma_allocator *allocator,
                                       struct ommai_gguf_files *files, struct omma_error *error) {
  files->allocator = *allocator;
  if (!is_directory(path)) return open_both(files, path, mmproj, error);
  struct found found = {.model = "", .mmproj = ""};
  OMMAI_TRY(search(path, allocator, &found, error));
  return open_both(files, found.model, mmproj ? mmproj : found.mmproj, error);
}

void ommai_gguf_files_close(struct ommai_gguf_files *files) {
  for (int64_t i = 0; i < files->n_parts; i++) ommai_gguf_close(files->parts[i]);
  ommai_gguf_close(files->mmproj);
  if (files->parts) ommai_release(&files->allocator, files->parts, (size_t)files->n_parts, sizeof *files->parts);
  *files = (struct ommai_gguf_files){.n_parts = 0};
}

const struct ommai_gguf_tensor *ommai_gguf_files_find(const struct ommai_gguf_files *files, const char *name) {
  const struct ommai_gguf_tensor *tensor = NULL;
  for (int64_t i = 0; i < files->n_parts && !tensor; i++) tensor = ommai_gguf_find(files->parts[i], name);
  return tensor;
}
