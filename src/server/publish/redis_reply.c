#include "server/publish/redis_reply.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"

/* Of a size, "-1" among them. */
#define MAX_DIGITS 19

static struct ommai_redis_reply of_kind(enum ommai_redis_kind kind) { return (struct ommai_redis_reply){.kind = kind}; }

/* The line's length without its end, or `size` where the end has not come. */
static size_t line_length(const char *bytes, size_t size) {
  const char *end = memchr(bytes, '\r', size);
  return end && end + 1 < bytes + size ? (size_t)(end - bytes) : size;
}

/* The digits of a size; SIZE_MAX: they are none. */
static size_t read_size(const char *digits, size_t n) {
  size_t value = 0;
  if (n == 2 && !memcmp(digits, "-1", 2)) return 0;
  if (n == 0 || n > MAX_DIGITS) return SIZE_MAX;
  for (size_t i = 0; i < n; i++) {
    if (digits[i] < '0' || digits[i] > '9') return SIZE_MAX;
    value = 10 * value + (size_t)(digits[i] - '0');
  }
  return value;
}

/* `length`: of the first line. */
static struct ommai_redis_reply parse_value(const char *bytes, size_t size, size_t length, size_t room) {
  size_t n = read_size(bytes + 1, length - 1), start = length + 2;
  if (n > room) return of_kind(OMMAI_REDIS_FOREIGN);
  if (bytes[1] == '-') return (struct ommai_redis_reply){OMMAI_REDIS_VALUE, bytes + start, 0, start};
  if (size - start < n + 2) return of_kind(OMMAI_REDIS_PART);
  if (memcmp(bytes + start + n, "\r\n", 2) != 0) return of_kind(OMMAI_REDIS_FOREIGN);
  return (struct ommai_redis_reply){OMMAI_REDIS_VALUE, bytes + start, n, start + n + 2};
}

struct ommai_redis_reply ommai_redis_reply_parse(const char *bytes, size_t size, size_t room) {
  if (size == 0) return of_kind(OMMAI_REDIS_PART);
  if (!memchr("+-$", bytes[0], 3)) return of_kind(OMMAI_REDIS_FOREIGN);
  size_t seen = size < OMMAI_REDIS_LINE ? size : OMMAI_REDIS_LINE - 1;
  size_t length = line_length(bytes, seen);
  if (length == seen) return of_kind(size < OMMAI_REDIS_LINE ? OMMAI_REDIS_PART : OMMAI_REDIS_FOREIGN);
  if (bytes[length + 1] != '\n') return of_kind(OMMAI_REDIS_FOREIGN);
  if (bytes[0] == '$') return parse_value(bytes, size, length, room);
  return (struct ommai_redis_reply){bytes[0] == '+' ? OMMAI_REDIS_STATUS : OMMAI_REDIS_ERROR, bytes + 1, length - 1,
                                    length + 2};
}

/* Waits for bytes and takes what there is. */
static const char *receive_some(int socket, char *buffer, size_t capacity, size_t *used, int64_t deadline_ns) {
  static const char LATE[] = "no answer in time";
  struct pollfd waited = {.fd = socket, .events = POLLIN};
  int64_t left_ns = deadline_ns - ommai_clock_ns();
  if (left_ns <= 0) return LATE;
  int ready = poll(&waited, 1, (int)(left_ns / 1000000 + 1));
  if (ready == 0) return LATE;
  if (ready < 0) return errno == EINTR ? NULL : strerror(errno);
  ssize_t n = recv(socket, buffer + *used, capacity - *used, MSG_DONTWAIT);
  if (n == 0) return "it hung up";
  if (n < 0) return errno == EINTR || errno == EAGAIN ? NULL : strerror(errno);
  *used += (size_t)n;
  return NULL;
}

const char *ommai_redis_reply_receive(int socket, char *buffer, size_t room, int64_t deadline_ns,
                                      struct ommai_redis_reply *reply) {
  size_t used = 0;
  do {
    const char *failure = receive_some(socket, buffer, room + OMMAI_REDIS_LINE, &used, deadline_ns);
    if (failure) return failure;
    *reply = ommai_redis_reply_parse(buffer, used, room);
  } while (reply->kind == OMMAI_REDIS_PART);
  bool foreign = reply->kind == OMMAI_REDIS_FOREIGN || reply->used != used;
  return foreign ? "its answer is not one that Redis gives to what was asked" : NULL;
}
