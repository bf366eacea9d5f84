/* Where a Redis server is:
 * redis://[[USER]:PASSWORD@]HOST[:PORT][/DATABASE][?ttl=SECONDS&timeout=MILLISECONDS], or
 * unix://... with a PATH. */
#pragma once

#include <omma/status.h>
#include <stdbool.h>
#include <stdint.h>

#define OMMAI_REDIS_TEXT 256

struct ommai_redis_url {
  bool is_unix;
  char place[OMMAI_REDIS_TEXT]; /* a host's name or address, or a path */
  char user[OMMAI_REDIS_TEXT], password[OMMAI_REDIS_TEXT];
  int port;
  int64_t database, ttl_seconds, timeout_ms; /* ttl_seconds 0: none */
};

/* Percent escapes in user and password are taken back. Errors: ARGUMENT (field
 * "encoder_cache_url"), without the password in its message. */
enum omma_status ommai_redis_url_parse(const char *text, struct ommai_redis_url *url, struct omma_error *error);
