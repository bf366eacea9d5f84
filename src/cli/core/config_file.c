#include "cli/core/config_file.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli/core/diagnostics.h"

#define MAX_WORD 512

struct file {
  const struct ommai_command *command;
  const char *path;
  const struct ommai_given *given;
  void *values;
};

static bool wrong(const struct file *file, const char *key, const char *why) {
  ommai_usage_error("%s: --config: %s: %s: %s", file->command->name, file->path, key, why);
  return false;
}

static bool refuse(const struct file *file, const char *key) {
  char why[128];
  bool negated;
  const char *nearest = ommai_option_nearest(file->command, key, strlen(key), &negated);
  snprintf(why, sizeof why, "no such option%s%s%s%s", nearest ? ", did you mean " : "", nearest && negated ? "no-" : "",
           nearest ? nearest : "", nearest ? "?" : "");
  return wrong(file, key, why);
}

static bool is_yes(const char *text) {
  return !strcasecmp(text, "true") || !strcasecmp(text, "yes") || !strcasecmp(text, "on");
}
static bool is_no(const char *text) {
  return !strcasecmp(text, "false") || !strcasecmp(text, "no") || !strcasecmp(text, "off");
}

static bool set(const struct file *file, const struct ommai_option *option, const char *key, const char *text, bool negated) {
  struct omma_error error;
  if (option->type == OMMAI_OPTION_FLAG && (is_yes(text) || is_no(text))) text = is_yes(text) != negated ? "true" : "false";
  void *filled = ommai_option_values(file->command, option, file->values);
  return ommai_option_read(option, text, filled, &error) == OMMA_OK || wrong(file, key, error.message);
}

/* A list is the words of an option that takes several, and JSON where the option is one text. */
static bool set_list(const struct file *file, const struct ommai_option *option, const char *key, json_t *list) {
  bool several = option->type == OMMAI_OPTION_STRINGS || option->type == OMMAI_OPTION_WORDS;
  if (!several && option->type != OMMAI_OPTION_STRING) return wrong(file, key, "expected one value, found a list");
  if (several) {
    for (size_t i = 0; i < json_array_size(list); i++) {
      if (!set(file, option, key, json_string_value(json_array_get(list, i)), false)) return false;
    }
    return true;
  }
  char *dumped = json_dumps(list, JSON_COMPACT);
  /* It lives as long as the list, in which it is kept. */
  bool kept = dumped && json_array_append_new(list, json_string(dumped)) == 0;
  free(dumped);
  if (!kept) return ommai_failed("%s: out of memory: --config", file->command->name) == OMMAI_EXIT_DONE;
  return set(file, option, key, json_string_value(json_array_get(list, json_array_size(list) - 1)), false);
}

/* An option of a related program, as --key=value. */
static bool pass_foreign(const struct file *file, const char *key, const json_t *value) {
  char word[MAX_WORD], *words[] = {word};
  int index = 0;
  const json_t *first = json_is_array(value) ? json_array_get(value, 0) : value;
  const char *text = json_string_value(first);
  bool yes = text && is_yes(text), no = text && is_no(text);
  if (!text || no) return ommai_option_is_foreign(file->command, key) || refuse(file, key);
  snprintf(word, sizeof word, yes ? "--%s" : "--%s=%s", key, text);
  switch (ommai_option_pass_foreign(file->command, 1, words, &index)) {
    case OMMAI_FOREIGN_PASSED: return true;
    case OMMAI_FOREIGN_REFUSED: return false;
    case OMMAI_FOREIGN_UNKNOWN: break;
  }
  return refuse(file, key);
}

/* Whether the command line has set what the option would. */
static bool is_given(const struct file *file, const struct ommai_option *option) {
  const char *member = (const char *)ommai_option_values(file->command, option, file->values) + option->offset;
  for (size_t i = 0; i < file->given->n; i++) {
    if (file->given->members[i] == member) return true;
  }
  return false;
}

static bool take(const struct file *file, const char *key, json_t *value) {
  const struct ommai_option *option = ommai_option_find(file->command, key, strlen(key));
  bool negated = !option && ommai_option_spelled(key, strlen(key) < 3 ? 0 : 3, "no-");
  if (negated) option = ommai_option_find(file->command, key + 3, strlen(key + 3));
  if (negated && option && !option->negatable) option = NULL;
  if (!option) return pass_foreign(file, key, value);
  if (strcmp(option->name, "config") == 0) return wrong(file, key, "a file names no other file");
  if (json_is_null(value) || is_given(file, option)) return true;
  if (json_is_array(value)) return set_list(file, option, key, value);
  return set(file, option, key, json_string_value(value), negated);
}

bool ommai_config_file_take(const struct ommai_command *command, const char *path, const struct ommai_given *given,
                            void *values, json_t **kept) {
  const struct file file = {command, path, given, values};
  struct omma_error error;
  const char *key;
  json_t *value;
  if (ommai_config_file_load(path, kept, &error) != OMMA_OK) {
    ommai_usage_error("%s: --config: %s", command->name, error.message);
    return false;
  }
  json_object_foreach(*kept, key, value) {
    if (!take(&file, key, value)) return false;
  }
  return true;
}
