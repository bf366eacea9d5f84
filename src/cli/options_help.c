/* The help of a command, made from its table. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "cli/options.h"

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

void ommai_option_describe_value(const struct ommai_option *option, char *text, size_t size) {
  char range[160] = "";
  if (option->choices) {
    for (int i = 0; option->choices[i]; i++) {
      size_t used = strlen(range);
      snprintf(range + used, sizeof range - used, "%s%s", i ? ", " : "one of ", option->choices[i]);
    }
  } else if (option->type == OMMAI_OPTION_NUMBER && isinf(option->maximum)) {
    snprintf(range, sizeof range, option->above_minimum ? "above %g" : "%g or more", option->minimum);
  } else if (option->type == OMMAI_OPTION_NUMBER) {
    snprintf(range, sizeof range, option->above_minimum ? "above %g, at most %g" : "%g to %g", option->minimum,
             option->maximum);
  } else if (option->type == OMMAI_OPTION_INTEGER && option->high < INT32_MAX) {
    snprintf(range, sizeof range, "%" PRId64 " to %" PRId64, option->low, option->high);
  }
  const char *fallback = option->initial ? option->initial : option->otherwise;
  if (!range[0] && !fallback) {
    text[0] = '\0';
    return;
  }
  snprintf(text, size, "(%s%s%s%s)", range, range[0] && fallback ? "; " : "", fallback ? "default: " : "",
           fallback ? fallback : "");
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
  if (option->type == OMMAI_OPTION_WORDS) column = wrap(out, "(one or more)", HELP_INDENT, column);
  if (option->type == OMMAI_OPTION_STRINGS) column = wrap(out, "(may be given several times)", HELP_INDENT, column);
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
    fprintf(out, "\n%s:\n", group->title);
    for (size_t i = 0; i < group->n_options; i++) help_option(&group->options[i], out);
  }
  fprintf(out, "\n%-*s%s\n", HELP_INDENT, "  -h, --help", "this text");
  fprintf(out, "\nExample:\n  %s\n", command->example);
}
