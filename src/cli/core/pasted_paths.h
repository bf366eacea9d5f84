/* Paths as they are typed, pasted or dropped into a terminal. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum ommai_word { OMMAI_WORD_NONE, OMMAI_WORD_FOUND, OMMAI_WORD_BROKEN };

/* Takes the next word of a line and moves `line` after it: words end at blanks and line ends; '...'
 * and "..." and a backslash keep blanks; file:// goes away with its %XX resolved, and ~/ becomes
 * the user's home. BROKEN: a quote is open, or the path does not fit into `size`. */
enum ommai_word ommai_pasted_path(const char **line, char *path, size_t size);

/* The same of the text word[length], in which quotes, backslashes and blanks stand for themselves.
 * False when it does not fit. */
bool ommai_literal_path(const char *word, size_t length, char *path, size_t size);

/* The path that a file:// address names, without its host and with its %XX resolved. False when
 * `word` is none or does not fit. */
bool ommai_file_address(const char *word, char *path, size_t size);

/* The word that a half-typed line ends in, read like that; empty after a blank. `open` gets the
 * quote that is left open, or 0. False when it does not fit. */
bool ommai_last_word(const char *line, char *path, size_t size, char *open);

/* Whether a name ends as those of images do. */
bool ommai_ends_as_image(const char *path);

/* True when a line is nothing but images: every word names a file that is there, or a lone word
 * ends as an image's name does. */
bool ommai_pasted_images(const char *line);
