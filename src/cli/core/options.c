#include "cli/core/options.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/allocator.h"
#include "base/checked.h"
#include "cli/core/config_file.h"
#include "cli/core/diagnostics.h"
#include "cli/core/nearest.h"
#include "cli/core/option_hints.h"

bool ommai_next_option(const struct ommai_command *command, struct ommai_option_cursor *cursor) {
  while (cursor->group < OMMAI_MAX_OPTION_GROUPS && command->groups[cursor->group]) {
    const struct ommai_option_group *group = command->groups[cursor->group];
    if (cursor->index < group->n_options && group->options[cursor->index].name) {
      cursor->option = &group->options[cursor->index++];
      return true;
    }
    cursor->group++;
    cursor->index = 0;
  }
  return false;
}

const struct ommai_option *ommai_option_find(const struct ommai_command *command, const char *name, size_t size) {
  for (struct ommai_option_cursor c = {0}; ommai_next_option(command, &c);) {
    if (ommai_option_spelled(name, size, c.option->name)) return c.option;
  }
  return NULL;
}

/* Whether word[size] is one of the words of `list`, which may be NULL. */
static bool is_among(const char *list, const char *word, size_t size) {
  while (list && *list) {
    size_t n = strcspn(list, " ");
    if (n == size && memcmp(list, word, n) == 0) return true;
    list += n + strspn(list + n, " ");
  }
  return false;
}

const struct ommai_option *ommai_option_find_elsewhere(const struct ommai_command *command, const char *word, size_t size) {
  for (struct ommai_option_cursor c = {0}; ommai_next_option(command, &c);) {
    if (is_among(c.option->elsewhere, word, size)) return c.option;
  }
  return NULL;
}

const struct ommai_option *ommai_option_of_error(const struct ommai_command *command, const char *name, size_t size) {
  for (struct ommai_option_cursor c = {0}; ommai_next_option(command, &c);) {
    const char *member = ommai_option_member_name(c.option);
    bool is_member = strlen(member) == size && memcmp(member, name, size) == 0;
    if (is_member || is_among(c.option->errors, name, size) || ommai_option_spelled(name, size, c.option->name))
      return c.option;
  }
  return NULL;
}

void *ommai_option_values(const struct ommai_command *command, const struct ommai_option *option, const void *values) {
  for (size_t g = 0; g < OMMAI_MAX_OPTION_GROUPS && command->groups[g]; g++) {
    const struct ommai_option_group *group = command->groups[g];
    for (size_t i = 0; i < group->n_options && group->options[i].name; i++) {
      if (&group->options[i] == option) return (char *)values + group->offset;
    }
  }
  return (void *)values;
}

/* The option whose short form, without its dash, is word[size]. */
static const struct ommai_option *find_short(const struct ommai_command *command, const char *word, size_t size) {
  for (struct ommai_option_cursor c = {0}; ommai_next_option(command, &c);) {
    const char *letters = c.option->letters;
    if (size == 1 && c.option->letter == *word) return c.option;
    if (letters && strlen(letters) == size && strncmp(letters, word, size) == 0) return c.option;
  }
  return NULL;
}

/* The nearest of all names to word[size] as the user wrote it, and whether the --no- form of that
 * option is meant. */
const char *ommai_option_nearest(const struct ommai_command *command, const char *word, size_t size, bool *negated) {
  char dashed[OMMAI_NEAREST_MAX_NAME + 1];
  if (size == 0 || size >= sizeof dashed) return NULL;
  for (size_t i = 0; i < size; i++) dashed[i] = word[i] == '_' ? '-' : word[i];
  dashed[size] = '\0';
  struct ommai_nearest search = {.wanted = dashed}, opposite = {.wanted = dashed + 3};
  for (struct ommai_option_cursor c = {0}; ommai_next_option(command, &c);) ommai_nearest_offer(&search, c.option->name);
  ommai_nearest_offer(&search, "help");
  ommai_foreign_options_offer(command->ignored, false, &search);
  ommai_foreign_options_offer(command->also_ignored, false, &search);
  if (strncmp(dashed, "no-", 3) == 0 && dashed[3]) {
    for (struct ommai_option_cursor c = {0}; ommai_next_option(command, &c);) {
      if (c.option->negatable) ommai_nearest_offer(&opposite, c.option->name);
    }
    ommai_foreign_options_offer(command->ignored, true, &opposite);
  }
  *negated = opposite.best && (!search.best || opposite.distance < search.distance);
  return *negated ? opposite.best : search.best;
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

bool ommai_parse_image_size(const char *text, int32_t *width, int32_t *height) {
  static const char digits[] = "0123456789";
  size_t first = strspn(text, digits);
  const char *second = text + first + 1;
  if (first == 0 || (text[first] != 'x' && text[first] != 'X') || !*second || second[strspn(second, digits)]) return false;
  errno = 0;
  long long w = strtoll(text, NULL, 10), h = strtoll(second, NULL, 10);
  if (errno || w > INT32_MAX || h > INT32_MAX) return false;
  *width = (int32_t)w;
  *height = (int32_t)h;
  return true;
}

static enum ommai_parsed wrong_value(const char *command, const struct ommai_option *option, const char *value,
                                     const char *why) {
  ommai_usage_error("%s: --%s '%s': %s", command, option->name, value, why);
  return OMMAI_PARSED_WRONG;
}

/* As from the command line, where a flag has no value. */
static enum ommai_parsed set_option(const struct ommai_command *command, const struct ommai_option *option, const char *value,
                                    void *values) {
  struct omma_error error;
  const char *text = value ? value : "true";
  enum omma_status status = ommai_option_read(option, text, ommai_option_values(command, option, values), &error);
  if (status == OMMA_OK) return OMMAI_PARSED;
  if (status == OMMA_ERROR_ARGUMENT) return wrong_value(command->name, option, text, error.message);
  ommai_failed("%s: out of memory for the values of --%s", command->name, option->name);
  return OMMAI_PARSED_WRONG;
}

bool ommai_option_set(const struct ommai_command *command, const struct ommai_option *option, const char *value, void *values) {
  return set_option(command, option, value, values) == OMMAI_PARSED;
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

/* Finds the option of the word at argv[*index] and its value, which may be the next word. */
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
  bool is_flag = (*option)->type == OMMAI_OPTION_FLAG;
  if (is_flag && *value) return wrong_value(command->name, *option, *value, "takes no value");
  if (!is_flag && !*value) return next_value(command, argc, argv, index, *option, value);
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

enum ommai_foreign_outcome ommai_option_pass_foreign(const struct ommai_command *command, int argc, char **argv, int *index) {
  struct ommai_foreign_options foreign = {command->name, command->ignored_of, command->ignored};
  enum ommai_foreign_outcome outcome = ommai_foreign_option_pass(&foreign, argc, argv, index);
  foreign.options = command->also_ignored;
  if (outcome == OMMAI_FOREIGN_UNKNOWN) outcome = ommai_foreign_option_pass(&foreign, argc, argv, index);
  return outcome;
}

bool ommai_option_is_foreign(const struct ommai_command *command, const char *name) {
  for (int list = 0; list < 2; list++) {
    const struct ommai_foreign_option *option = list ? command->also_ignored : command->ignored;
    for (; option && option->name; option++) {
      if (ommai_option_spelled(name, strlen(name), option->name)) return true;
    }
  }
  return false;
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
