#include "server/encoding_directory.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "server/encoding_key.h"

enum { NAME_SIZE = OMMAI_ENCODING_KEY_SIZE + 32, RANDOM_BYTES = 8 };

enum omma_status ommai_encoding_directory_open(const char *path, struct ommai_encoding_directory *directory,
                                               struct omma_error *error) {
  static const char FIELD[] = "ec_transfer_config";
  if (mkdir(path, 0777) != 0 && errno != EEXIST) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, FIELD, "shared_storage_path: %s: %s", path, strerror(errno));
  }
  *directory = (struct ommai_encoding_directory){.descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (directory->descriptor < 0 || faccessat(directory->descriptor, ".", W_OK | X_OK, AT_EACCESS) != 0) {
    int cause = errno;
    if (directory->descriptor >= 0) close(directory->descriptor);
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, FIELD, "shared_storage_path: %s: %s", path, strerror(cause));
  }
  directory->opened = true;
  return OMMA_OK;
}

void ommai_encoding_directory_close(struct ommai_encoding_directory *directory) {
  if (directory->opened) close(directory->descriptor);
  directory->opened = false;
}

static bool write_all(int file, const char *bytes, size_t size) {
  while (size) {
    ssize_t written = write(file, bytes, size);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    bytes += written;
    size -= (size_t)written;
  }
  return true;
}

/* A new file with these bytes. */
static bool write_file(const struct ommai_encoding_directory *directory, const char *name, const char *bytes, size_t size) {
  int file = openat(directory->descriptor, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (file < 0) return false;
  bool good = write_all(file, bytes, size);
  int cause = errno;
  if (close(file) != 0 && good) return false; /* networks report late that a disk is full */
  if (!good) errno = cause;
  return good;
}

static bool put_in_place(const struct ommai_encoding_directory *directory, const char *key, const char *name) {
  char target[NAME_SIZE];
  snprintf(target, sizeof target, "%s/encoder_cache.safetensors", key);
  if (mkdirat(directory->descriptor, key, 0777) != 0 && errno != EEXIST) return false;
  return renameat(directory->descriptor, name, directory->descriptor, target) == 0;
}

enum omma_status ommai_encoding_directory_write(const struct ommai_encoding_directory *directory, const char *key,
                                                const char *bytes, size_t size, struct omma_error *error) {
  unsigned char random[RANDOM_BYTES];
  char name[NAME_SIZE], hex[2 * RANDOM_BYTES + 1];
  randombytes_buf(random, sizeof random);
  sodium_bin2hex(hex, sizeof hex, random, sizeof random);
  snprintf(name, sizeof name, ".%s.part", hex); /* no key begins with a dot */
  if (write_file(directory, name, bytes, size) && put_in_place(directory, key, name)) return OMMA_OK;
  int cause = errno;
  (void)unlinkat(directory->descriptor, name, 0);
  return ommai_fail(error, OMMA_ERROR_IO, "the embeddings of %s cannot be written: %s", key, strerror(cause));
}
