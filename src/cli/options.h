/* Command lines by table: what a command takes, how it is checked, where the values go, and what
 * its help documents. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "cli/foreign_options.h"

/* The type of the field that an option fills is in the comment. */
enum ommai_option_type {
  OMMAI_OPTION_FLAG,    /* bool */
  OMMAI_OPTION_STRING,  /* const char * */
  OMMAI_OPTION_STRINGS, /* struct ommai_strings; may be given several times */
  /* the same; each time takes the words up to the next option, and as --name=value that one */
  OMMAI_OPTION_WORDS,
  OMMAI_OPTION_INTEGER, /* int64_t */
  /* int64_t; a number with an optional unit: k, m, g, t = powers of 1,000; K, M, G, T of 1,024 */
  OMMAI_OPTION_SIZE,
  OMMAI_OPTION_NUMBER, /* double */
  OMMAI_OPTION_CHOICE  /* int: index into the choices */
};

/* Words of the command line, in order. The strings are argv's. */
struct ommai_strings {
  const char **items;
  size_t count, capacity;
};

struct ommai_option {
  const char *name; /* without the dashes */
  char letter;      /* short form, or 0 */
  enum ommai_option_type type;
  size_t offset;         /* of the field in the command's struct of values */
  const char *value;     /* what the help calls the value */
  const char *help;      /* lower case, no full stop */
  const char *initial;   /* the default: read like a given value and shown in the help */
  const char *otherwise; /* shown as the default where `initial` is NULL; may be NULL */
  /* integers, sizes, choices: the field's value when neither given nor `initial`; numbers are NAN
   * then */
  int64_t unset;
  int64_t low, high;                /* inclusive range of integers and sizes */
  double minimum, maximum;          /* maximum INFINITY: the word inf is a value */
  bool above_minimum;               /* numbers: the minimum itself is excluded */
  const char *const *choices;       /* ends in NULL */
  const char *(*choice)(int index); /* in place of choices: the index-th; NULL: no more */
  bool negatable;                   /* flags: --no-NAME takes it back */
  /* integers and sizes: values that mean `unset`, ends in NULL; NULL: none */
  const char *const *unset_words;
  bool (*takes)(const char *word); /* words: which ones follow the first; NULL: all */
};

/* Entries of a table of options, one for each type. `word` is the option's name, `field` the field
 * that it fills, `called` what the help calls its value; after the help further members of struct
 * ommai_option may follow:
 *
 *   #define OMMAI_VALUES struct values
 *   OMMAI_INTEGER("port", port, "N", 0, 65535, "port to listen on", .initial = "8000"),
 *
 * OMMAI_VALUES is the struct that the file's options fill. A field of another type than the entry's
 * does not compile. */
#define OMMAI_FLAG(word, field, ...) OMMAI_OPTION(word, FLAG, field, bool, .help = __VA_ARGS__)
#define OMMAI_STRING(word, field, called, ...) \
  OMMAI_OPTION(word, STRING, field, const char *, .value = called, .help = __VA_ARGS__)
#define OMMAI_STRINGS(word, field, called, ...) \
  OMMAI_OPTION(word, STRINGS, field, struct ommai_strings, .value = called, .help = __VA_ARGS__)
#define OMMAI_WORDS(word, field, called, ...) \
  OMMAI_OPTION(word, WORDS, field, struct ommai_strings, .value = called, .help = __VA_ARGS__)
#define OMMAI_INTEGER(word, field, called, lowest, highest, ...) \
  OMMAI_OPTION(word, INTEGER, field, int64_t, .value = called, .low = lowest, .high = highest, .help = __VA_ARGS__)
#define OMMAI_SIZE(word, field, called, lowest, highest, ...) \
  OMMAI_OPTION(word, SIZE, field, int64_t, .value = called, .low = lowest, .high = highest, .help = __VA_ARGS__)
#define OMMAI_NUMBER(word, field, called, lowest, highest, ...) \
  OMMAI_OPTION(word, NUMBER, field, double, .value = called, .minimum = lowest, .maximum = highest, .help = __VA_ARGS__)
#define OMMAI_CHOICE(word, field, called, names, ...) \
  OMMAI_OPTION(word, CHOICE, field, int, .value = called, .choices = names, .help = __VA_ARGS__)
