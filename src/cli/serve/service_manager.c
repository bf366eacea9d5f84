#include "cli/serve/service_manager.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"

#define MAX_STATE 512
#define EXTENSION_SECONDS 120 /* of the time that a start may take, each time that it gets on */

/* The socket's address and its size; 0: there is none. */
static socklen_t find_address(struct sockaddr_un *address) {
  const char *name = getenv("NOTIFY_SOCKET");
  size_t size = name ? strlen(name) : 0;
  *address = (struct sockaddr_un){.sun_family = AF_UNIX};
  if (size < 2 || size >= sizeof address->sun_path || (name[0] != '/' && name[0] != '@')) return 0;
  memcpy(address->sun_path, name, size);
  if (name[0] == '@') address->sun_path[0] = '\0'; /* abstract names have no end but their size */
  return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + size);
}

void ommai_service_notify(const char *format, ...) {
  struct sockaddr_un address;
  char state[MAX_STATE];
  va_list arguments;
  socklen_t size = find_address(&address);
  if (size == 0) return;
  va_start(arguments, format);
  vsnprintf(state, sizeof state, format, arguments);
  va_end(arguments);
  int descriptor = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const struct timeval wait = {.tv_sec = 1};
  if (descriptor < 0) return;
  setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait);
  sendto(descriptor, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&address, size);
  close(descriptor);
}

const char *ommai_service_name(void) {
  const char *name = getenv("OTEL_SERVICE_NAME");
  return name && *name ? name : "ommatidia";
}

int64_t ommai_service_watchdog_ms(void) {
  const char *microseconds = getenv("WATCHDOG_USEC"), *process = getenv("WATCHDOG_PID");
  if (!microseconds || (process && strtoll(process, NULL, 10) != getpid())) return 0;
  int64_t milliseconds = strtoll(microseconds, NULL, 10) / 2000;
  return milliseconds > 0 ? milliseconds : 0;
}

void ommai_service_loading(void *context, int64_t done, int64_t total) {
  int64_t *reported_ns = context, now_ns = ommai_clock_ns();
  int percent = total > 0 ? (int)((double)done / (double)total * 100) : 0;
  if (*reported_ns && now_ns - *reported_ns < 1000000000) return;
  *reported_ns = now_ns;
  ommai_service_notify("STATUS=loading the model, %d %%\nEXTEND_TIMEOUT_USEC=%d000000", percent, EXTENSION_SECONDS);
}
