/* Settings by table: each entry is a member of a struct with its name, type, range, default and
 * help. From it come reading, default, check and the name in errors, here; and what src/cli makes
 * of it: options of the command line, keys of a configuration file, help, completion, manual pages
 * and docs/options.md. */
#pragma once

#include <omma/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ommai_option_type {
  OMMAI_OPTION_FLAG,
  OMMAI_OPTION_STRING,
  OMMAI_OPTION_STRINGS, /* may be given several times */
  /* the same; each time takes the words up to the next option, and as --name=value that one */
  OMMAI_OPTION_WORDS,
  OMMAI_OPTION_INTEGER,
  /* a number with an optional unit: k, m, g, t = powers of 1,000; K, M, G, T of 1,024 */
  OMMAI_OPTION_SIZE,
  OMMAI_OPTION_NUMBER,
  OMMAI_OPTION_CHOICE /* index into the choices */
};

/* Words, in order. The strings are the caller's; the array is released by ommai_strings_release. */
struct ommai_strings {
  const char **items;
  size_t count, capacity;
};
/* False: memory is out. */
bool ommai_strings_add(struct ommai_strings *list, const char *word);
void ommai_strings_release(struct ommai_strings *list);

/* Values that may be left open. */
struct ommai_optional_integer {
  bool given;
  int64_t value;
};
struct ommai_optional_number {
  bool given;
  double value;
};
#define OMMAI_GIVEN(number) \
  { .given = true, .value = (number) }

static inline int64_t ommai_integer_or(struct ommai_optional_integer optional, int64_t otherwise) {
  return optional.given ? optional.value : otherwise;
}
static inline double ommai_number_or(struct ommai_optional_number optional, double otherwise) {
  return optional.given ? optional.value : otherwise;
}

/* The member's type. */
enum ommai_option_member {
  OMMAI_MEMBER_BOOL,
  OMMAI_MEMBER_STRING, /* const char * */
  OMMAI_MEMBER_STRINGS,
  OMMAI_MEMBER_INT, /* int or an enum */
  OMMAI_MEMBER_INT64,
  OMMAI_MEMBER_DOUBLE,
  OMMAI_MEMBER_OPTIONAL_INTEGER,
  OMMAI_MEMBER_OPTIONAL_NUMBER
};

struct ommai_option {
  const char *name; /* of the option, without dashes, and of a key in a file */
  char letter;      /* short form, or 0 */
  const char *letters; /* short form of several letters, as vLLM has them: "dp" for -dp; or NULL */
  enum ommai_option_type type;
  enum ommai_option_member member;
  const char *member_name;          /* as in C; errors have what stands after the last dot */
  size_t offset;                    /* of the member */
  const char *value;                /* what the help calls the value */
  const char *help;                 /* lower case, no full stop */
  const char *initial;              /* the default: read like a given value and shown in the help */
  const char *otherwise;            /* shown as the default where `initial` is NULL; may be NULL */
  int64_t low, high;                /* inclusive range of integers and sizes */
  double minimum, maximum;          /* maximum INFINITY: the word inf is a value */
  bool above_minimum;               /* numbers: the minimum itself is excluded */
  int64_t factor;                   /* the member is the value times this; 0: 1 */
  const char *const *choices;       /* ends in NULL */
  const char *(*choice)(int index); /* in place of choices: the index-th; NULL: no more */
  bool negatable;                   /* flags: --no-NAME takes it back */
  /* integers and sizes: values that leave the member as without the option, ends in NULL; NULL:
   * none */
  const char *const *unset_words;
  bool (*takes)(const char *word); /* words: which ones follow the first; NULL: all */
  /* Variables that are read where the option is not given, by whoever uses the value: one or two,
   * and NULL; NULL: none. */
  const char *const *environment;
  /* what the library's errors call it, where that is neither its own nor its member's name; words
   * with a blank between */
  const char *errors;
  /* options of vLLM, llama.cpp and others that mean the same, with their dashes and a blank
   * between */
  const char *elsewhere;
};

/* Entries of a table of options, one for each type. `word` is the option's name, `field` the member
 * that it fills, `called` what the help calls its value; after the help further members of struct
 * ommai_option may follow:
 *
 *   #define OMMAI_VALUES struct values
 *   OMMAI_INTEGER("port", port, "N", 0, 65535, "port to listen on", .initial = "8000"),
 *
 * OMMAI_VALUES is the struct that the file's options fill. A member of a type that the entry cannot
 * fill does not compile. */
#define OMMAI_FLAG(word, field, ...) OMMAI_OPTION(word, FLAG, field, OMMAI_IS_BOOL, .help = __VA_ARGS__)
#define OMMAI_STRING(word, field, called, ...) \
  OMMAI_OPTION(word, STRING, field, OMMAI_IS_STRING, .value = called, .help = __VA_ARGS__)
