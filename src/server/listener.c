#include "server/listener.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
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

/* A listening socket for one address, or -1 with errno set. */
static int listen_on(const struct addrinfo *address) {
  int one = 1;
  int descriptor = socket(address->ai_family, address->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, address->ai_protocol);
  if (descriptor < 0) return -1;
  if (!setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) &&
      !bind(descriptor, address->ai_addr, address->ai_addrlen) && !listen(descriptor, BACKLOG)) {
    return descriptor;
  }
  int reason = errno;
  close(descriptor);
  errno = reason;
  return -1;
}

enum omma_status ommai_listener_open(const char *host, int port, int *descriptor, int *port_used, struct omma_error *error) {
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
    opened = listen_on(address);
    if (opened < 0) reason = errno;
  }
  freeaddrinfo(addresses);
  if (opened < 0) {
    return ommai_fail_field(error, OMMA_ERROR_IO, "port", "cannot listen on %s port %d: %s", host, port, strerror(reason));
  }
  *descriptor = opened;
  *port_used = port_of(opened);
  return OMMA_OK;
}

bool ommai_listener_is_local(int descriptor) {
  struct sockaddr_storage address;
  socklen_t size = sizeof address;
  if (getsockname(descriptor, (struct sockaddr *)&address, &size)) return false;
  if (address.ss_family == AF_INET) return ntohl(((struct sockaddr_in *)&address)->sin_addr.s_addr) >> 24 == 127;
  if (address.ss_family != AF_INET6) return false;
  const struct in6_addr *in6 = &((struct sockaddr_in6 *)&address)->sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(in6) || (IN6_IS_ADDR_V4MAPPED(in6) && in6->s6_addr[12] == 127);
}
