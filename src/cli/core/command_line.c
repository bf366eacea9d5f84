#include "cli/core/command_line.h"

#include <ctype.h>
#include <string.h>

#include "cli/core/config_file.h"
#include "cli/core/diagnostics.h"
#include "cli/core/foreign_options.h"

/* The option whose short form, without its dash, is word[size]. */
static const struct ommai_option *find_short(const struct ommai_command *command, const char *word, size_t size) {
  for (struct ommai_option_cursor c = {0}; ommai_next_option(command, &c);) {
    const char *letters = c.option->letters;
    if (size == 1 && c.option->letter == *word) return c.option;
    if (letters && strlen(letters) == size && strncmp(letters, word, size) == 0) return c.option;
  }
  return NULL;
}

/* word: with its dashes, up to a value in the same word */
static enum ommai_parsed unknown_option(const struct ommai_command *command, const char *word, size_t size) {
  bool negated = false;
  const struct ommai_option *own = ommai_option_find_elsewhere(command, word, size);
  const struct ommai_option_hint *hint = own ? NULL : ommai_option_hint(word, size);
  const char *nearest = own ? own->name : NULL, *instead = hint ? hint->instead : NULL;
  if (!own && !hint && word[1] == '-') nearest = ommai_option_nearest(command, word + 2, size - 2, &negated);
  if (hint && !instead) instead = "llama.cpp has it, this command does not";
  if (nearest) {
    ommai_usage_error("%s: %.*s: unknown option, did you mean --%s%s? (`omma %s --help` lists all)", command->name, (int)size,
                      word, negated ? "no-" : "", nearest, command->name);
  } else {
    ommai_usage_error("%s: %.*s: unknown option%s%s (`omma %s --help` lists all)", command->name, (int)size, word,
                      instead ? ": " : "", instead ? instead : "", command->name);
  }
  return OMMAI_PARSED_WRONG;
}

static enum ommai_parsed set_option(const struct ommai_command *command, const struct ommai_option *option, const char *value,
                                    void *values) {
  return ommai_option_set(command, option, value, values) ? OMMAI_PARSED : OMMAI_PARSED_WRONG;
}

static void set_defaults(const struct ommai_command *command, void *values) {
  for (struct ommai_option_cursor c = {0}; ommai_next_option(command, &c);) {
    ommai_option_set_default(c.option, ommai_option_values(command, c.option, values));
  }
}

/* Whether a word would be read as an option where one can stand: --name, or a short form. */
static bool looks_like_option(const struct ommai_command *command, const char *word) {
  if (word[0] != '-' || !word[1]) return false;
  if (word[1] != '-') return find_short(command, word + 1, strlen(word + 1));
  return !word[2] || isalpha((unsigned char)word[2]);
}

/* The value of an option is the next word, *index then. */
static enum ommai_parsed next_value(const struct ommai_command *command, int argc, char **argv, int *index,
                                    const struct ommai_option *option, const char **value) {
  const char *word = *index + 1 < argc ? argv[*index + 1] : NULL;
  if (word && !looks_like_option(command, word)) {
    *value = word;
    ++*index;
    return OMMAI_PARSED;
  }
  if (word) {
    ommai_usage_error("%s: --%s: a value is missing (%s): the next word, %s, is an option (--%s=%s gives it as the value)",
                      command->name, option->name, option->value, word, option->name, word);
  } else {
    ommai_usage_error("%s: --%s: a value is missing (%s)", command->name, option->name, option->value);
  }
  return OMMAI_PARSED_WRONG;
}

/* Finds the option of the word at argv[*index] and its value, which may be the next word; a flag's
 * is true. */
static enum ommai_parsed read_option(const struct ommai_command *command, int argc, char **argv, int *index,
                                     const struct ommai_option **option, const char **value) {
  const char *word = argv[*index];
  *value = NULL;
  if (word[1] == '-') {
    const char *name = word + 2, *equals = strchr(name, '=');
    size_t size = equals ? (size_t)(equals - name) : strlen(name);
    *option = ommai_option_find(command, name, size);
    if (!*option) return unknown_option(command, word, size + 2);
    if (equals) *value = equals + 1;
  } else {
    /* The value of a single letter is the next word. */
    size_t size = strcspn(word + 1, "=");
    *option = size == 1 && word[2] ? NULL : find_short(command, word + 1, size);
    if (!*option) return unknown_option(command, word, size + 1);
    if (word[1 + size]) *value = word + size + 2;
  }
  if ((*option)->type != OMMAI_OPTION_FLAG) {
    return *value ? OMMAI_PARSED : next_value(command, argc, argv, index, *option, value);
  }
  if (*value) {
    ommai_usage_error("%s: --%s '%s': takes no value", command->name, (*option)->name, *value);
    return OMMAI_PARSED_WRONG;
  }
  *value = "true";
  return OMMAI_PARSED;
}

/* Whether an option that takes several words takes this one too. */
static bool takes_word(const struct ommai_option *option, const char *word) {
  bool is_option = word[0] == '-' && word[1];
  return !is_option && (!option->takes || option->takes(word));
}

static enum ommai_parsed check_arguments(const struct ommai_command *command, const struct ommai_strings *arguments) {
  if (arguments->count > command->max_arguments) {
    ommai_usage_error("%s: '%s': unexpected argument (usage: omma %s [options] %s)", command->name,
                      arguments->items[command->max_arguments], command->name, command->arguments);
    return OMMAI_PARSED_WRONG;
  }
  if (arguments->count < command->min_arguments) {
    ommai_usage_error("%s: arguments are missing (usage: omma %s [options] %s)", command->name, command->name,
                      command->arguments);
    return OMMAI_PARSED_WRONG;
  }
  return OMMAI_PARSED;
}

