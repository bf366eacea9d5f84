/* In a build without libedit. */
#include <stddef.h>

#include "cli/chat/line_editor.h"

struct ommai_line_editor *ommai_line_editor_create(const char *history) {
  (void)history;
  return NULL;
}

enum ommai_line_end ommai_line_editor_read(struct ommai_line_editor *editor, const char *prompt, char **line) {
  (void)editor;
  (void)prompt;
  *line = NULL;
  return OMMAI_LINE_END_OF_INPUT;
}

void ommai_line_editor_remember(struct ommai_line_editor *editor, const char *line) {
  (void)editor;
  (void)line;
}

void ommai_line_editor_destroy(struct ommai_line_editor *editor) { (void)editor; }
