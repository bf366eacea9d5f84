#include "cli/core/options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/core/diagnostics.h"
#include "cli/core/nearest.h"

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
    if (ommai_option_spelled(name, size, c.option->name)) return c.option;
  }
  for (struct ommai_option_cursor c = {0}; ommai_next_option(command, &c);) {
    const char *member = ommai_option_member_name(c.option);
    bool is_member = strlen(member) == size && memcmp(member, name, size) == 0;
    if (is_member || is_among(c.option->errors, name, size)) return c.option;
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

bool ommai_option_set(const struct ommai_command *command, const struct ommai_option *option, const char *value, void *values) {
  struct omma_error error;
  enum omma_status status = ommai_option_read(option, value, ommai_option_values(command, option, values), &error);
  if (status == OMMA_OK) return true;
  if (status == OMMA_ERROR_ARGUMENT) {
    ommai_usage_error("%s: --%s '%s': %s", command->name, option->name, value, error.message);
  } else {
    ommai_failed("%s: out of memory for the values of --%s", command->name, option->name);
  }
  return false;
}

/* The option that has the word, which may spell dashes as underscores, as its name elsewhere. */
static const char *name_here(const struct ommai_command *command, const char *word) {
  char name[64];
  size_t size = strcspn(word, "=");
  if (size > sizeof name) return NULL;
  for (size_t i = 0; i < size; i++) name[i] = (char)(word[i] == '_' ? '-' : word[i]);
  const struct ommai_option *option = ommai_option_find_elsewhere(command, name, size);
  return option ? option->name : NULL;
}

enum ommai_foreign_outcome ommai_option_pass_foreign(const struct ommai_command *command, int argc, char **argv, int *index) {
  const char *nearest = name_here(command, argv[*index]);
  struct ommai_foreign_options foreign = {command->name, command->ignored_of, command->ignored, nearest};
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
