#include "server/publish/redis_url.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text_buffer.h"

#define DEFAULT_PORT 6379
#define DEFAULT_TIMEOUT_MS 500
#define MAX_TIMEOUT_MS 60000
#define MAX_DATABASE 65535
#define MAX_TTL_SECONDS (INT64_C(10) * 365 * 86400)

static enum omma_status refuse(const char *what, const char *expected, struct omma_error *error) {
  return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "encoder_cache_url",
                          "encoder_cache_url: %s: expected %s (redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE][?ttl=SECONDS&"
                          "timeout=MILLISECONDS] or unix://PATH)",
                          what, expected);
}

/* An integer in text [size] from low to high. */
static bool read_number(const char *text, size_t size, int64_t low, int64_t high, int64_t *out) {
  char digits[20];
  if (size == 0 || size >= sizeof digits || strspn(text, "0123456789") < size) return false;
  memcpy(digits, text, size);
  digits[size] = '\0';
  *out = strtoll(digits, NULL, 10);
  return *out >= low && *out <= high;
}

static enum omma_status read_settings(const char *text, struct ommai_redis_url *url, struct omma_error *error) {
  while (*text) {
    size_t size = strcspn(text, "&");
    bool ok =
        (size > 4 && memcmp(text, "ttl=", 4) == 0 && read_number(text + 4, size - 4, 0, MAX_TTL_SECONDS, &url->ttl_seconds)) ||
        (size > 8 && memcmp(text, "timeout=", 8) == 0 && read_number(text + 8, size - 8, 1, MAX_TIMEOUT_MS, &url->timeout_ms));
    if (!ok) return refuse("the settings", "ttl=SECONDS and timeout=MILLISECONDS", error);
    text += size + (text[size] == '&');
  }
  return OMMA_OK;
}

/* USER:PASSWORD, either of which may be empty. */
static enum omma_status read_user(const char *text, size_t size, struct ommai_redis_url *url, struct omma_error *error) {
  const char *colon = memchr(text, ':', size);
  if (!colon) return refuse("the user", "USER:PASSWORD or :PASSWORD", error);
  size_t user = (size_t)(colon - text);
  if (!ommai_percent_decode(text, user, url->user, sizeof url->user) ||
      !ommai_percent_decode(colon + 1, size - user - 1, url->password, sizeof url->password) || !url->password[0]) {
    return refuse("the user", "a password, characters such as @ and / as %40 and %2F", error);
  }
  return OMMA_OK;
}

/* HOST[:PORT][/DATABASE], an IPv6 address in brackets. */
static enum omma_status read_host(const char *text, size_t size, struct ommai_redis_url *url, struct omma_error *error) {
  bool bracket = size && text[0] == '[';
  const char *slash = memchr(text, '/', size);
  size_t authority = slash ? (size_t)(slash - text) : size, host = 0;
  if (slash && !read_number(slash + 1, size - authority - 1, 0, MAX_DATABASE, &url->database)) {
    return refuse("the database", "a number", error);
  }
  while (host < authority && text[host] != (bracket ? ']' : ':')) host++;
  size_t after = host + bracket;
  if (host <= bracket || host >= OMMAI_REDIS_TEXT || after > authority) return refuse("the host", "a name or address", error);
  memcpy(url->place, text + bracket, host - bracket);
  int64_t port = DEFAULT_PORT;
  if (after < authority && (text[after] != ':' || !read_number(text + after + 1, authority - after - 1, 1, 65535, &port))) {
    return refuse("the port", "1 to 65535", error);
  }
  url->port = (int)port;
  return OMMA_OK;
}

enum omma_status ommai_redis_url_parse(const char *text, struct ommai_redis_url *url, struct omma_error *error) {
  static const char tcp[] = "redis://", local[] = "unix://";
  *url = (struct ommai_redis_url){.timeout_ms = DEFAULT_TIMEOUT_MS};
  if (strncmp(text, "rediss://", 9) == 0) return refuse("rediss", "no TLS, which this client does not have", error);
  url->is_unix = strncmp(text, local, sizeof local - 1) == 0;
  if (!url->is_unix && strncmp(text, tcp, sizeof tcp - 1) != 0) return refuse("the scheme", "redis:// or unix://", error);
  text += (url->is_unix ? sizeof local : sizeof tcp) - 1;
  size_t size = strcspn(text, "?");
  if (text[size]) OMMAI_TRY(read_settings(text + size + 1, url, error));
  size_t authority = url->is_unix ? size : strcspn(text, "/?");
  const char *at = memchr(text, '@', authority);
  if (at) {
    OMMAI_TRY(read_user(text, (size_t)(at - text), url, error));
    size -= (size_t)(at + 1 - text);
    text = at + 1;
  }
  if (!url->is_unix) return read_host(text, size, url, error);
  if (size == 0 || size >= OMMAI_REDIS_TEXT) return refuse("the path", "the path of a socket", error);
  memcpy(url->place, text, size);
  return OMMA_OK;
}
