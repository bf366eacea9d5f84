#include "cli/core/manual.h"

#include <ctype.h>
#include <omma/omma.h>
#include <string.h>

/* Text with what means something to troff escaped: backslashes, dashes, and a period or quote that
 * begins a line. */
static void put(const char *text, FILE *out) {
  if (*text == '.' || *text == '\'') fputs("\\&", out);
  for (; *text; text++) {
    if (*text == '\\') {
      fputs("\\e", out);
    } else if (*text == '-') {
      fputs("\\-", out);
    } else if (*text == '"') {
      fputs("\\(dq", out);
    } else {
      fputc(*text, out);
    }
  }
}

/* The name with dashes for blanks. */
static void put_name(const char *name, bool upper, FILE *out) {
  fputs(upper ? "OMMA" : "omma", out);
  fputs("\\-", out);
  for (; *name; name++) {
    if (*name == ' ' || *name == '-') {
      fputs("\\-", out);
    } else {
      fputc(upper ? toupper((unsigned char)*name) : *name, out);
    }
  }
}

static void put_line(const char *before, const char *text, FILE *out) {
  fputs(before, out);
  put(text, out);
  fputc('\n', out);
}

static void put_option(const struct ommai_option *option, FILE *out) {
  char value[OMMAI_OPTION_VALUE_SIZE];
  fputs(".TP\n", out);
  if (option->letter) fprintf(out, "\\fB\\-%c\\fR, ", option->letter);
  fputs("\\fB\\-\\-", out);
  put(option->name, out);
  fputs("\\fR", out);
  if (option->value) {
    fputs(" \\fI", out);
    put(option->value, out);
    fputs("\\fR", out);
  }
  put_line("\n", option->help, out);
  ommai_option_describe_value(option, value, sizeof value);
  if (*value) put_line("", value, out);
}

static void put_groups(const struct ommai_command *command, FILE *out) {
  for (size_t g = 0; g < OMMAI_MAX_OPTION_GROUPS && command->groups[g]; g++) {
    const struct ommai_option_group *group = command->groups[g];
    if (!ommai_option_group_continues(command, g)) put_line(".SS ", group->title, out);
    for (size_t i = 0; i < group->n_options && group->options[i].name; i++) put_option(&group->options[i], out);
  }
}

void ommai_manual_write(const struct ommai_command *command, FILE *out) {
  fputs(".TH ", out);
  put_name(command->name, true, out);
  fprintf(out, " 1 \"\" \"omma %s\" \"User Commands\"\n.SH NAME\n", omma_version());
  put_name(command->name, false, out);
  put_line(" \\- ", command->summary, out);
  fputs(".SH SYNOPSIS\n", out);
  put_line(".B omma ", command->name, out);
  put_line("[options] ", command->arguments, out);
  if (command->alias) {
    put_line(".PP\n.B omma ", command->alias, out);
    fputs("is the same command.\n", out);
  }
  put_line(".SH DESCRIPTION\n", command->details, out);
  fputs(".SH OPTIONS\n", out);
  put_groups(command, out);
  const char *note = ommai_options_size_note(command);
  if (note) put_line(".PP\n", note, out);
  fputs(".SH EXAMPLES\n.nf\n", out);
  for (size_t i = 0; i < OMMAI_MAX_EXAMPLES && command->examples[i]; i++) put_line("", command->examples[i], out);
  fputs(".fi\n.SH \"SEE ALSO\"\n.BR omma (1)\n", out);
}

/* What means something in a cell of a Markdown table, and in code there. */
static const char in_cells[] = "|<*[_", in_code[] = "|";

static void put_escaped(const char *text, const char *special, FILE *out) {
  for (; *text; text++) {
    if (strchr(special, *text)) fputc('\\', out);
    fputc(*text, out);
  }
}

static void put_row(const struct ommai_option *option, FILE *out) {
  char value[OMMAI_OPTION_VALUE_SIZE];
  fprintf(out, "| `--%s%s", option->name, option->value ? " " : "");
  if (option->value) put_escaped(option->value, in_code, out);
  fputc('`', out);
  if (option->letter) fprintf(out, ", `-%c`", option->letter);
  fputs(" | ", out);
  put_escaped(option->help, in_cells, out);
  ommai_option_describe_value(option, value, sizeof value);
  if (*value) fputc(' ', out);
  put_escaped(value, in_cells, out);
  fputs(" |\n", out);
}

/* Whether one of the first n commands has the table of options. */
static bool is_listed(const struct ommai_command *const *commands, size_t n, const struct ommai_option *table) {
  for (size_t c = 0; c < n; c++) {
    for (size_t g = 0; g < OMMAI_MAX_OPTION_GROUPS && commands[c]->groups[g]; g++) {
      if (commands[c]->groups[g]->options == table) return true;
    }
  }
  return false;
}

void ommai_manual_write_options(const struct ommai_command *const *commands, size_t n, FILE *out) {
  for (size_t c = 0; c < n; c++) {
    for (size_t g = 0; g < OMMAI_MAX_OPTION_GROUPS && commands[c]->groups[g]; g++) {
      const struct ommai_option_group *group = commands[c]->groups[g];
      if (is_listed(commands, c, group->options)) continue;
      fprintf(out, "\n## %s: ", group->title);
      const char *separator = "";
      for (size_t other = c; other < n; other++) {
        if (!is_listed(&commands[other], 1, group->options)) continue;
        fprintf(out, "%s%s", separator, commands[other]->name);
        separator = ", ";
      }
      fputs("\n\n| option | what |\n| --- | --- |\n", out);
      for (size_t i = 0; i < group->n_options && group->options[i].name; i++) put_row(&group->options[i], out);
    }
  }
}
