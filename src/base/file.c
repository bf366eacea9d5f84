#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/allocator.h"
#include "base/error.h"

bool ommai_path_join(char *out, size_t size, const char *directory, const char *name) {
  size_t length = strlen(directory);
  const char *slash = length && directory[length - 1] == '/' ? "" : "/";
  int written = snprintf(out, size, "%s%s%s", directory, slash, name);
  return written >= 0 && (size_t)written < size;
}

const char *ommai_path_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

bool ommai_path_ends_with(const char *path, const char *end) {
  size_t size = strlen(path), end_size = strlen(end);
  return size >= end_size && strcmp(path + size - end_size, end) == 0;
}

bool ommai_file_exists(const char *path) {
  struct stat info;
  return stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

bool ommai_directory_has(const char *directory, const char *end) {
  const struct dirent *entry;
  bool found = false;
  DIR *folder = opendir(directory);
  if (!folder) return false;
  while (!found && (entry = readdir(folder))) found = ommai_path_ends_with(entry->d_name, end);
  closedir(folder);
  return found;
}

enum omma_status ommai_file_find(char *path, size_t size, const char *directory, const char *name, bool *found,
                                 struct omma_error *error) {
  struct stat info;
  *found = false;
  if (!ommai_path_join(path, size, directory, name)) {
    return ommai_fail(error, OMMA_ERROR_ARGUMENT, "%.200s...: the path is too long", directory);
  }
  if (lstat(path, &info) != 0) {
    if (errno == ENOENT) return OMMA_OK;
    return ommai_fail(error, OMMA_ERROR_IO, "%s: cannot open: %s", path, strerror(errno));
  }
  if (stat(path, &info) != 0) {
    return ommai_fail(error, OMMA_ERROR_IO, "%s: a link that cannot be followed: %s", path, strerror(errno));
  }
  if (!S_ISREG(info.st_mode)) return ommai_fail(error, OMMA_ERROR_IO, "%s: not a regular file", path);
  *found = true;
  return OMMA_OK;
}

/* The size of an open regular file. */
static enum omma_status size_of_regular(int descriptor, const char *path, size_t *size, struct omma_error *error) {
  struct stat info;
  if (fstat(descriptor, &info) != 0 || !S_ISREG(info.st_mode)) {
    return ommai_fail(error, OMMA_ERROR_IO, "%s: not a regular file", path);
  }
  *size = (size_t)info.st_size;
  return OMMA_OK;
}

/* Opens a regular file and reads its size. O_NONBLOCK keeps a named pipe from hanging the open. */
static enum omma_status open_regular(const char *path, int *descriptor, size_t *size, struct omma_error *error) {
  int fd = *descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return ommai_fail(error, OMMA_ERROR_IO, "%s: cannot open: %s", path, strerror(errno));
  enum omma_status status = size_of_regular(fd, path, size, error);
  if (status != OMMA_OK) close(fd);
  return status;
}

enum omma_status ommai_file_read_open(int descriptor, const char *name, size_t limit, const struct omma_allocator *allocator,
                                      char **data, size_t *size, struct omma_error *error) {
  size_t expected;
  OMMAI_TRY(size_of_regular(descriptor, name, &expected, error));
  if (expected > limit) {
    return ommai_fail(error, OMMA_ERROR_LIMIT, "%s: %zu bytes, more than the limit of %zu", name, expected, limit);
  }
  char *buffer = ommai_allocate(allocator, expected + 1, 1);
  if (!buffer) return ommai_fail_memory(error, name, expected + 1);
  for (size_t at = 0; at < expected;) {
    ssize_t got = read(descriptor, buffer + at, expected - at);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      ommai_release(allocator, buffer, expected + 1, 1);
      return ommai_fail(error, OMMA_ERROR_IO, "%s: read %zu of %zu bytes: %s", name, at, expected,
                        got < 0 ? strerror(errno) : "the file became shorter");
    }
    at += (size_t)got;
  }
  *data = buffer;
  *size = expected;
  return OMMA_OK;
}

enum omma_status ommai_file_read(const char *path, size_t limit, const struct omma_allocator *allocator, char **data,
                                 size_t *size, struct omma_error *error) {
  int fd;
  size_t expected;
  OMMAI_TRY(open_regular(path, &fd, &expected, error));
  enum omma_status status = ommai_file_read_open(fd, path, limit, allocator, data, size, error);
  close(fd);
  return status;
}

bool ommai_file_write_all(int descriptor, const char *bytes, size_t size) {
  while (size) {
    ssize_t written = write(descriptor, bytes, size);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    bytes += written;
    size -= (size_t)written;
  }
  return true;
}

enum omma_status ommai_file_map_open(const char *path, struct ommai_file_map *map, struct omma_error *error) {
  int fd;
  size_t size;
  OMMAI_TRY(open_regular(path, &fd, &size, error));
  void *data = NULL;
  if (size > 0) data = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
  int reason = errno;
  close(fd);
  if (data == MAP_FAILED) {
    return ommai_fail(error, OMMA_ERROR_IO, "%s: cannot map %zu bytes: %s", path, size, strerror(reason));
  }
  *map = (struct ommai_file_map){data, size};
  return OMMA_OK;
}

void ommai_file_map_release_pages(const struct ommai_file_map *map, size_t offset, size_t size) {
  if (!map->data || offset > map->size || size > map->size - offset) return;
  ommai_discard((void *)(uintptr_t)(map->data + offset), size);
}

void ommai_file_map_close(struct ommai_file_map *map) {
  if (map->data) munmap((void *)(uintptr_t)map->data, map->size);
  *map = (struct ommai_file_map){NULL, 0};
}
