#include "server/publish/encoding_key.h"

#include <string.h>

#define ALPHANUMERIC "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

bool ommai_encoding_key_valid(const char *key) {
  size_t size = strspn(key, ALPHANUMERIC "-_.");
  return size > 0 && size < OMMAI_ENCODING_KEY_SIZE && !key[size] && strspn(key, ALPHANUMERIC) > 0;
}
