/* Text of others (names of tensors and files, words of configurations, messages about them) made
 * fit for a terminal. */
#ifndef OMMAI_CLI_PLAIN_TEXT_H
#define OMMAI_CLI_PLAIN_TEXT_H

#include <stdio.h>

/* In place: control characters, marks that change the direction of writing and other invisible ones
 * become blanks, a blank per byte; bytes that are not UTF-8 become question marks. Returns text. */
char *ommai_plain_text(char *text);

/* Writes it so, padded with blanks to `width` bytes. */
void ommai_print_plain(FILE *out, const char *text, int width);

#endif
