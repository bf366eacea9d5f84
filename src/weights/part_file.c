#include "weights/part_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

#define MAX_TEMPORARY_NAMES 100
#define MAX_WRITE_BYTES ((size_t)1 << 30) /* Linux writes less than 2 GiB per call */

/* O_EXCL instead of mkstemp, so that the user's umask decides who may read the file. */
enum omma_status ommai_part_file_create(struct ommai_part_file *file, const char *path, struct omma_error *error) {
  struct stat info;
  file->path = path;
  file->fd = -1;
  if (stat(path, &info) == 0 && !S_ISREG(info.st_mode)) {
    return ommai_fail(error, OMMA_ERROR_IO, "%s: not a regular file: it is not replaced", path);
  }
  for (int i = 0; i < MAX_TEMPORARY_NAMES; i++) {
    int length = snprintf(file->temporary, sizeof file->temporary, "%s.%ld.%d.part", path, (long)getpid(), i);
    if (length < 0 || (size_t)length >= sizeof file->temporary) {
      return ommai_fail(error, OMMA_ERROR_IO, "%.400s: the path is too long", path);
    }
    file->fd = open(file->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file->fd >= 0) return OMMA_OK;
    if (errno != EEXIST) break;
  }
  return ommai_fail(error, OMMA_ERROR_IO, "%s: cannot create: %s", path, strerror(errno));
}

enum omma_status ommai_part_file_write(struct ommai_part_file *file, const void *data, uint64_t size,
                                       struct omma_error *error) {
  const unsigned char *bytes = data;
  while (size > 0) {
    ssize_t written = write(file->fd, bytes, size < MAX_WRITE_BYTES ? (size_t)size : MAX_WRITE_BYTES);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      return ommai_fail(error, OMMA_ERROR_IO, "%s: cannot write (%" PRIu64 " bytes are left): %s", file->path, size,
                        written < 0 ? strerror(errno) : "nothing was written");
    }
    bytes += written;
    size -= (uint64_t)written;
  }
  return OMMA_OK;
}

enum omma_status ommai_part_file_rewrite(struct ommai_part_file *file, const void *data, uint64_t size,
                                         struct omma_error *error) {
  if (lseek(file->fd, 0, SEEK_SET) != 0) {
    return ommai_fail(error, OMMA_ERROR_IO, "%s: cannot go back to its beginning: %s", file->path, strerror(errno));
  }
  return ommai_part_file_write(file, data, size, error);
}

enum omma_status ommai_part_file_commit(struct ommai_part_file *file, struct omma_error *error) {
  int closed = close(file->fd);
  file->fd = -1;
  if (closed == 0 && rename(file->temporary, file->path) == 0) return OMMA_OK;
  enum omma_status status =
      ommai_fail(error, OMMA_ERROR_IO, "%s: cannot put the file in place: %s", file->path, strerror(errno));
  unlink(file->temporary);
  return status;
}

void ommai_part_file_discard(struct ommai_part_file *file) {
  if (file->fd < 0) return;
  close(file->fd);
  file->fd = -1;
  unlink(file->temporary);
}