#define OMMAI_STRINGS(word, field, called, ...) \
  OMMAI_OPTION(word, STRINGS, field, OMMAI_IS_STRINGS, .value = called, .help = __VA_ARGS__)
#define OMMAI_WORDS(word, field, called, ...) \
  OMMAI_OPTION(word, WORDS, field, OMMAI_IS_STRINGS, .value = called, .help = __VA_ARGS__)
#define OMMAI_INTEGER(word, field, called, lowest, highest, ...) \
  OMMAI_OPTION(word, INTEGER, field, OMMAI_IS_INTEGER, .value = called, .low = lowest, .high = highest, .help = __VA_ARGS__)
#define OMMAI_SIZE(word, field, called, lowest, highest, ...) \
  OMMAI_OPTION(word, SIZE, field, OMMAI_IS_INTEGER, .value = called, .low = lowest, .high = highest, .help = __VA_ARGS__)
#define OMMAI_NUMBER(word, field, called, lowest, highest, ...)                                              \
  OMMAI_OPTION(word, NUMBER, field, OMMAI_IS_NUMBER, .value = called, .minimum = lowest, .maximum = highest, \
               .help = __VA_ARGS__)
#define OMMAI_CHOICE(word, field, called, names, ...) \
  OMMAI_OPTION(word, CHOICE, field, OMMAI_IS_CHOICE, .value = called, .choices = names, .help = __VA_ARGS__)
/* The same with a function that names the choices. */
#define OMMAI_LISTED_CHOICE(word, field, called, function, ...) \
  OMMAI_OPTION(word, CHOICE, field, OMMAI_IS_CHOICE, .value = called, .choice = function, .help = __VA_ARGS__)

#define OMMAI_OPTION(word, kind, field, is, ...)                                                                \
  {                                                                                                             \
    .name = word, .type = OMMAI_OPTION_##kind, .member = is(((OMMAI_VALUES *)0)->field), .member_name = #field, \
    .offset = offsetof(OMMAI_VALUES, field), __VA_ARGS__                                                        \
  }
#define OMMAI_IS_BOOL(field) _Generic(field, bool : OMMAI_MEMBER_BOOL)
#define OMMAI_IS_STRING(field) _Generic(field, const char * : OMMAI_MEMBER_STRING)
#define OMMAI_IS_STRINGS(field) _Generic(field, struct ommai_strings : OMMAI_MEMBER_STRINGS)
#define OMMAI_IS_INTEGER(field)                                \
  _Generic(field, int                                          \
           : OMMAI_MEMBER_INT, unsigned                        \
           : OMMAI_MEMBER_INT, int64_t                         \
           : OMMAI_MEMBER_INT64, struct ommai_optional_integer \
           : OMMAI_MEMBER_OPTIONAL_INTEGER)
#define OMMAI_IS_CHOICE(field) \
  _Generic(field, int : OMMAI_MEMBER_INT, struct ommai_optional_integer : OMMAI_MEMBER_OPTIONAL_INTEGER)
#define OMMAI_IS_NUMBER(field)                                 \
  _Generic(field, int64_t                                      \
           : OMMAI_MEMBER_INT64, double                        \
           : OMMAI_MEMBER_DOUBLE, struct ommai_optional_number \
           : OMMAI_MEMBER_OPTIONAL_NUMBER)

/* The index-th word that a choice may be; NULL after the last, and for other types. */
static inline const char *ommai_option_choice(const struct ommai_option *option, int index) {
  if (option->choice) return option->choice(index);
  return option->choices ? option->choices[index] : NULL;
}

/* Reads one value into the option's member of the struct at `values`. Of a list it is one more, of
 * a flag true, on, false or off. The string stays the caller's, and must live as long as the
 * values. Errors: ARGUMENT, with what was expected alone as the message and the option's name as
 * the field; MEMORY. */
enum omma_status ommai_option_read(const struct ommai_option *option, const char *text, void *values, struct omma_error *error);

/* Sets the member to its default, or to nothing. */
void ommai_option_set_default(const struct ommai_option *option, void *values);

/* Checks the member against the range, for structs that a program filled. Errors: ARGUMENT, by the
 * member's name. */
enum omma_status ommai_option_check(const struct ommai_option *option, const void *values, struct omma_error *error);

/* The value as the member has it, "none" where there is none; only a list of words is not shown. */
void ommai_option_show(const struct ommai_option *option, const void *values, char *text, size_t size);

/* Of the member, in bytes. */
size_t ommai_option_member_size(const struct ommai_option *option);

/* What errors of the library call it: the last name of the member. */
const char *ommai_option_member_name(const struct ommai_option *option);

/* An integer with an optional unit as in OMMAI_OPTION_SIZE. False when it is none or does not
 * fit. */
bool ommai_parse_integer(const char *text, bool with_unit, int64_t *out);
