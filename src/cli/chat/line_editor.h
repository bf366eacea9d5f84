/* Lines that are edited while they are typed on a terminal, with a history and completion by Tab,
 * where the program was built with libedit. */
#pragma once

#include <stdbool.h>

struct ommai_line_editor;

/* How reading a line came to its end. */
enum ommai_line_end {
  OMMAI_LINE_READ,
  OMMAI_LINE_END_OF_INPUT,
  OMMAI_LINE_CLEARED,    /* a signal came and dropped what had been typed */
  OMMAI_LINE_INTERRUPTED /* a signal came and nothing had been typed, as far as can be known */
};

/* For standard input and output. Lines of earlier sessions are read from `history`, a path, and new
 * ones are added there; NULL: only this session's lines are kept. NULL when lines cannot be
 * edited: the build has no editor, input or output is not a terminal, the terminal cannot move its
 * cursor, or memory ran out. */
struct ommai_line_editor *ommai_line_editor_create(const char *history);

/* Reads the next line after `prompt`, a constant string. With READ, *line is the line without its
 * end, to be released with free(); a text of several lines that was pasted (bracketed paste) is
 * one line with line ends in it. Else *line is NULL. Signals are deferred by the caller. */
enum ommai_line_end ommai_line_editor_read(struct ommai_line_editor *editor, const char *prompt, char **line);

/* Makes a line the newest of the history, unless it is already; one with line ends in it for this
 * session alone. */
void ommai_line_editor_remember(struct ommai_line_editor *editor, const char *line);

void ommai_line_editor_destroy(struct ommai_line_editor *editor);
