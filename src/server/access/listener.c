#include "server/access/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/error.h"

#define BACKLOG 1024

static int port_of(int descriptor) {
  struct sockaddr_storage address;
  socklen_t size = sizeof address;
  if (getsockname(descriptor, (struct sockaddr *)&address, &size)) return -1;
  if (address.ss_family == AF_INET6) return ntohs(((struct sockaddr_in6 *)&address)->sin6_port);
  return ntohs(((struct sockaddr_in *)&address)->sin_port);
}

/* A socket bound to one address, listening or not, or -1 with errno set. */
static int bind_to(const struct addrinfo *address, bool listens) {
  int one = 1;
  int descriptor = socket(address->ai_family, address->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, address->ai_protocol);
  if (descriptor < 0) return -1;
  if (!setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) &&
      !bind(descriptor, address->ai_addr, address->ai_addrlen) && (!listens || !listen(descriptor, BACKLOG))) {
    return descriptor;
  }
  int reason = errno;
  close(descriptor);
  errno = reason;
  return -1;
}

static const char *listen_hint(int reason) {
  switch (reason) {
    case EADDRINUSE: return " (another program listens there: --port takes another port, --port 0 any free one)";
    case EADDRNOTAVAIL: return " (--host takes an address of this machine, 0.0.0.0 stands for all of them)";
    case EACCES: return " (ports below 1024 may be reserved for root: --port takes another)";
    default: return "";
  }
}

static enum omma_status open_host(const char *host, int port, bool listens, int *descriptor, struct omma_error *error) {
  if (port < 0 || port > 65535) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "port", "port: expected 0 to 65535, found %d", port);
  }
  char service[8];
  snprintf(service, sizeof service, "%d", port);
  struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
  struct addrinfo *addresses = NULL;
  int failure = getaddrinfo(host, service, &hints, &addresses);
  if (failure) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "host", "host \"%s\": %s", host, gai_strerror(failure));
  }
  int opened = -1, reason = 0;
  for (const struct addrinfo *address = addresses; address && opened < 0; address = address->ai_next) {
    opened = bind_to(address, listens);
    if (opened < 0) reason = errno;
  }
  freeaddrinfo(addresses);
  if (opened < 0) {
    return ommai_fail_field(error, OMMA_ERROR_IO, "port", "cannot listen on %s port %d: %s%s", host, port, strerror(reason),
                            listen_hint(reason));
  }
  *descriptor = opened;
  return OMMA_OK;
}

enum omma_status ommai_listener_open(const char *host, int port, int *descriptor, int *port_used, struct omma_error *error) {
  OMMAI_TRY(open_host(host, port, true, descriptor, error));
  *port_used = port_of(*descriptor);
  return OMMA_OK;
}

enum omma_status ommai_listener_check(const char *host, int port, struct omma_error *error) {
  int descriptor;
  OMMAI_TRY(open_host(host, port, false, &descriptor, error));
  close(descriptor);
  return OMMA_OK;
}

/* ---- Unix domain ---- */

static enum omma_status fail_unix(struct omma_error *error, const char *path, const char *why) {
  return ommai_fail_field(error, OMMA_ERROR_IO, "uds", "cannot listen on %s: %s", path, why);
}

/* *stale: the name is that of a socket that nobody listens on. */
static enum omma_status check_name(const struct sockaddr_un *address, bool *stale, struct omma_error *error) {
  const char *path = address->sun_path;
  struct stat info;
  *stale = false;
  if (lstat(path, &info)) return OMMA_OK;
  if (!S_ISSOCK(info.st_mode)) return fail_unix(error, path, "the file is there and is not a socket");
  int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (probe < 0) return fail_unix(error, path, strerror(errno));
  *stale = connect(probe, (const struct sockaddr *)address, sizeof *address) != 0 && errno == ECONNREFUSED;
  close(probe);
  return *stale ? OMMA_OK : fail_unix(error, path, "another program listens there");
}

static enum omma_status make_address(const char *path, struct sockaddr_un *address, struct omma_error *error) {
  size_t size = strlen(path);
  *address = (struct sockaddr_un){.sun_family = AF_UNIX};
  if (size == 0 || size >= sizeof address->sun_path) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "uds", "uds: expected a path of 1 to %zu bytes, found %zu",
                            sizeof address->sun_path - 1, size);
  }
  memcpy(address->sun_path, path, size);
  return OMMA_OK;
}

enum omma_status ommai_listener_open_unix(char *path, int *descriptor, struct ommai_socket_file *file,
                                          struct omma_error *error) {
  struct sockaddr_un address;
  struct stat info;
  bool stale;
  OMMAI_TRY(make_address(path, &address, error));
  OMMAI_TRY(check_name(&address, &stale, error));
  if (stale && unlink(path) && errno != ENOENT) return fail_unix(error, path, strerror(errno));
  int opened = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (opened < 0) return fail_unix(error, path, strerror(errno));
  if (bind(opened, (struct sockaddr *)&address, sizeof address) || stat(path, &info) || listen(opened, BACKLOG)) {
    int reason = errno;
    close(opened);
    return fail_unix(error, path, strerror(reason));
  }
  *file = (struct ommai_socket_file){path, info.st_dev, info.st_ino};
  *descriptor = opened;
  return OMMA_OK;
}

/* The name is not taken meanwhile: programs that wait for the file would find nobody there. */
enum omma_status ommai_listener_check_unix(const char *path, struct omma_error *error) {
  struct sockaddr_un address;
  bool stale;
  OMMAI_TRY(make_address(path, &address, error));
  OMMAI_TRY(check_name(&address, &stale, error));
  char *folder = address.sun_path, *slash = strrchr(folder, '/');
  if (!slash) {
    folder = ".";
  } else {
    slash[slash == folder] = '\0'; /* the root keeps its slash */
  }
  return faccessat(AT_FDCWD, folder, W_OK | X_OK, AT_EACCESS) ? fail_unix(error, path, strerror(errno)) : OMMA_OK;
}

void ommai_socket_file_remove(struct ommai_socket_file *file) {
  struct stat info;
  if (!file->path) return;
  if (!lstat(file->path, &info) && info.st_dev == file->device && info.st_ino == file->inode) unlink(file->path);
  *file = (struct ommai_socket_file){0};
}

bool ommai_listener_is_local(int descriptor) {
  struct sockaddr_storage address;
  socklen_t size = sizeof address;
  if (getsockname(descriptor, (struct sockaddr *)&address, &size)) return false;
  if (address.ss_family == AF_UNIX) return true;
  if (address.ss_family == AF_INET) return ntohl(((struct sockaddr_in *)&address)->sin_addr.s_addr) >> 24 == 127;
  if (address.ss_family != AF_INET6) return false;
  const struct in6_addr *in6 = &((struct sockaddr_in6 *)&address)->sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(in6) || (IN6_IS_ADDR_V4MAPPED(in6) && in6->s6_addr[12] == 127);
}
