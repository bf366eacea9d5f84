/* Vocabularies as SentencePiece spells them: the mark U+2581 stands for a space, and a token <0xHH>
 * for a byte of a character that has no token. */
#pragma once

#include "text/nfc.h"

/* Copies `size` bytes with a space for each mark. Returns the bytes written, at most `size`. */
size_t ommai_marked_spaces_decode(const char *text, size_t size, char *out);

/* The byte that a token <0xHH> stands for, with capital digits; -1 for any other. */
int ommai_marked_spaces_byte(const char *text, size_t size);

/* A text to encode: marks in it count as spaces. The result is given back as a normalised text.
 * Errors: MEMORY. */
enum omma_status ommai_marked_spaces_normalize(const char *text, size_t size, const struct omma_allocator *allocator,
                                               struct ommai_nfc_text *out, struct omma_error *error);