/* The same with a function that names the choices. */
#define OMMAI_LISTED_CHOICE(word, field, called, function, ...) \
  OMMAI_OPTION(word, CHOICE, field, int, .value = called, .choice = function, .help = __VA_ARGS__)
#define OMMAI_OPTION(word, kind, field, field_type, ...) \
  { .name = word, .type = OMMAI_OPTION_##kind, .offset = OMMAI_FIELD(field, field_type), __VA_ARGS__ }
#define OMMAI_FIELD(field, field_type) (offsetof(OMMAI_VALUES, field) + _Generic(((OMMAI_VALUES *)0)->field, field_type : 0))

/* The index-th word that a choice may be; NULL after the last, and for other types. */
static inline const char *ommai_option_choice(const struct ommai_option *option, int index) {
  if (option->choice) return option->choice(index);
  return option->choices ? option->choices[index] : NULL;
}

struct ommai_option_group {
  const char *title;
  const struct ommai_option *options;
  size_t n_options;
};

/* A group of all options of a table. */
#define OMMAI_OPTION_GROUP(called, table) \
  { called, table, sizeof(table) / sizeof *(table) }

#define OMMAI_MAX_OPTION_GROUPS 14
#define OMMAI_MAX_EXAMPLES 3

struct ommai_command {
  const char *name; /* one word, or two ("bench attention") */
  const char *alias;
  const char *summary;                      /* one line for the list of commands */
  const char *arguments;                    /* as in the usage line */
  const char *details;                      /* paragraph for the command's help */
  const char *examples[OMMAI_MAX_EXAMPLES]; /* command lines; NULL: no more */
  const struct ommai_option_group *groups[OMMAI_MAX_OPTION_GROUPS];
  const struct ommai_foreign_option *ignored,
      /* options of a related program, passed over or refused; end in a NULL name; may be NULL */
      *also_ignored;
  const char *ignored_of; /* that program's name; NULL where none is refused */
  size_t values_size;     /* of the struct that the options fill */
  size_t min_arguments, max_arguments;
  /* Returns the exit code. `values` is the filled struct, `arguments` what stood there besides the
   * options. */
  int (*run)(const void *values, const struct ommai_strings *arguments);
};

enum ommai_parsed { OMMAI_PARSED, OMMAI_PARSED_HELP, OMMAI_PARSED_VERSION, OMMAI_PARSED_WRONG };

/* Reads argv[first..argc) into `values` (values_size bytes, zeroed) and `arguments` (zeroed).
 * Forms: --name value, --name=value (underscores in a name count as dashes), -x value, `--` ends
 * the options. A next word that is an option itself is not taken as a value: --name=--value gives
 * such a one. OMMAI_PARSED_HELP, OMMAI_PARSED_VERSION: --help (-h) or --version (-V) was asked for,
 * nothing more was read. OMMAI_PARSED_WRONG: the error has been printed on stderr, with the
 * nearest name for an unknown option. Release in every case. */
enum ommai_parsed ommai_options_parse(const struct ommai_command *command, int argc, char **argv, int first, void *values,
                                      struct ommai_strings *arguments);
void ommai_options_release(const struct ommai_command *command, void *values, struct ommai_strings *arguments);

/* The option of this name, in which underscores count as dashes; NULL: there is none. */
const struct ommai_option *ommai_option_find(const struct ommai_command *command, const char *name, size_t size);

/* Reads one value into the option's field, as from the command line; a flag's is true, on, false or
 * off, and a list gets one more. The string stays the caller's, and must live as long as the
 * values. False when it is wrong: the error has been printed. */
bool ommai_option_set(const struct ommai_command *command, const struct ommai_option *option, const char *value, void *values);

/* An integer with an optional unit as in OMMAI_OPTION_SIZE. False when it is none or does not
 * fit. */
bool ommai_parse_integer(const char *text, bool with_unit, int64_t *out);

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

/* What the help adds to the text of an option, in parentheses: how often it may be given,
 * its range, its default, how it is taken back; empty where there is nothing. */
#define OMMAI_OPTION_VALUE_SIZE 320
void ommai_option_describe_value(const struct ommai_option *option, char *text, size_t size);

/* What the units of sizes mean; NULL for a command without such an option. */
const char *ommai_options_size_note(const struct ommai_command *command);

/* Writes the command's help. */
void ommai_options_help(const struct ommai_command *command, FILE *out);
