/* Replies of a Redis, read within bounds that are known before: a line, or one value of a size that
 * the caller expects. Numbers, lists and whatever else the protocol has are no replies to what this
 * program asks for; nothing is allocated for them. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* What a reply may have besides a value: its first line, which may be an error's text. */
#define OMMAI_REDIS_LINE 1024

enum ommai_redis_kind {
  OMMAI_REDIS_PART,   /* more must come */
  OMMAI_REDIS_STATUS, /* +OK */
  OMMAI_REDIS_ERROR,  /* -ERR ... */
  OMMAI_REDIS_VALUE,  /* $SIZE; that there is none (-1) counts as an empty one */
  OMMAI_REDIS_FOREIGN /* nothing that was asked for, or too long */
};

struct ommai_redis_reply {
  enum ommai_redis_kind kind;
  const char *data; /* of a status, an error or a value: within the bytes given, without a NUL */
  size_t size;
  size_t used; /* bytes of the reply with all that frames it */
};

/* The reply at the beginning of bytes [size], whose value has at most `room` bytes. */
struct ommai_redis_reply ommai_redis_reply_parse(const char *bytes, size_t size, size_t room);

/* Receives the reply that comes next on a connected socket into buffer [room + OMMAI_REDIS_LINE],
 * which the reply points into, until the deadline (ommai_clock_ns). A reply with bytes behind it is
 * foreign. Returns NULL, or what is the matter, and *reply is not to be used then. */
const char *ommai_redis_reply_receive(int socket, char *buffer, size_t room, int64_t deadline_ns,
                                      struct ommai_redis_reply *reply);
