#include "server/publish/encoding_directory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <omma/host.h>
#include <sodium.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/growing.h"
#include "server/publish/encoding_memory.h"

enum { NAME_SIZE = 32, RANDOM_BYTES = 8 };
/* Where the folder of a key is removed by others between its making and its use. */
#define MAX_TRIES 8

/* ---- files ---- */

#define ENCODING_FILE "encoder_cache.safetensors"
/* The end of the name under which a file is written, after a dot and random digits. */
#define ENCODING_PART ".part"

#define PART_SECONDS 3600

struct found {
  struct timespec written;
  int64_t bytes;
  char key[OMMAI_ENCODING_KEY_SIZE];
};

struct list {
  struct found *items;
  size_t count, capacity;
  int64_t bytes;
};

/* The folder of a key within the directory, open; with `make` it is made where it is missing. -1
 * with errno set: ELOOP or ENOTDIR for a link. */
static int encoding_disk_folder(int directory, const char *key, bool make) {
  if (make && mkdirat(directory, key, 0777) != 0 && errno != EEXIST) return -1;
  return openat(directory, key, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* Removes the file of a key and its folder, if that is empty then. Whatever is missing is no
 * error. */
static void remove_file(int directory, const char *key) {
  int folder = encoding_disk_folder(directory, key, false);
  if (folder < 0) return;
  (void)unlinkat(folder, ENCODING_FILE, 0);
  close(folder);
  (void)unlinkat(directory, key, AT_REMOVEDIR);
}

/* False where memory is out. */
static bool add_file(int directory, const char *key, struct list *list, const struct omma_allocator *allocator) {
  struct stat info;
  int folder = encoding_disk_folder(directory, key, false);
  if (folder < 0) return true;
  bool there = fstatat(folder, ENCODING_FILE, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(info.st_mode);
  close(folder);
  if (!there) return true;
  if (!ommai_grow((void **)&list->items, &list->capacity, list->count, 1, sizeof *list->items, allocator)) {
    errno = ENOMEM;
    return false;
  }
  struct found *found = &list->items[list->count++];
  *found = (struct found){.written = info.st_mtim, .bytes = info.st_size};
  memcpy(found->key, key, strlen(key) + 1);
  list->bytes += info.st_size;
  return true;
}

static void remove_old_part(int directory, const char *name) {
  struct stat info;
  size_t length = strlen(name), ending = strlen(ENCODING_PART);
  if (name[0] != '.' || length <= ending || strcmp(name + length - ending, ENCODING_PART) != 0) return;
  if (fstatat(directory, name, &info, AT_SYMLINK_NOFOLLOW) || !S_ISREG(info.st_mode)) return;
  if (time(NULL) - info.st_mtim.tv_sec > PART_SECONDS) (void)unlinkat(directory, name, 0);
}

static bool list_files(int directory, struct list *list, const struct omma_allocator *allocator) {
  int again = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *entries = again >= 0 ? fdopendir(again) : NULL;
  if (!entries) {
    if (again >= 0) close(again);
    return false;
  }
  bool good = true;
  for (struct dirent *entry; good && (entry = readdir(entries));) {
    remove_old_part(directory, entry->d_name);
    if (ommai_encoding_key_valid(entry->d_name)) good = add_file(directory, entry->d_name, list, allocator);
  }
  closedir(entries);
  return good;
}

static int by_age(const void *a, const void *b) {
  const struct timespec *x = &((const struct found *)a)->written, *y = &((const struct found *)b)->written;
  if (x->tv_sec != y->tv_sec) return x->tv_sec < y->tv_sec ? -1 : 1;
  return (x->tv_nsec > y->tv_nsec) - (x->tv_nsec < y->tv_nsec);
}

/* Looks at all files, whoever wrote them, and removes the oldest until at most `room` bytes are
 * left; *bytes becomes what is left. Parts that a program left an hour ago are removed too. False
 * with errno set: the directory cannot be read or memory is out, and nothing was removed. */
static bool encoding_disk_make_room(int directory, int64_t room, const struct omma_allocator *allocator, int64_t *bytes) {
  struct list list = {0};
  bool good = list_files(directory, &list, allocator);
  if (good && list.bytes > room) qsort(list.items, list.count, sizeof *list.items, by_age);
  for (size_t i = 0; good && i < list.count && list.bytes > room; i++) {
    remove_file(directory, list.items[i].key);
    list.bytes -= list.items[i].bytes;
  }
  *bytes = list.bytes;
  ommai_release(allocator, list.items, list.capacity, sizeof *list.items);
  return good;
}

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

/* A new file with these bytes. */
static bool write_file(const struct ommai_encoding_directory *directory, const char *name, const char *bytes, size_t size) {
  int file = openat(directory->descriptor, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (file < 0) return false;
  bool good = ommai_file_write_all(file, bytes, size);
  int cause = errno;
  if (close(file) != 0 && good) return false; /* networks report late that a disk is full */
  if (!good) errno = cause;
  return good;
}

static bool put_in_place(const struct ommai_encoding_directory *directory, const char *key, const char *name) {
  for (int tries = 0; tries < MAX_TRIES; tries++) {
    int folder = encoding_disk_folder(directory->descriptor, key, true);
    if (folder < 0 && errno != ENOENT) return false;
    if (folder < 0) continue;
    bool done = renameat(directory->descriptor, name, folder, ENCODING_FILE) == 0;
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
    good = encoding_disk_make_room(directory->descriptor, room > spare ? room - spare : 0, directory->allocator,
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
  snprintf(name, sizeof name, ".%s" ENCODING_PART, hex); /* no key begins with a dot */
  if (make_room(directory, size) && write_file(directory, name, bytes, size) && put_in_place(directory, key, name)) {
    return OMMA_OK;
  }
  int cause = errno;
  (void)unlinkat(directory->descriptor, name, 0);
  return ommai_fail(error, OMMA_ERROR_IO, "the embeddings of %s cannot be written: %s", key, reason_of(cause));
}
