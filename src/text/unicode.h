/* Which version of Unicode the released tokenizers follow, where PCRE2 and utf8proc follow another
 * one.
 *
 * The official libraries (tokenizers 0.23, tiktoken 0.14) know the categories and scripts of
 * Unicode 16, and tokenizers normalises by Unicode 9. Debian's PCRE2 10.42 and utf8proc 2.8 have
 * Unicode 14 for both; later releases have later versions. The differences are tables made from
 * the official libraries themselves. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* For a code point whose category or script PCRE2 may have otherwise: one of the same category,
 * script and length in UTF-8 that every version agrees on, so that a pattern of classes matches it
 * alike. Else the code point itself. */
uint32_t ommai_unicode_stand_in(uint32_t code_point);

/* The first character of valid UTF-8 from `at` on that has a stand-in, and that in *instead;
 * `size`: there is none. */
size_t ommai_unicode_next_stand_in(const char *text, size_t size, size_t at, uint32_t *instead);

/* True for a code point that stands in for others. */
bool ommai_unicode_stands_in(uint32_t code_point);

/* Whether its category is one of punctuation (P*). */
bool ommai_unicode_is_punctuation(uint32_t code_point);

/* True for a code point that neither moves nor composes in the official normalisation, although
 * later versions of Unicode give it a combining class, a decomposition or a composition. */
bool ommai_unicode_is_inert(uint32_t code_point);
