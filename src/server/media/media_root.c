#include "server/media/media_root.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"

enum omma_status ommai_media_root_open(const char *path, struct ommai_media_root *root, struct omma_error *error) {
  static const char field[] = "allowed_local_media_path";
  *root = (struct ommai_media_root){.descriptor = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC)};
  if (root->descriptor < 0)
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, field, "--allowed-local-media-path: %s: %s", path, strerror(errno));
  root->opened = true;
  root->resolved = realpath(path, NULL);
  if (!root->resolved)
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, field, "--allowed-local-media-path: %s: %s", path, strerror(errno));
  root->given = strdup(path);
  if (!root->given) return ommai_fail_memory(error, "media path", strlen(path));
  size_t length = strlen(root->given);
  while (length > 1 && root->given[length - 1] == '/') root->given[--length] = '\0';
  return OMMA_OK;
}

void ommai_media_root_close(struct ommai_media_root *root) {
  if (root->opened) close(root->descriptor);
  free(root->given);
  free(root->resolved);
  *root = (struct ommai_media_root){0};
}

/* What follows the directory in a path by its letters, or NULL. */
static const char *below(const char *directory, const char *path) {
  size_t length = strcmp(directory, "/") ? strlen(directory) : 0;
  return !strncmp(directory, path, length) && path[length] == '/' ? path + length + strspn(path + length, "/") : NULL;
}

/* The descriptor, if it is of a regular file; else it is closed. */
static int keep_regular(int descriptor) {
  struct stat info;
  if (descriptor < 0 || (!fstat(descriptor, &info) && S_ISREG(info.st_mode))) return descriptor;
  close(descriptor);
  return -1;
}

int ommai_media_root_find_by_name(const struct ommai_media_root *root, const char *path) {
  char name[64], real[PATH_MAX];
  /* O_PATH: nothing happens to the file */
  int opened = -1, found = keep_regular(open(path, O_PATH | O_CLOEXEC));
  if (found < 0) return -1;
  snprintf(name, sizeof name, "/proc/self/fd/%d", found);
  ssize_t length = readlink(name, real, sizeof real - 1);
  real[length < 0 ? 0 : length] = '\0';
  if (below(root->resolved, real)) opened = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  close(found);
  return opened;
}

int ommai_media_root_find(const struct ommai_media_root *root, const char *path) {
  struct open_how how = {.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
                         .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
  const char *rest = below(root->given, path);
  if (!rest) rest = below(root->resolved, path);
  if (!rest) return -1;
  int found = (int)syscall(SYS_openat2, root->descriptor, rest, &how, sizeof how);
  /* EPERM: a filter of system calls that does not know it */
  bool unknown = found < 0 && (errno == ENOSYS || errno == EPERM);
  return unknown ? ommai_media_root_find_by_name(root, path) : keep_regular(found);
}
