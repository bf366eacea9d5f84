#include "cli/options.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/allocator.h"
#include "base/checked.h"
#include "cli/diagnostics.h"
#include "cli/nearest.h"
#include "cli/option_hints.h"

bool ommai_next_option(const struct ommai_command *command, struct ommai_option_cursor *cursor) {
  while (cursor->group < OMMAI_MAX_OPTION_GROUPS && command->groups[cursor->group]) {
    const struct ommai_option_group *group = command->groups[cursor->group];
    if (cursor->index < group->n_options) {
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

static const struct ommai_option *find_letter(const struct ommai_command *command, char letter) {
  for (struct ommai_option_cursor c = {0}; ommai_next_option(command, &c);) {
    if (c.option->letter == letter) return c.option;
  }
  return NULL;
}

/* The nearest of all names to word[size] as the user wrote it, and whether the --no- form of that
 * option is meant. */
static const char *nearest_option(const struct ommai_command *command, const char *word, size_t size, bool *negated) {
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

/* What is meant by an option of a related program. False where that is not known, or is an option
 * that this command does not have. */
static bool say_hint(const struct ommai_command *command, const char *word, size_t size) {
  const struct ommai_option_hint *hint = ommai_option_hint_next(NULL);
  while (hint && !ommai_option_spelled(word, size, hint->word)) hint = ommai_option_hint_next(hint);
  if (!hint || (hint->own && !ommai_option_find(command, hint->own, strlen(hint->own)))) return false;
  ommai_usage_error("%s: %.*s: unknown option%s%s%s (`omma %s --help` lists all)", command->name, (int)size, word,
                    hint->own ? ", did you mean --" : ": ", hint->own ? hint->own : hint->instead, hint->own ? "?" : "",
                    command->name);
  return true;
}

/* word: with its dashes, up to a value in the same word */
static enum ommai_parsed unknown_option(const struct ommai_command *command, const char *word, size_t size) {
  bool negated, is_long = word[1] == '-';
  if (say_hint(command, word, size)) return OMMAI_PARSED_WRONG;
  const char *nearest = is_long ? nearest_option(command, word + 2, size - 2, &negated) : NULL;
  if (nearest) {
    ommai_usage_error("%s: %.*s: unknown option, did you mean --%s%s? (`omma %s --help` lists all)", command->name, (int)size,
                      word, negated ? "no-" : "", nearest, command->name);
  } else {
    ommai_usage_error("%s: %.*s: unknown option (`omma %s --help` lists all)", command->name, (int)size, word, command->name);
  }
  return OMMAI_PARSED_WRONG;
}

static bool unit_factor(const char *unit, int64_t *factor) {
  static const char letters[] = "kmgt";
  *factor = 1;
  if (!*unit) return true;
  if (unit[1]) return false;
  for (int power = 0; letters[power]; power++) {
    bool decimal = *unit == letters[power], binary = *unit == letters[power] - 'a' + 'A';
    if (!decimal && !binary) continue;
    for (int i = 0; i <= power; i++) *factor *= decimal ? 1000 : 1024;
    return true;
  }
  return false;
}

bool ommai_parse_integer(const char *text, bool with_unit, int64_t *out) {
  if (!*text || strchr(" \t\n\r\f\v", *text)) return false;
  char *end;
  errno = 0;
  long long number = strtoll(text, &end, 10);
  int64_t factor = 1;
  if (end == text || errno) return false;
  if (*end && (!with_unit || !unit_factor(end, &factor))) return false;
  return ommai_mul_i64((int64_t)number, factor, out);
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

static enum ommai_parsed set_integer(const char *command, const struct ommai_option *option, const char *value,
                                     int64_t *field) {
  char why[128];
  int64_t number;
  bool with_unit = option->type == OMMAI_OPTION_SIZE;
  for (const char *const *word = option->unset_words; word && *word; word++) {
    if (strcmp(*word, value) != 0) continue;
    *field = option->unset;
    return OMMAI_PARSED;
  }
  if (!ommai_parse_integer(value, with_unit, &number)) {
    return wrong_value(command, option, value,
                       with_unit ? "must be an integer, with a unit (k, K, m, M, g, G) or without" : "must be an integer");
  }
  if (number < option->low || number > option->high) {
    if (number < option->low && option->high >= INT32_MAX) {
      snprintf(why, sizeof why, "must be %lld or more", (long long)option->low);
    } else {
      snprintf(why, sizeof why, "must be from %lld to %lld", (long long)option->low, (long long)option->high);
    }
    return wrong_value(command, option, value, why);
  }
  *field = number;
  return OMMAI_PARSED;
}

static enum ommai_parsed set_number(const char *command, const struct ommai_option *option, const char *value, double *field) {
  char why[128];
  char *end;
  double number = strtod(value, &end);
  if (end == value || *end || isnan(number) || (isinf(number) && isfinite(option->maximum)) || strchr(" \t\n\r\f\v", *value)) {
    return wrong_value(command, option, value, "must be a number");
  }
  bool low = option->above_minimum ? number <= option->minimum : number < option->minimum;
  if (low || number > option->maximum) {
    if (isinf(option->maximum)) {
      snprintf(why, sizeof why, option->above_minimum ? "must be above %g" : "must be %g or more", option->minimum);
    } else {
      snprintf(why, sizeof why, option->above_minimum ? "must be above %g and at most %g" : "must be from %g to %g",
               option->minimum, option->maximum);
    }
    return wrong_value(command, option, value, why);
  }
  *field = number;
  return OMMAI_PARSED;
}

static enum ommai_parsed set_choice(const char *command, const struct ommai_option *option, const char *value, int *field) {
  char why[256] = "must be one of";
  const char *choice;
  for (int i = 0; (choice = ommai_option_choice(option, i)); i++) {
    if (strcmp(choice, value) == 0) {
      *field = i;
      return OMMAI_PARSED;
    }
    size_t used = strlen(why);
    snprintf(why + used, sizeof why - used, "%s %s", i ? "," : "", choice);
  }
  return wrong_value(command, option, value, why);
}

static bool add_string(struct ommai_strings *list, const char *text, size_t capacity) {
  if (!list->items) {
    list->items = ommai_allocate(&ommai_default_allocator, capacity, sizeof *list->items);
    if (!list->items) return false;
    list->capacity = capacity;
  }
  list->items[list->count++] = text;
  return true;
}

static enum ommai_parsed set_option(const char *command, const struct ommai_option *option, const char *value, void *values,
                                    size_t n_words) {
  void *field = (char *)values + option->offset;
  switch (option->type) {
    case OMMAI_OPTION_FLAG: *(bool *)field = true; return OMMAI_PARSED;
    case OMMAI_OPTION_STRING: *(const char **)field = value; return OMMAI_PARSED;
    case OMMAI_OPTION_INTEGER:
    case OMMAI_OPTION_SIZE: return set_integer(command, option, value, field);
    case OMMAI_OPTION_NUMBER: return set_number(command, option, value, field);
    case OMMAI_OPTION_CHOICE: return set_choice(command, option, value, field);
    case OMMAI_OPTION_STRINGS:
    case OMMAI_OPTION_WORDS: break;
  }
  if (add_string(field, value, n_words)) return OMMAI_PARSED;
  ommai_failed("%s: out of memory for the values of --%s", command, option->name);
  return OMMAI_PARSED_WRONG;
}

bool ommai_option_set(const struct ommai_command *command, const struct ommai_option *option, const char *value, void *values) {
  bool is_flag = option->type == OMMAI_OPTION_FLAG, off = strcmp(value, "false") == 0 || strcmp(value, "off") == 0;
  if (is_flag && !off && strcmp(value, "true") != 0 && strcmp(value, "on") != 0)
    return wrong_value(command->name, option, value, "must be true or false") == OMMAI_PARSED;
  if (set_option(command->name, option, value, values, 1) != OMMAI_PARSED) return false;
  if (is_flag && off) *(bool *)((char *)values + option->offset) = false;
  return true;
}

static enum ommai_parsed set_defaults(const struct ommai_command *command, void *values) {
  for (struct ommai_option_cursor c = {0}; ommai_next_option(command, &c);) {
    const struct ommai_option *option = c.option;
    void *field = (char *)values + option->offset;
    if (option->initial) {
      enum ommai_parsed parsed = set_option(command->name, option, option->initial, values, 1);
      if (parsed != OMMAI_PARSED) return parsed;
    } else if (option->type == OMMAI_OPTION_INTEGER || option->type == OMMAI_OPTION_SIZE) {
      *(int64_t *)field = option->unset;
    } else if (option->type == OMMAI_OPTION_CHOICE) {
      *(int *)field = (int)option->unset;
    } else if (option->type == OMMAI_OPTION_NUMBER) {
      *(double *)field = NAN;
    }
  }
  return OMMAI_PARSED;
}

/* Whether a word would be read as an option where one can stand: --name, or the letter of one. */
static bool looks_like_option(const struct ommai_command *command, const char *word) {
  if (word[0] != '-' || !word[1]) return false;
  if (word[1] != '-') return !word[2] && find_letter(command, word[1]);
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
    *option = word[2] ? NULL : find_letter(command, word[1]);
    if (!*option) return unknown_option(command, word, strcspn(word, "="));
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

/* Takes --no-NAME of a flag that has it. */
static bool take_negated(const struct ommai_command *command, const char *word, void *values) {
  if (strlen(word) < 5 || !ommai_option_spelled(word + 2, 3, "no-")) return false;
  const struct ommai_option *option = ommai_option_find(command, word + 5, strlen(word + 5));
  if (!option || !option->negatable) return false;
  *(bool *)((char *)values + option->offset) = false;
  return true;
}

/* Whether the word spells an option of the command in full; a related program's option of that name
 * may have other spellings. */
static bool is_own(const struct ommai_command *command, const char *word) {
  return word[1] == '-' && ommai_option_find(command, word + 2, strcspn(word + 2, "="));
}

/* Options of related programs, from the command's lists. */
static enum ommai_foreign_outcome pass_foreign(const struct ommai_command *command, int argc, char **argv, int *index) {
  struct ommai_foreign_options foreign = {command->name, command->ignored_of, command->ignored};
  enum ommai_foreign_outcome outcome = ommai_foreign_option_pass(&foreign, argc, argv, index);
  foreign.options = command->also_ignored;
  if (outcome == OMMAI_FOREIGN_UNKNOWN) outcome = ommai_foreign_option_pass(&foreign, argc, argv, index);
  return outcome;
}

/* Takes the option at argv[*index] with its values, of which *index is the last then. */
static enum ommai_parsed take_option(const struct ommai_command *command, int argc, char **argv, int *index, void *values) {
  const struct ommai_option *option;
  const char *value;
  int at = *index;
  if (take_negated(command, argv[*index], values)) return OMMAI_PARSED;
  enum ommai_foreign_outcome outcome = OMMAI_FOREIGN_UNKNOWN;
  if (!is_own(command, argv[at])) outcome = pass_foreign(command, argc, argv, index);
  if (outcome != OMMAI_FOREIGN_UNKNOWN) return outcome == OMMAI_FOREIGN_PASSED ? OMMAI_PARSED : OMMAI_PARSED_WRONG;
  enum ommai_parsed parsed = read_option(command, argc, argv, index, &option, &value);
  if (parsed == OMMAI_PARSED) parsed = set_option(command->name, option, value, values, (size_t)argc);
  bool takes_more = parsed == OMMAI_PARSED && option->type == OMMAI_OPTION_WORDS && *index > at;
  while (takes_more && parsed == OMMAI_PARSED && *index + 1 < argc && takes_word(option, argv[*index + 1])) {
    parsed = set_option(command->name, option, argv[++*index], values, (size_t)argc);
  }
  return parsed;
}

enum ommai_parsed ommai_options_parse(const struct ommai_command *command, int argc, char **argv, int first, void *values,
                                      struct ommai_strings *arguments) {
  enum ommai_parsed parsed = set_defaults(command, values);
  bool options_end = false;
  for (int i = first; i < argc && parsed == OMMAI_PARSED; i++) {
    const char *word = argv[i];
    if (!options_end && strcmp(word, "--") == 0) {
      options_end = true;
    } else if (!options_end && (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)) {
      return OMMAI_PARSED_HELP;
    } else if (!options_end && (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0)) {
      return OMMAI_PARSED_VERSION;
    } else if (!options_end && word[0] == '-' && word[1]) {
      parsed = take_option(command, argc, argv, &i, values);
    } else if (!add_string(arguments, word, (size_t)argc)) {
      ommai_failed("%s: out of memory for the arguments", command->name);
      return OMMAI_PARSED_WRONG;
    }
  }
  return parsed == OMMAI_PARSED ? check_arguments(command, arguments) : parsed;
}

static void release_strings(struct ommai_strings *list) {
  ommai_release(&ommai_default_allocator, list->items, list->capacity, sizeof *list->items);
  *list = (struct ommai_strings){0};
}

void ommai_options_release(const struct ommai_command *command, void *values, struct ommai_strings *arguments) {
  for (struct ommai_option_cursor c = {0}; ommai_next_option(command, &c);) {
    bool is_list = c.option->type == OMMAI_OPTION_STRINGS || c.option->type == OMMAI_OPTION_WORDS;
    if (is_list) release_strings((struct ommai_strings *)((char *)values + c.option->offset));
  }
  release_strings(arguments);
}
