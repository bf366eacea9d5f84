/* Command lines by table: what a command takes, how it is checked, where the values go, and what
 * its help documents. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/option.h"
#include "cli/core/foreign_options.h"

struct ommai_option_group {
  const char *title;
  const struct ommai_option *options; /* the last may be an entry without a name */
  size_t n_options;
  size_t offset; /* of the struct that they fill, in the command's struct of values */
};

/* A group of all options of a table. */
#define OMMAI_OPTION_GROUP(called, table) \
  { .title = called, .options = table, .n_options = sizeof(table) / sizeof *(table) }

#define OMMAI_MAX_OPTION_GROUPS 24
#define OMMAI_MAX_EXAMPLES 3

struct ommai_command {
  const char *name; /* one word, or two ("bench attention") */
  const char *alias;
  const char *summary;                      /* one line for the list of commands */
  const char *program;                      /* the one that has it, and all below; NULL: this one */
  const char *arguments;                    /* as in the usage line */
  const char *details;                      /* paragraph for the command's help */
  const char *examples[OMMAI_MAX_EXAMPLES]; /* command lines; NULL: no more */
  const struct ommai_option_group *groups[OMMAI_MAX_OPTION_GROUPS];
  const struct ommai_foreign_option *ignored,
      /* options of a related program, passed over or refused; end in a NULL name; may be NULL */
      *also_ignored;
  const char *ignored_of;      /* that program's name; NULL where none is refused */
  size_t values_size;          /* of the struct that the options fill */
  void (*begin)(void *values); /* sets what has no option, before anything is read; may be NULL */
  size_t min_arguments, max_arguments;
  /* Returns the exit code. `values` is the filled struct, `arguments` what stood there besides the
   * options. */
  int (*run)(const void *values, const struct ommai_strings *arguments);
};

/* The option of this name, in which underscores count as dashes; NULL: there is none. */
const struct ommai_option *ommai_option_find(const struct ommai_command *command, const char *name, size_t size);

/* The option that another program calls word[size], with its dashes; NULL: there is none. */
const struct ommai_option *ommai_option_find_elsewhere(const struct ommai_command *command, const char *word, size_t size);

/* The option that the library's errors call name[size]; NULL: there is none. */
const struct ommai_option *ommai_option_of_error(const struct ommai_command *command, const char *name, size_t size);

/* What a command line has set: the members. */
struct ommai_given {
  const void *members[256];
  size_t n;
};

/* The nearest of all names to word[size], without dashes in front, and whether the --no- form of
 * that option is meant; NULL where none is near. */
const char *ommai_option_nearest(const struct ommai_command *command, const char *word, size_t size, bool *negated);

/* As ommai_foreign_option_pass, with the command's lists. */
enum ommai_foreign_outcome ommai_option_pass_foreign(const struct ommai_command *command, int argc, char **argv, int *index);
/* Whether the name, without dashes, is in them. */
bool ommai_option_is_foreign(const struct ommai_command *command, const char *name);

/* The struct that the option fills, in the command's struct of values. */
void *ommai_option_values(const struct ommai_command *command, const struct ommai_option *option, const void *values);

/* Reads one value into the option's field, as from the command line; a flag's is true, on, false or
 * off, and a list gets one more. The string stays the caller's, and must live as long as the
 * values. False when it is wrong: the error has been printed. */
bool ommai_option_set(const struct ommai_command *command, const struct ommai_option *option, const char *value, void *values);

/* "640x480" or "640X480": two integers and nothing else. False when it is none; the numbers may be
 * 0. */
bool ommai_parse_image_size(const char *text, int32_t *width, int32_t *height);

/* Walks over all options of a command: `for (struct ommai_option_cursor c = {0};
 * ommai_next_option(command, &c);)` with c.option. */
struct ommai_option_cursor {
  size_t group, index;
  const struct ommai_option *option;
};
bool ommai_next_option(const struct ommai_command *command, struct ommai_option_cursor *cursor);

/* Whether a group has the title of the one before it, so that they are shown as one. */
bool ommai_option_group_continues(const struct ommai_command *command, size_t group);

/* What the help adds to the text of an option, in parentheses: how often it may be given, its
 * range, its default, how it is taken back; empty where there is nothing. */
#define OMMAI_OPTION_VALUE_SIZE 320
void ommai_option_describe_value(const struct ommai_option *option, char *text, size_t size);

/* What the units of sizes mean; NULL for a command without such an option. */
const char *ommai_options_size_note(const struct ommai_command *command);

/* Writes the command's help. */
void ommai_options_help(const struct ommai_command *command, FILE *out);
