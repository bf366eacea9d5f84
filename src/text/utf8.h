/* UTF-8: stepping, validation, and replacement of broken sequences by U+FFFD.
 *
 * Valid means as in RFC 3629: shortest form, no surrogates, at most U+10FFFF. A broken sequence is
 * cut into maximal subparts (Unicode Standard, section 3.9, table 3-8), which is what Python's
 * bytes.decode(errors="replace") does. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OMMAI_UTF8_MAX_BYTES 4

/* What stands at the beginning of some bytes. INCOMPLETE: the bytes end inside a character that may
 * still become valid. */
enum ommai_utf8_kind { OMMAI_UTF8_VALID, OMMAI_UTF8_INVALID, OMMAI_UTF8_INCOMPLETE };

/* Looks at the first character of `size` > 0 bytes. *length: its bytes (VALID), the bytes of the
 * broken maximal subpart (INVALID), or all `size` bytes (INCOMPLETE). *code_point is set for VALID
 * only. */
enum ommai_utf8_kind ommai_utf8_next(const char *text, size_t size, size_t *length, uint32_t *code_point);

/* The first character of text that is known to be valid and not empty; *length gets its bytes. */
uint32_t ommai_utf8_decode(const char *text, size_t *length);

/* Writes a code point (at most U+10FFFF, no surrogate) and returns its bytes, 1 to 4. */
size_t ommai_utf8_encode(uint32_t code_point, char out[OMMAI_UTF8_MAX_BYTES]);

/* The length of the ASCII run at the beginning. */
size_t ommai_utf8_ascii_run(const char *text, size_t size);

/* True when all bytes are valid; otherwise *offset is where the first broken or unfinished sequence
 * begins. */
bool ommai_utf8_valid(const char *text, size_t size, size_t *offset);

/* Copies text with each broken maximal subpart, also an unfinished one at the end, replaced by
 * U+FFFD. Returns the bytes that the whole result has (at most 3 * size); writes them only when
 * they fit into `capacity`. out may be NULL. */
size_t ommai_utf8_replace(const char *text, size_t size, char *out, size_t capacity);

/* Unicode property White_Space. */
bool ommai_utf8_white_space(uint32_t code_point);
