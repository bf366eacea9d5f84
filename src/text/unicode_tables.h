/* The data behind unicode.h, made by tools/make_unicode_tables.py. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct ommai_unicode_range {
  uint32_t first, last;
};

/* Code points [first, last] for which `instead` stands. */
struct ommai_unicode_stand_in {
  uint32_t first, last, instead;
};

/* In order of code points. */
extern const struct ommai_unicode_stand_in ommai_unicode_stand_ins[];
extern const size_t ommai_unicode_n_stand_ins;
extern const struct ommai_unicode_range ommai_unicode_inert[];
extern const size_t ommai_unicode_n_inert;

/* Bit c / 256 is set where a code point of the 256 around c has a stand-in; after the last page
 * none has. */
extern const uint32_t ommai_unicode_stand_in_pages[];
extern const uint32_t ommai_unicode_n_stand_in_pages;
