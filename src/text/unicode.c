#include "text/unicode.h"

#include <utf8proc.h>

#include "text/unicode_tables.h"
#include "text/utf8.h"

static bool may_have_stand_in(uint32_t c) {
  uint32_t page = c >> 8;
  return page < ommai_unicode_n_stand_in_pages && ommai_unicode_stand_in_pages[page / 32] >> page % 32 & 1;
}

uint32_t ommai_unicode_stand_in(uint32_t c) {
  if (!may_have_stand_in(c)) return c;
  size_t low = 0, high = ommai_unicode_n_stand_ins;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    const struct ommai_unicode_stand_in *range = &ommai_unicode_stand_ins[middle];
    if (c >= range->first && c <= range->last) return range->instead;
    if (c < range->first) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return c;
}

size_t ommai_unicode_next_stand_in(const char *text, size_t size, size_t at, uint32_t *instead) {
  while (at < size) {
    size_t length;
    if ((unsigned char)text[at] < 0x80) {
      at += ommai_utf8_ascii_run(text + at, size - at);
      continue;
    }
    uint32_t c = ommai_utf8_decode(text + at, &length);
    if (may_have_stand_in(c)) {
      *instead = ommai_unicode_stand_in(c);
      if (*instead != c) break;
    }
    at += length;
  }
  return at;
}

bool ommai_unicode_stands_in(uint32_t c) {
  for (size_t i = 0; i < ommai_unicode_n_stand_ins; i++) {
    if (ommai_unicode_stand_ins[i].instead == c) return true;
  }
  return false;
}

bool ommai_unicode_is_inert(uint32_t c) {
  size_t low = 0, high = ommai_unicode_n_inert;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    const struct ommai_unicode_range *range = &ommai_unicode_inert[middle];
    if (c >= range->first && c <= range->last) return true;
    if (c < range->first) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return false;
}

bool ommai_unicode_is_punctuation(uint32_t code_point) {
  utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)code_point);
  return category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO;
}
