/* In a build without libedit. */
#include <stddef.h>

#include "cli/line_editor.h"

struct ommai_line_editor *ommai_line_editor_create(const char *prompt, const char *history) {
  (void)prompt;
  (void)history;
  return NULL;
}

char *ommai_line_editor_read(struct ommai_line_editor *editor) {
  (void)editor;
  return NULL;
}

void ommai_line_editor_remember(struct ommai_line_editor *editor, const char *line) {
  (void)editor;
  (void)line;
}

void ommai_line_editor_destroy(struct ommai_line_editor *editor) { (void)editor; }
