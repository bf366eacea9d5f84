#include "reading/plain.h"

#include <stdbool.h>
#include <string.h>

/* The length of the white space at `at`, of at most `size` bytes; 0: none. */
static size_t space_length(const unsigned char *at, size_t size) {
  if (size && (*at == ' ' || (*at >= 9 && *at <= 13) || (*at >= 28 && *at <= 31))) return 1;
  if (size >= 2 && at[0] == 0xc2 && (at[1] == 0x85 || at[1] == 0xa0)) return 2;
  if (size < 3) return 0;
  unsigned point = (at[0] & 15u) << 12 | (at[1] & 63u) << 6 | (at[2] & 63u);
  bool three = at[0] >> 4 == 14;
  bool space = point == 0x1680 || (point >= 0x2000 && point <= 0x200a) || point == 0x2028 || point == 0x2029 ||
               point == 0x202f || point == 0x205f || point == 0x3000;
  return three && space ? 3 : 0;
}

struct ommai_plain ommai_plain_strip(const char *data, size_t size) {
  const unsigned char *at = (const unsigned char *)data;
  size_t length;
  while ((length = space_length(at, size)) > 0) {
    at += length;
    size -= length;
  }
  for (bool found = true; found;) {
    found = false;
    for (size_t n = 1; n <= 3 && n <= size && !found; n++) {
      if (space_length(at + size - n, n) != n) continue;
      size -= n;
      found = true;
    }
  }
  return (struct ommai_plain){(const char *)at, size};
}

void ommai_plain_write_html(FILE *out, const char *data, size_t size) {
  static const struct {
    char byte;
    const char *entity;
  } entities[] = {{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&#x27;"}};
  for (size_t i = 0; i < size; i++) {
    const char *entity = NULL;
    for (size_t j = 0; j < sizeof entities / sizeof *entities; j++) {
      if (data[i] == entities[j].byte) entity = entities[j].entity;
    }
    if (entity) {
      fputs(entity, out);
    } else {
      fputc(data[i], out);
    }
  }
}
