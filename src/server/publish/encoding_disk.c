#include "server/publish/encoding_disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/growing.h"
#include "server/publish/encoding_key.h"

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

int ommai_encoding_disk_folder(int directory, const char *key, bool make) {
  if (make && mkdirat(directory, key, 0777) != 0 && errno != EEXIST) return -1;
  return openat(directory, key, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* Removes the file of a key and its folder, if that is empty then. Whatever is missing is no
 * error. */
static void remove_file(int directory, const char *key) {
  int folder = ommai_encoding_disk_folder(directory, key, false);
  if (folder < 0) return;
  (void)unlinkat(folder, OMMAI_ENCODING_FILE, 0);
  close(folder);
  (void)unlinkat(directory, key, AT_REMOVEDIR);
}

/* False where memory is out. */
static bool add_file(int directory, const char *key, struct list *list, const struct omma_allocator *allocator) {
  struct stat info;
  int folder = ommai_encoding_disk_folder(directory, key, false);
  if (folder < 0) return true;
  bool there = fstatat(folder, OMMAI_ENCODING_FILE, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(info.st_mode);
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
  size_t length = strlen(name), ending = strlen(OMMAI_ENCODING_PART);
  if (name[0] != '.' || length <= ending || strcmp(name + length - ending, OMMAI_ENCODING_PART) != 0) return;
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

bool ommai_encoding_disk_make_room(int directory, int64_t room, const struct omma_allocator *allocator, int64_t *bytes) {
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
