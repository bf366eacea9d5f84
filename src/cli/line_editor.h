/* Lines that are edited while they are typed on a terminal, with a history and completion by Tab, where the program was built with
 * libedit. */
#ifndef OMMAI_CLI_LINE_EDITOR_H
#define OMMAI_CLI_LINE_EDITOR_H

#include <stdbool.h>

struct ommai_line_editor;

/* For standard input and output. `prompt` is a constant string. Lines of earlier sessions are read from `history`, a path, and new ones
 * are added there; NULL: only this session's lines are kept. NULL when lines cannot be edited: the build has no editor, input or output
 * is no terminal, the terminal cannot move its cursor, or memory ran out. */
struct ommai_line_editor *ommai_line_editor_create(const char *prompt, const char *history);

/* The next line, without its end; release with free(). NULL at the end of input and when a signal came (ommai_interrupted; signals are
 * deferred by the caller). */
char *ommai_line_editor_read(struct ommai_line_editor *editor);

/* Makes a line the newest of the history, unless it is already. */
void ommai_line_editor_remember(struct ommai_line_editor *editor, const char *line);

void ommai_line_editor_destroy(struct ommai_line_editor *editor);

#endif
