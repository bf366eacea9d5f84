/* The 256 printable characters that stand for bytes in byte-level vocabularies.
 *
 * Source: GPT-2's bytes_to_unicode. The bytes 0x21-0x7E, 0xA1-0xAC and 0xAE-0xFF stand for
 * themselves as code points; the other 68 are U+0100, U+0101, ... in ascending order. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* The bytes that `size` bytes of valid UTF-8 spell in the alphabet. Writes at most `size` bytes to
 * out and their number to *out_size. False when a character is not of the alphabet; out is then
 * partly written. */
bool ommai_byte_alphabet_decode(const char *text, size_t size, char *out, size_t *out_size);
