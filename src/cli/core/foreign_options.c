#include "cli/core/foreign_options.h"

#include <string.h>

#include "cli/core/diagnostics.h"

bool ommai_option_spelled(const char *word, size_t size, const char *name) {
  if (strlen(name) != size) return false;
  for (size_t i = 0; i < size; i++) {
    if ((word[i] == '_' ? '-' : word[i]) != name[i]) return false;
  }
  return true;
}

/* A word of the command line, taken apart. */
struct given {
  const struct ommai_foreign_option *option;
  bool negated;
  const char *value; /* in the same word; NULL: none */
};

static const char *value_after(const char *end) {
  const char *equals = strchr(end, '=');
  return equals ? equals + 1 : NULL;
}

/* --name, --no-name, --name=value, --name.key=value */
static bool matches_name(const struct ommai_foreign_option *option, const char *word, struct given *given) {
  size_t size = strcspn(word, option->kind == OMMAI_FOREIGN_VALUE ? "=." : "=");
  bool negated = option->kind == OMMAI_FOREIGN_SWITCH && size > 3 && ommai_option_spelled(word, 3, "no-") &&
                 ommai_option_spelled(word + 3, size - 3, option->name);
  if (!negated && !ommai_option_spelled(word, size, option->name)) return false;
  *given = (struct given){option, negated, value_after(word + size)};
  return true;
}

/* -ab, -ab=value, -ab.key=value, -a3 */
static bool matches_letters(const struct ommai_foreign_option *option, const char *word, struct given *given) {
  size_t size = option->letters ? strlen(option->letters) : 0;
  if (size == 0 || strncmp(word, option->letters, size) != 0) return false;
  const char *rest = word + size;
  bool attached = size == 1 && *rest >= '0' && *rest <= '9';
  if (!attached && *rest && *rest != '=' && *rest != '.') return false;
  *given = (struct given){option, false, attached ? rest : value_after(rest)};
  return true;
}

static bool find(const struct ommai_foreign_option *options, const char *word, struct given *given) {
  if (!options || word[0] != '-' || !word[1]) return false;
  for (const struct ommai_foreign_option *option = options; option->name; option++) {
    if (word[1] == '-' ? matches_name(option, word + 2, given) : matches_letters(option, word + 1, given)) return true;
  }
  return false;
}

/* Moves over the values that stand in words of their own; the first of them becomes the value.
 * False when a value is missing: the next option is none, or it would be lost. */
static bool take_values(struct given *given, int argc, char **argv, int *index) {
  enum ommai_foreign_kind kind = given->option->kind;
  if (kind == OMMAI_FOREIGN_SWITCH || given->value) return true;
  while (*index + 1 < argc) {
    const char *next = argv[*index + 1];
    if (next[0] == '-' && (kind != OMMAI_FOREIGN_VALUE || next[1] == '-')) break;
    if (!given->value) given->value = next;
    ++*index;
    if (kind != OMMAI_FOREIGN_WORDS) break;
  }
  return given->value || kind != OMMAI_FOREIGN_VALUE;
}

/* Whether `value` is one of the words of `list`. */
static bool is_listed(const char *list, const char *value) {
  size_t size = strlen(value);
  while (list) {
    if (strncmp(list, value, size) == 0 && (list[size] == ' ' || !list[size])) return size > 0;
    list = strchr(list, ' ');
    if (list) list++;
  }
  return false;
}

enum ommai_foreign_outcome ommai_foreign_option_pass(const struct ommai_foreign_options *foreign, int argc, char **argv,
                                                     int *index) {
  struct given given;
  if (!find(foreign->options, argv[*index], &given)) return OMMAI_FOREIGN_UNKNOWN;
  const struct ommai_foreign_option *option = given.option;
  if (!take_values(&given, argc, argv, index)) {
    ommai_usage_error("%s: --%s: a value is missing", foreign->command, option->name);
    return OMMAI_FOREIGN_REFUSED;
  }
  if (!option->refused || given.negated || (given.value && is_listed(option->but_for, given.value))) {
    ommai_warn("%s: --%s%s: accepted, but it means nothing to this program%s%s", foreign->command, given.negated ? "no-" : "",
               option->name, foreign->nearest ? "; what comes nearest is --" : "", foreign->nearest ? foreign->nearest : "");
    return OMMAI_FOREIGN_PASSED;
  }
  ommai_usage_error("%s: %s's flag --%s is not supported here: %s%s%s%s", foreign->command, foreign->program, option->name,
                    option->refused, option->but_for ? " (accepted: " : "", option->but_for ? option->but_for : "",
                    option->but_for ? ")" : "");
  return OMMAI_FOREIGN_REFUSED;
}

void ommai_foreign_options_offer(const struct ommai_foreign_option *options, bool negated, struct ommai_nearest *search) {
  if (!options) return;
  for (const struct ommai_foreign_option *option = options; option->name; option++) {
    if (!negated || option->kind == OMMAI_FOREIGN_SWITCH) ommai_nearest_offer(search, option->name);
  }
}

const struct ommai_option_hint *ommai_option_hint(const char *word, size_t size) {
  const struct ommai_option_hint *hint = ommai_option_hints;
  while (hint->word && !ommai_option_spelled(word, size, hint->word)) hint++;
  return hint->word ? hint : NULL;
}