static void note_given(const struct ommai_command *command, const struct ommai_option *option, const void *values,
                       struct ommai_given *given) {
  const void *member = (const char *)ommai_option_values(command, option, values) + option->offset;
  for (size_t i = 0; i < given->n; i++) {
    if (given->members[i] == member) return;
  }
  if (given->n < sizeof given->members / sizeof *given->members) given->members[given->n++] = member;
}

/* Takes --no-NAME of a flag that has it. */
static bool take_negated(const struct ommai_command *command, const char *word, void *values, struct ommai_given *given) {
  if (strlen(word) < 5 || !ommai_option_spelled(word + 2, 3, "no-")) return false;
  const struct ommai_option *option = ommai_option_find(command, word + 5, strlen(word + 5));
  if (!option || !option->negatable) return false;
  note_given(command, option, values, given);
  return ommai_option_set(command, option, "false", values);
}

/* Whether the word spells an option of the command in full; a related program's option of that name
 * may have other spellings. */
static bool is_own(const struct ommai_command *command, const char *word) {
  return word[1] == '-' && ommai_option_find(command, word + 2, strcspn(word + 2, "="));
}

/* Takes the option at argv[*index] with its values, of which *index is the last then. */
static enum ommai_parsed take_option(const struct ommai_command *command, int argc, char **argv, int *index, void *values,
                                     struct ommai_given *given) {
  const struct ommai_option *option;
  const char *value;
  int at = *index;
  if (take_negated(command, argv[*index], values, given)) return OMMAI_PARSED;
  enum ommai_foreign_outcome outcome = OMMAI_FOREIGN_UNKNOWN;
  if (!is_own(command, argv[at])) outcome = ommai_option_pass_foreign(command, argc, argv, index);
  if (outcome != OMMAI_FOREIGN_UNKNOWN) return outcome == OMMAI_FOREIGN_PASSED ? OMMAI_PARSED : OMMAI_PARSED_WRONG;
  enum ommai_parsed parsed = read_option(command, argc, argv, index, &option, &value);
  if (parsed == OMMAI_PARSED) parsed = set_option(command, option, value, values);
  if (parsed == OMMAI_PARSED) note_given(command, option, values, given);
  bool takes_more = parsed == OMMAI_PARSED && option->type == OMMAI_OPTION_WORDS && *index > at;
  while (takes_more && parsed == OMMAI_PARSED && *index + 1 < argc && takes_word(option, argv[*index + 1])) {
    parsed = set_option(command, option, argv[++*index], values);
  }
  return parsed;
}

static bool add_argument(struct ommai_strings *arguments, const char *word) {
  static const struct ommai_option list = {.name = "arguments", .type = OMMAI_OPTION_STRINGS};
  return ommai_option_read(&list, word, arguments, NULL) == OMMA_OK;
}

/* The settings of --config, whose strings the values point to. */
static json_t *config;

/* Takes the file of --config, where the command has that option and it was given. The command line
 * wins, and a word that names the model is of it. */
static enum ommai_parsed take_file(const struct ommai_command *command, const struct ommai_strings *arguments,
                                   struct ommai_given *given, void *values) {
  const struct ommai_option *option = ommai_option_find(command, "config", 6), *model = ommai_option_find(command, "model", 5);
  if (!option) return OMMAI_PARSED;
  const char *path = *(const char **)((char *)ommai_option_values(command, option, values) + option->offset);
  if (arguments->count && command->max_arguments == 1 && model) note_given(command, model, values, given);
  return !path || ommai_config_file_take(command, path, given, values, &config) ? OMMAI_PARSED : OMMAI_PARSED_WRONG;
}

enum ommai_parsed ommai_options_parse(const struct ommai_command *command, int argc, char **argv, int first, void *values,
                                      struct ommai_strings *arguments) {
  enum ommai_parsed parsed = OMMAI_PARSED;
  struct ommai_given given = {.n = 0};
  bool options_end = false;
  if (command->begin) command->begin(values);
  set_defaults(command, values);
  for (int i = first; i < argc && parsed == OMMAI_PARSED; i++) {
    const char *word = argv[i];
    if (!options_end && strcmp(word, "--") == 0) {
      options_end = true;
    } else if (!options_end && (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)) {
      return OMMAI_PARSED_HELP;
    } else if (!options_end && (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0)) {
      return OMMAI_PARSED_VERSION;
    } else if (!options_end && word[0] == '-' && word[1]) {
      parsed = take_option(command, argc, argv, &i, values, &given);
    } else if (!add_argument(arguments, word)) {
      ommai_failed("%s: out of memory for the arguments", command->name);
      return OMMAI_PARSED_WRONG;
    }
  }
  if (parsed == OMMAI_PARSED) parsed = check_arguments(command, arguments);
  return parsed == OMMAI_PARSED ? take_file(command, arguments, &given, values) : parsed;
}

void ommai_options_release(const struct ommai_command *command, void *values, struct ommai_strings *arguments) {
  for (struct ommai_option_cursor c = {0}; ommai_next_option(command, &c);) {
    bool is_list = c.option->type == OMMAI_OPTION_STRINGS || c.option->type == OMMAI_OPTION_WORDS;
    void *filled = ommai_option_values(command, c.option, values);
    if (is_list) ommai_strings_release((struct ommai_strings *)((char *)filled + c.option->offset));
  }
  ommai_strings_release(arguments);
  json_decref(config);
  config = NULL;
}
