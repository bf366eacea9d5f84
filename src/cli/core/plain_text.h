/* Text of others made fit for a terminal: names of tensors and files, words of configurations,
 * messages about them; and, with its lines, what a model has written. Whatever a model, a file or a
 * server says reaches a terminal through here, through notes (diagnostics.h) or as JSON of ASCII
 * (json_out.h). */
#pragma once

#include <stdio.h>

/* In place: control characters, marks that change the direction of writing and other invisible ones
 * become blanks, a blank per byte; bytes that are not UTF-8 become question marks. Returns text. */
char *ommai_plain_text(char *text);

/* Writes it so, padded with blanks to `width` bytes. */
void ommai_print_plain(FILE *out, const char *text, int width);

/* Of a text that comes in pieces: the beginning of a character whose end has not come. */
struct ommai_terminal_rest {
  size_t size;
  char bytes[8];
};

/* Writes a piece of a model's text as a terminal may get it. Line ends, tabs and all visible
 * characters stay, so do joiners, which emoji and scripts need; other control characters (C0, DEL,
 * C1) become blanks; marks that change the direction of writing are left out; bytes that are not
 * UTF-8 become U+FFFD. `rest` is zeroed before the first piece. */
void ommai_terminal_put(FILE *out, struct ommai_terminal_rest *rest, const char *text, size_t size);

/* After the last piece. */
void ommai_terminal_end(FILE *out, struct ommai_terminal_rest *rest);

/* The same where `out` is a terminal, which ommai_terminal_end completes; else writes the bytes as
 * they are. */
void ommai_print_answer(FILE *out, struct ommai_terminal_rest *rest, const char *text, size_t size);
