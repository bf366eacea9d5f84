/* The help of a command, made from its table. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "base/plural.h"
#include "cli/core/options.h"

#define HELP_WIDTH 100
#define HELP_INDENT 34

/* Prints words of `text`, broken at HELP_WIDTH, further lines indented. `column` is where the line
 * stands; returns the new one. */
static int wrap(FILE *out, const char *text, int indent, int column) {
  while (*text) {
    size_t word = strcspn(text, " ");
    if (column > indent && column + 1 + (int)word > HELP_WIDTH) {
      fprintf(out, "\n%*s", indent, "");
      column = indent;
    } else if (column > indent) {
      fputc(' ', out);
      column++;
    }
    fwrite(text, 1, word, out);
    column += (int)word;
    text += word;
    text += strspn(text, " ");
  }
  return column;
}

/* Adds a part to a list of parts in parentheses, which are closed in the end. */
__attribute__((format(printf, 3, 4))) static void add_part(char *text, size_t size, const char *format, ...) {
  size_t used = strlen(text);
  snprintf(text + used, size - used, "%s", used ? "; " : "(");
  used = strlen(text);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text + used, size - used, format, arguments);
  va_end(arguments);
}

static void add_choices(const struct ommai_option *option, char *text, size_t size) {
  char list[256] = "";
  const char *choice;
  for (int i = 0; (choice = ommai_option_choice(option, i)); i++) ommai_list_entry(list, sizeof list, "%s", choice);
  add_part(text, size, "one of %s", list);
}

bool ommai_option_group_continues(const struct ommai_command *command, size_t group) {
  return group && strcmp(command->groups[group]->title, command->groups[group - 1]->title) == 0;
}

static void add_range(const struct ommai_option *option, char *text, size_t size) {
  if (option->type == OMMAI_OPTION_CHOICE) {
    add_choices(option, text, size);
  } else if (option->type == OMMAI_OPTION_NUMBER && isinf(option->maximum)) {
    add_part(text, size, option->above_minimum ? "above %g" : "%g or more", option->minimum);
  } else if (option->type == OMMAI_OPTION_NUMBER) {
    add_part(text, size, option->above_minimum ? "above %g, at most %g" : "%g to %g", option->minimum, option->maximum);
  } else if (option->type == OMMAI_OPTION_INTEGER && option->high < INT32_MAX) {
    add_part(text, size, "%" PRId64 " to %" PRId64, option->low, option->high);
  }
}

void ommai_option_describe_value(const struct ommai_option *option, char *text, size_t size) {
  const char *fallback = option->initial ? option->initial : option->otherwise;
  text[0] = '\0';
  if (option->type == OMMAI_OPTION_WORDS) add_part(text, size, "one or more");
  if (option->type == OMMAI_OPTION_STRINGS) add_part(text, size, "may be given several times");
  add_range(option, text, size);
  if (fallback) add_part(text, size, "default: %s", fallback);
  const char *const *variables = option->environment;
  if (variables)
    add_part(text, size, "environment: %s%s%s", variables[0], variables[1] ? " or " : "", variables[1] ? variables[1] : "");
  if (option->negatable) add_part(text, size, "--no-%s turns it off", option->name);
  size_t used = strlen(text);
  if (used && used + 1 < size) snprintf(text + used, size - used, ")");
}

const char *ommai_options_size_note(const struct ommai_command *command) {
  for (struct ommai_option_cursor c = {0}; ommai_next_option(command, &c);) {
    if (c.option->type != OMMAI_OPTION_SIZE) continue;
    return "SIZE is a number, with a unit or without: 8k is 8000, 8K is 8192, and likewise m, M, g, G, t, T.";
  }
  return NULL;
}

static void help_option(const struct ommai_option *option, FILE *out) {
  char name[64], value[OMMAI_OPTION_VALUE_SIZE];
  char letter[8] = "";
  if (option->letter) snprintf(letter, sizeof letter, "-%c, ", option->letter);
  snprintf(name, sizeof name, "  %s--%s%s%s", letter, option->name, option->value ? " " : "",
           option->value ? option->value : "");
  int column = fprintf(out, "%s", name);
  if (column >= HELP_INDENT) {
    fputc('\n', out);
    column = 0;
  }
  fprintf(out, "%*s", HELP_INDENT - column, "");
  column = wrap(out, option->help, HELP_INDENT, HELP_INDENT);
  ommai_option_describe_value(option, value, sizeof value);
  wrap(out, value, HELP_INDENT, column);
  fputc('\n', out);
}

void ommai_options_help(const struct ommai_command *command, FILE *out) {
  fprintf(out, "Usage: omma %s [options] %s\n", command->name, command->arguments);
  if (command->alias) fprintf(out, "       omma %s is the same\n", command->alias);
  fputc('\n', out);
  wrap(out, command->details, 0, 0);
  fputc('\n', out);
  for (size_t g = 0; g < OMMAI_MAX_OPTION_GROUPS && command->groups[g]; g++) {
    const struct ommai_option_group *group = command->groups[g];
    if (!ommai_option_group_continues(command, g)) fprintf(out, "\n%s:\n", group->title);
    for (size_t i = 0; i < group->n_options && group->options[i].name; i++) help_option(&group->options[i], out);
  }
  fprintf(out, "\n%-*s%s\n", HELP_INDENT, "  -h, --help", "this text");
  const char *note = ommai_options_size_note(command);
  if (note) {
    fputc('\n', out);
    wrap(out, note, 0, 0);
    fputc('\n', out);
  }
  fprintf(out, "\nExamples:\n");
  for (size_t i = 0; i < OMMAI_MAX_EXAMPLES && command->examples[i]; i++) fprintf(out, "  %s\n", command->examples[i]);
}
