#include "server/publish/encoding_directory.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "server/publish/encoding_disk.h"

enum { NAME_SIZE = 32, RANDOM_BYTES = 8 };
/* Where the folder of a key is removed by others between its making and its use. */
#define MAX_TRIES 8

enum omma_status ommai_encoding_directory_open(const char *path, int64_t budget, const struct omma_allocator *allocator,
                                               struct ommai_encoding_directory *directory, struct omma_error *error) {
  static const char FIELD[] = "ec_transfer_config";
  if (mkdir(path, 0777) != 0 && errno != EEXIST) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, FIELD, "shared_storage_path: %s: %s", path, strerror(errno));
  }
  *directory = (struct ommai_encoding_directory){
      .descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), .allocator = allocator, .budget = budget};
  if (directory->descriptor < 0 || faccessat(directory->descriptor, ".", W_OK | X_OK, AT_EACCESS) != 0) {
    int cause = errno;
    if (directory->descriptor >= 0) close(directory->descriptor);
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, FIELD, "shared_storage_path: %s: %s", path, strerror(cause));
  }
  pthread_mutex_init(&directory->lock, NULL);
  directory->bytes = budget; /* looked at as the first file is written */
  directory->opened = true;
  return OMMA_OK;
}

void ommai_encoding_directory_close(struct ommai_encoding_directory *directory) {
  if (!directory->opened) return;
  close(directory->descriptor);
  pthread_mutex_destroy(&directory->lock);
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
  for (int tries = 0; tries < MAX_TRIES; tries++) {
    int folder = ommai_encoding_disk_folder(directory->descriptor, key, true);
    if (folder < 0 && errno != ENOENT) return false;
    if (folder < 0) continue;
    bool done = renameat(directory->descriptor, name, folder, OMMAI_ENCODING_FILE) == 0;
    int cause = errno;
    close(folder);
    if (done) return true;
    (void)unlinkat(directory->descriptor, key, AT_REMOVEDIR); /* it stays where it is not empty */
    errno = cause;
    if (cause != ENOENT) return false;
  }
  return false;
}

/* Counts `size` bytes in, with room for them made. What others write meanwhile is counted before it
 * is there, so that the budget holds. */
static bool make_room(struct ommai_encoding_directory *directory, size_t size) {
  bool good = true;
  if (directory->budget == 0) return true;
  if (size > (uint64_t)directory->budget) {
    errno = EFBIG;
    return false;
  }
  pthread_mutex_lock(&directory->lock);
  if (directory->bytes > directory->budget - (int64_t)size) {
    /* A tenth more, so that not every file makes all others be looked at. */
    int64_t room = directory->budget - (int64_t)size, spare = directory->budget / 10;
    good = ommai_encoding_disk_make_room(directory->descriptor, room > spare ? room - spare : 0, directory->allocator,
                                         &directory->bytes);
  }
  if (good) directory->bytes += (int64_t)size;
  pthread_mutex_unlock(&directory->lock);
  return good;
}

/* Both errors of a link in the place of a folder. */
static const char *reason_of(int cause) {
  if (cause == ELOOP || cause == ENOTDIR) return "its folder is a link or no folder";
  return cause == EFBIG ? "it is larger than --encodings-files-bytes, or than a file may be" : strerror(cause);
}

enum omma_status ommai_encoding_directory_write(struct ommai_encoding_directory *directory, const char *key, const char *bytes,
                                                size_t size, struct omma_error *error) {
  unsigned char random[RANDOM_BYTES];
  char name[NAME_SIZE], hex[2 * RANDOM_BYTES + 1];
  randombytes_buf(random, sizeof random);
  sodium_bin2hex(hex, sizeof hex, random, sizeof random);
  snprintf(name, sizeof name, ".%s" OMMAI_ENCODING_PART, hex); /* no key begins with a dot */
  if (make_room(directory, size) && write_file(directory, name, bytes, size) && put_in_place(directory, key, name)) {
    return OMMA_OK;
  }
  int cause = errno;
  (void)unlinkat(directory->descriptor, name, 0);
  return ommai_fail(error, OMMA_ERROR_IO, "the embeddings of %s cannot be written: %s", key, reason_of(cause));
}
