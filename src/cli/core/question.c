#include "cli/core/question.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char quotes[] = "\"\"\"";
static const char system_command[] = "/system ";
#define N_QUOTES (sizeof quotes - 1)

static bool append(struct ommai_question *question, const char *text, size_t size) {
  char *longer = realloc(question->text, question->size + size + 1);
  if (!longer) return false;
  memcpy(longer + question->size, text, size);
  question->text = longer;
  question->size += size;
  question->text[question->size] = '\0';
  return true;
}

/* Where the quotes of a line begin that opens them; NULL: it does not. */
static const char *find_opening(const char *line) {
  const char *at = line;
  if (strncasecmp(at, system_command, sizeof system_command - 1) == 0) at += sizeof system_command - 1;
  at += strspn(at, " \t");
  return strncmp(at, quotes, N_QUOTES) == 0 ? at : NULL;
}

/* Adds what stands between the quotes, up to those at the end of `text`. */
static bool add_quoted(struct ommai_question *question, const char *text) {
  size_t size = strlen(text), end = size;
  while (end && strchr(" \t\r\n", text[end - 1])) end--;
  question->open = end < N_QUOTES || memcmp(text + end - N_QUOTES, quotes, N_QUOTES) != 0;
  if (!append(question, text, question->open ? size : end - N_QUOTES)) return false;
  while (!question->open && question->size > question->start && question->text[question->size - 1] == '\n') question->size--;
  question->text[question->size] = '\0';
  return true;
}

bool ommai_question_add(struct ommai_question *question, const char *line) {
  if (question->open) {
    bool further = question->size > question->start;
    return (!further || append(question, "\n", 1)) && add_quoted(question, line);
  }
  const char *opening = find_opening(line);
  if (!opening) return append(question, line, strlen(line));
  question->quoted = true;
  bool is_system = *line == '/';
  if (is_system && !append(question, system_command, sizeof system_command - 1)) return false;
  question->start = question->size;
  opening += N_QUOTES;
  return add_quoted(question, opening + strspn(opening, "\r\n"));
}

void ommai_question_release(struct ommai_question *question) {
  free(question->text);
  *question = (struct ommai_question){0};
}
